"""Decisions of the past are explained with the state at their moment."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.settings import Settings
from wfrun.runners.inspect.explain.past_decisions import PastDecision, past_decision
from wfrun.runners.run.store import checkpoints
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

SITES = Catalog(
    (SiteSpec("a", 2), SiteSpec("b", 3, 1.5), SiteSpec("c", 2, 0.7)),
    (LinkSpec("a", "b", 1e6, 0.1), LinkSpec("b", "a", 1e6, 0.1)),
)


def fan(width: int) -> Workflow:
    """Tasks that write a file each, readers of two files each, and a last task."""
    jobs = [Job(f"w{n}", "true", outputs=(f"f{n}",)) for n in range(width)]
    for n in range(width):
        inputs = (f"f{n}", f"f{(n + 1) % width}")
        jobs.append(Job(f"r{n}", "true", inputs=inputs, outputs=(f"g{n}",)))
    jobs.append(Job("last", "true", inputs=[f"g{n}" for n in range(width)]))
    workflow = make_workflow(jobs)
    tasks = [
        msgspec.structs.replace(task, runtime_s=1.0 + number % 5)
        for number, task in enumerate(workflow.tasks)
    ]
    files = [
        msgspec.structs.replace(file, size_bytes=10**6 * (1 + number % 3))
        for number, file in enumerate(workflow.files)
    ]
    return msgspec.structs.replace(workflow, tasks=tasks, files=files)


def decisions(path: Path) -> list[tuple[int, ev.AttemptPlaced, PastDecision]]:
    """All placements of a log, explained."""
    with closing(Store(path)) as store:
        documents = store.workflows()
        placed = [(n, e) for n, e in enumerate(store.load()) if isinstance(e, ev.AttemptPlaced)]
        return [(seq, e, past_decision(store, documents, seq, e)) for seq, e in placed]


@pytest.mark.cases
@pytest.mark.parametrize("policy", PLACEMENT)
def test_every_placement_of_a_log_went_to_the_site_with_the_best_scores(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "MIN_EVENTS", 30)
    monkeypatch.setattr(checkpoints, "MIN_LAST_EVENTS", 1)
    monkeypatch.setattr("wfrun.runners.simulate.simulated_run.GROUP_SIZE", 10)
    path = tmp_path / "run"
    simulate_into(path, [fan(6)], Platform(SITES), Settings(policy))
    found = decisions(path)
    assert len(found) >= 13
    for _, placed, decision in found:
        assert decision.is_repeated, placed
        assert decision.scores is not None
        assert decision.scores.best == placed.site
    assert any(decision.is_replica for *_, decision in found) is bool(PLACEMENT[policy].replicas)


def test_earlier_placements_of_the_same_step_count(tmp_path: Path) -> None:
    path = tmp_path / "run"
    simulate_into(path, [fan(8)], Platform(SITES), Settings("all-clusters"))
    (seq, first, one), (after, second, two) = decisions(path)[:2]
    assert after == seq + 1, "nothing happened between the two"
    assert first.at_s == second.at_s
    assert one.scores is not None
    assert two.scores is not None
    assert [row.values for row in one.scores.rows] == [(0.0,), (0.0,), (0.0,)]
    assert [row.values for row in two.scores.rows] == [(0.5,), (0.0,), (0.0,)]


def test_a_placement_that_this_wfrun_would_not_make_is_shown_as_such(tmp_path: Path) -> None:
    """As in the log of an older version, whose policies decided otherwise."""
    path = tmp_path / "run"
    simulate_into(path, [fan(8)], Platform(SITES), Settings("all-clusters"))
    seq, placed, _ = decisions(path)[1]
    other = msgspec.structs.replace(placed, site=2)
    with closing(Store(path)) as store:
        decision = past_decision(store, store.workflows(), seq, other)
    assert not decision.is_repeated
    assert decision.scores is not None
    assert decision.scores.best == placed.site
