"""What the documentation says is so: commands and options exist, snippets run, links resolve,
messages and tables are those of the code."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

import wfrun
from tests.places import ROOT
from wfrun.engine import events
from wfrun.engine.exchange import Cause
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.runners.cli.main import cli
from wfrun.sites.node.tasks.slots import THREADS
from wfrun.sites.transfers import METHODS

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/*.md")
    for page in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def snippets(page: Path, language: str) -> list[str]:
    return [code for found, code in FENCE.findall(page.read_text()) if found == language]


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading, without code marks."""
    rows = []
    inside = False
    for line in (ROOT / page).read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith(f"| {heading} |"):
            inside = True
        elif inside and line.startswith("|---"):
            continue
        elif inside and line.startswith("|"):
            rows.append(cells)
        else:
            inside = False
    assert rows, f"{page} has no table {heading!r}"
    return rows


# Links


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@every_page
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs"))
        assert name == "index.md" or f"({name})" in index, name


# Commands


def commands(page: Path) -> Iterator[str]:
    """All that starts with ``wfrun`` in code, as it is written."""
    text = page.read_text()
    for line in text.splitlines():
        match = re.match(r"(?:    |\$ )(wfrun .*)", line)
        if match:
            yield re.split(r"\s{2,}#|\s\|\s", match[1])[0]
    yield from re.findall(r"`(wfrun [^`]+)`", FENCE.sub("", text))


def command_named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    return command


def check_command(line: str) -> None:
    words = [word.strip("[]") for word in shlex.split(line)[1:]]
    if words[0] in ("COMMAND", "DOCUMENT...", "WORKFLOW"):
        return
    command = cli.get_command(click.Context(cli), words[0])
    if command is not None:
        words = words[1:]
        if isinstance(command, click.Group) and words and words[0] in command.commands:
            command, words = command.commands[words[0]], words[1:]
    else:
        assert re.search(r"\.\w+$", words[0]), f"{line}: neither a command nor a document"
        command = command_named("run")
    known = {opt for param in command.params for opt in param.opts} | {"--help"}
    unknown = {word for word in words if word.startswith("-") and len(word) > 1} - known
    assert not unknown, f"{line}: no option {unknown}"


@every_page
def test_commands_exist_with_these_options(page: Path) -> None:
    for line in commands(page):
        check_command(line)


def test_this_test_would_notice() -> None:
    for line in (
        "wfrun mont.dax --polcy x",
        "wfrun lst",
        "wfrun resume --emulate",
        "wfrun sites init --wait 3 a",
    ):
        with pytest.raises(AssertionError):
            check_command(line)


def test_the_page_of_commands_lists_every_command() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    listed = set(re.findall(r"^\| `wfrun (?:\[run\] )?([a-z]+)", text, re.M))
    assert listed | {"run"} == set(cli.list_commands(click.Context(cli)))


def test_options_named_on_the_page_of_runs_exist() -> None:
    """Those of `run` and of the commands that show a run."""
    text = "".join((ROOT / "docs" / page).read_text() for page in ("running.md", "progress.md"))
    commands = [command_named(name) for name in ("run", "tasks", "watch", "failures", "events")]
    options = {opt for command in commands for param in command.params for opt in param.opts}
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options | {"--drain"}


# Snippets


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p, "python")], ids=name_of)
def test_python_snippets_run(page: Path, tmp_path: Path) -> None:
    """Those of one page, in order, as one program."""
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(snippets(page, "python")))
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("language", "name"), [("xml", "small.dax"), ("yaml", "small.yml")])
def test_small_workflows_run(language: str, name: str, tmp_path: Path) -> None:
    (snippet,) = snippets(ROOT / "docs/workflows.md", language)
    (tmp_path / name).write_text(snippet)
    (tmp_path / "numbers.txt").write_text("30\n4\n1\n200\n")
    result = wfrun.run(tmp_path / name, run_dir=tmp_path / "run")
    assert result.outcome == "done"
    assert [p.name for p in result.outputs.iterdir()] == ["smallest.txt"]
    assert (result.outputs / "smallest.txt").read_text() == "1\n4\n30\n"


# Tables


def texts_of_the_code() -> str:
    """All string literals of wfrun, one a line, with … for what is filled in."""
    texts = []
    for file in (ROOT / "wfrun").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    texts += [file.read_text() for file in (ROOT / "wfrun/sites/node").glob("*/*.sh")]
    return "\n".join(texts)


def test_messages_are_those_of_the_code() -> None:
    known = re.sub(r"['\"]?…['\"]?( is)?", "…", texts_of_the_code())
    for page in ("docs/errors.md", "docs/troubleshooting.md"):
        for message, *_ in table(page, "message"):
            # What is filled in may be several things, or the words around them.
            fragments = [part.strip(" :,") for part in message.split("…")]
            for fragment in filter(None, fragments):
                assert fragment in known, f"{page}: {message}"


def test_causes_are_those_of_exit_records() -> None:
    causes = {row[0] for row in table("docs/errors.md", "cause")}
    assert causes == set(get_args(Cause)) - {"done"}


def test_the_table_of_policies_is_that_of_the_code() -> None:
    shown = {row[0]: row[2:] for row in table("docs/policies.md", "policy")}
    pieces = ("status", "processing_speed", "link_speed", "task_runtime", "file_size")
    assert shown == {
        name: [getattr(policy.information, piece).value for piece in pieces]
        for name, policy in PLACEMENT.items()
    }


def test_the_table_of_transfer_methods_is_that_of_the_code() -> None:
    """In the order of preference."""
    rows = table("docs/files.md", "method")
    shown = [name.strip("`") for row in rows for name in row[0].split(", ")]
    assert shown == list(METHODS)


def test_every_kind_of_event_is_described() -> None:
    shown = " ".join(row[0] for row in table("docs/run-directory.md", "event"))
    for event in get_args(events.AnyEvent):
        assert event.__struct_config__.tag in shown


def test_the_environment_of_tasks_is_described() -> None:
    shown = " ".join(row[0] for row in table("docs/running.md", "variable"))
    assert all(name in shown for name in THREADS)
