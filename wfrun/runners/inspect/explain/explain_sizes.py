"""Explains the sizes of a malleable job from the log: the nodes that the job was offered, and the
processors that were reclaimed from it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import claim_of
from wfrun.engine.explain.sizes import size_reason
from wfrun.runners.run.store.event_store import Store

_FOR = {
    "local": "for jobs of other users that wait",
    "waiting": "for a job of this run that waits",
}


class SizeRecord(msgspec.Struct, frozen=True):
    """A size of a malleable job, and the reason for the size."""

    at_s: float
    """Time from which the job has this size, on the same scale as the times of an attempt."""
    size: int
    """The size in processors."""
    reason: str


def size_records(
    state: RunState, store: Store, workflow: int, task: int
) -> tuple[tuple[SizeRecord, ...], str]:
    """Return the sizes of a malleable job in order of time, and a text on what bounds its present
    size. The text is empty if the job does not run. Both are empty in a run without malleable
    jobs."""
    found = state.find(Malleability)
    if found is None:
        return (), ""
    records: list[SizeRecord] = []
    for key in found.sizes:
        if tuple(map(int, key.split(".")[-3:-1])) == (workflow, task):
            records += _of_attempt(store, found, key)
    bound = next(
        (size_reason(state, job) for job in found.jobs.values()
         if (job.claim.workflow, job.claim.task) == (workflow, task)),
        "",
    )  # fmt: skip
    return tuple(sorted(records, key=lambda record: record.at_s)), bound


def _of_attempt(store: Store, found: Malleability, key: str) -> Iterator[SizeRecord]:
    sizes = {change.at_s: change.size for change in found.sizes[key]}
    first, *_ = found.sizes[key]
    yield SizeRecord(first.at_s, first.size, "its smallest")
    size, asked = first.size, ""
    offered: dict[int, tuple[str, int]] = {}
    answered = 0
    for event in _events_of(store, key):
        if isinstance(event, ev.GrowthOffered):
            offered[event.number] = "offered", len(event.launchers)
        elif isinstance(event, ev.ShrinkAsked):
            offered[event.number] = _FOR[event.cause], event.processors
        elif isinstance(event, ev.JobResized):
            if event.failure:
                yield SizeRecord(event.at_s, size, f"ended to be run again: {event.failure}")
                continue
            if event.number == answered and event.at_s not in sizes:
                continue
            what, count = offered.get(event.number, ("", 0))
            is_answer = event.number > answered
            answered = event.number
            asked = "given back by its program" if not is_answer else ""
            if is_answer and what == "offered":
                asked = f"offered {count} {'node' if count == 1 else 'nodes'} that were idle"
            elif is_answer:
                asked = f"{count} reclaimed {what}"
            size = sizes.get(event.at_s, size)
            yield SizeRecord(event.at_s, size, asked)


def _events_of(store: Store, key: str) -> Iterator[ev.Event]:
    """The events about the size of an attempt, in their order."""
    found: list[tuple[int, ev.Event]] = [
        each for each in store.find(b'"job-resized"')
        if isinstance(each[1], ev.JobResized) and each[1].key == key
    ]  # fmt: skip
    claim = _claim_of(store, key)
    for tag in (b'"growth-offered"', b'"shrink-asked"'):
        found += [
            each for each in store.find(tag)
            if isinstance(each[1], (ev.GrowthOffered, ev.ShrinkAsked)) and each[1].claim == claim
        ]  # fmt: skip
    return (event for _, event in sorted(found, key=lambda each: each[0]))


def _claim_of(store: Store, key: str) -> str:
    """Key of the claim in which an attempt runs, from the key of its launcher; empty if the attempt
    has not started."""
    for _, event in store.find(b'"key":' + msgspec.json.encode(key)):
        if isinstance(event, ev.AttemptStarted):
            return claim_of(event.launcher)
    return ""
