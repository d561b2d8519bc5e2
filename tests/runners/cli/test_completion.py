"""Shell completion: what is offered, and a real bash that inserts it."""

from __future__ import annotations

import os
import shlex
import subprocess
from functools import partial
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from tests.runners.harness import WFRUN, Job, User, wait_until
from tests.runners.terminal import Terminal
from wfrun.runners.cli.completion import MAX_NAMES
from wfrun.runners.cli.inspect.tasks_command import STATES
from wfrun.runners.cli.main import cli

CATALOG = "sites:\n  alpha: {slots: 2}\n  beta: {slots: 1}\n"


@pytest.fixture
def ran(user: User, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user with one run, in its folder."""
    jobs = [Job("first", "true"), Job("second", "true"), Job("a b", "true")]
    done = user.wfrun(user.write(jobs), "--sites", user.catalog(CATALOG), "--quiet")
    assert done.status == 0, done.text
    monkeypatch.chdir(user.folder)
    return user


def offered(line: str) -> list[str]:
    """What is offered for the last word of a command line."""
    *words, last = [*shlex.split(line)[1:], *([""] if line.endswith(" ") else [])]
    found = ShellComplete(cli, {}, "wfrun", "_WFRUN_COMPLETE").get_completions(words, last)
    return [item.value if item.type == "plain" else item.type for item in found]


def test_names_in_runs_are_completed(ran: User) -> None:
    for line, names in {
        "wfrun tasks ": ["jobs-1", "last"],
        "wfrun tasks no-such": ["dir"],
        "wfrun tasks jobs-1 --state ": list(STATES),
        "wfrun tasks jobs-1 --site ": ["alpha", "beta"],
        "wfrun tasks --site b": ["beta"],
        "wfrun tasks no-such --site ": [],
        "wfrun tasks --type ": ["sh"],
        "wfrun files last --site a": ["alpha"],
        "wfrun explain jobs-1 ": ["first", "second"],
        "wfrun logs last s": ["second"],
        "wfrun stats jobs-1 jo": ["jobs-1"],
        "wfrun control --pause a": ["alpha"],
        "wfrun control jobs-1 --cancel f": ["first"],
        "wfrun control --raise-workflow ": ["jobs"],
        "wfrun run --reuse ": ["jobs-1", "auto", "none"],
        "wfrun simulate --from-run j": ["jobs-1"],
        "wfrun sites check ": ["alpha", "beta"],
        "wfrun sites show --sites sites.yaml b": ["beta"],
        "wfrun sites show --sites no-such.yaml b": [],
        "wfrun logs no-such ": [],
    }.items():
        assert offered(line) == names, line


def test_options_and_topics_are_completed(user: User) -> None:
    for line, names in {
        "wfrun run x.dax --on f": ["finished=", "failed="],
        "wfrun run x.dax --on ": ["finished=", "failed=", "needs-login=", "stalled="],
        "wfrun run x.dax --metrics-file ": ["file"],
        "wfrun resume --stall": ["--stalled-after"],
        "wfrun help notif": ["notifications"],
        "wfrun help canc": ["cancel"],
        "wfrun hel": ["help"],
        "wfrun report --out": ["--output"],
        "wfrun plan --on": ["--on-failure"],
    }.items():
        assert offered(line) == names, line


@pytest.mark.slow
def test_many_tasks_are_cut(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user.folder)
    (user.folder / "many.txt").write_text("true\n" * (MAX_NAMES + 50))
    assert user.wfrun("run", "many.txt", "--emulate", "--time-scale", "0", "-q").status == 0
    assert len(offered("wfrun logs last ")) == MAX_NAMES
    assert offered("wfrun logs last many-54") == [f"many-{n}" for n in (54, *range(540, 550))]


def test_every_command_with_a_run_completes_it() -> None:

    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        for param in command.params:
            if param.name in ("run", "runs", "task"):
                assert param._custom_shell_complete is not None, f"{name} {param.name}"


def is_shown(terminal: Terminal, text: str) -> bool:
    return text in terminal.text


@pytest.mark.slow
def test_a_real_bash_inserts_it(ran: User) -> None:
    """On a terminal, by the tabulator key."""
    setup = ran.folder / "rc"
    setup.write_text(
        f'PATH={WFRUN.parent}:$PATH\nPS1="> "\nbind "set bell-style none"\n'
        'eval "$(_WFRUN_COMPLETE=bash_source wfrun)"\necho ready\n'
    )
    argv = ("bash", "--noprofile", "--rcfile", str(setup), "-i")
    terminal = Terminal(ran, 100, argv=argv)
    assert wait_until(lambda: "ready" in terminal.text)
    for typed, inserted in (
        ("wfrun tas\tjo\t--site be\t", "wfrun tasks jobs-1 --site beta"),
        ("wfrun explain last sec\t", "wfrun explain last second"),
        ("wfrun help noti\t", "wfrun help notifications"),
    ):
        terminal.type(typed.encode())
        assert wait_until(partial(is_shown, terminal, inserted)), terminal.text
        terminal.type(b"\x15")  # erases the line
    terminal.type(b"exit\n")
    assert terminal.done() == 0


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_their_script(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [WFRUN], env={**os.environ, "_WFRUN_COMPLETE": f"{shell}_source"}, capture_output=True,
        text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout
