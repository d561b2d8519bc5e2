"""The runs of an experiment: the fields that identify a run, and its measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal, NamedTuple

import msgspec

SIZES: tuple[tuple[int, str], ...] = (
    (1, "1"),
    (2, "2-4"),
    (5, "5-9"),
    (10, "10-19"),
    (20, "20-49"),
    (50, "50-99"),
    (100, "100-199"),
    (200, "200-499"),
    (500, "500-999"),
    (1000, "1000+"),
)
"""Classes of bags by number of tasks (thesis section 5.2.4) and single tasks: smallest size of the
class, and its name."""


Throttle = int | Literal["auto"] | None
"""As in `wfrun.engine.settings`; None: no throttle."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run: a value of each dimension of the experiment."""

    workload: str | None = None
    """Label of a document that is simulated separately, or of a workload of bags; None: all
    documents together."""
    architecture: str = "csp"
    selection: str | None = None
    """Selection policy. None: the default of runs, ``s-bot`` if a document is a bag."""
    policy: str
    throttle: Throttle = None
    load: float | None = None
    """Load of the background, or of a workload of bags. None: no background, or the load of the
    log."""
    seed: int = 0
    tasks: int | None = None
    """Approximate number of tasks of a workload of bags; None: all tasks."""
    arrival: Literal["realistic", "at-once", "even"] = "realistic"
    """Arrival of bags. This field and the following fields vary generated workloads; None: as in
    the workload model."""
    median_size: float | None = None
    mean_runtime_s: float | None = None
    inaccuracy: float = 0.0
    """Maximum error of the estimates, in percent of the run time."""


class Row(Cell, frozen=True, kw_only=True):
    """The measures of a simulated run. None: not measured for this kind of simulation.

    The measures of documents are defined in thesis section 6.2.4, those of workloads of bags in
    section 5.3.2.
    """

    makespan_s: float | None
    """Documents: time from the submission to the end of the last workflow (total makespan).
    Workloads of bags: mean over the bags of the time from the arrival of a bag to the end of its
    last task. None: the run did not finish."""
    nsl: float | None
    """Mean over workflows or bags. Workflow: makespan over the critical path on the reference
    processor, undefined where tasks take no time. Bag: makespan over the sum of its run times on
    the reference processor. None: the run did not finish."""
    failed: int = 0
    """Number of tasks that are not done at the end: they failed for good, wait for failed tasks, or
    fit no site."""
    qwt_s: float | None = None
    """Queue wait in seconds, mean over the attempts."""
    ftd_s: float | None = None
    """File transfer delay in seconds, mean over the attempts."""
    transfers: int | None = None
    """Number of file transfers between sites (NFT)."""
    moved_bytes: int | None = None
    core_s: float | None = None
    """Cost of the run: core seconds for which attempts held cores."""
    makespans_s: tuple[float, ...] = ()
    """Makespan of each workflow, in seconds."""
    bags: int | None = None
    """Number of bags. The fields from this one to ``class_nsl`` are measured for workloads of bags
    only."""
    done: int | None = None
    """Number of tasks that are done at the end."""
    completed_share: float | None = None
    """Share of the tasks that are done when the last bag arrives."""
    completed_later_share: float | None = None
    """Share of the tasks that are done at twice the time of the last arrival."""
    utilization: float | None = None
    """Mean share of all processors that are in use until the last bag arrives."""
    replicas_started: int | None = None
    """Number of attempts beyond the first attempt of each task."""
    wasted_share: float | None = None
    """Share of the used processor time that attempts other than the first successful attempt of
    each task used."""
    last_arrival_s: float | None = None
    last_end_s: float | None = None
    class_bags: tuple[float, ...] = ()
    """Number of bags in each class of SIZES. This field and the next two, mean makespan and mean
    NSL by class, are 0 for a class without bags."""
    class_makespan_s: tuple[float, ...] = ()
    class_nsl: tuple[float, ...] = ()
    failure: str | None = None
    """Why the run did not finish, in one line; None: the run finished."""
    unhappy_owners: int | None = None
    """Number of owners of bags with optional tasks whose mandatory tasks were not all done in time.
    None: no bag has optional tasks."""
    unfairness: float | None = None
    """Largest minus smallest satisfaction of the owners of bags with optional tasks (DIET-ethic,
    section 3.3)."""


def makespan_of(row: Row) -> float:
    """The makespan in seconds; infinite if the run did not finish."""
    return inf if row.makespan_s is None else row.makespan_s


def nsl_of(row: Row) -> float:
    """The NSL; infinite if the run did not finish."""
    return inf if row.nsl is None else row.nsl


def size_class(size: int) -> int:
    """The number of the class in SIZES of a bag with ``size`` tasks."""
    return max(number for number, (least, _) in enumerate(SIZES) if size >= least)


class Case(NamedTuple):
    """The conditions under which variants are compared: a workload and a load."""

    workload: str | None
    load: float | None


class Variant(NamedTuple):
    """A combination of policies and settings that is compared with other combinations."""

    architecture: str
    selection: str | None
    policy: str
    throttle: Throttle


def varies_throttle(variants: Iterable[Variant]) -> bool:
    """Whether a policy occurs with several throttles. If each policy has one, the throttle does not
    distinguish variants."""
    pairs = {(variant.policy, variant.throttle) for variant in variants}
    return len(pairs) > len({policy for policy, _ in pairs})


Groups = dict[tuple[Case, Variant], list[Row]]
"""The rows of each case and variant. Rows of one group differ in their seeds only."""


def grouped(rows: Sequence[Row]) -> Groups:
    """Group rows by case and variant. Groups and their rows keep the order of ``rows``."""
    groups: Groups = {}
    for row in rows:
        variant = Variant(row.architecture, row.selection, row.policy, row.throttle)
        groups.setdefault((Case(row.workload, row.load), variant), []).append(row)
    return groups


def short_names(rows: Sequence[Row]) -> dict[str | None, str]:
    """Short names of workloads for tables, by label, in the order of the rows. A short name is the
    label without its digest, or the whole label if several labels differ only in the digest. If all
    documents are simulated together, the label None has the empty name."""
    labels = dict.fromkeys(row.workload for row in rows)
    words = {label: (label or "").partition(" #")[0] for label in labels}
    count = Counter(words.values())
    return {label: word if count[word] == 1 else label or "" for label, word in words.items()}
