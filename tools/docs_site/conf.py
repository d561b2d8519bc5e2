"""Configuration of Sphinx for the documentation's site. `tools.docs_site` prepares the pages."""

from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "wfrun"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"

myst_heading_anchors = 6
nitpicky = True
highlight_language = "none"
smartquotes = False  # options keep their two hyphens

html_theme = "furo"
html_title = "wfrun"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """Accept blocks of CSV, for which Pygments has no colours."""
    app.add_lexer("csv", TextLexer)
