"""``make docs``: builds the documentation's site in build/docs/site. A broken link, a page that the
index does not list, and anything that a browser would load from elsewhere are errors."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs_site.pages import INDEX, ROOT, prepare
from tools.docs_site.reference.pages import reference

BUILD = ROOT / "build/docs"
_LOADS = re.compile(
    r"""<(?:script|img|iframe|source|embed|object)\b[^>]*\b(?:src|data)=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?![^>]*rel="(?:canonical|next|prev)")[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
    r"""|@import\s[^;]*//[^;]*;|url\(["']?(?:https?:)?//[^)]*\)"""
)
"""What makes a browser load a file of another host."""


def loads_from_elsewhere(site: Path) -> list[str]:
    """Tags of pages and rules of style sheets that load files of other hosts."""
    return [
        f"{file.relative_to(site)}: {match[0]}"
        for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")])
        for match in _LOADS.finditer(file.read_text())
    ]


def build(source: Path, site: Path, doctrees: Path) -> int:
    """Build the prepared pages; the exit status of Sphinx, which is not 0 after any warning."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-n"]
    command += ["-c", str(Path(__file__).parent), "-d", str(doctrees), str(source), str(site)]
    return subprocess.run(command, check=False).returncode


def main() -> None:
    """Build and check the site; exit with status 1 if something is wrong with it."""
    source, site = BUILD / "source", BUILD / "site"
    prepare(source, reference())
    shutil.rmtree(site, ignore_errors=True)
    if build(source, site, BUILD / "doctrees"):
        sys.exit("the documentation has the faults above")
    if found := loads_from_elsewhere(site):
        sys.exit("pages load files from elsewhere:\n" + "\n".join(found))
    home = INDEX.replace(".md", ".html")
    (site / "index.html").write_text(
        f'<!doctype html><title>wfrun</title><meta http-equiv="refresh" content="0; url={home}">'
        f'<a href="{home}">wfrun</a>\n'
    )
    print(f"built {(site / 'index.html').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
