"""The tests of the claims on the papers' own numbers, and a log of real users."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.places import CORPUS
from wfrun.runners.studies.claim import Claims, answer
from wfrun.runners.studies.predictions import grid_claims, paper, runtimes, wait_claims
from wfrun.runners.studies.predictions.grid_samples import GridSamples
from wfrun.runners.studies.predictions.grids import GridRow
from wfrun.runners.studies.predictions.part import Setting
from wfrun.runners.studies.predictions.queue_waits import WaitRow
from wfrun.runners.studies.predictions.wait_samples import WaitSamples
from wfrun.runners.studies.predictions.workloads import workloads_of

NO_LOGS = Setting(True, workloads_of(None, ()))


def wait_row(site: int, predictor: str, **values: float) -> WaitRow:
    known = {
        "predicted": 1, "unknown": 0, "nonzero": 0.5, "accuracy": 0.5, "error_s": 60.0,
        "under": 0.0, "perfect": 0.0, "over": 1.0, "nonzero_accuracy": 0.5,
        "nonzero_error_s": 60.0, "burst_share": 0.5, "burst_within": 0.9, "other_within": 0.96,
        "burst_same": 1.0, "mean_wait_s": 1.0, "mean_predicted_s": 2.0, **values,
    }  # fmt: skip
    return WaitRow(
        workload="grid:das-2", site=str(site), jobs=1, waits="fcfs", predictor=predictor,
        accuracy_shares=(), error_shares=(), **known,  # type: ignore[arg-type]
    )  # fmt: skip


def held(claims: Claims[WaitSamples], rows: Iterable[WaitRow]) -> dict[str, bool]:
    samples = WaitSamples(NO_LOGS, list(rows), every=True)
    return {a.claim.text: a.holds for a in answer(claims, samples)}


def test_table_7_2_does_not_agree_with_the_text() -> None:
    rows = []
    for site, line in enumerate(paper.TABLE_7_2.values()):
        before = {"nonzero_accuracy": line.accuracy, "nonzero_error_s": 60 * line.error_min}
        after = {
            "nonzero_accuracy": line.corrected_accuracy,
            "nonzero_error_s": 60 * line.corrected_error_min,
        }
        rows += [wait_row(site, "point", **before), wait_row(site, "point-corrected", **after)]
        rows += [wait_row(site, name) for name in ("bmbp", "chebyshev", "fcfs-estimates")]
    found = held(wait_claims.CLAIMS, rows)
    assert found["Correction improves the accuracy"]
    assert not found["Correction improves the accuracy by 1% to 10%"], "0.51 to 0.63"
    assert not found["Correction improves the absolute error by 1% to 16%"], "110 to 121 min"


def test_table_7_3_has_what_the_text_says() -> None:
    rows = []
    for name, lines in paper.TABLE_7_3.items():
        for site, line in enumerate(lines.values()):
            rows.append(
                wait_row(site, name, accuracy=line.accuracy, error_s=60 * line.error_min,
                         under=line.under, perfect=line.perfect, over=line.over)
            )  # fmt: skip
    rows += [wait_row(site, name) for site in range(4)
             for name in ("point", "point-corrected", "fcfs-estimates")]  # fmt: skip
    found = held(wait_claims.CLAIMS, rows)
    assert found["BMBP is more accurate than Chebyshev's inequality"]
    assert found["Its absolute error is smaller"]
    assert found["Chebyshev's inequality over-predicts more waits"]


def test_table_7_6_has_what_the_text_says_but_for_the_waits_of_ect() -> None:
    rows = [
        GridRow(
            grid=grid, policy=policy, part=1.0, seed=0, jobs=1, response_s=line.response_s,
            wait_s=line.wait_s, slowdown=line.slowdown, waited=0.5, long_waits=0.05,
            utilization=0.3, share=(1.0,), wait_shares=(), response_shares=(), slowdown_shares=(),
        )
        for grid, lines in paper.TABLE_7_6.items()
        for policy, line in lines.items()
    ]  # fmt: skip
    samples = GridSamples(NO_LOGS, rows, every=True)
    found = {a.claim.text: a.holds for a in answer(grid_claims.CLAIMS, samples)}
    for policy in ("ECT-Perfect", "ECT-Last2"):
        assert found[f"{policy} performs better than LB and FPF, by response, wait and slowdown"]
    assert found["ECT-Perfect and ECT-Last2 have similar response times"]
    assert not found["ECT-Perfect and ECT-Last2 have similar waits"], "105 and 186 s"
    assert found["All policies perform alike, by response, wait and slowdown"]
    assert found["LB is slightly better than FPF"]


@pytest.mark.corpus
def test_users_of_a_real_log_repeat_themselves() -> None:
    setting = Setting(True, workloads_of(CORPUS, ()))
    kth = next(w for w in setting.workloads if w.title == "KTH-SP2")
    rows = {
        cell.classification: runtimes.run(setting, cell)
        for cell in runtimes.cells(setting)
        if cell.workload == kth.label and cell.method == "last2"
    }
    assert rows["site"].accuracy < 0.35 < 0.4 < rows["user"].accuracy
    assert rows["user-site"].accuracy == rows["user"].accuracy, "one site"
    assert rows["application"].predicted == 0, "its jobs have no application"
