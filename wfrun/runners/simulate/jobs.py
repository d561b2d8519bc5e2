"""Simulates a run of parallel jobs, together with other users' jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wfrun.engine.core.state import RunState
from wfrun.parsers.logs import read_log
from wfrun.runners.run.prepare.prepare import Plan
from wfrun.runners.simulate.background import WARM_UP_S, background_of, unfit
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform, begun
from wfrun.sites.simulated.model import SiteModel

DEFAULT_LRM = "easy"
"""Default queue model: EASY backfilling, as most batch systems schedule parallel jobs."""


def simulate_jobs(
    plan: Plan,
    arrivals_s: Sequence[float],
    background: Path | None,
    lrm: str | None,
    run_dir: Path | None,
    *,
    skip_bad_lines: bool = False,
) -> tuple[list[str], RunState]:
    """Simulate the jobs of a plan together with other users' jobs from the log ``background``;
    None: no other jobs. ``arrivals_s``: when the plan's jobs arrive, in seconds after the start.
    ``skip_bad_lines``: drop unreadable lines of the background log. ``run_dir`` is the new
    directory of the run's log; None: the log is not kept.

    Returns remarks on the background log, and the final state. Raises InvalidError.
    """
    remarks: list[str] = []
    jobs, start_s = {}, 0.0
    if background is not None:
        logged, remarks, _ = read_log(background, skip_bad_lines=skip_bad_lines)
        sites = plan.catalog.sites
        remarks = [*remarks, *unfit(logged, sites)]
        jobs, start_s = dict(background_of(logged, sites, None, plan.settings.seed)), WARM_UP_S
    platform = Platform(
        plan.catalog, SiteModel(lrm=lrm or DEFAULT_LRM), background=jobs, start_s=start_s
    )
    if run_dir is not None:
        return remarks, simulate_into(run_dir, plan.workflows, platform, plan.settings, arrivals_s)
    return remarks, begun(plan.workflows, platform, plan.settings, arrivals_s=arrivals_s).run()
