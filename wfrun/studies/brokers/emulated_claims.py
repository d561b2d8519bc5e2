"""The claims of thesis section 6.4 that the emulation tests, by paired differences over
repetitions.

CyberShake-50 on 40 processors takes the place of CyberShake-1000 on the DAS-3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.claims import CLAIMS
from wfrun.studies.brokers.emulated import LIMITS, THROTTLED, EmulatedOutcome
from wfrun.studies.common.claim import (
    IDENTICAL,
    MUCH,
    SIMILAR,
    Answer,
    Claims,
    Finding,
    answer,
    listed,
    without,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    Sample,
    all_less,
    all_more,
    all_of,
    combine,
    less,
    similar,
)
from wfrun.studies.workflows.paper import ALL, CLUSTER_MIN, SINGLE


class EmulatedSamples:
    """The measures of the emulation. Each ``measure`` is a field of EmulatedOutcome, or one of its
    properties."""

    def __init__(self, rows: Sequence[EmulatedOutcome]) -> None:
        self._groups: dict[tuple[int, str, int | None], list[EmulatedOutcome]] = {}
        for row in rows:
            key = (row.instances, row.policy, row.throttle)
            self._groups.setdefault(key, []).append(row)

    @property
    def points(self) -> list[tuple[int, str, int | None]]:
        """Number of workflows, policy and limit of all points, in the order of their first runs."""
        return list(self._groups)

    def sample(self, instances: int, policy: str, limit: int | None, measure: str) -> Sample:
        """The measure of one point in each repetition."""
        rows = self._groups[instances, policy, limit]
        return Sample({row.repetition: float(getattr(row, measure)) for row in rows})

    def policies(self, instances: int, measure: str) -> dict[str, Sample]:
        """One or five workflows without a limit, by policy."""
        return {p: self.sample(instances, p, None, measure) for p in paper.POLICIES}

    def limits(self, measure: str, *limits: int) -> dict[str, Sample]:
        """Five workflows with THROTTLED, by limit: each of ``limits``, and none."""
        return {
            **{str(n): self.sample(paper.INSTANCES, THROTTLED, n, measure) for n in limits},
            "none": self.sample(paper.INSTANCES, THROTTLED, None, measure),
        }

    @property
    def complete(self) -> bool:
        """Whether all points that the claims need were measured. A quick study lacks some."""
        wanted = [(n, p, None) for n in (1, paper.INSTANCES) for p in paper.POLICIES]
        limited = [(paper.INSTANCES, THROTTLED, limit) for limit in LIMITS]
        return all(point in self._groups for point in (*wanted, *limited))


EMULATED_CLAIMS = Claims[EmulatedSamples]()


def emulated_answers(samples: EmulatedSamples) -> list[Answer]:
    """Test every claim. The numbers continue those of the simulations' claims."""
    found = answer(EMULATED_CLAIMS, samples)
    return [one._replace(number=len(CLAIMS) + one.number) for one in found]


@EMULATED_CLAIMS.add("6.4.1", "one workflow: Cluster Minimization is much better than the other "
                     "policies")  # fmt: skip
def _one_cluster_minimization(s: EmulatedSamples) -> Finding:
    """*Significantly outperforming the Single Cluster and All-Clusters policies*."""
    values = s.policies(1, "makespan_s")
    rest = without(values, CLUSTER_MIN)
    statement = all_of(less(values[CLUSTER_MIN], v, times=1 / MUCH) for v in rest.values())
    return statement, listed(values)


@EMULATED_CLAIMS.add("6.4.1", "one workflow: tasks wait longest in queues with Single Cluster")
def _one_tasks_wait(s: EmulatedSamples) -> Finding:
    values = s.policies(1, "qwt_s")
    return all_more(values, [SINGLE]), listed(values)


@EMULATED_CLAIMS.add("6.4.3", "one workflow: Cluster Minimization has a smaller makespan than "
                     "All-Clusters")  # fmt: skip
def _one_less_communication(s: EmulatedSamples) -> Finding:
    values = s.policies(1, "makespan_s")
    return less(values[CLUSTER_MIN], values[ALL]), listed(without(values, SINGLE))


@EMULATED_CLAIMS.add("6.4.2, policies", "five workflows: Single Cluster is the best")
def _five_single(s: EmulatedSamples) -> Finding:
    values = s.policies(paper.INSTANCES, "makespan_s")
    return all_less(values, [SINGLE]), listed(values)


