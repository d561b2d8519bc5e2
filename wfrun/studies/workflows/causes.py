"""Tests of causes of differences from thesis section 6.3. One thing is changed in the simulations,
and the claims are tested again.

Only the runs of the policies that a change concerns are simulated again, with the same seeds. All
other runs are taken from the study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from wfrun.studies.common.claim import Answer, verdict_on
from wfrun.studies.common.verdict import Verdict
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.claims import CLAIMS
from wfrun.studies.workflows.experiments import (
    MODEL,
    CaseSetup,
    WorkflowsCase,
    WorkflowsOutcome,
    run_case,
)
from wfrun.studies.workflows.samples import Samples
from wfrun.studies.workflows.separate import run_separately
from wfrun.studies.workflows.variants import (
    BalancedOverflow,
    CountedIdle,
    WholeLoads,
    registered,
)

REPETITIONS = 20
"""Default of the maximum number of repetitions that are simulated with a change."""


class WorkflowChange(NamedTuple):
    """One change to the simulations, tested as a possible cause of the differences between the
    study and the thesis in some claims."""

    title: str
    claims: tuple[int, ...]
    """Numbers of the claims that are tested again with the change."""
    concerns: Callable[[WorkflowsCase], bool]
    """Whether a case of the study is simulated again with the change."""
    policies: Mapping[str, str] = {}
    """Names of the variants that replace policies, by the name of the policy."""
    setup: CaseSetup = CaseSetup()
    run: Callable[[WorkflowsCase, Path | None, CaseSetup], WorkflowsOutcome] = run_case
    repetitions: int = REPETITIONS
    """Maximum number of repetitions that are simulated with the change."""


_BY_IDLE = (paper.FILE_AWARE, paper.COARSENING, paper.CLUSTER_MIN)
"""Policies that prefer clusters with idle processors."""


def _large(case: WorkflowsCase) -> bool:
    return case.experiment == "single" and case.workload in paper.LARGE


CHANGES: dict[str, WorkflowChange] = {
    "whole-loads": WorkflowChange(
        "All-Clusters compares loads in whole numbers",
        (2,),
        lambda case: case.policy == paper.ALL and case.workload in paper.SMALL and not case.loaded,
        {paper.ALL: WholeLoads.name},
    ),
    "balanced": WorkflowChange(
        "Cluster Minimization sends its overflow to the least loaded cluster",
        (19, 29, 39),
        lambda case: (
            case.policy == paper.CLUSTER_MIN and (case.experiment == "multi" or _large(case))
        ),
        {paper.CLUSTER_MIN: BalancedOverflow.name},
    ),
    "counted-idle": WorkflowChange(
        "processors behind a waiting job of another user count as idle",
        (24,),
        lambda case: (
            case.policy in _BY_IDLE
            and case.workload == "wf-large1"
            and case.loaded
            and case.throttle is None
        ),
        setup=CaseSetup(model=replace(MODEL, lrm=CountedIdle.name)),
    ),
    "brokers": WorkflowChange(
        "each workflow has a broker, which learns of the others' tasks after up to a second",
        (38,),
        lambda case: (
            case.experiment == "multi" and case.policy in (paper.FILE_AWARE, paper.CLUSTER_MIN)
        ),
        run=run_separately,
        repetitions=5,
    ),
}


class CauseCase(WorkflowsCase, frozen=True):
    """A case of the study with one thing changed."""

    change: str


class CauseOutcome(WorkflowsOutcome, frozen=True):
    """The metrics of a case that was simulated with a change."""

    change: str


def cause_cases(made: Sequence[WorkflowsCase]) -> list[CauseCase]:
    """The cases to simulate with each change. ``made`` are the cases of the study."""
    return [
        CauseCase(**msgspec.structs.asdict(case), change=name)
        for case in made
        for name, change in CHANGES.items()
        if case.repetition < change.repetitions and change.concerns(case)
    ]


def run_cause(case: CauseCase, corpus: Path | None) -> CauseOutcome:
    """Simulate a case with its change. If a variant replaces the policy of the case, the outcome
    has the name of the replaced policy."""
    change = CHANGES[case.change]
    fields = {f: getattr(case, f) for f in WorkflowsCase.__struct_fields__}
    changed = WorkflowsCase(**{**fields, "policy": change.policies.get(case.policy, case.policy)})
    with registered():
        outcome = msgspec.structs.asdict(change.run(changed, corpus, change.setup))
    return CauseOutcome(**{**outcome, "policy": case.policy}, change=case.change)


def with_change(rows: Sequence[WorkflowsOutcome], changed: Sequence[CauseOutcome]) -> Samples:
    """The samples of the study, in which runs with a change take the place of all runs of the same
    workload, policy and setting."""
    again = {_group(row) for row in changed}
    return Samples([*(row for row in rows if _group(row) not in again), *changed])


def _group(row: WorkflowsOutcome) -> tuple[object, ...]:
    return row.experiment, row.workload, row.policy, row.throttle, row.loaded, row.places


class Tested(NamedTuple):
    """A claim, tested with a change."""

    change: WorkflowChange
    before: Answer
    verdict: Verdict
    evidence: str


def tested(
    rows: Sequence[WorkflowsOutcome], changed: Sequence[CauseOutcome], found: Sequence[Answer]
) -> Iterator[Tested]:
    """Test the claims of each change again, and yield them. ``found`` are the answers of the
    study."""
    for name, change in CHANGES.items():
        samples = with_change(rows, [row for row in changed if row.change == name])
        for number in change.claims:
            statement, evidence = CLAIMS[number - 1].test(samples)
            yield Tested(change, found[number - 1], verdict_on(statement), evidence)


def holding(all_tested: Sequence[Tested]) -> set[int]:
    """Numbers of the claims that hold with some change, but not without one."""
    return {
        one.before.number
        for one in all_tested
        if one.verdict is Verdict.HOLDS and not one.before.holds
    }
