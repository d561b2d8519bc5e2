"""The page of formats: documents that wfrun reads, and what it writes for other programs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import get_args

from tools.docs_site.reference.markdown import cell, code, docstrings, escaped, table, table_of_page
from wfrun.engine import events
from wfrun.parsers.bags.yaml_bags import KEYS as BAG_KEYS
from wfrun.parsers.formats import FORMATS
from wfrun.runners.inspect.tables import run_records
from wfrun.runners.inspect.tables.results import AFTER, BEFORE

HEAD = """\
# Formats

Generated from the code of wfrun. All times are in seconds, all sizes in bytes.

## Documents

The first format that recognizes a document reads it. [Workflows](../workflows.md) and
[bags](../bags.md) have the details.

"""
EVENTS = f"""
## Events

`wfrun events --json` and `wfrun run --json` print an event as a line of JSON. `at_s` is the time:
since the epoch in a real run, since the start in a simulation. The version of this schema is
{events.SCHEMA_VERSION}; logs of all earlier versions can be read.
"""
STATUS = """
## Status

`wfrun status --json` prints one JSON object.
"""


def formats_page() -> str:
    """The page."""
    parts = [HEAD, table(["format", "holds", "names end with"], _documents())]
    parts.append("\n## Keys of a bag in YAML\n\n")
    meanings = table_of_page("bags.md", "key")
    parts.append(table(["key", "meaning"], [(code(key), meanings[key][0]) for key in BAG_KEYS]))
    parts.append("\n## Results\n\n`wfrun results` writes these columns, and between `state` and ")
    parts.append("`site` one for each parameter.\n\n")
    described = table_of_page("bags.md", "column")
    columns = ((code(name), described[name][0]) for name in (*BEFORE, *AFTER))
    parts.append(table(["column", "meaning"], columns))
    parts.append(EVENTS)
    for event in sorted(get_args(events.AnyEvent), key=lambda each: str(tag(each))):
        parts.append(f"\n### {tag(event)}\n\n{_record(event)}")
    parts.append(STATUS)
    for record in status_records():
        parts.append(f"\n### {record.__name__}\n\n{_record(record)}")
    return "".join(parts)


def tag(event: type) -> str:
    """The value of ``event`` in the JSON of an event."""
    return str(event.__struct_config__.tag)  # type: ignore[attr-defined]


def status_records() -> list[type]:
    """The records of ``wfrun status --json``, the outermost first."""
    found = [
        each
        for _, each in inspect.getmembers(run_records, inspect.isclass)
        if each.__module__ == run_records.__name__
    ]
    return sorted(found, key=lambda each: each is not run_records.StatusRecord)


def _documents() -> Iterable[tuple[str, str, str]]:
    for each in FORMATS:
        yield cell(each.title), each.holds, ", ".join(map(code, each.suffixes))


def _record(record: type) -> str:
    """The docstring of a record, and its fields."""
    texts = docstrings(record)
    rows = [
        (code(name), code(str(kind)), cell(texts[name]))
        for base in reversed(record.__mro__)
        for name, kind in vars(base).get("__annotations__", {}).items()
        if name in texts and name != "at_s"
    ]
    head = escaped(inspect.cleandoc(record.__doc__ or "")) + "\n"
    return head + ("\n" + table(["field", "type", "meaning"], rows) if rows else "")
