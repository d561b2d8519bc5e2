"""Setting the links of a catalog: what was there stays, byte for byte."""

from __future__ import annotations

import difflib

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import LinkSpec
from wfrun.parsers.catalog.set_links import as_written, with_links
from wfrun.sites.catalog import parse_catalog

UP = LinkSpec("origin", "one", 51_734_567.0, 0.0051234)
DOWN = LinkSpec("one", "origin", 1234.0, 1.25)
MEASURED = (UP, DOWN)
SITES = "sites:\n  one: {slots: 2}\n  two: {slots: 3}\n"
OTHER = "  - {between: [one, two], bandwidth: 1 GB/s}  # by hand\n"
LAYOUTS = {
    "no links": SITES,
    "no line end": SITES.rstrip(),
    "comments below": f"# mine\n{SITES}    # speed: 2\n  # three: {{slots: 3}}\n\n# end\n",
    "own indentation": "  sites:\n      one:\n        slots: 2   # two\n      two: {slots: 3}\n",
    "document marks": f"%YAML 1.1\n---\n{SITES}...\n",
    "a byte order mark": f"\ufeff{SITES}",
    "nothing": f"links:   # none yet\n\n{SITES}",
    "null": f"links: null\n{SITES}",
    "no links in brackets": f"{SITES}links: []  # none yet\n# end",
    "other links": f"{SITES}links:\n{OTHER}# end\n",
    "links first": f"links:\n{OTHER}\n# the sites\n{SITES}",
    "flat list": f"links:\n- {{between: [one, two], latency: 1 ms}}\n{SITES}",
    "far list": f"links:\n        {OTHER.strip()}\n{SITES}",
    "one way": f"{SITES}links:\n  - {{from: origin, to: one, bandwidth: 1 GB/s,}}  # up\n{OTHER}",
    "two ways": f"{SITES}links:\n  - {{latency: 1 ms, from: one, to: origin}}\n{OTHER}"
    "  - {from: origin, to: one, latency: '3 s', bandwidth: \"1 GB/s\" }\n",
    "lines of their own": f"{SITES}links:\n  - from: origin  # here\n    to: one\n"
    f"    # the uplink\n    bandwidth: 1 Gb/s    # of iperf\n{OTHER}",
    "between": f"{SITES}links:\n  - {{between: [one, origin], bandwidth: 1 GB/s}}  # both\n{OTHER}",
    "between, on lines": f"{SITES}links:\n  -   latency: 2 ms\n      between:\n      - origin\n"
    f"      - one  # far\n\n      bandwidth: 1 GB/s\n{OTHER}",
    "braces over lines": f"{SITES}links:\n  - {{from: one,\n     # far\n     to: origin,\n"
    f"     bandwidth:\n     1 GB/s\n    }}\n{OTHER}",
    "brackets over lines": f"{SITES}links: [\n]\n",
    "anchors of sites": "sites:\n  one: &a {slots: 2}\n  two: *a\nlinks:\n"
    "  - {between: [one, two], latency: 0}",
    "a name between others": "sites:\n  one: {slots: 2}\n  two: {slots: 3}\nlinks:\n"
    "  - {from: two, to: one, latency: 0}\n  - {from: origin, to: two, latency: 0}",
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_only_the_links_change(layout: str, ending: str) -> None:
    document = layout.replace("\n", ending)
    before = parse_catalog(document.encode(), "sites.yaml")
    text = with_links(document, MEASURED, "sites.yaml")
    after = parse_catalog(text.encode(), "sites.yaml")
    assert after.sites == before.sites
    wanted = {(x.source, x.destination): x for x in before.links}
    wanted |= {(x.source, x.destination): as_written(x) for x in MEASURED}
    assert {(x.source, x.destination): x for x in after.links} == wanted
    assert len(after.links) == len(wanted)
    assert text.count("\r") == (text.count("\n") if ending == "\r\n" else 0)
    changes = difflib.ndiff(document.splitlines(), text.splitlines())
    removed = {line[2:] for line in changes if line.startswith("- ")}
    assert removed.isdisjoint(f"{SITES}{OTHER}".splitlines())
    comments = [line[line.index("#") :] for line in document.splitlines() if "#" in line]
    assert [line[line.index("#") :] for line in text.splitlines() if "#" in line] == comments
    # What was written once is only updated.
    assert with_links(text, MEASURED, "sites.yaml") == text


def test_figures_are_those_of_a_user() -> None:
    text = with_links(SITES, MEASURED, "sites.yaml")
    assert text == SITES + (
        "links:\n"
        "  - {from: origin, to: one, bandwidth: 51.7 MB/s, latency: 5.12 ms}\n"
        "  - {from: one, to: origin, bandwidth: 1.23 kB/s, latency: 1.25 s}\n"
    )
    assert as_written(LinkSpec("a", "b", 999.9e6, 0.9996)) == LinkSpec("a", "b", 1e9, 1.0)


@pytest.mark.parametrize("name", ["123", "no", "1e3", "null", "x"])
def test_names_that_yaml_reads_as_something_else_are_quoted(name: str) -> None:
    document = f"sites:\n  '{name}': {{slots: 2}}\n"
    link = LinkSpec("origin", name, 1e6, 0.25)
    text = with_links(document, [link], "sites.yaml")
    assert parse_catalog(text.encode(), "sites.yaml").links == (link,)


REFUSED = {
    "braces": "{sites: {one: {slots: 2}}}",
    "brackets": f"{SITES}links: [{{from: one, to: two, latency: 1 ms}}]\n",
    "an alias": f"{SITES}links:\n  - &fast {{from: one, to: two, latency: 1 ms}}\n"
    "  - {<<: *fast, to: origin}\n",
    "an anchor": f"{SITES}links: &all\n{OTHER}",
}


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_edited_safely_is_for_the_user(document: str) -> None:
    parse_catalog(document.encode(), "sites.yaml")  # it is a catalog
    with pytest.raises(InvalidError, match="cannot be written into the catalog") as caught:
        with_links(document, MEASURED, "sites.yaml")
    assert "- {from: origin, to: one, bandwidth: 51.7 MB/s, latency: 5.12 ms}" in str(caught.value)


def test_one_way_of_a_link_between_two_places_is_not_guessed() -> None:
    document = f"{SITES}links:\n  - {{between: [one, origin], latency: 1 ms}}\n"
    with pytest.raises(InvalidError, match="one way of a link"):
        with_links(document, [UP], "sites.yaml")
