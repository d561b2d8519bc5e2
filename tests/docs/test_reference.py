"""The generated reference is complete, and pages describe nothing that the code does not have."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
import pytest

from tools.docs_site.reference.catalog_keys import Mapping, described, mappings
from tools.docs_site.reference.commands import all_commands
from tools.docs_site.reference.formats import status_records, tag
from tools.docs_site.reference.markdown import docstrings, escaped, table_of_page
from tools.docs_site.reference.pages import reference
from wfrun.engine import events
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION
from wfrun.parsers import catalog
from wfrun.parsers.formats import FORMATS
from wfrun.runners.cli.main import cli

pytestmark = pytest.mark.xdist_group("test_reference")  # One process generates the reference.


@cache
def pages() -> dict[str, tuple[str, str]]:
    return reference()


def page(name: str) -> str:
    return pages()[f"docs/reference/{name}.md"][1]


def section(name: str, heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    level, _, _ = heading.partition(" ")
    _, found, text = page(name).partition(f"\n{heading}\n")
    assert found, heading
    return re.split(rf"^#{{1,{len(level)}}} ", text, flags=re.MULTILINE)[0]


@pytest.mark.parametrize(("name", "command"), [*all_commands()], ids=str)
def test_every_option_is_described(name: str, command: click.Command) -> None:
    text = section("commands", f"## {name}")
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            option = max(param.opts, key=len)
            (row,) = re.findall(rf"^\| `(?:-\w, )?{option}[` ].*$", text, re.MULTILINE)
            assert row.split(" | ")[1].strip(" |"), f"{name} {param.opts} has no help text"


def test_no_command_is_left_out() -> None:
    names = {name.split()[1] for name, _ in all_commands()}
    assert names == set(cli.list_commands(click.Context(cli)))
    assert "wfrun sites check" in {name for name, _ in all_commands()}


@pytest.mark.parametrize("mapping", [*mappings()], ids=lambda mapping: mapping.heading)
def test_the_keys_of_a_catalog_are_those_of_the_tables(mapping: Mapping) -> None:
    assert {key for key in described(mapping) if key != "---"} == set(mapping.keys)


def test_no_key_of_a_catalog_is_left_out() -> None:
    folder = Path(str(catalog.__file__)).parent
    modules = [import_module(f"{catalog.__name__}.{each.stem}") for each in folder.glob("*.py")]
    known = {
        key
        for module in modules
        for name, keys in vars(module).items()
        if name.endswith("KEYS")
        for key in keys
    }
    known |= {key for mapping in mappings() for key in mapping.kinds}
    assert known == {key for mapping in mappings() for key in mapping.keys}


@pytest.mark.parametrize("event", get_args(events.AnyEvent), ids=tag)
def test_every_field_of_an_event_is_listed(event: type) -> None:
    text = section("formats", f"### {tag(event)}")
    for field in event.__struct_fields__:  # type: ignore[attr-defined]
        assert field == "at_s" or f"| `{field}` |" in text


def test_the_status_begins_with_its_outermost_record() -> None:
    names = [record.__name__ for record in status_records()]
    assert names[0] == "StatusRecord"
    assert all(f"\n### {name}\n" in page("formats") for name in names)


def test_every_format_is_listed() -> None:
    for each in FORMATS:
        assert f"| {each.title} |" in page("formats")


def test_every_policy_is_described_with_its_options() -> None:
    for policy in PLACEMENT.values():
        text = section("policies", f"### {policy.name}")
        assert all(
            f"| `{name}` | `{default}` |" in text for name, default in policy.options.items()
        )
    text = section("policies", "## Selection")
    assert all(f"| `{name}` | " in text for name in SELECTION)


def test_texts_of_the_code_become_plain_markdown() -> None:
    assert escaped("a ``b`` `c|d` *e* <f> [g] h_i | j") == (
        r"a `b` `c\|d` \*e\* \<f\> \[g\] h\_i \| j"
    )


def test_fields_have_the_texts_below_them() -> None:
    found = docstrings(events.RunStarted)
    assert found["workflows"].startswith("Number of workflows that will be added")
    assert found["sites"] == ""
    assert "at_s" in found


def test_links_of_tables_lead_to_the_same_place() -> None:
    rows = table_of_page("catalog.md", "key of the catalog")
    assert "(../files.md#choosing-methods)" in rows["transfer"][0]
    assert "(../catalog.md#links)" in rows["links"][0]
