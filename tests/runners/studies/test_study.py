"""The study of workflows: what it simulates, keeps, answers and prints."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.places import CORPUS, ROOT
from wfrun.engine.errors import InvalidError
from wfrun.parsers.generate import generate
from wfrun.runners.cli.main import cli
from wfrun.runners.experiments.processes import run_missing
from wfrun.runners.experiments.tables.results import Results
from wfrun.sites.catalog import read_catalog
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import Verdict
from wfrun.studies.workflows import command, paper
from wfrun.studies.workflows.background import (
    HORIZON_S,
    UTILIZATION,
    WARM_UP_S,
    background,
    utilizations,
)
from wfrun.studies.workflows.causes import (
    CHANGES,
    CauseCase,
    CauseOutcome,
    cause_cases,
    run_cause,
    with_change,
)
from wfrun.studies.workflows.claims import CLAIMS, answers
from wfrun.studies.workflows.das3 import das3
from wfrun.studies.workflows.experiments import (
    FULL,
    QUICK,
    WorkflowsCase,
    WorkflowsOutcome,
    WorkflowsScale,
    cases,
    document_of,
    one_file_per_task,
    run_case,
    workflow_of,
)

CASE = WorkflowsCase(
    experiment="single",
    workload="wf-small1",
    family="cybershake",
    size=30,
    instances=1,
    policy=paper.SINGLE,
    throttle=None,
    loaded=False,
    places=1,
    repetition=0,
    origin="generated",
)


def altered(**changes: object) -> WorkflowsCase:
    return msgspec.structs.replace(CASE, **changes)


def invented(case: WorkflowsCase) -> WorkflowsOutcome:
    """An outcome that depends on the policy alone."""
    rank = float(paper.POLICIES.index(case.policy) + 1)
    return WorkflowsOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=100 * rank,
        nsl=rank,
        held_s=0.0,
        qwt_s=rank,
        ftd_s=rank,
        nft=rank,
        once_s=rank,
        main_share=1 / rank,
    )


def changed(case: CauseCase) -> CauseOutcome:
    """An outcome of a change that changes nothing."""
    fields = {f: getattr(case, f) for f in WorkflowsCase.__struct_fields__}
    return CauseOutcome(
        **msgspec.structs.asdict(invented(WorkflowsCase(**fields))), change=case.change
    )


def test_das3_in_code_is_that_of_the_example() -> None:
    ours, example = das3(), read_catalog(ROOT / "examples" / "das3.yaml")
    assert [s.name for s in ours.sites] == [s.name for s in example.sites]
    for site, other in zip(ours.sites, example.sites, strict=True):
        assert site.speed_ratio == pytest.approx(other.speed_ratio, abs=5e-4)
        assert other.slots in (2 * site.slots, 4 * site.slots)
    assert {(x.source, x.destination, x.bandwidth_bytes_per_s) for x in ours.links} == {
        (x.source, x.destination, x.bandwidth_bytes_per_s) for x in example.links
    }


@pytest.mark.slow
def test_background_load_is_what_it_says() -> None:
    sites = das3().sites
    span_s = WARM_UP_S + HORIZON_S
    work = dict.fromkeys(UTILIZATION, 0.0)
    repetitions = 60
    for seed in range(repetitions):
        for name, jobs in background(sites, seed).items():
            assert [j.submit_s for j in jobs] == sorted(j.submit_s for j in jobs)
            work[name] += sum(j.cores * j.runtime_s for j in jobs)
    total = 0.0
    for site in sites:
        share = work[site.name] / (repetitions * span_s * site.slots)
        assert share == pytest.approx(UTILIZATION[site.name], rel=0.1)
        total += share * site.slots
    assert total / sum(site.slots for site in sites) == pytest.approx(0.30, abs=0.02)
    assert background(sites, 3) == background(sites, 3)


def test_a_task_makes_one_file_and_what_it_passes_is_kept() -> None:
    workflow = generate("montage", 100, 0)
    merged = one_file_per_task(workflow)
    made = {f for task in workflow.tasks for f in task.outputs}
    assert sum(f.size_bytes or 0 for f in merged.files) == sum(
        workflow.files[f].size_bytes or 0 for f in made
    )
    producer = {f: i for i, task in enumerate(merged.tasks) for f in task.outputs}
    for task, parents in zip(merged.tasks, merged.parents, strict=True):
        assert len(task.outputs) <= 1
        assert {producer[f] for f in task.inputs} <= set(parents)
    assert merged.parents == workflow.parents


def test_cases_are_those_of_the_thesis() -> None:
    made = cases(WorkflowsScale(idle=1, loaded=1))
    assert len(set(made)) == len(made)
    small = [c for c in made if c.workload.startswith("wf-small")]
    assert not any(c.policy == paper.COARSENING for c in small)
    assert not any(c.policy == paper.HEFT_P and not c.loaded for c in made)
    assert {c.throttle for c in made if c.experiment == "multi"} == {None, 15, 50}
    assert not any(c.loaded for c in made if c.experiment == "multi")
    assert set(cases(QUICK)) < set(cases(FULL))


def test_one_cluster_moves_nothing_and_takes_the_critical_path() -> None:
    outcome = run_case(CASE, None)
    assert outcome.nft == outcome.ftd_s == outcome.qwt_s == 0
    assert outcome.nsl == pytest.approx(1.0)
    assert outcome.main_share == 1.0
    assert run_case(CASE, None) == outcome


def test_throttled_instances_wait_at_the_grid() -> None:
    case = altered(size=100, instances=5, policy=paper.FILE_AWARE, throttle=15)
    assert run_case(case, None).held_s > 0
    assert run_case(msgspec.structs.replace(case, throttle=None), None).held_s == 0


def test_background_load_makes_round_robin_wait() -> None:
    waits = [
        run_case(altered(policy=paper.ROUND_ROBIN, loaded=True, repetition=r), None).qwt_s
        for r in range(6)
    ]
    assert max(waits) > 10


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    wanted = [altered(repetition=r, throttle=r or None) for r in range(3)]
    simulate = partial(run_case, corpus=None)
    outcomes = Results(path, WorkflowsCase, WorkflowsOutcome)
    run_missing(wanted[:2], outcomes, simulate, 1)
    outcomes.close()
    text = path.read_text()
    path.write_text(text + text.splitlines()[1][:20])  # cut off while it was written
    outcomes = Results(path, WorkflowsCase, WorkflowsOutcome)
    assert outcomes.torn
    assert outcomes.missing(wanted) == wanted[2:]
    run_missing(wanted, outcomes, simulate, 2)
    outcomes.close()
    again = Results(path, WorkflowsCase, WorkflowsOutcome)
    assert not again.missing(wanted)
    assert again.of(wanted) == [run_case(case, None) for case in wanted]
    again.close()


def test_results_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("policy,makespan_s\nheft,12\n")
    result = CliRunner().invoke(cli, ["study", "workflows", "-q", "-o", str(tmp_path)])
    assert isinstance(result.exception, InvalidError)
    assert "results.csv: not a file of results" in str(result.exception)


def test_every_claim_is_answered_from_the_samples() -> None:
    found = answers([invented(c) for c in cases(WorkflowsScale(idle=2, loaded=2))])
    assert [a.number for a in found] == list(range(1, len(CLAIMS) + 1))
    assert all(a.evidence and a.verdict is not Verdict.UNCLEAR for a in found)
    by_text = {a.claim.text: a.holds for a in found}
    # invented makespans grow from Round Robin to HEFT-P
    assert by_text["wf-large2: HEFT is the best"] is False
    assert by_text["HEFT is worse when completion times are predicted (HEFT-P)"] is True
    assert by_text["The order of the policies differs between the two workloads"] is False


@pytest.mark.slow
def test_verdicts_are_those_of_the_simulations() -> None:
    """The first repetition of the quick study, whose values decide: a change of a policy, of the
    generators or of the model that changes a verdict shows here."""
    rows = [run_case(case, None) for case in cases(WorkflowsScale(idle=1, loaded=1))]
    failed = {a.number for a in answers(rows) if a.verdict is Verdict.FAILS}
    assert failed == {2, 12, 13, 19, 20, 24, 29, 31, 33, 34, 38, 39}


def test_a_change_replaces_the_runs_of_its_policies_alone() -> None:
    made = [c for c in cases(WorkflowsScale(idle=1, loaded=1)) if c.workload == "wf-small1"]
    case = next(c for c in cause_cases(made) if c.change == "whole-loads" and c.size == 30)
    rows = [invented(c) for c in made]
    again = run_cause(case, None)
    assert (again.policy, again.change) == (case.policy, case.change)
    assert again.main_share == 1.0  # loads below one are equal: the first cluster gets all tasks
    spread = run_case(
        WorkflowsCase(**{f: getattr(case, f) for f in WorkflowsCase.__struct_fields__}), None
    )
    assert spread.main_share < 0.5
    samples = with_change(rows, [again])
    assert samples.single(case.workload, case.policy, "main_share", loaded=False).mean == 1.0
    other = samples.single(case.workload, paper.HEFT, "nsl", loaded=False).mean
    assert other == paper.POLICIES.index(paper.HEFT) + 1
    assert all(change.claims for change in CHANGES.values())


def test_brokers_that_do_not_see_each_other_begin_in_the_same_cluster() -> None:
    case = altered(
        experiment="multi", size=100, instances=5, policy=paper.CLUSTER_MIN, workload="5 x CS-100"
    )
    again = next(c for c in cause_cases([case]) if c.change == "brokers")
    separate, together = run_cause(again, None), run_case(case, None)
    assert separate.nft > together.nft
    assert separate.makespan_s > together.makespan_s


def test_one_run_in_a_full_queue_leaves_a_claim_open() -> None:
    rows = [invented(c) for c in cases(WorkflowsScale(idle=5, loaded=5))]
    replace = msgspec.structs.replace
    rows = [
        replace(r, makespan_s=1e6)
        if r.loaded and r.policy == paper.HEFT and r.repetition == 4
        else replace(r, makespan_s=1.0)
        if r.policy == paper.HEFT
        else r
        for r in rows
    ]
    answer = next(a for a in answers(rows) if a.claim.text == "HEFT outperforms all other policies")
    assert answer.verdict is Verdict.UNCLEAR


@pytest.mark.slow
def test_the_command_writes_page_figures_and_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = WorkflowsScale(idle=1, loaded=1)
    monkeypatch.setattr(command, "QUICK", tiny)
    (tmp_path / "s").mkdir()
    outcomes = Results(tmp_path / "s" / "results.csv", WorkflowsCase, WorkflowsOutcome)
    for case in cases(tiny):
        outcomes.add(invented(case))
    outcomes.close()
    causes = Results(tmp_path / "s" / "causes.csv", CauseCase, CauseOutcome)
    for case in cause_cases(cases(tiny)):
        causes.add(changed(case))
    causes.close()
    result = CliRunner().invoke(
        cli, ["study", "workflows", "--quick", "-q", "-o", str(tmp_path / "s")]
    )
    assert result.exit_code == 0, result.output
    assert f"of {len(CLAIMS) - 2} claims hold" in result.output
    assert "2 that cannot fail are not counted" in " ".join(result.output.split())
    page = (tmp_path / "s" / "page.md").read_text()
    for heading in ("Table 6.2", "Figure 6.2", "Figure 6.3", "Table 6.3", "Figure 6.4",
                    "Figure 6.5", "Table 6.4", "Figure 6.6", "Table 6.5",
                    "Claims against the waits", "Causes, tested",
                    "Where the thesis contradicts itself", "What differs, and why"):  # fmt: skip
        assert heading in page
    assert page.count("cannot fail: ") == 2
    assert all(
        (tmp_path / "s" / f"figure-6.{n}.png").stat().st_size > 10_000 for n in (2, 3, 4, 5, 6)
    )


def test_mistakes_are_told(tmp_path: Path) -> None:
    unknown = CliRunner().invoke(cli, ["study", "nothing"])
    assert unknown.exit_code == 2
    assert "workflows" in unknown.output
    empty = tmp_path / "empty"
    empty.mkdir()
    result = CliRunner().invoke(cli, ["study", "workflows", "--corpus", str(empty)])
    assert isinstance(result.exception, InvalidError)
    assert "CyberShake_30.xml" in str(result.exception)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (-0.001, "0"), (1.234, "1.23"),
                                             (12.34, "12.3"), (1234.5, "1,234")])  # fmt: skip
def test_numbers_have_as_many_digits_as_help(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.corpus
def test_output_sizes_of_the_published_workflows_are_those_of_table_6_2() -> None:
    for workload in ("wf-small1", "wf-large1"):
        sizes = []
        for family, size in paper.WORKLOADS[workload]:
            workflow = workflow_of(family, size, 0, document_of(CORPUS, family, size))
            sizes.append(sum(f.size_bytes or 0 for f in workflow.files) / 1e6)
        assert round(sum(sizes) / len(sizes)) == paper.CHARACTERISTICS[workload][1]


def test_utilizations_are_of_the_processors_of_each_cluster() -> None:
    found = utilizations(3)
    sites = das3().sites
    for repetition in range(3):
        work = sum(found[site.name][repetition] * site.slots for site in sites)
        assert found["all"][repetition] == pytest.approx(work / sum(s.slots for s in sites))
    delft = sum(j.cores * j.runtime_s for j in background(sites, 1)["delft"])
    assert found["delft"][1] == pytest.approx(delft / (WARM_UP_S + HORIZON_S) / 68)
