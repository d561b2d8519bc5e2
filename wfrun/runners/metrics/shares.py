"""Cores that each owner of a run holds now, and core time that each has used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.runners.metrics.log import RunTimings
from wfrun.runners.metrics.workflows import TaskTiming


class OwnerUse(msgspec.Struct, frozen=True, kw_only=True):
    """Cores and core time of one owner."""

    owner: str
    documents: int
    """Number of workflows and bags."""
    tasks: int
    done: int
    cores: int
    """Number of cores that running tasks hold."""
    cores_at: Mapping[str, int]
    """Number of cores that running tasks hold, by site. Sites where the owner holds none are
    absent."""
    core_s: float
    """Core seconds of all attempts, including those that failed or still run."""
    share: float | None
    """``core_s`` divided by the total over all owners; None: the total is 0."""
    mean_cores: float | None
    """Mean number of cores held, from the submission of the owner's first document to the end of
    the owner's last document, or until now. None: this time is 0."""


class TimeSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A time interval of a run, with values for each owner in the order of `RunShares.owners`."""

    begin_s: float
    """Begin of the interval, in seconds since the start of the run."""
    end_s: float
    mean_cores: tuple[float, ...]
    """Mean number of cores that each owner held in the interval."""
    done: tuple[int, ...]
    """Number of tasks of each owner that ended successfully in the interval."""


class RunShares(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of a run, and their shares of the cores of the sites."""

    path: str
    state: str
    """``running``, ``interrupted``, ``done``, ``failed`` or ``cancelled``."""
    owners: tuple[OwnerUse, ...]
    """The owners, in the order of their first documents."""
    slices: tuple[TimeSlice, ...]
    """Intervals of equal length, from the start of the run to its end, or until now."""


def run_shares(
    path: str, state: RunState, timings: RunTimings, word: str, *, user: str, slices: int
) -> RunShares:
    """The shares of the owners of a run. ``word``: the state of the run; ``user``: the owner of
    documents that name no owner; ``slices``: number of time slices."""
    owner_of = [w.workflow.owner or user for w in state.workflows]
    names = list(dict.fromkeys(owner_of))
    attempts: defaultdict[str, list[TaskTiming]] = defaultdict(list)
    for attempt in (*timings.tasks, *timings.running):
        attempts[owner_of[attempt.workflow]].append(attempt)
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for attempt in timings.running if state.ended is None else ():
        held[owner_of[attempt.workflow]][timings.sites[attempt.site].name] += attempt.cores
    used_core_s = {name: fsum(a.core_s for a in attempts[name]) for name in names}
    total_core_s = fsum(used_core_s.values())
    owners = []
    for name in names:
        own = [w for w, owner in zip(state.workflows, owner_of, strict=True) if owner == name]
        begin_s = min(w.added_s for w in own)
        end_s = max(timings.end_s if w.ended_s is None else w.ended_s for w in own)
        core_s = used_core_s[name]
        owners.append(
            OwnerUse(
                owner=name,
                documents=len(own),
                tasks=sum(len(w.status) for w in own),
                done=sum(w.done for w in own),
                cores=held[name].total(),
                cores_at=dict(held[name]),
                core_s=core_s,
                share=core_s / total_core_s if total_core_s > 0 else None,
                mean_cores=core_s / (end_s - begin_s) if end_s > begin_s else None,
            )
        )
    parts = time_slices(
        [attempts[name] for name in names], timings.started_s, timings.end_s, slices
    )
    return RunShares(path=path, state=word, owners=tuple(owners), slices=tuple(parts))


def time_slices(
    attempts: Sequence[Iterable[TaskTiming]], begin_s: float, end_s: float, count: int
) -> Iterable[TimeSlice]:
    """Divide the time from ``begin_s`` to ``end_s`` into ``count`` equal intervals. ``attempts``
    has the attempts of each owner. Cost: for each attempt, linear in the number of intervals in
    which it runs."""
    width_s = (end_s - begin_s) / count
    if width_s <= 0:
        return
    core_s = [[0.0] * count for _ in attempts]
    done = [[0] * count for _ in attempts]
    for owner, own in enumerate(attempts):
        for attempt in own:
            since_s = max(0.0, attempt.start_s - begin_s)
            until_s = min(attempt.end_s, end_s) - begin_s
            last = min(count - 1, max(0, int(until_s / width_s)))
            for number in range(min(count - 1, int(since_s / width_s)), last + 1):
                inside_s = min(until_s, (number + 1) * width_s) - max(since_s, number * width_s)
                core_s[owner][number] += attempt.cores * max(0.0, inside_s)
            done[owner][last] += attempt.done
    for number in range(count):
        yield TimeSlice(
            begin_s=number * width_s,
            end_s=(number + 1) * width_s,
            mean_cores=tuple(own[number] / width_s for own in core_s),
            done=tuple(counts[number] for counts in done),
        )
