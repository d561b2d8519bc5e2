"""Whether a run may ask the user the questions of a login."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

import wfrun
from tests.runners.harness import Job, make_workflow
from wfrun.runners.run import session
from wfrun.runners.run.sites.make_sites import make_site, terminal_prompter


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """The far end of a terminal that is standard input."""
    ours, theirs = os.openpty()
    with open(theirs) as stdin, open(ours, "w") as user:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield user


async def test_questions_are_asked_at_a_terminal(
    terminal: TextIO, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.write("123456\n")
    terminal.flush()
    prompter = terminal_prompter()
    assert prompter is not None
    assert await prompter("me@login", [("Code: ", True)]) == ["123456"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("Code: ", "me@login\n")


def prompters_of_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The prompters of the sites of a real run."""
    prompters = []

    def noting(*arguments: Any, **options: Any) -> Any:
        prompters.append(options["prompter"])
        return make_site(*arguments, **options)

    monkeypatch.setattr(session, "make_site", noting)
    workflow = make_workflow([Job("a", "true")])
    assert wfrun.run(workflow, run_dir=folder / "run").outcome == "done"
    return prompters


@pytest.mark.slow
def test_a_run_at_a_terminal_asks(
    terminal: TextIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prompter,) = prompters_of_run(tmp_path, monkeypatch)
    assert prompter is not None


@pytest.mark.slow
def test_a_run_without_a_terminal_does_not_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert prompters_of_run(tmp_path / "nothing", monkeypatch) == [None]
    monkeypatch.setattr(sys, "stdin", None)  # as Python does where it is closed
    assert prompters_of_run(tmp_path / "closed", monkeypatch) == [None]
