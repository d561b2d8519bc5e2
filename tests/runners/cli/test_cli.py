"""The command: what it says of itself, the events it prints, and the display on a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.runners.harness import Job, User, lines_of, wait_until
from tests.runners.terminal import Terminal
from wfrun import read_workflow
from wfrun.engine.events import SCHEMA_VERSION
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.runners.cli.main import cli
from wfrun.runners.run.store.event_store import Store

ONE_SITE = "sites:\n  alpha: {slots: 2}\n"
POLICIES = tuple(PLACEMENT)


def test_every_command_and_option_is_documented() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help
        assert command.get_short_help_str(limit=100) == summaries()[name]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, f"{command.name} {option.name}"


def summaries() -> dict[str, str]:
    """What `wfrun --help` says of each command."""
    formatter = click.HelpFormatter(width=100)
    cli.format_commands(click.Context(cli), formatter)
    lines = [line for line in formatter.getvalue().splitlines() if line.startswith("  ")]
    return {words[0]: words[1] for words in (line.split(maxsplit=1) for line in lines)}


def test_help_fits_its_lines(user: User) -> None:
    told = user.wfrun("--help")
    assert told.status == 0
    assert "..." not in told.out.partition("Run:")[2]
    assert "Exit status: 0 all done, 1 some tasks failed, 2 wrong input" in told.out
    assert user.wfrun("-h").out == told.out


def test_the_version(user: User) -> None:
    assert re.fullmatch(r"wfrun, version \d+\.\d+\.\d+\n", user.wfrun("--version").out)


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "wfrun", "--version"]
    assert subprocess.check_output(command, text=True, timeout=60).startswith("wfrun, version ")


@pytest.mark.parametrize("words", ["--help", "run --help", "generate --help"])
def test_help_imports_little(words: str) -> None:
    """So that it is quick, as completion is."""
    heavy = {"asyncio", "lxml", "networkx", "rich", "sqlite3", "yaml"}
    if words != "run --help":  # whose options are described by a msgspec record
        heavy.add("msgspec")
    assert heavy.isdisjoint(modules_of(*words.split()))


def modules_of(*words: str | Path) -> list[str]:
    """The modules that a command imports."""
    program = (
        "import sys; from wfrun.runners.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.split()


@pytest.mark.slow
def test_a_look_at_a_run_imports_nothing_that_drives_one(user: User) -> None:
    """The imports of the engine would take half of the time."""
    assert user.wfrun("run", user.write([Job("a", "true")]), "--run-dir", "run").status == 0
    of_engines = ("wfrun.sites.transfers", "wfrun.sites.simulated", "wfrun.runners.run.session")
    run = user.folder / "run"
    for words in (("status", run), ("launchers", run), ("list", "--all")):
        found = modules_of(*words)
        assert not [module for module in found if module.startswith(of_engines)]


def test_the_short_and_the_long_form(user: User) -> None:
    document = user.write([Job("a", "true")], "some name.dax")
    assert user.wfrun(document).status == 0
    assert user.wfrun("run", document, "--quiet").status == 0
    assert [line.split()[0] for line in user.wfrun("list").out.splitlines()] == [
        "run",
        "some-name-1",
        "some-name-2",
    ]


def test_policies_are_listed_with_what_they_use(user: User) -> None:
    told = user.wfrun("policies").out
    rows = {line.split()[0]: line.split()[1:6] for line in told.splitlines() if line}
    assert set(POLICIES) <= set(rows)
    assert rows["round-robin"] == ["U", "U", "U", "U", "U"]
    assert rows["heft"][3] == "K"


@pytest.mark.cases
@pytest.mark.parametrize(
    "family", ["montage", "cybershake", "inspiral", "sipht", "epigenomics", "bag", "layered"]
)
def test_generated_workflows_can_be_run(user: User, family: str) -> None:
    for form, suffix in (("dax", "dax"), ("wfformat", "json")):
        path = user.folder / f"{family}-30.{suffix}"
        made = user.wfrun("generate", family, "--tasks", "30", "--seed", "5", "--format", form)
        assert made.status == 0, made.text
        assert made.out.startswith(f"{path.name}: ")
        assert abs(len(read_workflow(path).tasks) - 30) <= 10
    done = user.wfrun(
        f"{family}-30.dax", f"{family}-30.json", "--emulate", "--time-scale", "0", "--quiet"
    )
    assert done.status == 0, done.text


def test_the_same_seed_writes_the_same(user: User) -> None:
    for name in ("one", "two"):
        user.wfrun("generate", "layered", "--tasks", "50", "--seed", "3", "-o", name)
    user.wfrun("generate", "layered", "--tasks", "50", "--seed", "4", "-o", "three")
    one, two, three = ((user.folder / n).read_text() for n in ("one", "two", "three"))
    assert one == two != three


def test_events_as_json_are_the_log(user: User) -> None:
    """Also those of a second engine, whose numbers go on; the summary goes to stderr."""
    go = user.folder / "go"
    document = user.write([Job("a", f"test -e {go}"), Job("b", "true", parents=["a"])])
    first = user.wfrun(document, "--run-dir", "run", "--json", "--retries", "0")
    assert first.status == 1
    assert "failed: 0/2 tasks done" in first.err
    go.touch()
    second = user.wfrun("resume", "run", "--json")
    assert second.status == 0
    printed = [json.loads(line) for line in (first.out + second.out).splitlines()]
    assert [event["seq"] for event in printed] == list(range(len(printed)))
    assert {event["version"] for event in printed} == {SCHEMA_VERSION}
    store = Store(user.folder / "run")
    names = [type(event).__struct_config__.tag for event in store.load()]
    store.close()
    assert [event["event"] for event in printed] == names
    assert (names[0], names[-2:]) == ("run-started", ["run-ended", "files-removed"])


def test_quiet(user: User) -> None:
    """Errors and the end alone."""
    document = user.write([Job("a", "true", (), ["x"], ["x"]), Job("b", "echo hm >&2; exit 4")])
    done = user.wfrun(document, "--run-dir", "run", "--quiet", "--retries", "0")
    assert done.status == 1
    assert done.err == ""
    assert done.out.startswith("failed: 0/2 tasks done, 2 failed")
    assert "hm" in done.out
    assert "ended without writing its output 'x'" in done.out


def test_logs(user: User) -> None:
    script = "echo to stdout; echo to stderr >&2; printf 'no newline at the end'"
    document = user.write([Job("a", script), Job("b", "true", parents=["a"])])
    assert user.wfrun(document).status == 0
    told = user.wfrun("logs", "last", "a")
    assert told.status == 0
    heads = [line for line in told.out.splitlines() if line.startswith("--- ")]
    assert [head.rsplit(": ", 1)[1] for head in heads] == ["stdout", "stderr"]
    assert all("at local (done, " in head for head in heads)
    assert "to stdout\nno newline at the end\n--- " in told.out
    assert told.out.endswith("to stderr\n")
    near = user.wfrun("logs", "last", "aa")
    assert near.status == 2
    assert "has no task 'aa'" in near.err
    assert "did you mean a?" in near.err


@pytest.mark.parametrize("more", ["", "kind: ssh, transport: local, directory: far, "])
def test_packed_logs(user: User, more: str) -> None:
    sites = user.folder / "sites.yaml"
    sites.write_text(f"sites:\n  alpha: {{{more}slots: 2}}\n".replace("far", f"{user.folder}/far"))
    jobs = [Job("a", "echo one; echo two >&2"), Job("b", "echo three; exit 1"), Job("c", "true")]
    told = user.wfrun(user.write(jobs), "--sites", sites, "--pack-logs", "--retries", "0")
    assert told.status == 1
    assert user.wfrun("logs", "last", "a").out.splitlines()[1::2] == ["one", "two"]
    assert user.wfrun("logs", "last", "b").out.splitlines()[1] == "three"
    assert [line[:4] for line in user.wfrun("logs", "last", "c").out.splitlines()] == ["--- "] * 2


def test_logs_while_it_runs(user: User) -> None:
    go = user.folder / "go"
    script = f"echo halfway; while [ ! -e {go} ]; do sleep 0.02; done"
    jobs = [Job("a", script), Job("b", "true", parents=["a"])]
    engine = user.start(user.write(jobs), "--run-dir", "run")
    assert wait_until(lambda: bool(user.tasks()))
    assert wait_until(lambda: "halfway" in user.wfrun("logs", "run", "a").out)
    assert "(open): stdout" in user.wfrun("logs", "run", "a").out
    assert user.wfrun("logs", "run", "b").out == "task b has not been dispatched yet\n"
    go.touch()
    assert engine.done().status == 0


def test_warnings_are_told_once(user: User) -> None:
    document = user.write([Job("a", "true"), Job("b", "true")])
    done = user.wfrun(document, "--emulate", "--time-scale", "0")
    assert done.status == 0
    assert done.err.count("warning: ") == 1
    assert "2 of 2 tasks have no run time" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 120])
def test_the_display_on_a_terminal(user: User, columns: int) -> None:
    go = user.folder / "go"
    jobs = [Job("bad", "echo dear me >&2; exit 1")]
    jobs += [Job(f"t{n}", f"while [ ! -e {go} ]; do sleep 0.02; done") for n in range(5)]
    words = (user.write(jobs), "--sites", user.catalog(ONE_SITE), "--retries", "0")
    terminal = Terminal(user, columns, *words, "--run-dir", "run")
    assert wait_until(lambda: "dear me" in terminal.text and "1/6" in terminal.text), terminal.text
    assert "tasks/s" in terminal.text
    assert "alpha" in terminal.text
    go.touch()
    assert terminal.done() == 1
    assert "failed: 5/6 tasks done, 1 failed in" in terminal.text
    assert "to continue: wfrun resume run" in terminal.text
    assert all(len(line) <= columns for line in re.split(r"[\r\n]+", terminal.text))


@pytest.mark.slow
def test_ctrl_c_on_a_terminal(user: User) -> None:
    """It reaches the command and not the tasks, which may end."""
    go, record = user.folder / "go", user.folder / "record"
    script = f"echo begun >> {record}; while [ ! -e {go} ]; do sleep 0.02; done; echo t >> {record}"
    jobs = [Job(f"t{n}", script) for n in range(4)]
    words = (user.write(jobs), "--sites", user.catalog(ONE_SITE), "--run-dir", "run")
    terminal = Terminal(user, 100, *words)
    assert wait_until(lambda: lines_of(record) == ["begun", "begun"]), terminal.text
    terminal.type(b"\x03")
    assert wait_until(lambda: "no further task is started" in terminal.text), terminal.text
    go.touch()
    assert terminal.done() == 130
    assert lines_of(record) == ["begun", "begun", "t", "t"]
    assert "cancelled: 2/4 tasks done" in terminal.text
    assert user.wfrun("resume", "run").status == 0


@pytest.mark.slow
def test_a_terminal_that_is_closed(user: User) -> None:
    """As when a connection breaks: what runs goes on, and resume finds it."""
    go, record = user.folder / "go", user.folder / "record"
    script = f"while [ ! -e {go} ]; do sleep 0.02; done; echo t >> {record}"
    jobs = [Job(f"t{n}", script) for n in range(4)]
    words = (user.write(jobs), "--sites", user.catalog(ONE_SITE), "--run-dir", "run")
    terminal = Terminal(user, 100, *words)
    assert wait_until(lambda: "2 running" in user.wfrun("status", "run").out), terminal.text
    terminal.close()
    assert "interrupted" in user.wfrun("status", "run").out
    go.touch()
    assert user.wfrun("resume", "run").status == 0
    assert len(lines_of(record)) == 4
