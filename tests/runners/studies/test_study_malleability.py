"""``wfrun study malleability``: its programs, workloads and a small study."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from wfrun.runners.cli.main import cli
from wfrun.studies.malleability import command
from wfrun.studies.malleability.claims import CLAIMS
from wfrun.studies.malleability.experiments import (
    EGS,
    FPSMA,
    FULL,
    PRA,
    PWA,
    VARIANTS,
    MalleabilityCell,
    MalleabilityScale,
    cells,
    costly_name,
    run_cell,
)
from wfrun.studies.malleability.workloads import (
    FT,
    GADGET,
    HALF_RIGID,
    MIXES,
    MalleableProgram,
    make_load,
    run_times,
    sites_of,
)

TINY = MalleabilityScale(2, 1, ("one cluster of 24",))


@pytest.mark.parametrize("program", [GADGET, FT])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_run_times_are_those_of_figure_3_3(program: MalleableProgram, share: float) -> None:
    time_s = run_times(program, program.most * share)
    assert time_s(2) == pytest.approx(program.two_s)
    best = min(range(2, program.most + 1), key=time_s)
    assert time_s(best) == pytest.approx(program.best_s, rel=0.001)
    assert best == pytest.approx(program.most * share, abs=1)


def test_workloads_are_those_of_section_3_3_2() -> None:
    load = make_load(HALF_RIGID, 120.0, 0.5, 0)
    assert len(load.jobs) == 300
    assert load.jobs[1].arrival_s - load.jobs[0].arrival_s == 120
    rigid = [job.bounds for job in load.jobs if job.bounds.least == job.bounds.most]
    assert set(rigid) == {(2, 2)}
    assert 100 < len(rigid) < 200
    assert {job.bounds.most for job in load.jobs} == {2, 32, 46}
    assert 100 < sum(load.gadget) < 200
    assert sum(load.malleable) == 300 - len(rigid)
    same = make_load(HALF_RIGID, 30.0, 0.5, 0)
    assert (same.gadget, same.malleable) == (load.gadget, load.malleable)


@pytest.mark.parametrize("processors", [20, 24, 64, 272])
def test_processors_are_shared_by_the_sizes_of_the_clusters(processors: int) -> None:
    sizes = sites_of(processors)
    assert sum(sizes) == processors
    assert sizes[0] == max(sizes)
    assert min(sizes) >= 2
    assert processors != 272 or sizes == [85, 41, 68, 46, 32]


def test_both_policies_are_one_where_a_cluster_runs_one_malleable_job() -> None:
    """The cause of claim 2, and that they differ in one cluster."""

    def run(policy: str, variant: str) -> dict[str, object]:
        cell = MalleabilityCell(experiment=PRA, policy=policy, mix="m", seed=0, variant=variant)
        return {k: v for k, v in msgspec.structs.asdict(run_cell(cell)).items() if k != "policy"}

    assert run(FPSMA, "base") == run(EGS, "base")
    assert run(FPSMA, "one cluster of 24") != run(EGS, "one cluster of 24")


def test_fpsma_outperforms_egs_where_jobs_share_a_cluster_and_changes_cost() -> None:
    """The cause of claim 2: each pass of EGS changes the sizes of all jobs."""
    for variant, faster in (("one cluster of 48", EGS), (costly_name(96, 60.0), FPSMA)):
        rows = {
            policy: run_cell(
                MalleabilityCell(experiment=PRA, policy=policy, mix="m", seed=0, variant=variant)
            )
            for policy in (FPSMA, EGS)
        }
        assert min(rows, key=lambda policy: rows[policy].response_s) == faster
        assert rows[EGS].grows > rows[FPSMA].grows


def test_precedence_to_running_jobs_never_shrinks() -> None:
    for experiment, shrinks in ((PRA, False), (PWA, True)):
        cell = MalleabilityCell(experiment=experiment, policy=EGS, mix="m", seed=0)
        assert (run_cell(cell).shrinks > 0) is shrinks


def test_the_experiments_of_the_thesis() -> None:
    known = cells(FULL)
    base = [cell for cell in known if cell.variant == "base"]
    assert len(base) == FULL.seeds * 3 * 2 * len(MIXES)
    assert {cell.variant for cell in known} == {"base", *VARIANTS}


@pytest.mark.slow
def test_the_study_is_continued_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    words = ["study", "malleability", "--quick", "--jobs", "1", "--output", str(tmp_path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert f"of {len(CLAIMS)} claims hold" in result.output
    page = (tmp_path / "page.md").read_text()
    assert "This is a quick study" in page
    assert "| one cluster of 24 |" in page
    results = (tmp_path / "results.csv").read_text()
    again = CliRunner().invoke(cli, words)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "results.csv").read_text() == results
