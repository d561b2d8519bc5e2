"""``wfrun study coallocation``: its applications, workloads and a small study."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from click.testing import CliRunner

from wfrun.runners.cli.main import cli
from wfrun.studies.coallocation import command, experiments, paper
from wfrun.studies.coallocation.claims import CLAIMS
from wfrun.studies.coallocation.differences import CAUSES
from wfrun.studies.coallocation.experiments import (
    BASE,
    FCM,
    FULL,
    LIMIT,
    MPI,
    PLOTS,
    REAL,
    SYNTHETIC,
    VARIANTS,
    WAVES,
    WF,
    WITH,
    WITHOUT,
    CoallocationCell,
    CoallocationRow,
    CoallocationScale,
    cell_of,
    cells,
    linear,
    run_cell,
)
from wfrun.studies.coallocation.samples import CoallocationReading, CoallocationSamples
from wfrun.studies.coallocation.workloads import (
    FOUR,
    WAVE,
    WITHOUT_DELFT,
    WITHOUT_LEIDEN,
    Slowdown,
    arrivals,
    factors,
    links_of,
    mean_rate,
)

TINY = CoallocationScale(2, 1, ("no job overtakes another",))


def cell(experiment: str, policy: str, utilization: int, variant: str = BASE) -> CoallocationCell:
    return CoallocationCell(
        experiment=experiment, workload=WAVES, policy=policy, utilization=utilization, seed=0,
        variant=variant,
    )  # fmt: skip


def test_wave_has_the_run_times_of_the_text() -> None:
    assert pytest.approx(4.44, abs=0.005) == FOUR
    known = factors(WITHOUT_DELFT, linear(2), linear(3), "number")
    assert WAVE.run_time_s(known[frozenset({1})]) == 200
    assert WAVE.run_time_s(known[frozenset(range(4))]) == pytest.approx(750)


@pytest.mark.parametrize("slowdown", ["number", "slowest"])
def test_factors_by_links_have_the_means_of_figure_2_4(slowdown: Slowdown) -> None:
    known = factors(WITHOUT_DELFT, 2.0, 3.0, slowdown)
    for count, expected in ((2, 2.0), (3, 3.0), (4, FOUR)):
        values = [known[frozenset(chosen)] for chosen in combinations(range(4), count)]
        assert fmean(values) == pytest.approx(expected)


@pytest.mark.parametrize("slowdown", ["slowest", "slowest alone"])
def test_delft_slows_down_and_amsterdam_with_multimedian_does_not(slowdown: Slowdown) -> None:
    known = factors(WITHOUT_LEIDEN, 2.0, 3.0, slowdown)
    place = {name: number for number, name in enumerate(WITHOUT_LEIDEN)}

    def pair(one: str, other: str) -> float:
        return known[frozenset((place[one], place[other]))]

    assert pair("Amsterdam", "MultimediaN") == 1.0
    assert pair("Vrije", "Delft") > 1.5 * pair("Vrije", "Amsterdam")
    assert known[frozenset({place["Delft"]})] == 1.0


def test_clusters_by_latency() -> None:
    links = links_of(WITHOUT_DELFT)
    assert [WITHOUT_DELFT[n] for n in links.by_mean] == [
        "Amsterdam", "MultimediaN", "Vrije", "Leiden",
    ]  # fmt: skip
    assert links_of(WITHOUT_LEIDEN).by_own[-1] == WITHOUT_LEIDEN.index("Delft")


def test_arrivals_use_the_net_utilization() -> None:
    rate = mean_rate((8, 16, 32), 204, 0.5, 200.0)
    found = arrivals((8, 16, 32), rate, 40 * 86400.0, Random(1))
    used = sum(size * 200.0 for _, size in found) / (204 * 40 * 86400.0)
    assert used == pytest.approx(0.5, rel=0.02)
    twice = arrivals((8, 16, 32), 2 * rate, 86400.0, Random(1))
    assert [size for _, size in twice[:500]] == [size for _, size in found[:500]]
    assert [at_s for at_s, _ in twice[:500]] == [at_s / 2 for at_s, _ in found[:500]]


def test_the_experiments_of_the_thesis() -> None:
    assert sum(paper.NODES[name] for name in PLOTS[MPI].clusters) == 204
    assert sum(paper.NODES[name] for name in PLOTS[WITH].clusters) == 240
    assert [u for u in PLOTS[MPI].utilizations if u <= 90] == list(range(10, 91, 5))
    assert PLOTS[SYNTHETIC].utilizations == tuple(range(10, 91, 5))
    assert len(PLOTS[WITHOUT].utilizations) == 13
    assert (WAVES, LIMIT) in PLOTS[MPI].runs
    known = cells(FULL)
    assert len(known) == len(set(known))
    assert {each.variant for each in known} == {BASE, *VARIANTS}
    assert FULL.seeds >= 10


def test_runs_that_are_equal_are_one_run() -> None:
    single = cell_of(MPI, WAVES, WF, 50, 0, "f(2) = 1.3, f(3) = 2.3")
    assert single == cell_of(MPI, "prime", WF, 50, 0, BASE)
    assert cell_of(MPI, WAVES, FCM, 50, 0, "load of others 30%").variant == BASE
    assert cell_of(REAL, WAVES, FCM, 40, 0, "load of others 30%").variant != BASE
    both = "no overtaking, f(2) = 1.3, f(3) = 2.3"
    assert cell_of(MPI, "prime", FCM, 50, 0, both).variant == "no job overtakes another"


def test_without_coallocation_each_job_is_on_one_cluster() -> None:
    row = run_cell(cell(MPI, WF, 60))
    assert row.coallocated == 0
    assert row.run_s == pytest.approx(200)
    assert row.response_s == pytest.approx(row.wait_s + row.run_s)
    assert row.used == pytest.approx(0.6, abs=0.03)


def test_a_limit_of_two_clusters_has_fewer_and_shorter_runs() -> None:
    free, limited = (run_cell(cell(MPI, policy, 70)) for policy in (FCM, LIMIT))
    assert 200 < limited.run_s < free.run_s
    assert free.used > limited.used > 0.7


@pytest.mark.slow
def test_without_overtaking_single_clusters_saturate_earlier() -> None:
    """The cause of the saturation of Table 2.3."""
    before, after = (
        run_cell(cell(MPI, WF, 80, variant)) for variant in (BASE, "no job overtakes another")
    )
    assert after.wait_s > 5 * before.wait_s


def test_jobs_of_others_are_no_part_of_the_measures() -> None:
    idle, loaded = (run_cell(cell(REAL, WF, 40, v)) for v in (
        "load of others 10%", "load of others 30%"))  # fmt: skip
    assert idle.run_s == pytest.approx(loaded.run_s) == pytest.approx(200)
    assert idle.wait_s < loaded.wait_s


def row_of(utilization: int, seed: int, waits_s: tuple[float, ...]) -> CoallocationRow:
    return CoallocationRow(
        experiment=MPI, workload=WAVES, policy=FCM, utilization=utilization, seed=seed,
        response_s=0.0, ended_response_s=0.0, wait_s=0.0, run_s=0.0, coallocated=0.0, used=0.0,
        quarter_waits_s=waits_s,
    )  # fmt: skip


def test_saturation_is_growth_of_waits() -> None:
    grows, falls, short = (0.0, 90.0, 150.0, 250.0), (90.0, 90.0, 10.0, 240.0), (0.0, 1.0, 2.0, 3.0)
    rows = [
        row_of(u, seed, grows if u >= first else falls if seed else short)
        for u in PLOTS[MPI].utilizations
        for seed, first in ((0, 70), (1, 80), (2, 80))
    ]
    samples = CoallocationSamples(rows)
    assert samples.onset(MPI, WAVES, FCM).values == {0: 70, 1: 80, 2: 80}
    assert samples.majority(MPI, WAVES, FCM) == (75, 80)
    assert samples.read(CoallocationReading(run_times=0.5)).majority(MPI, WAVES, FCM) == (0, 10)
    assert samples.read(CoallocationReading(run_times=1.1)).majority(MPI, WAVES, FCM) == (100, None)
    assert samples.read(CoallocationReading(quarterly=True)).majority(MPI, WAVES, FCM) == (75, 80)


def test_causes_are_of_claims_that_exist() -> None:
    assert set(CAUSES) <= set(range(1, len(CLAIMS) + 1))
    assert not any(CLAIMS[number - 1].always for number in CAUSES)


@pytest.mark.slow
def test_the_study_is_continued_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {
        name: experiments.Plot(
            plot.clusters, plot.sizes, plot.utilizations, plot.varied, plot.runs, plot.slowdown,
            1.0, plot.loaded,
        )
        for name, plot in PLOTS.items()
    }  # fmt: skip
    for name, plot in short.items():
        monkeypatch.setitem(PLOTS, name, plot)
    monkeypatch.setattr(command, "QUICK", TINY)
    words = ["study", "coallocation", "--quick", "--jobs", "1", "--output", str(tmp_path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    counted = sum(not claim.always for claim in CLAIMS)
    assert f"of {counted} claims hold" in result.output
    page = (tmp_path / "page.md").read_text()
    assert "This is a quick study" in page
    assert "| no job overtakes another |" in page
    results = (tmp_path / "results.csv").read_text()
    again = CliRunner().invoke(cli, words)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "results.csv").read_text() == results
