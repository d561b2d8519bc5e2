"""Attempts that are submitted together, as one job or one array of equal jobs.

A batch is recorded at its site before it is submitted: ``batches/<name>.jsonl`` has the request of
each element, one a line. The batch's name is also the job's name. By the name and user of a job in
the queue, this engine and later ones recognize its attempt. After the submission
``batches/<name>.ids`` has the job's id, which is needed to ask the batch system about a job that
has left the queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.system import JobInQueue

MAX_SMALL_BATCHES = 3
"""Up to this number of batches, attempts keep their order however small the batches are."""
ATTEMPTS_PER_SUBMISSION = 20
"""Minimum mean number of attempts per submission, to spare the head node. If batches are smaller,
attempts of one class are brought together, which changes the order of attempts."""


class _Key(msgspec.Struct):
    key: str


class Batch:
    """Attempts that are submitted together. ``keys`` are their keys in the order of the array
    elements, which are numbered from 1."""

    __slots__ = ("ids", "keys", "name")

    def __init__(self, name: str, keys: Sequence[str]) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.ids: set[str] = set()
        """Ids of its jobs. There are several if the batch system accepted a submission that seemed
        to fail and was repeated."""


class Batches:
    """All batches of a run at one site."""

    def __init__(self, run_id: str) -> None:
        self.user = ""
        """The user whose jobs are the run's, as the head node names them."""
        self._prefix = f"wfrun-{run_id}-"
        self._by_name: dict[str, Batch] = {}
        self._where: dict[str, tuple[Batch, int]] = {}
        """Batch and element by key of the attempt. If the attempt was submitted again, the last
        batch counts."""
        self._made = 0
        """The largest number in a batch's name."""

    @property
    def any(self) -> bool:
        """Whether this engine or an earlier one has recorded any batch."""
        return bool(self._by_name)

    def new(self, requests: Sequence[AttemptRequest]) -> Batch:
        """Make a batch with an unused name."""
        self._made += 1
        return self._add(Batch(f"{self._prefix}{self._made}", [r.key for r in requests]))

    def load(self, name: str, content: bytes, ids: bytes = b"") -> None:
        """Add a batch that another engine recorded. An incomplete last line is ignored: the engine
        crashed before the submission. A name that is not a batch's is ignored too."""
        number = name.removeprefix(self._prefix)
        if name == number or not re.fullmatch(r"\d{1,9}", number, re.ASCII):
            return
        self._made = max(self._made, number_of(number, 0))
        keys = []
        for line in content.splitlines():
            try:
                keys.append(msgspec.json.decode(line, type=_Key).key)
            except (msgspec.MsgspecError, RecursionError):
                break
        self._add(Batch(name, keys)).ids.update(ids.decode(errors="replace").split())

    def _add(self, batch: Batch) -> Batch:
        self._by_name[batch.name] = batch
        for element, key in enumerate(batch.keys, 1):
            self._where[key] = (batch, element)
        return batch

    def key_of(self, job: JobInQueue) -> str | None:
        """Return the key of the attempt that a job in the queue runs, and keep the job's id.
        Returns None for a job that is not of this run.

        The job's user must be the run's, since anybody can give a job the same name. The user is
        not compared if the job's id is known from its submission, because batch systems may write
        user names in several ways.
        """
        batch = self._by_name.get(job.name)
        if batch is None or not 1 <= job.element <= len(batch.keys):
            return None
        if job.user != self.user and job.id not in batch.ids:
            return None
        batch.ids.add(job.id)
        return batch.keys[job.element - 1]

    def where(self, key: str) -> tuple[Batch, int] | None:
        """Return the batch and element of the last submission of an attempt."""
        return self._where.get(key)

    def jobs_of(self, keys: Iterable[str]) -> list[tuple[str, int | None]]:
        """Return the ids of the attempts' jobs, each with its array element (None: the job is no
        array)."""
        jobs: list[tuple[str, int | None]] = []
        for key in keys:
            where = self._where.get(key)
            if where is not None:
                batch, element = where
                alone = len(batch.keys) == 1
                jobs += [(job, None if alone else element) for job in sorted(batch.ids)]
        return jobs


def content(requests: Sequence[AttemptRequest]) -> bytes:
    """Return the content of ``batches/<name>.jsonl``."""
    encode = msgspec.json.encode
    return b"".join(encode(request) + b"\n" for request in requests)


def array_class(request: AttemptRequest) -> tuple[Resources, tuple[str, ...], float | None]:
    """The class of an attempt: resources, hosts to avoid, and walltime of the job in seconds (None:
    that of the resources, or else of the site). All attempts of an array have the same class."""
    return request.resources, request.avoid_hosts, request.job_walltime_s


def groups(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    """Split requests into batches of at most ``largest`` requests of one ``array_class``.

    Batches keep the order of the requests, unless that makes many small batches. Then requests of
    one class are brought together first, which changes the order among classes.
    """
    runs = _runs(requests, largest)
    if len(runs) > max(MAX_SMALL_BATCHES, len(requests) // ATTEMPTS_PER_SUBMISSION):
        together: dict[object, list[AttemptRequest]] = {}
        for request in requests:
            together.setdefault(array_class(request), []).append(request)
        runs = _runs([r for group in together.values() for r in group], largest)
    return runs


def _runs(requests: Sequence[AttemptRequest], largest: int) -> list[list[AttemptRequest]]:
    """Split requests into the longest runs of one class, of at most ``largest`` requests each."""
    runs: list[list[AttemptRequest]] = []
    for request in requests:
        if runs and len(runs[-1]) < largest and array_class(runs[-1][0]) == array_class(request):
            runs[-1].append(request)
        else:
            runs.append([request])
    return runs
