"""The tests of the claims on the papers' own numbers, and a log of real users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from tests.places import CORPUS
from wfrun.studies.common.claim import Claims, answer
from wfrun.studies.predictions import paper
from wfrun.studies.predictions.grids import grid_claims
from wfrun.studies.predictions.grids.grid_samples import GridSamples
from wfrun.studies.predictions.grids.grids import GridRow
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.runtimes import runtimes
from wfrun.studies.predictions.waits import wait_claims
from wfrun.studies.predictions.waits.queue_waits import WaitRow
from wfrun.studies.predictions.waits.wait_samples import WaitSamples
from wfrun.studies.predictions.workloads import workloads_of

NO_LOGS = PartSetting(True, workloads_of(None, ()))


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
    text = "Correction improves the accuracy by 1% to 10% and the absolute error by 1% to 16%"
    assert not found[text], "0.51 to 0.63, and 110 to 121 min"


def test_both_gains_of_the_correction_are_one_claim() -> None:
    (claim,) = (claim for claim in wait_claims.CLAIMS if claim.text.startswith("Correction"))
    for accuracy, error_s, holds in ((0.55, 55.0, True), (0.5, 55.0, False), (0.55, 60.0, False)):
        rows = [wait_row(0, "point"), wait_row(0, "point-corrected", nonzero_accuracy=accuracy,
                                               nonzero_error_s=error_s)]  # fmt: skip
        rows += [wait_row(0, name) for name in ("bmbp", "chebyshev", "fcfs-estimates")]
        samples = WaitSamples(NO_LOGS, rows, every=True)
        assert answer([claim], samples)[0].holds is holds


def test_claims_on_estimates_cannot_fail() -> None:
    never = [claim.text for claim in wait_claims.CLAIMS if claim.always]
    assert len(never) == 2
    assert "FCFS on user estimates guarantees over-predictions" in never


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


def grid_samples(**waits_s: float) -> GridSamples:
    """Table 7.6, with other waits on the DAS-3 by policy."""
    return GridSamples(NO_LOGS, grid_rows(waits_s), every=True)


def grid_rows(waits_s: Mapping[str, float]) -> list[GridRow]:
    return [
        GridRow(
            grid=grid, policy=policy, part=1.0, seed=0, jobs=1, response_s=line.response_s,
            wait_s=waits_s.get(policy.replace("-", "_"), line.wait_s) if grid == "das3"
            else line.wait_s,
            slowdown=line.slowdown, waited=0.5, long_waits=0.05,
            utilization=0.3, share=(1.0,), wait_shares=(), response_shares=(), slowdown_shares=(),
        )
        for grid, lines in paper.TABLE_7_6.items()
        for policy, line in lines.items()
    ]  # fmt: skip


def test_table_7_6_has_what_the_text_says_but_for_the_waits_of_ect() -> None:
    ect = (
        "ECT-Perfect and ECT-Last2 perform similarly on the DAS-3 and the AuverGrid, by response, "
        "wait and slowdown"
    )
    found = {a.claim.text: a.holds for a in answer(grid_claims.CLAIMS, grid_samples())}
    for policy in ("ECT-Perfect", "ECT-Last2"):
        assert found[f"{policy} performs better than LB and FPF, by response, wait and slowdown"]
    assert not found[ect], "waits of 105 and 186 s"
    alike = answer(grid_claims.CLAIMS, grid_samples(ECT_Last2=110.0))
    assert {a.claim.text: a.holds for a in alike}[ect]
    assert found["All policies perform alike, by response, wait and slowdown"]
    assert found["LB is slightly better than FPF"]


@pytest.mark.parametrize(
    ("auver", "das3", "holds"), [(0.2, 0.5, True), (0.4, 0.5, False), (0.1, 0.2, False)]
)
def test_jobs_are_distributed_similarly_on_one_grid_alone(
    auver: float, das3: float, holds: bool
) -> None:
    """Shares of the jobs that ECT-Last2 sends to other clusters than ECT-Perfect."""
    moved = {"auver": auver, "das3": das3}
    rows = [
        msgspec.structs.replace(
            row,
            share=(1 - moved[row.grid], moved[row.grid])
            if row.policy == "ECT-Last2"
            else (1.0, 0.0),
        )
        for row in grid_rows({})
    ]
    samples = GridSamples(NO_LOGS, rows, every=True)
    (claim,) = (c for c in grid_claims.CLAIMS if "distribute jobs over clusters" in c.text)
    assert answer([claim], samples)[0].holds is holds


def test_the_worst_by_far_is_worse_than_every_other_policy() -> None:
    (claim,) = (claim for claim in grid_claims.CLAIMS if "by far" in claim.text)
    for waits_s, holds in (
        ({}, True),
        ({"LB": 25.4, "FPF": 2.27, "ECT_Perfect": 28.0, "ECT_Last2": 94.7}, False),
        ({"LB": 1000.0}, False),
    ):
        assert answer([claim], grid_samples(**waits_s))[0].holds is holds


@pytest.mark.corpus
def test_users_of_a_real_log_repeat_themselves() -> None:
    setting = PartSetting(True, workloads_of(CORPUS, ()))
    kth = next(w for w in setting.workloads if w.title == "KTH-SP2")
    rows = {
        cell.classification: runtimes.run(setting, cell)
        for cell in runtimes.cells(setting)
        if cell.workload == kth.label and cell.method == "last2"
    }
    assert rows["site"].accuracy < 0.35 < 0.4 < rows["user"].accuracy
    assert rows["user-site"].accuracy == rows["user"].accuracy, "one site"
    assert rows["application"].predicted == 0, "its jobs have no application"
