"""Text of hostile documents, tasks and hosts on a real terminal: nothing of it is interpreted."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import wfrun
from tests.runners.harness import WFRUN, Job, User, wait_until
from tests.runners.terminal import Terminal
from tests.sites.remote.servers import Misbehaving
from wfrun.engine.model import Task, Workflow

HOSTILE = (
    "x\x1b]52;c;Zm9yZ2Vk\x07\x1b[35;5mred\x1b[2J\rdone: 9/9 tasks done\ndone: 8/8 tasks done"
    "\u202egnp.exe\u2066\u200b\x9b35m\x7f\x00[bold]b[/bold]\u2028\ufeff\U000e0041 עברית"
)
"""Sets the clipboard, clears the screen, forges a summary, and disguises a file name."""
SEQUENCES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[1A|\x1b\[2K")
"""Styles and movements that wfrun itself uses."""
SGR = "\x1b[35;5m"
ID = HOSTILE.replace("\0", "")
"""As an argument of a command, which cannot hold NUL."""


def assert_harmless(terminal: Terminal) -> None:
    """The terminal got wfrun's own sequences and printable text alone; no line was forged."""
    assert SGR not in terminal.drawn
    text = SEQUENCES.sub("", terminal.drawn)
    bad = {c for c in text if not c.isprintable() and c not in "\r\n\u00a0"}
    assert not bad, (bad, text)
    assert "\\x1b]52;c;" in text
    assert not re.search(r"^done: [89]", text.replace("\r", "\n"), re.MULTILINE), text


def hostile_workflow(folder: Path) -> Workflow:
    """A workflow with a hostile name and ids, as the log of a run that somebody else made may hold
    it (documents are refused); its first task prints the same and fails."""
    (folder / "words").write_text(HOSTILE, encoding="utf-8", newline="")
    words = ("-c", f"cat {folder}/words; cat {folder}/words >&2; exit 3")
    tasks = [Task(ID, HOSTILE, "sh", words), Task("b", HOSTILE, "sh", words)]
    return Workflow(HOSTILE, HOSTILE, tasks, [], [(), (0,)], owner=HOSTILE)


def write_document(folder: Path) -> Path:
    """A document that is hostile wherever documents are not refused."""
    identifier = "".join(c for c in HOSTILE if ord(c) > 0xFF and c != "\u2028")
    command = {"program": "sh", "arguments": ["-c", f"printf '%s' {shlex.quote(ID)} >&2; exit 3"]}
    tasks = [{"id": identifier, "name": HOSTILE, "parents": [], "children": [], "command": command}]
    workflow = {"specification": {"tasks": tasks}}
    path = folder / "hostile.json"
    path.write_text(json.dumps({"name": HOSTILE, "schemaVersion": "1.5", "workflow": workflow}))
    return path


@pytest.fixture
def failed(user: User) -> User:
    """A user with a run of hostile workflows that has failed, and a hostile document."""
    workflow = hostile_workflow(user.folder)
    result = wfrun.run(workflow, workflow, run_dir=user.folder / "run", retries=0)
    assert result.failed == 2
    write_document(user.folder)
    return user


@pytest.mark.slow
def test_the_display_of_a_run(user: User) -> None:
    document = write_document(user.folder)
    terminal = Terminal(user, 300, document, "--retries", "1", "--retry-delay", "2")
    assert wait_until(lambda: "1 failed attempt" in terminal.text), terminal.text
    assert terminal.done() == 1
    assert_harmless(terminal)


@pytest.mark.slow
def test_commands(failed: User) -> None:
    for words in (
        ["status", "run"],
        ["results", "run"],
        ["graph", "hostile.json"],
        ["graph", "hostile.json", "--dot", "-"],
        ["resume", "run", "--json"],
        [ID],
    ):
        terminal = Terminal(failed, 120, *words)
        assert terminal.done() in (0, 1, 2)
        assert_harmless(terminal)


