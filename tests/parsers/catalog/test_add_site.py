"""Adding a site to a catalog: what was there stays, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.parsers.catalog.add_site import with_site
from wfrun.sites.catalog import read_catalog

ENTRY = """\
  new:
    # a remark
    kind: slurm
    host: login.new.org  # another
    slots: 4
"""
SIMPLE = "sites:\n  one: {slots: 2}\n"
DOCUMENTS = {
    "simple": SIMPLE,
    "no line end": SIMPLE.rstrip(),
    "links after": "sites:\n  one:\n    slots: 2\n\n# fast\nlinks:\n"
    "  - {between: [one, origin], bandwidth: 1 GB/s}\n",
    "links before": "links:\n  - {between: [one, origin], latency: 1 ms}\n" + SIMPLE,
    "own indentation": "sites:\n      one:\n        slots: 2   # two\n      two: {slots: 3}\n",
    "flat lists": "sites:\n  one:\n    nodes:\n    - {count: 1, cores: 2}\n\n\n# end\n",
    "comments below": "sites:\n  one:\n    slots: 2\n    # speed: 2\n  # two: {slots: 3}\n# end\n",
    "flow over lines": "sites:\n  one: {slots: 2,\n    speed: 2}  # fast\nlinks: []\n",
    "line ends of Windows": "# mine\r\nsites:\r\n  one:\r\n    slots: 2\r\nlinks: []\r\n",
    "no tidy end": "sites:\n  one:\n    slots: 2\n    directory: >-\n      /x\n\nlinks: []\n",
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_the_rest_stays_as_it_is(document: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_bytes(document.encode())
    before = read_catalog(path)
    text = with_site(document, ENTRY, "sites.yaml")
    path.write_bytes(text.encode())
    after = read_catalog(path)
    assert after.sites[:-1] == before.sites
    assert after.links == before.links
    assert (after.sites[-1].name, after.sites[-1].slots) == ("new", 4)
    # Without the new lines it is what it was.
    old, added = document.splitlines(), text.splitlines()
    start = next(i for i, line in enumerate(added) if line.strip() == "new:")
    assert added[:start] + added[start + ENTRY.count("\n") :] == old
    assert ("\r\n" in document) == ("\r\n" in text)
    assert text.count("\r") in (0, text.count("\n"))


@pytest.mark.parametrize("document", ["", " \n\n"])
def test_a_blank_document_is_begun(document: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(with_site(document, ENTRY, "sites.yaml"))
    assert [site.name for site in read_catalog(path).sites] == ["new"]


def test_sites_in_braces_are_for_the_user() -> None:
    with pytest.raises(InvalidError, match="in braces") as caught:
        with_site("sites: {one: {slots: 2}}\n", ENTRY, "sites.yaml")
    assert "login.new.org" in str(caught.value)
