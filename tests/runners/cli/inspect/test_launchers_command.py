"""``wfrun launchers`` and the lines of ``wfrun status``: what a log says of launchers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.runners.harness import Job, User, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.exchange import LauncherRequest, Outcome
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.run.store.event_store import Store

SPEC = LauncherSpec(cores=4, max=4)
CLUSTER = Access(hosts=("alpha",), dispatch="launchers", launchers=SPEC)
ALPHA = SiteSpec("alpha", 16, kind="slurm", access=CLUSTER)
NAMES = ("r.L0", "r.L1", "r.L2", "r.L3")


def write(folder: Path, events: Sequence[ev.Event], site: SiteSpec = ALPHA) -> None:
    """A run of three tasks whose engine is gone; it began 100 s ago."""
    workflow = make_workflow([Job(str(n), "true") for n in range(3)])
    folder.mkdir(parents=True)
    store = Store(folder, create=True)
    (digest,) = store.put_workflows([workflow])
    began_s = time.time() - 100.0
    store.append(
        [
            ev.RunStarted(began_s, "r", ev.Settings(policy="round-robin"), (site,), (), 1),
            ev.WorkflowAdded(began_s, 0, workflow.name, digest),
            *events,
        ]
    )
    store.commit()
    store.close()


def lives() -> list[ev.Event]:
    """Four launchers: one ended by itself, one runs a task, one drains, one waits."""
    t = time.time() - 90.0
    asked = tuple(LauncherRequest(name, 1, 4, 0, 0, 3600.0) for name in NAMES)
    first, second, third, _ = NAMES
    done = Outcome("done", 0, started_s=t + 10, ended_s=t + 20)
    return [
        ev.LaunchersAsked(t, 0, asked),
        ev.LaunchersSubmitted(t + 1, 0, NAMES),
        ev.LauncherStarted(t + 10, 0, first, "node1", 4, t + 3610, "tcp", 0.002),
        ev.LauncherStarted(t + 10, 0, second, "node2", 4, t + 3690, "spool", 0.5),
        ev.LauncherStarted(t + 10, 0, third, "node3", 3, None, "ssh", 0.002),
        *(ev.AttemptPlaced(t + 11, f"r.0.{task}.1", 0, task, 0) for task in range(2)),
        ev.AttemptsSubmitted(t + 11, 0, ("r.0.0.1", "r.0.1.1")),
        ev.AttemptStarted(t + 12, "r.0.0.1", first),
        ev.AttemptStarted(t + 12, "r.0.1.1", second),
        ev.AttemptEnded(t + 20, "r.0.0.1", done),
        ev.LauncherDraining(t + 21, 0, third, "its time is nearly over"),
        ev.LauncherEnded(t + 30, 0, first, "preempted", "the queue took its node\nand more"),
    ]


def rows(text: str) -> dict[str, str]:
    """Lines by the launcher that they begin with."""
    return {line.split()[0]: line for line in text.splitlines() if line.startswith("r.L")}


def test_launchers_are_shown_with_where_and_how_they_are(user: User) -> None:
    write(user.folder / "run", lives())
    told = user.ask("launchers", "run")
    assert told.status == 0
    shown = rows(told.out)
    assert list(shown) == ["r.L1", "r.L2", "r.L3"]
    words = shown["r.L1"].split()
    assert words[1:4] == ["alpha", "node2", "live"]
    assert words[5:7] == ["4", "1"]
    assert words[-1] == "spool"
    assert "draining" in shown["r.L2"]
    assert shown["r.L2"].endswith("its time is nearly over")
    assert shown["r.L3"].split()[1:3] == ["alpha", "queued"]
    assert "1 has ended; --all also shows them" in told.out
    assert "no process drives this run now" in told.out


def test_those_that_have_ended_say_how(user: User) -> None:
    write(user.folder / "run", lives())
    told = user.ask("launchers", "run", "--all")
    first = rows(told.out)["r.L0"]
    assert " ended " in first
    assert " 0.1 " in first.replace("0.05", "0.1")
    assert first.endswith("preempted: the queue took its node")
    assert "and more" not in told.out
    assert "--all" not in told.out


def test_why_a_site_gets_no_more_is_said_below(user: User) -> None:
    t = time.time() - 50.0
    asked = tuple(LauncherRequest(name, 1, 4, 0, 0, 3600.0) for name in NAMES[:1])
    refused = ev.LauncherEnded(t + 1, 0, NAMES[0], "refused", "account 'astro' has expired")
    write(user.folder / "run", [ev.LaunchersAsked(t, 0, asked), refused])
    told = user.ask("launchers", "run")
    assert "there are no launchers now" in told.out
    assert "site alpha: a launcher ran nothing, the last by refused: account 'astro'" in told.out


def test_a_run_without_launchers_says_so(user: User) -> None:
    write(user.folder / "run", [], site=SiteSpec("here", 2))
    told = user.ask("launchers", "run")
    assert told.status == 0
    assert "no site of this run has launchers" in told.out


def test_the_status_has_a_line_for_each_site_with_launchers(user: User) -> None:
    write(user.folder / "run", lives())
    lines = user.ask("status", "run").out.splitlines()
    assert "launchers of alpha: 1 live with 4 slots, 1 queued, 1 draining, 1 ended" in lines


def test_with_the_run_its_launchers_have_ended(user: User) -> None:
    write(user.folder / "run", [*lives(), ev.RunEnded(time.time(), "failed")])
    shown = rows(user.ask("launchers", "run").out)
    assert [line.split()[2 + (name != "r.L3")] for name, line in shown.items()] == ["dismissed"] * 3
    assert "launchers of alpha: 4 in all" in user.ask("status", "run").out
