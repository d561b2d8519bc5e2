"""The study of bags: what it simulates, answers and writes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from wfrun.engine.errors import InvalidError
from wfrun.parsers.generate.bots_model import ROWS
from wfrun.runners.cli.main import cli
from wfrun.runners.experiments.cells import SIZES, Cell, Row
from wfrun.runners.experiments.subjects.workloads import POLICIES
from wfrun.studies.bags import command as bags_command
from wfrun.studies.bags.claims import CLAIMS
from wfrun.studies.bags.compare import SELECTIONS
from wfrun.studies.bags.experiments import (
    FULL,
    QUICK,
    STAND_IN,
    BagSamples,
    BagsScale,
    cells,
    log_of,
)
from wfrun.studies.bags.page import bags_page
from wfrun.studies.common.claim import answer

TINY = BagsScale(
    tasks=80,
    seeds=1,
    loads=(0.4, 0.95),
    median_sizes=(10, 50),
    mean_runtimes_s=(180, 10800),
    inaccuracies=(100,),
    rows=("lcg",),
    cause_tasks=80,
)


def invented(cell: Cell) -> Row:
    """The thesis' world, as far as S-BoT, architectures and the replicating policies go."""
    nsl = 0.5 + (POLICIES.index(cell.policy) + SELECTIONS.index(cell.selection or "")) / 20
    if cell.selection == "s-bot":
        nsl = 0.3
    nsl *= {"csp": 1, "fcondor": 2, "sep-c": 4}[cell.architecture]
    return Row(
        **msgspec.structs.asdict(cell),
        makespan_s=1000 * nsl,
        nsl=nsl,
        completed_share={"csp": 0.95, "fcondor": 0.44, "sep-c": 0.53}[cell.architecture],
        completed_later_share={"csp": 1.0, "fcondor": 0.7, "sep-c": 0.6}[cell.architecture],
        class_bags=(20.0,) * len(SIZES),
        class_makespan_s=tuple(100.0 * n for n in range(len(SIZES))),
        class_nsl=tuple(1.0 / (n + 1) for n in range(len(SIZES))),
    )


def answers_of(scale: BagsScale, *, worse: str = "") -> dict[str, bool]:
    rows = [invented(cell) for cell in cells(scale, STAND_IN)]
    rows = [
        msgspec.structs.replace(row, nsl=100.0) if row.architecture == worse else row
        for row in rows
    ]
    samples = BagSamples(rows, scale, STAND_IN)
    return {a.claim.text: a.holds for a in answer(CLAIMS, samples)}


def test_the_full_study_is_as_large_as_that_of_the_thesis() -> None:
    full = cells(FULL, STAND_IN)
    assert len(full) > 1200
    assert len(set(full)) == len(full)
    assert {cell.tasks for cell in full} == {60_000}
    assert {cell.workload for cell in full} == set(ROWS)
    assert len(cells(QUICK, STAND_IN)) == 180


def test_every_claim_is_answered_from_what_is_simulated() -> None:
    for scale in (TINY, QUICK):
        found = answers_of(scale)
        assert len(found) == len(CLAIMS) == 37
        assert found["The centralized architecture csp is the best"]
        assert found["The independent clusters of sep-c are the worst"]
        assert found["At a load of 95% fcondor completes only 44% and sep-c only 53% of the tasks"]
        assert found[
            "For loads of 60% and more S-BoT is much better than each other selection policy"
        ]
        assert not found["Up to a load of 50% the selection policies are almost identical"]


def test_answers_follow_the_numbers() -> None:
    text = "The independent clusters of sep-c are the worst"
    assert not answers_of(TINY, worse="fcondor")[text]
    assert not answers_of(TINY, worse="csp")["The centralized architecture csp is the best"]


@pytest.mark.parametrize(("at_high_load", "holds"), [(3.0, True), (2.0, False), (1.5, False)])
def test_wqr_is_poor_especially_at_high_load(at_high_load: float, holds: bool) -> None:
    """Twice the other policies at a load of 40%; only worse at a high one is what the text says."""
    rows = []
    for cell in cells(TINY, STAND_IN):
        times = (
            (at_high_load if cell.load == TINY.loads[-1] else 2.0) if cell.policy == "wqr" else 1.0
        )
        row = msgspec.structs.replace(invented(cell), makespan_s=1000 * times, nsl=times)
        rows.append(row)
    (claim,) = (claim for claim in CLAIMS if claim.text.startswith("WQR4x"))
    assert answer([claim], BagSamples(rows, TINY, STAND_IN))[0].holds is holds


