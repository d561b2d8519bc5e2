"""Random worlds as they run: what tasks, copies and sites do in them."""

from __future__ import annotations

from random import Random
from typing import Literal

from tests.engine.model.world_of import WorldSpec
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.exchange import Cause, Outcome
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakedCopyFailure, FakeWorld

_AT_ENDS = ("disk-full", "quota", "permission", "connection")
"""Causes of failed copies for which one end may be to blame."""


class RandomBehaviour(Behaviour):
    """What the sites of a world do, drawn from its seed."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self.reports_times = spec.reports_times
        self._vanished: dict[tuple[int, int], int] = {}

    def _random(self, *what: object) -> Random:
        return Random("/".join(map(str, (self._spec.seed, *what))))

    def report_delay_s(self, key: str) -> float:
        delays_s = self._spec.report_delay_s
        return delays_s[0] if len(delays_s) == 1 else self._random("told", key).choice(delays_s)

    def outcome(self, key: str, site: int) -> Outcome | None:
        if site == self._spec.bad_site:
            return Outcome("exit", exit_code=1, message="this site fails everything")
        return None

    def vanishes(self, key: str, workflow: int, file: int, site: int) -> bool:
        share, times = self._spec.gone_share, self._vanished.get((workflow, file), 0)
        if not share or times > 1 or self._random("gone", key, file).random() >= share:
            return False
        self._vanished[workflow, file] = times + 1
        return True

    def cancel_s(self, key: str) -> float:
        delays_s = self._spec.cancel_s
        return delays_s[0] if len(delays_s) == 1 else self._random("cancel", key).choice(delays_s)

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        share = 1 - self._spec.vanished_share if started else self._spec.kept_share
        return self._random("keeps", key, crash).random() < share

    def launcher(self, key: str) -> LauncherPlan:
        random = self._random("launcher", key)
        fails = random.random() < self._spec.launcher_failure_share
        kind = random.choice(["refused", "dies", "dies"]) if fails else ""
        cause: Cause = random.choice(["node", "preempted", "lost"])
        refusals = self._spec.launcher_refusals
        refusal = refusals[0] if len(refusals) == 1 else random.choice(refusals)
        return LauncherPlan(
            wait_s=random.choice(self._spec.launcher_wait_s),
            refused=refusal if kind == "refused" else None,
            dies_s=random.choice([0.0, 10.0, 90.0]) if kind == "dies" else None,
            death=cause,
            drains_s=random.choice([None, 10.0, 60.0]),
        )

    def return_s(self, key: str, crash: int) -> float | None:
        random = self._random("return", key, crash)
        if random.random() < self._spec.cut_off_share:
            return None
        return random.choice([0.0, 0.5, 20.0, 130.0])


class RandomTasks:
    """What the tasks and copies of a world do, drawn from its seed."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self._max_failures = 3 if spec.is_mild else 10**9
        """Of one copy."""
        self._failures: dict[tuple[int, int, int], int] = {}

    def result(self, key: str, workflow: int, task: int) -> Outcome:
        """How an attempt ends."""
        spec = self._spec
        random = Random(f"{spec.seed}/{key}")
        if random.random() < spec.failure_share:
            host = random.choice([None, "n1", "n2"])
            cause = random.choice(spec.causes)
            return Outcome(cause, host=host, peak_memory_bytes=2**29, message="failed by the test")
        record = spec.workflows[workflow].tasks[task]
        sizes = tuple(
            None
            if file in record.optional and random.random() < spec.absent_share
            else random.randrange(10**7)
            for file in record.outputs
        )
        return Outcome("done", exit_code=0, host=random.choice(["n1", "n2"]), sizes=sizes)

    def runtime_s(self, workflow: int, task: int, site: int) -> float:
        """Run time of a task at a site."""
        spec = self._spec
        if site == spec.bad_site:
            return 0.0
        return Random(f"{spec.seed}/{workflow}/{task}/{site}").choice(spec.runtimes_s)

    def stalled_s(self, action: act.CopyFile) -> float:
        """For how long a copy stalls."""
        spec = self._spec
        copy = action.workflow, action.file, action.source, action.destination, *action.avoid
        stalls = Random(f"stall {spec.seed}/{copy}").random() < spec.stalled_share
        return 300.0 if stalls else 0.0

    def has_methods(self, action: act.CopyFile) -> bool:
        """Whether a copy could go by a second transfer method."""
        link = action.source, action.destination
        share = self._spec.two_methods_share
        return Random(f"methods {self._spec.seed}/{link}").random() < share

    def fails(
        self, action: act.CopyFile
    ) -> Literal["transient", "infeasible"] | FakedCopyFailure | None:
        """How a copy fails; None if the file arrives."""
        spec = self._spec
        copy = action.workflow, action.file, action.destination
        count = self._failures.get(copy, 0)
        random = Random(f"{spec.seed}/{copy}/{count}")
        if count >= self._max_failures or random.random() >= spec.copy_failure_share:
            return None
        self._failures[copy] = count + 1
        if spec.copy_causes:
            return self._failure(random)
        return "infeasible" if random.random() < spec.infeasible_share else "transient"

    def _failure(self, random: Random) -> FakedCopyFailure:
        cause = random.choice(self._spec.copy_causes)
        ends: list[Literal["source", "destination", ""]] = ["", "source", "destination"]
        end = random.choice(ends) if cause in _AT_ENDS else ""
        is_transient = cause in ("connection", "stalled", "checksum") or (
            cause == "unknown" and random.random() >= self._spec.infeasible_share
        )
        return FakedCopyFailure(cause, is_transient, end)


def _observed(
    spec: WorldSpec, at_s: float, site: int, jobs: tuple[ev.BackgroundJob, ...]
) -> ev.Event:
    """What a run observes of others' jobs."""
    if spec.settings.place is None:
        return ev.SiteObserved(at_s, site, jobs)
    running = sum(job.cores for job in jobs if job.started_s is not None)
    return ev.SiteLoadObserved(at_s, site, running, sum(job.cores for job in jobs) - running)


def make_world(spec: WorldSpec) -> FakeWorld:
    """The world of a description, before its first event."""
    tasks = RandomTasks(spec)
    world = FakeWorld(
        spec.workflows,
        spec.catalog,
        spec.settings,
        result=tasks.result,
        runtime_s=tasks.runtime_s,
        fails=tasks.fails if spec.copy_failure_share else None,
        behaviour=RandomBehaviour(spec),
        stalled_s=tasks.stalled_s,
        has_methods=tasks.has_methods,
        arrive_s=spec.arrive_s,
        together=spec.together,
        queues=spec.queues,
        reused=spec.reused,
        holds_sizes=True,
    )
    for site, from_s, until_s in spec.pauses:
        world.post(from_s, ev.SitePaused(from_s, site, "closed by the test"))
        world.post(until_s, ev.SiteReopened(until_s, site))
    for at_s, site, jobs in spec.loads:
        world.post(at_s, _observed(spec, at_s, site, jobs))
    if spec.loads:  # The load of others ends, so that no run waits for it for ever.
        for site in range(len(spec.catalog.sites)):
            world.post(200.0, _observed(spec, 200.0, site, ()))
    for event in spec.requests:
        world.post(event.at_s, event)
    for at_s, mode in spec.cancels:
        world.post(at_s, ev.CancelAsked(at_s, mode))
    return world
