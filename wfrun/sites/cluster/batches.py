"""Attempts that are submitted together, as one job or one array of equal jobs.

A batch is recorded at its site before it is submitted: ``batches/<name>.jsonl`` has one line for
the request of each element. Its name is the job's name, by which a later engine, too, recognizes
the jobs of the queue and their attempts. After the submission ``batches/<name>.ids`` has the job's
id, by which the batch system can be asked about a job that has left the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.sites.batch.system import Job

MIN_ORDERED_BATCHES = 3
"""Number of submissions up to which attempts that differ keep their order."""
ATTEMPTS_PER_SUBMISSION = 20
"""Minimum mean number of attempts per submission; below it equal attempts are grouped instead, to
spare the head node."""


class _Key(msgspec.Struct):
    key: str


class Batch:
    """Attempts that are submitted together, by array element."""

    __slots__ = ("ids", "keys", "name")

    def __init__(self, name: str, keys: Sequence[str]) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.ids: set[str] = set()
        """Job ids of the batch system. Several if a submission that seemed to fail was accepted."""


class Batches:
    """All batches of a run at one site."""

    def __init__(self, run_id: str) -> None:
        self._prefix = f"wfrun-{run_id}-"
        self._by_name: dict[str, Batch] = {}
        self._where: dict[str, tuple[Batch, int]] = {}
        self._made = 0

    def new(self, requests: Sequence[AttemptRequest]) -> Batch:
        """Make a batch with an unused name."""
        self._made += 1
        return self._add(Batch(f"{self._prefix}{self._made}", [r.key for r in requests]))

    def load(self, name: str, content: bytes, ids: bytes = b"") -> None:
        """Add the batch that another engine recorded. An incomplete last line was never
        submitted."""
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
        """Return the attempt of a job of the queue, and keep the job's id; None if it is not
        ours."""
        batch = self._by_name.get(job.name)
        if batch is None or not 1 <= job.element <= len(batch.keys):
            return None
        batch.ids.add(job.id)
        return batch.keys[job.element - 1]

    def where(self, key: str) -> tuple[Batch, int] | None:
        """Return the batch and element of the last submission of an attempt."""
        return self._where.get(key)

    def jobs_of(self, keys: Iterable[str]) -> list[tuple[str, int | None]]:
        """Return the ids of the attempts' jobs, each with its array element."""
        jobs: list[tuple[str, int | None]] = []
        for key in keys:
            where = self._where.get(key)
            if where is not None:
                batch, element = where
                alone = len(batch.keys) == 1
                jobs += [(job, None if alone else element) for job in sorted(batch.ids)]
        return jobs


def content(requests: Sequence[AttemptRequest]) -> bytes:
    """Return the record of a batch."""
    encode = msgspec.json.encode
    return b"".join(encode(request) + b"\n" for request in requests)


def array_class(request: AttemptRequest) -> tuple[Resources, tuple[str, ...]]:
    """Return a key that is equal for attempts that can be elements of one array."""
    return request.resources, request.avoid_hosts


def groups(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    """Split requests into batches of equal ones.

    Batches keep the order of the requests. If that makes many small batches, equal requests are
    grouped first, which changes the order of different ones.
    """
    runs = _runs(requests, largest)
    if len(runs) > max(MIN_ORDERED_BATCHES, len(requests) // ATTEMPTS_PER_SUBMISSION):
        together: dict[object, list[AttemptRequest]] = {}
        for request in requests:
            together.setdefault(array_class(request), []).append(request)
        runs = _runs([r for group in together.values() for r in group], largest)
    return runs


def _runs(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    runs: list[list[AttemptRequest]] = []
    for request in requests:
        if runs and len(runs[-1]) < largest and array_class(runs[-1][0]) == array_class(request):
            runs[-1].append(request)
        else:
            runs.append([request])
    return runs
