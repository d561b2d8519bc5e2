"""Logs of real clusters, through the batch simulator."""

from __future__ import annotations

from statistics import fmean

import pytest

from tests.places import CORPUS
from wfrun.parsers.logs import RUNNABLE_RULES, drop_jobs, read_swf, settle_overruns
from wfrun.parsers.logs.filters import Overrun
from wfrun.sites.simulated.queues import simulate_batch, simulated_jobs

KTH = CORPUS / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize(
    ("name", "overruns", "mean_wait_s"),
    [
        # The textbook figure: the plain loop of bench/lrm.py gives it, too.
        ("easy", "extend", 6805),
        ("easy", "truncate", 6840),
        ("conservative", "extend", 7347),
        ("fcfs", "extend", 389852),
    ],
)
def test_mean_wait_on_kth(name: str, overruns: Overrun, mean_wait_s: float) -> None:
    log = read_swf(KTH)
    assert log.processors == 100
    jobs = simulated_jobs(settle_overruns(drop_jobs(log.jobs, RUNNABLE_RULES).jobs, overruns))
    schedule = simulate_batch(jobs, log.processors, name, kill_overruns=False)
    waits_s = [start_s - job.submit_s for start_s, job in zip(schedule.start_s, jobs, strict=True)]
    assert fmean(waits_s) == pytest.approx(mean_wait_s, rel=0.0005)
