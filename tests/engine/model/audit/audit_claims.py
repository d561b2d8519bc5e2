"""Rules about claims: processors of one or several sites that placeholders hold for one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.engine.model.audit.known_run import ClaimRecord, KnownRun
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.exchange import claim_of
from wfrun.engine.jobs.components import Components

Job = tuple[int, int]
"""(workflow, task)."""


class ClaimRules(KnownRun):
    """Rules about claims."""

    def on_claims_asked(self, event: ev.ClaimsAsked) -> None:
        job, what = (event.workflow, event.task), str(event)
        self._require("closing", self.ended is None and not self._cancelled, what)
        self._require("done", job not in self.done, what)
        self._require("task-cancelled", job not in self._cancelled_tasks, what)
        partly = [key for key, claim in self.claims.items() if not claim.is_granted]
        self._require("claim-one", not partly, f"{what}: {partly}")
        others = [key for key, claim in self.claims.items() if claim.job == job]
        others += [one.key for one in self._open_attempts(job)]
        self._require("claim-twice", not others, f"{what}: {others}")
        parts = {part.launcher.key: part for part in event.parts}
        self._require("launcher-key", not self._launcher_keys & parts.keys(), what)
        self._launcher_keys |= parts.keys()
        self.claims[event.key] = ClaimRecord(job, parts)
        self._placeholders.update({key: (p.site, _size(p)) for key, p in parts.items()})
        for part in event.parts:
            self._check_part(what, part)
        sizes = [(_size(part), self._specs[part.site].name) for part in event.parts]
        components = self._workflows[job[0]].workflow.components.get(job[1])
        cores = self._task(job).resources.cores
        self._require("claim-size", _is_division(components, cores, sizes), what)

    def _check_part(self, what: str, part: ev.ClaimPart) -> None:
        site = part.site
        for rule, closed in (
            ("paused", self._paused), ("held", self._held), ("left", self._left)
        ):  # fmt: skip
            self._require(rule, site not in closed, what)
        running, queued = self._foreign_cores.get(site, (0, 0))
        held = sum(size for at, size in self._placeholders.values() if at == site)
        slots = self._specs[site].slots
        self._require("claim-room", held + running <= slots, f"{what}: {held} held of {slots}")
        self._require("claim-room", not queued, f"{what}: others wait at site {site}")

    def on_claim_ended(self, event: ev.ClaimEnded) -> None:
        claim = self.claims.pop(event.key)
        self._to_stop |= claim.parts.keys() & self._placeholders.keys()
        one = self._open.get(claim.attempt)
        if one is not None and not one.submitted:
            del self._open[one.key]  # It is taken back.

    def on_placement_tried(self, event: ev.PlacementTried) -> None:
        """With a maximum number of tries any waiting job may have used them up now."""
        if self._settings.tries is None or not event.failed:
            return
        busy = {claim.job for claim in self.claims.values()}
        for number, document in self._workflows.items():
            jobs = {(number, task) for task in range(len(document.tasks))}
            self._specials |= jobs - busy - self.done
        self._doubt_if_stopping()

    def on_placeholder_started(self, event: ev.LauncherStarted) -> None:
        if event.key not in self._placeholders:
            return
        claim = self.claims.get(claim_of(event.key))
        if claim is None:
            self._to_stop.add(event.key)
            return
        claim.ready.add(event.key)
        if claim.first_ready_s is None:
            claim.first_ready_s = self._now_s

    def on_placeholder_ended(self, event: ev.LauncherEnded) -> None:
        self._placeholders.pop(event.key, None)
        self._to_stop.discard(event.key)
        claim = self.claims.get(claim_of(event.key))
        if claim is not None:
            claim.is_broken = True

    def on_load_observed(self, event: ev.SiteLoadObserved) -> None:
        self._foreign_cores[event.site] = event.running_cores, event.queued_cores

    def claims_resumed(self) -> None:
        """A new engine knows nothing of others' jobs, and gives back again what was given back."""
        self._foreign_cores.clear()
        self._to_stop = {key for key in self._placeholders if claim_of(key) not in self.claims}
        for claim in self.claims.values():
            claim.has_survived = claim.first_ready_s is not None

    def check_granted(self, what: str, event: ev.AttemptPlaced) -> None:
        """Check the placement of a job: all that it claims is there, and nothing else."""
        claim = self._claim_of((event.workflow, event.task))
        is_granted = claim is not None and claim.is_granted and not claim.attempt
        self._require("claim-granted", is_granted, what)
        if claim is None:
            return
        claim.attempt = event.key
        first = next(iter(claim.parts.values()))
        self._require("claim-granted", event.site == first.site, what)
        first_s = claim.first_ready_s or 0.0
        # The sum, as in the core: a difference of the same times may be rounded up.
        is_in_time = self._now_s <= first_s + self._settings.claim_wait_s
        text = f"{what}: {self._now_s - first_s:g} s after the first part"
        self._require("claim-late", claim.has_survived or is_in_time, text)

    def check_claimed(self, key: str, job: Job) -> None:
        """Check the submission of a job: its claim goes on."""
        claim = self._claim_of(job)
        is_granted = claim is not None and claim.is_granted and claim.attempt == key
        self._require("claim-granted", is_granted, f"{key} is submitted")

    def check_own(self, event: ev.AttemptStarted, job: Job) -> None:
        """Check that a job runs in a placeholder of its claim."""
        claim = self._claim_of(job)
        is_own = claim is None or event.launcher in claim.parts
        self._require("claim-own", is_own, str(event))

    def check_claims(self, actions: Sequence[act.Action]) -> None:
        """Check a step: what must be given back is given back in it."""
        stopped = {
            key
            for action in actions
            if isinstance(action, act.StopLaunchers) and action.now
            for key in action.keys
        }
        left = self._to_stop - stopped
        self._require("claim-returned", not left, f"{sorted(left)} go on")
        self._to_stop.clear()
        if self.ended is None and not self._cancelled and not self._may_stop:
            broken = [key for key, claim in self.claims.items() if claim.is_broken]
            self._require("claim-whole", not broken, f"{broken} go on")


def _size(part: ev.ClaimPart) -> int:
    return part.launcher.cores * part.launcher.nodes


def _is_division(
    components: Components | None, cores: int, parts: Sequence[tuple[int, str]]
) -> bool:
    """Whether (processors, site) of parts are a division that the job allows."""
    if components is None:
        return [size for size, _ in parts] == [cores]
    sizes = Counter(size for size, _ in parts)
    if not components.splits:
        is_most = components.most is None or len(parts) <= components.most
        is_single = len({site for _, site in parts}) == len(parts)
        unit = components.ppn or 1
        return (
            sum(size for size, _ in parts) == components.size
            and is_most and is_single
            and all(s >= components.least and s % unit == 0 for s in sizes)
        )  # fmt: skip
    return any(
        Counter(part.size for part in split) == sizes
        and (split[0].site is None or Counter((p.size, p.site) for p in split) == Counter(parts))
        for split in components.splits
    )
