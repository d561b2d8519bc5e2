"""A moldable job that a site refuses is tried there with fewer processors."""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Moldable, Resources, SiteSpec, Task, Workflow

SIZES = (1, 2, 4, 8, 16)
REFUSED = Outcome("refused", message="no node has as many processors")


def tries(core: Core, widest: int) -> list[tuple[int, int]]:
    """Run the only job at sites with nodes of ``widest`` processors; its (site, size) in order."""
    found: list[tuple[int, int]] = []
    at_s = 0.0
    while core.state.ended is None:
        for key, attempt in list(core.state.attempts.items()):
            found.append((attempt.site, attempt.cores))
            is_refused = attempt.cores > widest
            core.step(ev.AttemptsSubmitted(at_s, attempt.site, (key,)))
            done = Outcome("done", started_s=at_s, ended_s=at_s)
            core.step(ev.AttemptEnded(at_s, key, REFUSED if is_refused else done))
        at_s += 3600.0
        for timer in [name for name, due_s in core.state.timers.items() if due_s <= at_s]:
            core.step(ev.TimerFired(at_s, timer))
        assert len(found) < 50
    return found


def engine(*sites: SiteSpec) -> Core:
    job = Task("j", "x", "x", resources=Resources(1, walltime_s=1600.0, parallel=True))
    moldable = {0: Moldable(SIZES, tuple(1600.0 / size for size in SIZES), None)}
    core = Core({"0": Workflow("jobs", "jobs.yaml", [job], [], [()], moldable=moldable)})
    settings = ev.Settings(policy="mst", sizing="exhaustive")
    core.step(ev.RunStarted(0.0, "r", settings, sites, (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "jobs", "0"))
    return core


def test_other_sites_come_first_then_half_the_size() -> None:
    core = engine(SiteSpec("a", 16), SiteSpec("b", 16))
    found = tries(core, widest=4)
    assert core.state.ended == "done"
    assert found[:2] == [(0, 16), (1, 16)]
    assert found[-1][1] == 4
    assert [size for site, size in found if site == found[-1][0]] == [16, 8, 4]


def test_a_site_that_refuses_all_sizes_is_given_up() -> None:
    core = engine(SiteSpec("a", 16))
    assert [size for _, size in tries(core, widest=0)] == [16, 8, 4, 2, 1]
    assert core.state.ended == "failed"