@pytest.mark.parametrize(("times", "holds"), [(1.6, True), (1.2, False)])
def test_s_bot_is_much_better(times: float, holds: bool) -> None:
    """A factor of 1.5 at least, against each other selection policy."""
    rows = [
        msgspec.structs.replace(
            invented(cell),
            nsl=1.0 if cell.selection == "s-bot" else times,
            makespan_s=1.0 if cell.selection == "s-bot" else 2.0,
        )
        for cell in cells(TINY, STAND_IN)
    ]
    (claim,) = (claim for claim in CLAIMS if "S-BoT is much better" in claim.text)
    assert answer([claim], BagSamples(rows, TINY, STAND_IN))[0].holds is holds


@pytest.mark.parametrize(("wqr", "holds"), [(1.9, True), (1.7, False)])
def test_makespans_grow_with_bags_by_the_numbers_of_the_thesis(wqr: float, holds: bool) -> None:
    growth = {"ect": 1.37, "fplt": 1.35, "wqr": wqr}
    rows = []
    for cell in cells(TINY, STAND_IN):
        larger = growth.get(cell.policy, 1.5) if cell.median_size == 50 else 1.0
        rows.append(msgspec.structs.replace(invented(cell), makespan_s=100 * larger))
    (claim,) = (claim for claim in CLAIMS if "increases least with ECT" in claim.text)
    assert answer([claim], BagSamples(rows, TINY, STAND_IN))[0].holds is holds


def test_the_page_has_every_experiment() -> None:
    rows = [invented(cell) for cell in cells(TINY, STAND_IN)]
    samples = BagSamples(rows, TINY, STAND_IN)
    page = bags_page(samples, answer(CLAIMS, samples), ["figure-5.1.png"])
    for number in range(1, 9):
        assert f"## Figure 5.{number}" in page
    assert "![Figure 5.1" in page
    assert "| NSL | average | lcg |" in page
    assert page.count("| s-u-grr |") == 2
    assert f"of {len(CLAIMS) - 3} claims hold" in page
    assert page.count("cannot fail: ") == 3


@pytest.mark.slow
def test_the_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bags_command, "QUICK", TINY)
    words = ["study", "bags", "--quick", "--output", str(tmp_path / "study"), "--jobs", "1"]
    first = CliRunner().invoke(cli, words)
    assert first.exit_code == 0, first.output
    assert "claims hold" in first.output
    assert "by one repetition, without confidence" in " ".join(first.output.split())
    kept = (tmp_path / "study" / "results.csv").read_text()
    page = (tmp_path / "study" / "page.md").read_text()
    assert (tmp_path / "study" / "figure-5.8.png").stat().st_size > 1000
    assert str(tmp_path) not in page
    # Few tasks do not show what the chapter says; a change of a policy or of the model shows here.
    failed = [line.split("|")[1] for line in page.splitlines() if "| **does not hold** |" in line]
    assert [int(number) for number in failed] == [
        1, 2, 4, 5, 7, 8, 9, 10, 11, 16, 17, 18, 21, 22, 23, 24, 27, 28, 29, 31, 33, 34, 37,
    ]  # fmt: skip
    second = CliRunner().invoke(cli, words)
    assert second.exit_code == 0, second.output
    assert (tmp_path / "study" / "results.csv").read_text() == kept
    assert (tmp_path / "study" / "page.md").read_text() == page


def test_a_corpus_without_a_log_is_refused(tmp_path: Path) -> None:
    assert log_of(None) is None
    with pytest.raises(InvalidError, match="no log of bags"):
        log_of(tmp_path)
    (tmp_path / "LPC-EGEE-2004-1.2-cln.swf").write_text("; nothing\n")
    found = log_of(tmp_path)
    assert found is not None
    assert found.name.startswith("LPC-EGEE-2004-1.2-cln.swf #")
