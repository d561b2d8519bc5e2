"""Every code block of every page is run or parsed, or says why not."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from lxml import etree

import wfrun
from tests.docs.blocks import Block, Command, blocks, commands, is_printed, run_sessions, sessions
from tests.docs.test_docs import PAGES, check_command, name_of
from tests.places import ROOT
from wfrun.parsers.catalog.read import ROOT_KEYS
from wfrun.parsers.jobs.build import make_jobs

LANGUAGES = {
    "", "text", "console", "sh", "python", "yaml", "toml", "json", "csv", "xml", "dockerfile",
}  # fmt: skip
"""``text`` and blocks without a language are output, or commands that are checked one by one."""


def blocks_of(*languages: str) -> list[object]:
    return [
        pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language in languages
    ]


CLUSTER = "kind: slurm, host: login, slots: 128"
FRAMES = {
    "an entry of sites": "sites:\nTEXT",
    "the keys of a cluster": (
        "sites:\n  alpha:\n    kind: slurm\n    host: login\n    slots: 128\nTEXT"
    ),
    "a catalog without its sites": "TEXT\nsites:\n"
    + "".join(
        f"  {name}: {{{CLUSTER}, directory: ~/{name}}}\n" for name in ("alpha", "beta", "cluster")
    ),
}
"""What makes a whole catalog of a part of one."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_languages_are_known(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"line {block.line}"


@pytest.mark.parametrize(("page", "block"), blocks_of("sh", "console"))
def test_shell_commands_are_right(page: Path, block: Block) -> None:
    text = block.text
    if block.language == "console":
        text = "\n".join(command.line for command in commands(block.text))
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("wfrun "):
            check_command(line.partition(" #")[0].partition(" | ")[0].partition(" > ")[0])


@pytest.mark.parametrize(("page", "block"), blocks_of("yaml"))
def test_yaml_is_valid(page: Path, block: Block, tmp_path: Path) -> None:
    part = block.notes.get("part", "")
    if part and part not in FRAMES:
        assert yaml.safe_load(block.text)
        return
    text = FRAMES.get(part, "TEXT").replace("TEXT", block.text)
    if set(yaml.safe_load(text)) <= set(ROOT_KEYS):
        (tmp_path / "sites.yaml").write_text(text)
        assert wfrun.read_catalog(tmp_path / "sites.yaml").sites
    elif name_of(page) in ("docs/jobs.md", "docs/coallocation.md", "docs/malleable.md"):
        (tmp_path / "jobs.yaml").write_text(text)
        assert make_jobs(tmp_path / "jobs.yaml")
    else:
        # The documents of these pages run in tests of their own.
        own = name_of(page) in ("docs/bags.md", "docs/workflows.md")
        assert own or "file" in block.notes, "neither a catalog, nor a file, nor a part"


@pytest.mark.parametrize(("page", "block"), blocks_of("json", "csv", "xml"))
def test_data_is_valid(page: Path, block: Block) -> None:
    if block.language == "json":
        lines = block.text.splitlines() if block.text.startswith('{"') else [block.text]
        assert all(json.loads(line) for line in lines)
    elif block.language == "csv":
        assert len({len(row) for row in csv.reader(block.text.splitlines())}) == 1
    else:
        assert len(etree.fromstring(block.text.encode()))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=name_of)
def test_sessions_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    prepare(page, tmp_path)
    check(run_sessions(sessions(page), tmp_path))


def prepare(page: Path, folder: Path) -> None:
    """The examples, and the files that the page has."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks(page):
        if "file" in block.notes:
            (folder / block.notes["file"]).write_text(block.text)


def check(done: list[tuple[Command, str]]) -> None:
    wrong = [
        f"$ {command.line}\n{printed}"
        for command, printed in done
        if not is_printed(command.output, printed)
    ]
    assert not wrong, "".join(wrong)


# The tests above would notice


def test_a_block_has_the_comment_before_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: no cluster -->\n\n```console\n$ a\n```\n\n"
        "- item\n\n  ```yaml\n  a: 1\n  ```\n"
        "\n<!-- part: a catalog -->\n```yaml\nb: 2\n```\n\n    indented\n"
    )
    assert [*blocks(page)] == [
        Block("console", "$ a\n", 3, {"not run": "no cluster"}),
        Block("yaml", "a: 1\n", 9, {}),
        Block("yaml", "b: 2\n", 14, {"part": "a catalog"}),
        Block("", "indented\n", 18, {}),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("done in …", "done in 0.3 s\n", True),
        ("done in …", "failed in 0.3 s\n", False),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("a\n…", "a\nb\n", True),
        ("a", "a\nb\n", False),
        ("a.", "ab\n", False),
        ("a b", "a   b  \n", True),
        ("a b", "ab\n", False),
        ("", "\n", True),
        ("", "a\n", False),
    ],
)
def test_output_is_compared(expected: str, printed: str, same: bool) -> None:
    assert is_printed(expected.splitlines(), printed) is same


def test_a_session_keeps_its_folder_and_variables(tmp_path: Path) -> None:
    session = "$ mkdir a; cd a\n$ X=$(basename \\\n$PWD)\n$ echo $X; false\na\n"
    assert [printed.strip() for _, printed in run_sessions([session], tmp_path)] == ["", "", "a"]
