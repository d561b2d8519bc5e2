"""Claims of thesis section 6.3 that contradict the waits in its own tables.

A makespan consists of run times and waits. Each of these claims states that one policy is better
than another, but in Table 6.3 or 6.5 the tasks of the better policy wait longer. The page shows our
waits and makespans beside those of the thesis. Mean waits alone do not decide makespans. Therefore
a claim is listed only if the policy whose tasks wait longer is also the slower one in our
simulations. (Not listed, for example, is claim 24 on wf-large1 with background load: tasks wait
longer under Coarsening than under File-Aware, but the makespan is shorter.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import Sample
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.claims_rest import variant_name
from wfrun.studies.workflows.paper import ALL, COARSENING, FILE_AWARE, HEFT, SINGLE
from wfrun.studies.workflows.samples import Samples

WAITS = ("held_s", "qwt_s", "ftd_s")


class Single(NamedTuple):
    """An entry of Table 6.3: a policy with single workflows."""

    workload: str
    loaded: bool
    policy: str

    @property
    def where(self) -> str:
        return self.workload + ("+BG" if self.loaded else "")

    @property
    def thesis(self) -> paper.WaitEntry:
        return paper.TABLE_6_3[self.workload, self.loaded][self.policy]

    def sample(self, samples: Samples, measure: str) -> Sample:
        return samples.single(self.workload, self.policy, measure, loaded=self.loaded)


class Multi(NamedTuple):
    """An entry of Table 6.5: a policy with several workflows."""

    size: int
    instances: int
    variant: int

    @property
    def where(self) -> str:
        return f"{self.instances} x CS-{self.size}"

    @property
    def policy(self) -> str:
        return variant_name(self.variant)

    @property
    def thesis(self) -> paper.WaitEntry:
        return paper.TABLE_6_5[self.size, self.instances][self.variant]

    def sample(self, samples: Samples, measure: str) -> Sample:
        return samples.multi(self.size, self.instances, self.variant, measure)


class PolicyPair(NamedTuple):
    """A claim that one policy is better than another, although in the thesis's table tasks wait
    less under the other."""

    claim: int
    better: Single | Multi
    worse: Single | Multi


def _single(claim: int, workload: str, loaded: bool, better: str, worse: str) -> PolicyPair:
    return PolicyPair(claim, Single(workload, loaded, better), Single(workload, loaded, worse))


def _multi(claim: int, size: int, instances: int, better: int, worse: int) -> PolicyPair:
    return PolicyPair(claim, Multi(size, instances, better), Multi(size, instances, worse))


_FREE, _THROTTLED, _MIN, _MIN_THROTTLED, _HEFT = 1, 2, 3, 4, 5
"""Indices of paper.MULTI_VARIANTS."""

PAIRS = (
    _single(12, "wf-large1", False, SINGLE, ALL),
    _single(13, "wf-large1", False, SINGLE, HEFT),
    _single(13, "wf-large1", False, COARSENING, FILE_AWARE),
    _multi(33, 100, 5, _THROTTLED, _FREE),
    _multi(34, 1000, 5, _THROTTLED, _HEFT),
    _multi(34, 1000, 5, _MIN_THROTTLED, _HEFT),
    _multi(39, 100, 5, _THROTTLED, _FREE),
    _multi(39, 100, 5, _MIN_THROTTLED, _MIN),
)

CLAIMS_AGAINST_WAITS = frozenset(pair.claim for pair in PAIRS)
"""Numbers of the claims in `PAIRS`."""


def thesis_wait_s(one: Single | Multi) -> float:
    """Mean wait of a task in the thesis in seconds: at the level of the grid, in queues and for
    files."""
    return sum(float(getattr(one.thesis, measure)) for measure in WAITS)


def our_wait_s(samples: Samples, one: Single | Multi) -> float:
    """Mean wait of a task in our simulations in seconds, with the parts of `thesis_wait_s`."""
    return sum(one.sample(samples, measure).mean for measure in WAITS)


def rows(samples: Samples) -> Iterator[tuple[str, ...]]:
    """Yield a row of the page's table for each pair: claim, workload, policies, waits in the thesis
    and here, and makespans here."""
    for claim, better, worse in PAIRS:
        two = (better, worse)
        yield (
            str(claim),
            better.where,
            f"{better.policy}, {worse.policy}",
            ", ".join(number(thesis_wait_s(one)) for one in two),
            ", ".join(number(our_wait_s(samples, one)) for one in two),
            ", ".join(number(one.sample(samples, "makespan_s").mean) for one in two),
        )
