"""The sites that a moldable job may go to are those with room for any of its sizes, also after a
resume and after an attempt that took too long."""

from __future__ import annotations

from tests.engine.moldable.test_refused_sizes import engine
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec
from wfrun.engine.tasks.retry import reset_retries


def only_attempt(core: Core) -> tuple[int, int, float | None]:
    """Site, size and walltime of the only open attempt."""
    (attempt,) = core.state.attempts.values()
    return attempt.site, attempt.cores, core.state.workflows[0].asked(0).walltime_s


def too_long(core: Core, at_s: float) -> None:
    """The only attempt is killed at its walltime, and the time of its retry comes."""
    (key,) = core.state.attempts
    core.step(ev.AttemptsSubmitted(at_s, core.state.attempts[key].site, (key,)))
    outcome = Outcome("walltime", started_s=at_s, ended_s=at_s + 1)
    core.step(ev.AttemptEnded(at_s + 1, key, outcome))
    for timer, due_s in list(core.state.timers.items()):
        if timer.startswith("retry"):
            core.step(ev.TimerFired(max(at_s + 1, due_s), timer))


def test_a_resumed_job_may_go_to_a_narrower_site() -> None:
    core = engine(SiteSpec("wide", 16), SiteSpec("narrow", 4))
    assert only_attempt(core)[:2] == (0, 16)
    w = core.state.workflows[0]
    reset_retries(core.state, w)
    assert w.feasible_sites(0) == 0b11


def test_a_resumed_job_stays_off_sites_with_room_for_none_of_its_sizes() -> None:
    """The first site has room for 4 and more processors, which take at most 400 s."""
    core = engine(SiteSpec("short", 16, walltime_s=500.0), SiteSpec("tiny", 2, walltime_s=500.0))
    w = core.state.workflows[0]
    w.asks.clear()
    reset_retries(core.state, w)
    assert w.feasible_sites(0) == 0b01


def test_a_job_that_took_too_long_may_get_another_size_elsewhere() -> None:
    """With 16 processors it has 100 s, all that the first site grants. The second one grants more,
    but has two processors: 800 s, twice that after the first failure."""
    core = engine(SiteSpec("short", 16, walltime_s=100.0), SiteSpec("long", 2, walltime_s=3000.0))
    assert only_attempt(core) == (0, 16, 100.0)
    too_long(core, 100.0)
    assert only_attempt(core) == (1, 2, 1600.0)
    too_long(core, 2000.0)  # 3200 s are more than the site grants
    site, size, walltime_s = only_attempt(core)
    assert (site, size) == (1, 2)
    assert walltime_s is not None
    assert 2999.0 < walltime_s <= 3000.0
    too_long(core, 6000.0)
    assert core.state.ended == "failed"
    assert not core.state.attempts