SHOWN = (
    ["status", "run"],
    ["tasks", "run", "--failed"],
    ["explain", "run", ID],
    ["failures", "run"],
    ["stats", "run"],
    ["shares", "run"],
    ["events", "run"],
    ["watch", "run"],
    ["explain", "run", "c"],
    ["logs", "run", "c"],
    ["status", ID],
    ["resume", "run", "--plan"],
)


def assert_visible(text: str) -> None:
    """All is printable, and no markup or line end of a name was interpreted."""
    assert {c for c in text if not c.isprintable()} <= {"\n"}, text
    assert "[bold]b[/bold]" in text
    assert not re.search(r"^done: [89]", text, re.MULTILINE), text


@pytest.mark.slow
def test_what_commands_write_to_a_pipe(user: User) -> None:
    """Messages and tables have escapes; JSON has the same text in ASCII; no cell is a formula."""
    first = hostile_workflow(user.folder)
    second = msgspec.structs.replace(first, name="=1+1", source="=1+1", owner="=1+1")
    wfrun.run(first, second, run_dir=user.folder / "run", retries=0)
    for words in SHOWN:
        assert_visible(user.ask(*words).text)
    for words in (["status"], ["tasks", "--failed"], ["failures"], ["stats"], ["files", "--all"]):
        out = user.ask(words[0], "run", *words[1:], "--json").out
        assert out.isascii()
        json.loads(out)
    (task,) = json.loads(user.ask("explain", "run", ID, "--json").out)["tasks"][:1]
    assert task["task"] == ID
    out = user.ask("stats", "run", "--csv").out
    assert_visible(out)
    assert ",'=1+1," in out
    out = user.ask("results", "run", "--safe-csv").out
    assert ",'=1+1," in out
    assert ",=1+1," not in out


@pytest.mark.slow
def test_other_commands(failed: User) -> None:
    for words in SHOWN:
        terminal = Terminal(failed, 120, *words)
        if words[0] == "watch":
            assert wait_until(lambda: "\\x1b]52;c;" in terminal.text)  # noqa: B023
            terminal.type(b"q")
        assert terminal.done() in (0, 1, 2)
        if words[0] != "watch":  # It moves the cursor to where it draws.
            assert_harmless(terminal)
        assert SGR not in terminal.drawn


def test_a_defect_and_a_warning(user: User) -> None:
    """Tracebacks, warnings of libraries and bytes pass the same streams."""
    program = (
        "import logging, sys\n"
        "from wfrun.runners.cli import streams\n"
        "streams.escape_standard_streams()\n"
        "text = open('text', encoding='utf-8', newline='').read()\n"
        "logging.getLogger('asyncssh').warning('banner %s', text)\n"
        "print(text.replace('\\n', ''))\n"
        "sys.stdout.buffer.write(text.replace('\\n', '').encode() + b'\\xff\\n')\n"
        "raise ValueError(text.replace('\\n', ''))\n"
    )
    (user.folder / "text").write_text(HOSTILE.replace("done: 8", "and"), encoding="utf-8")
    terminal = Terminal(user, 120, argv=[sys.executable, "-c", program])
    assert terminal.done() == 1
    assert_harmless(terminal)
    assert "\\xff" in terminal.text
    assert "Traceback" in terminal.text


@pytest.mark.slow
def test_pipes_get_data_unchanged_and_messages_escaped(failed: User) -> None:
    """A program that reads from a pipe gets what was written; messages may end on a terminal."""

    def printed(*words: str) -> bytes:
        argv = [str(WFRUN), *words]
        done = subprocess.run(argv, check=True, cwd=failed.folder, capture_output=True, timeout=100)
        return done.stdout

    assert HOSTILE.encode() in printed("logs", "run", ID)
    text = printed("results", "run").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows[0]["id"] == ID
    status = printed("status", "run").decode()
    assert "\x1b" not in status
    assert "\\x1b]52;c;" in status


