"""The generated pages of the reference."""

from __future__ import annotations

from tools.docs_site.reference.catalog_keys import catalog_keys_page
from tools.docs_site.reference.commands import commands_page
from tools.docs_site.reference.formats import formats_page
from tools.docs_site.reference.policies import policies_page

_PAGES = {
    "commands": ("Commands", commands_page),
    "catalog-keys": ("Catalog keys", catalog_keys_page),
    "formats": ("Formats", formats_page),
    "policies": ("Policies and their options", policies_page),
}


def reference() -> dict[str, tuple[str, str]]:
    """Title and text of each page, by its path in the site."""
    return {f"docs/reference/{name}.md": (title, page()) for name, (title, page) in _PAGES.items()}
