"""Faults of worlds with malleable jobs, and what must hold of their claims at every step."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.exchange import Cause, claim_of
from wfrun.engine.model import Catalog
from wfrun.testing.fake_sites import Behaviour, LauncherPlan


class Faults(Behaviour):
    """Faults that are drawn from a seed."""

    def __init__(self, seed: int, share: float) -> None:
        self._seed, self._share = seed, share
        self.reports_times = True

    def _random(self, *what: object) -> Random:
        return Random("/".join(map(str, (self._seed, *what))))

    def report_delay_s(self, key: str) -> float:
        return self._random("report", key).choice([0.0, 0.0, 0.5, 5.0])

    def cancel_s(self, key: str) -> float:
        return self._random("cancel", key).choice([0.0, 0.1, 5.0, 25.0])

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        return self._random("keeps", key, crash).random() < 0.8

    def launcher(self, key: str) -> LauncherPlan:
        random = self._random("launcher", key)
        # Sites where too many fail in a row are closed for good.
        fails = random.random() < self._share and int(key.split(".")[1][1:]) <= 12
        kind = random.choice(["refused", "dies"]) if fails else ""
        refused: Cause | None = random.choice(["node", "preempted"])
        return LauncherPlan(
            wait_s=random.choice([0.0, 1.0, 10.0, 70.0]),
            refused=refused if kind == "refused" else None,
            dies_s=random.choice([0.0, 10.0, 45.0]) if kind == "dies" else None,
        )

    def return_s(self, key: str, crash: int) -> float | None:
        return self._random("return", key, crash).choice([0.0, 0.5, 20.0])


class Broken(NamedTuple):
    """A rule that did not hold."""

    at_s: float
    rule: str


class ClaimAuditor:
    """Checks the log of a run with claims, step by step."""

    def __init__(self, catalog: Catalog) -> None:
        self._slots = [site.slots for site in catalog.sites]
        self.broken: list[Broken] = []
        self.tried = 0
        self.causes: Counter[str] = Counter()
        """Number of ended claims by cause."""
        self._parts: dict[str, dict[str, ev.ClaimPart]] = {}
        """Placeholders of claims that go on, by claim and key."""
        self._held: dict[str, ev.ClaimPart] = {}
        """Placeholders that have not ended, by key."""
        self._ready: set[str] = set()
        self._jobs: dict[tuple[int, int], str] = {}
        self.done: Counter[tuple[int, int]] = Counter()

    def _require(self, event: ev.Event, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(Broken(event.at_s, rule))

    def apply(self, event: ev.Event) -> None:
        if isinstance(event, ev.PlacementTried):
            self.tried += 1
        elif isinstance(event, ev.ClaimsAsked):
            self._asked(event)
        elif isinstance(event, ev.ClaimEnded):
            self.causes[event.cause] += 1
            self._parts.pop(event.key)
            self._jobs = {job: key for job, key in self._jobs.items() if key != event.key}
        elif isinstance(event, ev.LauncherStarted):
            self._ready.add(event.key)
        elif isinstance(event, ev.LauncherEnded):
            self._held.pop(event.key, None)
        elif isinstance(event, ev.AttemptPlaced):
            key = self._jobs.get((event.workflow, event.task), "")
            parts = self._parts.get(key, {})
            is_granted = bool(parts) and self._ready >= parts.keys()
            self._require(event, is_granted, "an attempt is placed in a granted claim")
            here = {part.site for part in parts.values()}
            self._require(event, event.site in here, "an attempt is placed at a claimed site")
        elif isinstance(event, ev.AttemptStarted):
            workflow, task = map(int, event.key.split(".")[-3:-1])
            claim = self._jobs.get((workflow, task))
            is_own = claim is None or claim_of(event.launcher) == claim
            self._require(event, is_own, "an attempt runs in a placeholder of its claim")
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            workflow, task = map(int, event.key.split(".")[-3:-1])
            self.done[workflow, task] += 1

    def _asked(self, event: ev.ClaimsAsked) -> None:
        job = event.workflow, event.task
        partly = [key for key, parts in self._parts.items() if not self._ready >= parts.keys()]
        self._require(event, not partly, "one claim at a time is granted in part")
        self._require(event, job not in self._jobs, "a job has one claim")
        self._jobs[job] = event.key
        self._parts[event.key] = {part.launcher.key: part for part in event.parts}
        self._held.update(self._parts[event.key])
        used: Counter[int] = Counter()
        for part in self._held.values():
            used[part.site] += part.launcher.cores * part.launcher.nodes
        is_room = all(used[site] <= slots for site, slots in enumerate(self._slots))
        self._require(event, is_room, "no more processors are claimed than a site has")