def test_json_has_escapes_and_the_same_text(user: User) -> None:
    document = write_document(user.folder)
    done = user.wfrun(document, "--retries", "0", "--run-dir", "run", "--json")
    assert done.out.isascii()
    events = [json.loads(line) for line in done.out.splitlines()]
    ended = [event["outcome"]["message"] for event in events if event["event"] == "attempt-ended"]
    assert ID in ended[0]


@pytest.mark.slow
def test_prompts_of_a_server(user: User) -> None:
    """Of keyboard-interactive authentication, by asyncssh, with an answer that is not echoed."""
    server = Misbehaving(user.folder)
    try:
        server.title = server.instructions = server.question = server.banner = HOSTILE
        server.code = "123"
        (user.folder / "known").write_text(server.known_hosts_line())
        catalog = user.catalog(
            "sites:\n  evil:\n    kind: ssh\n    host: 127.0.0.1\n"
            f"    port: {server.port}\n    user: me\n    known_hosts: known\n    slots: 1\n"
        )
        terminal = Terminal(user, 300, "sites", "show", "--sites", catalog)
        assert wait_until(lambda: terminal.text.count("[bold]b[/bold]") == 3), terminal.text
        terminal.type(b"wrong\n")
        assert terminal.done() == 1
        assert server.questions == 1
    finally:
        server.close()
    assert_harmless(terminal)
    assert "(me@127.0.0.1) x\\x1b]52" in terminal.text


@pytest.mark.slow
def test_logs_have_titles_that_no_output_can_forge(failed: User) -> None:
    terminal = Terminal(failed, 300, "logs", "run", ID)
    assert terminal.done() == 0
    lines = [line for line in terminal.drawn.split("\r\n") if line]
    titles = [line for line in lines if line.startswith("\x1b[1m--- ")]
    assert len(titles) == 4
    assert SGR not in terminal.drawn
    others = [line for line in lines if line not in titles]
    assert all(line.isprintable() for line in others)
    assert sum(line.startswith("x\\x1b]52;c;") for line in others) == 4


def test_commands_to_copy_are_quoted(user: User) -> None:
    """The directory's name is the user's own here; that of a run by others may be anything."""
    document = user.write([Job("a", "exit 1")])
    name = "a run; touch pwned"
    done = user.wfrun(document, "--retries", "0", "--run-dir", name)
    assert "to continue: wfrun resume 'a run; touch pwned'\n" in done.out
    assert "to continue: wfrun resume 'a run; touch pwned'\n" in user.wfrun("status", name).out


@pytest.mark.slow
def test_completions_are_names_that_a_shell_takes_as_they_are(user: User) -> None:
    document = user.write([Job("a", "true")])
    assert user.wfrun(document, "--run-dir", "wfrun-runs/fine-1", "-q").status == 0
    for name in (b"$(touch pwned)", b"x\nplain,evil", b"\xff"):
        folder = user.folder / "wfrun-runs"
        shutil.copytree(folder / "fine-1", folder / os.fsdecode(name))
    environment = {**user.environment, "_WFRUN_COMPLETE": "bash_complete",
                   "COMP_WORDS": "wfrun status ", "COMP_CWORD": "2"}  # fmt: skip
    done = subprocess.run(
        [WFRUN], cwd=user.folder, env=environment, capture_output=True, check=True, timeout=100
    )
    assert done.stdout == b"plain,fine-1\nplain,last\n"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_results_of_a_run_whose_path_is_no_text(user: User, form: str) -> None:
    document = user.write([Job("a", "touch x", (), ["x"], ["x"])])
    directory = os.fsdecode(b"run-\xff\xc3\xa9")
    assert user.wfrun(document, "--run-dir", directory, "-q").status == 0
    done = user.wfrun("results", directory, "-o", f"out.{form}")
    assert done.status == 0, done.text
    written = (user.folder / f"out.{form}").read_bytes()
    path = b"run-\\xff\xc3\xa9/outputs/x" if form == "parquet" else os.fsencode(directory)
    assert path in written
