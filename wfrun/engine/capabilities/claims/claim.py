"""One claim: the processors of one or several sites that are held for a job."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from wfrun.engine.events import ClaimEndCause
from wfrun.engine.exchange import ClaimedNode, LauncherRequest

Job = tuple[int, int]
"""(workflow, task)."""


class TriedPlacement(NamedTuple):
    """A scan of the placement queue."""

    at_s: float
    idle: tuple[int, ...]
    """Number of idle processors of each site."""
    failed: tuple[Job, ...]
    """The jobs at the head of the queue that did not fit the idle processors."""


class Phases:
    """Time that jobs have spent in each phase (thesis, Figure 2.5), in seconds, and numbers of
    claims."""

    __slots__ = ("claim_s", "ended", "execution_s", "granted", "placed", "queue_s", "start_s",
                 "started")  # fmt: skip

    def __init__(self) -> None:
        self.placed = self.granted = self.started = 0
        """Number of claims that were requested, of claims that were granted, and of attempts that
        started in a claim."""
        self.ended: Counter[str] = Counter()
        """Number of ended claims by cause."""
        self.queue_s = 0.0
        """Time in the placement queue."""
        self.claim_s = 0.0
        """Sum over granted claims of the time from the placement until all placeholders were
        ready."""
        self.start_s = 0.0
        """Time from the grant of the claim until the start of the attempt: transfer of inputs and
        submission."""
        self.execution_s = 0.0
        """Sum over ended attempts of the time from start to end."""


class Placeholder:
    """A launcher that holds the processors of one component."""

    __slots__ = ("asked_s", "hosts", "is_ended", "is_returned", "is_spare", "is_submitted",
                 "request", "site", "started_s")  # fmt: skip

    def __init__(
        self, site: int, request: LauncherRequest, asked_s: float, *, is_spare: bool = False
    ) -> None:
        self.site = site
        self.request = request
        self.asked_s = asked_s
        self.is_spare = is_spare
        """Whether the job does not use this placeholder: the job has not grown into it yet, or
        gives it back."""
        self.is_returned = False
        """Whether this placeholder is given back before the other placeholders of its claim."""
        self.started_s: float | None = None
        """Time when all nodes of the placeholder were ready for the first time; None until then."""
        self.hosts: tuple[str, ...] = ()
        """Names of the hosts of the placeholder's nodes; empty until they are ready."""
        self.is_submitted = False
        self.is_ended = False

    @property
    def processors(self) -> int:
        """Number of processors that were requested."""
        return self.request.cores * self.request.nodes


class ProcessorClaim:
    """The processors that placeholders hold for one job. The claim is *granted* when all its
    placeholders are ready; they are all given back together."""

    __slots__ = ("asked_s", "attempt", "granted_s", "key", "made", "parts", "reason", "task",
                 "workflow")  # fmt: skip

    def __init__(
        self, key: str, workflow: int, task: int, parts: list[Placeholder], asked_s: float
    ) -> None:
        self.key = key
        self.workflow = workflow
        self.task = task
        self.parts = parts
        self.made = len(parts)
        """Number of placeholders so far; numbers the next one."""
        self.asked_s = asked_s
        self.granted_s: float | None = None
        self.attempt = ""
        """Key of the attempt that runs in the claim; empty before the attempt is placed."""
        self.reason: tuple[ClaimEndCause, str] | None = None
        """Cause and message with which the claim is to end; None while it is to continue."""

    @property
    def is_held(self) -> bool:
        """Whether a placeholder of the claim may still have processors."""
        return not all(part.is_ended for part in self.parts)

    def nodes(self) -> tuple[ClaimedNode, ...]:
        """The nodes of a granted claim, without spare placeholders; nodes of the first component
        come first."""
        found: list[ClaimedNode] = []
        for part in self.parts:
            if not part.is_spare:
                found += nodes_of(part, len(found))
        return tuple(found)


def nodes_of(part: Placeholder, first: int) -> list[ClaimedNode]:
    """The nodes of a placeholder that is ready; ``first`` numbers them within the claim."""
    found = []
    for number, host in enumerate(part.hosts):
        label = _NO_LABEL.sub("", host.partition(".")[0])[:40]
        name = f"{label if label[:1].isalpha() else f'n{label}'}-{first + number}"
        found.append(ClaimedNode(name, part.request.cores, part.request.key, number))
    return found


_NO_LABEL = re.compile(r"[^A-Za-z0-9-]+")
"""Characters that are removed from the name of a host before it enters a host file. Sites may
report any text as the name of a host."""


def number_of(claim: ProcessorClaim) -> int:
    """The number in the key of a claim."""
    return int(claim.key.rpartition("C")[2])


def part_of(claim: ProcessorClaim, launcher: str) -> Placeholder | None:
    """The placeholder of the claim with this launcher key; None if the claim has none."""
    return next((part for part in claim.parts if part.request.key == launcher), None)


def by_site(parts: list[Placeholder]) -> dict[int, list[Placeholder]]:
    """The placeholders of each site."""
    found: dict[int, list[Placeholder]] = {}
    for part in parts:
        found.setdefault(part.site, []).append(part)
    return found