@EMULATED_CLAIMS.add("6.4.2, policies", "five workflows: All-Clusters is the worst")
def _five_all(s: EmulatedSamples) -> Finding:
    values = s.policies(paper.INSTANCES, "makespan_s")
    return all_more(values, [ALL]), listed(values)


@EMULATED_CLAIMS.add("6.4.2, policies", "five workflows: All-Clusters causes the most transfers "
                     "between clusters")  # fmt: skip
def _five_transfers(s: EmulatedSamples) -> Finding:
    values = s.policies(paper.INSTANCES, "nft")
    return all_more(values, [ALL]), listed(values)


@EMULATED_CLAIMS.add("6.4.2, policies", "five workflows: the median queue wait of Single Cluster "
                     "is roughly twice that of Cluster Minimization")  # fmt: skip
def _five_median_single(s: EmulatedSamples) -> Finding:
    return _twice(s, SINGLE, CLUSTER_MIN)


@EMULATED_CLAIMS.add("6.4.2, policies", "five workflows: the median queue wait of All-Clusters is "
                     "roughly twice that of Single Cluster")  # fmt: skip
def _five_median_all(s: EmulatedSamples) -> Finding:
    return _twice(s, ALL, SINGLE)


def _twice(s: EmulatedSamples, longer: str, shorter: str) -> Finding:
    """Means of medians are compared: five repetitions are too few for a sign test."""
    values = s.policies(paper.INSTANCES, "median_qwt_s")
    claimed = combine(lambda wait_s: 2 * wait_s, values[shorter])
    return similar((values[longer], claimed), SIMILAR), listed(values)


@EMULATED_CLAIMS.add("6.4.2, 6.6", "five workflows: the head node is overloaded (a load of more "
                     "than 100%)", main=True)  # fmt: skip
def _overloaded(s: EmulatedSamples) -> Finding:
    values = s.policies(paper.INSTANCES, "load")
    statement = all_of(less(1.0, load) for load in values.values())
    return statement, "%, three head nodes together: " + _percents(values)


_LIMIT = "6.4.2, throttling"


@EMULATED_CLAIMS.add(_LIMIT, "the total makespan with a limit of 150 is smaller than with a limit "
                     "of 25")  # fmt: skip
def _limit_150_shorter(s: EmulatedSamples) -> Finding:
    values = s.limits("makespan_s", *LIMITS)
    return less(values["150"], values["25"]), listed(values)


@EMULATED_CLAIMS.add(_LIMIT, "the total makespan with a limit of 150 is similar to that without a "
                     "limit", main=True)  # fmt: skip
def _limit_150_similar(s: EmulatedSamples) -> Finding:
    values = s.limits("makespan_s", 150)
    return similar(values.values(), SIMILAR), listed(values)


@EMULATED_CLAIMS.add(_LIMIT, "a limit of 25 makes the total makespan noticeably longer")
def _limit_25_longer(s: EmulatedSamples) -> Finding:
    values = s.limits("makespan_s", 25)
    return less(values["none"], values["25"], times=1 / IDENTICAL), listed(values)


@EMULATED_CLAIMS.add(_LIMIT, "a limit of 150 divides the load of the head node by 2 (1.6 to 2.5)",
                     main=True)  # fmt: skip
def _limit_150_halves(s: EmulatedSamples) -> Finding:
    return _divides(s, 150)


@EMULATED_CLAIMS.add(_LIMIT, "a limit of 25 divides the load of the head node by 4 (3.2 to 5)",
                     main=True)  # fmt: skip
def _limit_25_quarters(s: EmulatedSamples) -> Finding:
    return _divides(s, 25)


def _divides(s: EmulatedSamples, limit: int) -> Finding:
    values = s.limits("load", limit)
    claimed = combine(lambda load: paper.LOAD_FACTORS[limit] * load, values[str(limit)])
    times = number(values["none"].mean / values[str(limit)].mean)
    statement = similar((claimed, values["none"]), SIMILAR)
    return statement, f"%: {_percents(values)}, divided by {times}"


def _percents(loads: Mapping[str, Sample]) -> str:
    return listed({name: 100 * load.mean for name, load in loads.items()})
