"""Owners with optional tasks over three real clusters, beside a workflow, while the engine dies."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.integration.clusters import Grid
from tests.integration.launchers.test_launchers_faults import launchers
from tests.runners.harness import lines_of
from wfrun.engine import events as ev
from wfrun.engine.capabilities.optional import Optionals
from wfrun.engine.core.state import TaskStatus
from wfrun.runners.metrics.optional_bags import optional_shares

SITES = ("alpha", "beta", "gamma")
LEAST = {"ann": 3, "ben": 6, "cid": 9}
"""Mandatory tasks of each owner."""
DEADLINE_S = 100
BAG = """\
bag: {owner}
owner: {owner}
command: sh -c "sleep 1; echo result:{owner}:{{n}}:$(date +%s.%N) >> {record}"
parameters: {{n: {{range: [0, 999]}}}}
optional: {{min: {least}, max: 1000, deadline: {deadline_s} s}}
"""


def results(grid: Grid) -> dict[str, dict[int, float]]:
    """Of each owner, the first time of each result, as the tasks wrote them themselves."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for line in lines_of(grid.record):
        if line.startswith("result:"):
            _, owner, number, at_s = line.split(":")
            found[owner].setdefault(int(number), float(at_s))
    return found


@pytest.mark.testbed
def test_everyone_has_the_minimum_in_time_although_the_engine_dies_twice(grid: Grid) -> None:
    grid.layers(4, 4, 0.5)
    catalog = grid.catalog(*SITES, changes=dict.fromkeys(("alpha", "beta"), launchers()))
    documents: list[Path] = []
    for owner, least in LEAST.items():
        documents.append(grid.user.folder / f"{owner}.yaml")
        documents[-1].write_text(
            BAG.format(owner=owner, least=least, deadline_s=DEADLINE_S, record=grid.record)
        )
    engine = grid.user.start(
        grid.user.write(grid.jobs), *documents, "--sites", catalog, "--run-dir", grid.run,
        "--policy", "fpf", "--selection", "ethic", "--retries", "5", "--retry-delay", "0.05",
    )  # fmt: skip
    for count in (5, 40):
        grid.wait(engine, lambda: sum(map(len, results(grid).values())) >= count)  # noqa: B023
        engine.kill()
        engine = grid.resume()
    done = engine.done(3 * DEADLINE_S)
    assert done.status == 0, done.text
    assert "0 of 3 owners unhappy" in done.text

    state = grid.state()
    assert state.ended == "done"
    assert state.failed == 0
    resumed = [e for e in grid.events() if isinstance(e, ev.RunResumed)]
    assert len(resumed) == 2
    normal, *bags = state.workflows
    assert set(normal.status) == {TaskStatus.DONE}
    assert set(grid.done()) == {job.id for job in grid.jobs}
    written = results(grid)
    for w in bags:
        owner, least = w.workflow.owner, LEAST[w.workflow.owner]
        assert w.deadline_s is not None
        in_time = [at_s for n, at_s in written[owner].items() if n < least and at_s <= w.deadline_s]
        assert len(in_time) == least, (owner, written[owner])
        assert set(w.status[:least]) == {TaskStatus.DONE}
        assert set(w.status[least:]) == {TaskStatus.DONE, TaskStatus.UNNEEDED}
        assert w.done > least
    shares = optional_shares(state)
    assert shares is not None
    assert shares.unhappy_owners == 0
    optionals = state.get(Optionals)
    killed = [key for e in grid.events() if isinstance(e, ev.AttemptsKilled) for key in e.keys]
    for key in killed:
        _, workflow, task, *_ = key.split(".")
        assert not optionals.is_mandatory(int(workflow), int(task)), key
    grid.check_quiet()
    print(f"done {[w.done for w in bags]}, killed for mandatory tasks {len(killed)}")
