"""Which attempts went to the batch system together, as a job or an array of like jobs.

A batch is written down at its site before it is submitted: ``batches/<name>.jsonl`` holds the
request of each element, a line each. Its name is the job's name, so that what the queue shows can
be told to be ours, and which attempt it is, also by an engine that did not submit it. When it has
been submitted ``batches/<name>.ids`` tells as what, for when the queue shows it no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.sites.batch.system import Job

FEW = 3
"""So many submissions are made to keep the order of attempts that are not alike."""
PER_SUBMISSION = 20
"""With more submissions than one for so many attempts, like ones are put together instead."""


class _Key(msgspec.Struct):
    key: str


class Batch:
    """Attempts that were submitted together, by element."""

    __slots__ = ("ids", "keys", "name")

    def __init__(self, name: str, keys: Sequence[str]) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.ids: set[str] = set()
        """Of the batch system: one, or more where a submission was accepted that seemed to
        fail."""


class Batches:
    """All batches of one run at one site."""

    def __init__(self, run_id: str) -> None:
        self._prefix = f"wfrun-{run_id}-"
        self._by_name: dict[str, Batch] = {}
        self._where: dict[str, tuple[Batch, int]] = {}
        self._made = 0

    def new(self, requests: Sequence[AttemptRequest]) -> Batch:
        """A batch with a name that none had before."""
        self._made += 1
        return self._add(Batch(f"{self._prefix}{self._made}", [r.key for r in requests]))

    def load(self, name: str, content: bytes, ids: bytes = b"") -> None:
        """Take in what another engine has written down; a torn last line was never submitted."""
        number = name.removeprefix(self._prefix)
        if name == number or not number.isdigit():
            return
        self._made = max(self._made, int(number))
        keys = []
        for line in content.splitlines():
            try:
                keys.append(msgspec.json.decode(line, type=_Key).key)
            except msgspec.MsgspecError:
                break
        self._add(Batch(name, keys)).ids.update(ids.decode().split())

    def _add(self, batch: Batch) -> Batch:
        self._by_name[batch.name] = batch
        for element, key in enumerate(batch.keys, 1):
            self._where[key] = (batch, element)
        return batch

    def key_of(self, job: Job) -> str | None:
        """The attempt that a job of the queue is; None: it is not ours. The job's id is kept."""
        batch = self._by_name.get(job.name)
        if batch is None or not 1 <= job.element <= len(batch.keys):
            return None
        batch.ids.add(job.id)
        return batch.keys[job.element - 1]

    def where(self, key: str) -> tuple[Batch, int] | None:
        """The batch and the element that an attempt was submitted as last."""
        return self._where.get(key)

    def jobs_of(self, keys: Iterable[str]) -> list[tuple[str, int | None]]:
        """The jobs, or elements of arrays, that these attempts are in the queue."""
        jobs: list[tuple[str, int | None]] = []
        for key in keys:
            where = self._where.get(key)
            if where is not None:
                batch, element = where
                alone = len(batch.keys) == 1
                jobs += [(job, None if alone else element) for job in sorted(batch.ids)]
        return jobs


def content(requests: Sequence[AttemptRequest]) -> bytes:
    """What is written down of a batch."""
    encode = msgspec.json.encode
    return b"".join(encode(request) + b"\n" for request in requests)


def likeness(request: AttemptRequest) -> tuple[Resources, tuple[str, ...]]:
    """Attempts of one likeness can be elements of one array."""
    return request.resources, request.avoid_hosts


def groups(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    """Cut into batches of like requests, in order; where that makes many small ones, like
    requests come together, which changes the order of unlike ones."""
    runs = _runs(requests, largest)
    if len(runs) > max(FEW, len(requests) // PER_SUBMISSION):
        together: dict[object, list[AttemptRequest]] = {}
        for request in requests:
            together.setdefault(likeness(request), []).append(request)
        runs = _runs([r for group in together.values() for r in group], largest)
    return runs


def _runs(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    runs: list[list[AttemptRequest]] = []
    for request in requests:
        if runs and len(runs[-1]) < largest and likeness(runs[-1][0]) == likeness(request):
            runs[-1].append(request)
        else:
            runs.append([request])
    return runs
