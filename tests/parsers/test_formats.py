"""The registry of document formats: recognition, lazy imports, words of messages and docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.places import ROOT
from wfrun.engine.errors import InvalidError
from wfrun.engine.settings import Settings
from wfrun.parsers import formats
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.formats import (
    FORMATS,
    DocumentFormat,
    format_of,
    has_commands,
    has_suffix,
    known_formats,
    may_be_table,
)
from wfrun.runners.run.prepare.prepare import prepare, this_machine

ODD = {
    "table": ("x.csv", b"a,b\n1,2\n"),
    "jsdl": ("x.xml", b'<?xml version="1.0"?>\n<jsdl:JobDefinition xmlns:jsdl="j"/>'),
    "dax": ("x.txt", b"\xef\xbb\xbf\n <adag/>"),
    "wfformat": ("x", b' {"name": "x", "jobs": []}'),
    "jobs": ("x.yml", b"jobs:\n  - {job: a, command: b}\n"),
    "pegasus5": ("x.yml", b'{pegasus: "5.0", jobs: []}'),
    "yaml": ("x.dat", b"# " + b"x" * 5000 + b"\ncommand: true\n"),
    "commands": ("x.txt", b"echo 1\n"),
}
"""Documents under other names than usual, or with odd beginnings."""


def at(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_the_seeds_of_a_format_are_recognized(each: DocumentFormat) -> None:
    """Each format has documents in tests/fuzz/seeds."""
    seeds = sorted((ROOT / "tests/fuzz/seeds" / each.name).iterdir())
    assert seeds
    for seed in seeds:
        found, reader = format_of(seed)
        assert found is each
        assert callable(reader)


@pytest.mark.parametrize("name", ODD)
def test_a_format_is_recognized_by_its_content(name: str, tmp_path: Path) -> None:
    assert format_of(at(tmp_path, *ODD[name]))[0].name == name


def test_a_command_makes_a_table_of_what_is_named_like_no_document(tmp_path: Path) -> None:
    template = LineTemplate(command="echo {a}")
    assert format_of(at(tmp_path, "x.dat", b"a\n1\n"), template)[0].name == "table"
    assert format_of(at(tmp_path, "x.dax", b"<adag/>"), template)[0].name == "dax"
    assert not may_be_table(Path("x.YAML"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "the document is empty"),
        (b"\x1f\x8b\x08\x00", "binary data"),
        (b"{\0}", "binary data"),
        (b"hello", "not a workflow document"),
    ],
)
def test_what_has_no_format_is_told_which_ones_there_are(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(InvalidError, match=message) as caught:
        format_of(at(tmp_path, "x.dat", content))
    assert known_formats() in str(caught.value)


def test_messages_and_docs_name_every_format() -> None:
    docs = (ROOT / "docs/workflows.md").read_text()
    for each in FORMATS:
        assert each.title in known_formats()
        assert f"| {each.title} |" in docs


def test_a_further_format_of_a_task_a_line_takes_the_templates_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = next(each for each in FORMATS if each.name == "commands")
    further = msgspec.structs.replace(
        commands, name="tasks", title="lists of tasks (.tasks)", suffixes=(".tasks",),
        recognize=has_suffix(".tasks"),
    )  # fmt: skip
    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, further))
    document, template = tmp_path / "x.tasks", LineTemplate(stdout="{index}.out")
    document.write_text("echo 1\necho 2\n")
    assert not has_commands(Path("x.csv"))
    plan = prepare([document], this_machine(), Settings(), template=template)
    assert [file.name for file in plan.workflows[0].files] == ["0.out", "1.out"]
    assert "lists of commands (.txt) and lists of tasks (.tasks)" in known_formats()


def test_readers_are_imported_when_they_are_needed() -> None:
    program = (
        "import sys, wfrun.parsers.read; "
        "sys.exit(any(name in sys.modules for name in ('lxml', 'yaml', 'csv', 'json')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
