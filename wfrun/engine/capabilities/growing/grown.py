"""One malleable job that runs: its size, and the processors that it may get."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claim import Placeholder, ProcessorClaim, nodes_of
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import ClaimedNode, LauncherRequest
from wfrun.engine.jobs.malleable.policies import SizedJob
from wfrun.engine.jobs.malleable.shapes import taken
from wfrun.engine.model import Moldable, Resources

GATHER_S = 2.0
"""Maximum time in seconds that ready processors wait for others before they are offered: a program
whose sizes are powers of two needs them together."""
MIN_WALLTIME_S = 60.0
"""Minimum walltime of a placeholder for growth, in seconds: batch systems count in minutes."""


def is_malleable(w: WorkflowState, task: int) -> bool:
    """Whether a task is a job that can change its size."""
    found = w.workflow.moldable.get(task)
    return found is not None and found.malleable


class SizeChange(NamedTuple):
    """A size of a job, and the time from which it has that size."""

    at_s: float
    size: int
    """Number of processors; 0: the job has ended."""


class OpenQuestion(NamedTuple):
    """The latest question to the program: an offer of processors, or a request to give some
    back."""

    number: int
    offered: tuple[str, ...]
    """Keys of the placeholders that are offered; empty if processors are reclaimed."""
    reclaimed: int
    """Number of processors that the program is to give back; 0 in an offer."""


class GrownJob:
    """A malleable job, from the placement of an attempt to its end."""

    __slots__ = ("answered", "attempt", "bounds", "can_join", "claim", "has_joined", "left",
                 "paused_until_s", "question", "refused", "site", "sizes", "unit")  # fmt: skip

    def __init__(self, attempt: Attempt, claim: ProcessorClaim, bounds: Moldable) -> None:
        self.attempt = attempt.key
        self.site = attempt.site
        self.claim = claim
        self.bounds = bounds
        least = bounds.sizes[0]
        self.unit = 1 if bounds.ppn is None or least % bounds.ppn else bounds.ppn
        """Number of processors of each placeholder for growth: those of a node, or one."""
        self.has_joined = False
        """Whether the program of the job has connected to its launcher."""
        self.can_join = True
        """Whether the job may be offered processors: its program has neither violated the protocol
        nor left its launcher."""
        self.question: OpenQuestion | None = None
        """The open question to the program."""
        self.answered = 0
        """Number of the latest question that was answered."""
        self.refused = 0
        """Number of processors that the program declined at its present size."""
        self.paused_until_s = -inf
        """No processors are claimed for the job before this time, since the last claimed processors
        were not ready in time."""
        self.left: dict[str, ev.ReleaseCause] = {}
        """By key of each placeholder to give back because the program does not use it: the
        cause."""
        self.sizes: list[SizeChange] = []

    @property
    def spares(self) -> list[Placeholder]:
        """Placeholders for growth that the program does not use yet, without those that are being
        given back."""
        return [part for part in self.claim.parts if part.is_spare and not part.is_returned]

    @property
    def size(self) -> int:
        """The present number of processors of the job."""
        return sum(part.processors for part in self.claim.parts if not part.is_spare)

    @property
    def sized(self) -> SizedJob:
        """The job as policies see it."""
        return SizedJob(self.size, self.bounds.sizes[0], self.bounds.sizes[-1])

    @property
    def can_grow(self) -> bool:
        """Whether the job may be offered processors, now or after its present question."""
        return self.has_joined and self.can_join and self.size < self.bounds.sizes[-1]

    def wanted(self, offered: int, now_s: float) -> int:
        """Number of processors to claim if the policy offers ``offered``: those that the job needs
        to reach one of its sizes, in full placeholders. 0 while earlier processors are claimed or
        offered, during a pause, and if the program has declined this number at its present size."""
        if self.question is not None or self.spares or not self.can_grow:
            return 0
        if now_s < self.paused_until_s:
            return 0
        count = taken(self.bounds.sizes, self.sized, offered)
        count -= count % self.unit
        return 0 if count <= self.refused else count

    def growth(self, processors: int, asked: Resources, now_s: float) -> ev.GrowthAsked:
        """The decision to claim further processors. ``asked``: the request of the job, whose memory
        and GPUs are divided among the placeholders."""
        head = self.claim.parts[0].request
        walltime_s = max(MIN_WALLTIME_S, self.claim.asked_s + head.walltime_s - now_s)
        share = self.unit / head.cores
        requests = tuple(
            LauncherRequest(
                f"{self.claim.key}.{self.claim.made + number}", 1, self.unit,
                int(asked.memory_bytes * share), int(asked.gpus * share), walltime_s,
            )
            for number in range(processors // self.unit)
        )  # fmt: skip
        return ev.GrowthAsked(now_s, self.claim.key, requests)

    def to_offer(self, now_s: float) -> tuple[list[Placeholder], float | None]:
        """The placeholders to offer now, and the time to decide again; None unless ready
        placeholders wait for others."""
        spares = self.spares
        ready = [part for part in spares if part.started_s is not None]
        if not ready or self.question is not None:
            return [], None
        due_s = min(part.started_s for part in ready if part.started_s is not None) + GATHER_S
        if len(ready) < len(spares) and now_s < due_s:
            return [], due_s
        return ready, None

    def nodes(self, launchers: Iterable[str]) -> tuple[ClaimedNode, ...]:
        """The nodes of the placeholders with the keys ``launchers``, under names that no other node
        of the claim has ever had."""
        found: list[ClaimedNode] = []
        first = self.claim.parts[0].request.nodes
        for part in self.claim.parts:
            if part.request.key in launchers:
                number = int(part.request.key.rpartition(".")[2])
                found += nodes_of(part, first - 1 + number)
        return tuple(found)

    def hear(self, event: ev.JobResized) -> None:
        """Apply the program's answer: note the placeholders that it uses, and those to give
        back."""
        asked, self.answered = self.question, max(self.answered, event.number)
        if asked is not None and event.number >= asked.number:
            self.question = None
        if event.number < self.answered or event.failure:
            return  # An earlier answer, repeated; or it is being ended.
        held = set(event.launchers)
        for part in self.claim.parts[1:]:
            if part.request.key in held:
                part.is_spare = part.is_returned
            elif not part.is_spare:
                part.is_spare = True
                self.left[part.request.key] = "given-back"
        self._note_size(event.at_s)
        if asked is not None and self.question is None:
            refused = [key for key in asked.offered if key not in held]
            self.left.update(dict.fromkeys(refused, "declined"))
            self.refused = len(refused) * self.unit

    def start(self, now_s: float) -> None:
        """Note the start of the job with its present size."""
        self._note_size(now_s)

    def _note_size(self, now_s: float) -> None:
        if not self.sizes or self.sizes[-1].size != self.size:
            self.sizes.append(SizeChange(now_s, self.size))
            self.refused = 0

    def end(self, now_s: float) -> float:
        """Note the end of the job. Returns the processor seconds that it used on processors beyond
        its smallest size."""
        least = self.bounds.sizes[0]
        self.sizes.append(SizeChange(now_s, 0))
        return sum(
            (after.at_s - before.at_s) * max(0, before.size - least)
            for before, after in zip(self.sizes, self.sizes[1:], strict=False)
        )
