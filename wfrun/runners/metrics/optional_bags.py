"""Metrics of bags with optional tasks, by owner (DIET-ethic, section 3.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import fsum

import msgspec

from wfrun.engine.capabilities.optional import OptionalBag, Optionals
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState


class OwnerShare(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of all bags with optional tasks of one owner."""

    owner: str
    """Name of the owner; empty if the documents name none."""
    completed: int
    """Number of tasks that are done, mandatory ones included."""
    unhappy: bool
    """Whether a bag of the owner has missed its deadline: its mandatory tasks were not all done by
    then. In a run that has ended, also whether the mandatory tasks of a bag are not all done."""
    allocated_core_s: float
    """Core seconds of all attempts, including those that were killed or still run."""
    deserved_core_s: float
    """Core seconds that an equal share of all slots amounts to, over the time in which the owner
    was present."""
    satisfaction: float | None
    """Allocated core seconds divided by deserved core seconds. None: the owner was never
    present."""


class OptionalShares(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of all bags of a run that have optional tasks."""

    unhappy_owners: int
    unfairness: float | None
    """Maximum minus minimum satisfaction of the owners. None: no owner has a satisfaction."""
    completed: int
    owners: tuple[OwnerShare, ...]
    """The owners, in the order of their first bags."""


def optional_shares(state: RunState) -> OptionalShares | None:
    """The metrics of a run at the time of ``state``; None if the run has no bags with optional
    tasks.

    An owner is present from the arrival of a bag to its deadline, or to its end if that is earlier.
    The slots are those of the catalog, as in the paper. So cores that other workflows use, and
    cores that launchers do not have yet, lower the satisfaction of all owners.
    """
    optionals = state.find(Optionals)
    if optionals is None or not optionals.bags:
        return None
    sites = (s.spec for number, s in enumerate(state.sites) if not state.left >> number & 1)
    allocated_core_s: defaultdict[int, float] = defaultdict(float)
    for attempt in state.attempts.values():
        if attempt.started_s is not None:
            allocated_core_s[attempt.workflow] += attempt.cores * (state.now_s - attempt.started_s)
    bags: defaultdict[str, list[WorkflowState]] = defaultdict(list)
    for index, bag in optionals.bags.items():
        w = state.workflows[index]
        bags[w.workflow.owner].append(w)
        allocated_core_s[index] += bag.allocated_core_s
    present_s = {o: [_presence(state, w) for w in of_owner] for o, of_owner in bags.items()}
    deserved = deserved_core_s(present_s, sum(site.slots for site in sites))
    owners = []
    for owner, of_owner in bags.items():
        used_core_s = fsum(allocated_core_s[w.index] for w in of_owner)
        owners.append(
            OwnerShare(
                owner=owner,
                completed=sum(w.done for w in of_owner),
                unhappy=any(_is_late(state, w, optionals.bags[w.index]) for w in of_owner),
                allocated_core_s=used_core_s,
                deserved_core_s=deserved[owner],
                satisfaction=used_core_s / deserved[owner] if deserved[owner] > 0 else None,
            )
        )
    known = [share.satisfaction for share in owners if share.satisfaction is not None]
    return OptionalShares(
        unhappy_owners=sum(share.unhappy for share in owners),
        unfairness=max(known) - min(known) if known else None,
        completed=sum(share.completed for share in owners),
        owners=tuple(owners),
    )


def _presence(state: RunState, w: WorkflowState) -> tuple[float, float]:
    ends_s = (state.now_s, w.ended_s, w.deadline_s)
    return w.added_s, min(end_s for end_s in ends_s if end_s is not None)


def _is_late(state: RunState, w: WorkflowState, bag: OptionalBag) -> bool:
    if bag.mandatory_s is not None:
        return w.deadline_s is not None and bag.mandatory_s > w.deadline_s
    if w.status.count(TaskStatus.DONE, 0, bag.mandatory) == bag.mandatory:
        return False  # None are, or an earlier run did them.
    due = w.deadline_s is not None and w.deadline_s < state.now_s
    return due or state.ended is not None


def deserved_core_s(
    present_s: Mapping[str, Sequence[tuple[float, float]]], cores: int
) -> dict[str, float]:
    """The core seconds that each owner deserves: the sum of n_R (E - S) / #U over the time slots in
    which the owner is present. A slot lasts from S to E; U is the set of owners present, constant
    in a slot; n_R is ``cores``. ``present_s`` has the (begin, end) of each bag of an owner in
    seconds; bags may overlap."""
    changes = [
        (at_s, owner, step)
        for owner, spans in present_s.items()
        for begin_s, end_s in spans
        if begin_s < end_s
        for at_s, step in ((begin_s, 1), (end_s, -1))
    ]
    changes.sort()
    deserved = dict.fromkeys(present_s, 0.0)
    here: Counter[str] = Counter()
    for (begin_s, owner, step), (end_s, *_) in pairwise(changes):
        here[owner] += step
        if not here[owner]:
            del here[owner]
        for one in here if end_s > begin_s else ():
            deserved[one] += cores * (end_s - begin_s) / len(here)
    return deserved
