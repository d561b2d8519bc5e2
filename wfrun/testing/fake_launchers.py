"""The launcher sites of a ``FakeWorld``."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine import events as ev
from wfrun.engine.core.actions import ResizeAttempt
from wfrun.engine.exchange import Cause, LauncherRequest, Outcome, claim_of
from wfrun.engine.model import SiteSpec
from wfrun.testing.fake_programs import FakePrograms
from wfrun.testing.fake_sites import FakeAttempt, FakeSite, FakeSiteContext, SubmittedAttempt


class FakeLauncher:
    """A launcher that is queued or runs."""

    __slots__ = (
        "draining",
        "ends_s",
        "free_cores",
        "is_disconnected",
        "key",
        "request",
        "stopping",
    )

    def __init__(self, request: LauncherRequest) -> None:
        self.key = request.key
        self.request = request
        self.free_cores = 0
        self.ends_s: float | None = None
        """End of the launcher's walltime, in seconds; None while it is queued."""
        self.draining = ""
        """Why the launcher takes no more tasks; empty while it takes tasks."""
        self.stopping = False
        """Whether the launcher ends when its last running task ends."""
        self.is_disconnected = False
        """Whether no engine can reach it until it ends or reconnects."""


class FakeLauncherSite(FakeSite):
    """A site with launchers and a FCFS queue.

    An attempt starts in a launcher that has free cores and enough time left; among several, in the
    one that ends last. An attempt that is longer than the whole walltime of a launcher may start
    there, too, and is ended at the walltime.
    """

    def __init__(self, index: int, spec: SiteSpec, world: FakeSiteContext) -> None:
        super().__init__(index, spec, world)
        self._launchers: dict[str, FakeLauncher] = {}
        self._ended_launchers: dict[str, tuple[Cause, str | None]] = {}
        """Cause and message of the end of each ended launcher, as in LauncherEnded."""
        self._unreported: dict[str, Outcome] = {}
        """Outcomes of attempts that ended in disconnected launchers, by key. They are reported when
        the launcher reconnects."""
        self._programs = FakePrograms(
            lambda delay_s, call: world.at(world.now_s + delay_s, call),
            self._report_resized, self._reclaim, lambda: world.now_s,
        )  # fmt: skip

    # Orders of the engine

    def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        """Queue launchers."""
        world = self._world
        for request in launchers:
            key = request.key
            if key in self._launchers or key in self._ended_launchers:
                continue
            plan = world.behaviour.launcher(key)
            if plan.refused is not None:
                self._end_launcher(FakeLauncher(request), plan.refused, "refused by the test")
                continue
            self._launchers[key] = launcher = FakeLauncher(request)
            self._report(ev.LaunchersSubmitted(world.now_s, self.index, (key,)), key, key)
            world.at(world.now_s + plan.wait_s, lambda x=launcher: self._begin(x))  # type: ignore[misc]

    def stop_launchers(self, keys: Sequence[str], *, now: bool) -> None:
        """Stop launchers, ``Behaviour.cancel_s`` seconds later."""
        world = self._world
        for key in keys:
            delay_s = world.behaviour.cancel_s(key)
            world.at(world.now_s + delay_s, lambda k=key: self._stop(k, now=now))  # type: ignore[misc]

    def find_launchers(self, keys: Sequence[str]) -> None:
        """Report the ends of ended launchers. Live launchers reconnect after ``Behaviour.return_s``
        seconds."""
        world = self._world
        for key in keys:
            launcher = self._launchers.get(key)
            if launcher is None:
                cause, message = self._ended_launchers.get(
                    key, ("cancelled", "it was never submitted")
                )
                self._report(ev.LauncherEnded(world.now_s, self.index, key, cause, message), key)
            elif launcher.ends_s is not None and not launcher.is_disconnected:
                back_s = world.behaviour.return_s(key, world.crashes)
                launcher.is_disconnected = True
                if back_s is not None:
                    world.at(world.now_s + back_s, lambda x=launcher: self._reconnect(x))  # type: ignore[misc]

    def resize(self, action: ResizeAttempt) -> None:
        """Ask the program of an attempt to change its size."""
        if action.key in self.running:
            self._programs.resize(action)

    def dismiss(self) -> None:
        """Stop all launchers."""
        self.stop_launchers(tuple(self._launchers), now=False)

    # What happens

    def change(self, spec: SiteSpec) -> None:
        """Use a new description of the site. Waiting attempts that are too wide for its launchers
        leave the queue. Existing launchers go on."""
        launchers = spec.access.launchers if spec.access is not None else None
        most = launchers.cores if launchers is not None else 0
        self.spec = spec
        for entry in list(self.waiting):
            if self._world.cores(entry.key) > most:
                self.waiting.remove(entry)
                self._present.discard(entry.key)
        self.start_waiting()

    def engine_died(self) -> None:
        """End launchers that do not survive the death of the engine."""
        keeps, crash = self._world.behaviour.keeps, self._world.crashes
        for key, launcher in list(self._launchers.items()):
            if not keeps(key, crash, started=launcher.ends_s is not None):
                self._end_launcher(launcher, "node", "it died with the engine")
        super().engine_died()

    def start_waiting(self) -> None:
        """Start waiting attempts in launchers with free cores."""
        world = self._world
        passed = 0
        while len(self.waiting) > passed:
            entry = self.waiting[passed]
            cores = world.cores(entry.key)
            launcher = self._choose(entry, cores)
            if launcher is None:
                if not world.claim(entry.key):
                    return
                passed += 1  # Nobody else waits for its placeholder.
                continue
            del self.waiting[passed]
            launcher.free_cores -= cores
            self._start(entry, cores, launcher.key)

    def _choose(self, entry: SubmittedAttempt, cores: int) -> FakeLauncher | None:
        """Choose the launcher in which an attempt starts; None if no launcher can start it."""
        world = self._world
        runtime_s = world.attempt_runtime_s(entry.workflow, entry.task, self.index)
        best: FakeLauncher | None = None
        best_s = 0.0
        for launcher in self._launchers.values():
            ends_s = launcher.ends_s
            if ends_s is None or launcher.free_cores < cores or not self._takes_tasks(launcher):
                continue
            if claim_of(launcher.key) != world.claim(entry.key):
                continue
            in_time = world.now_s + runtime_s <= ends_s or runtime_s >= launcher.request.walltime_s
            if in_time and ends_s > best_s:
                best, best_s = launcher, ends_s
        return best

    def _takes_tasks(self, launcher: FakeLauncher) -> bool:
        return not (launcher.draining or launcher.stopping or launcher.is_disconnected)

    def _begin(self, launcher: FakeLauncher) -> None:
        if launcher.key not in self._launchers:
            return
        world, request = self._world, launcher.request
        plan = world.behaviour.launcher(launcher.key)
        launcher.free_cores = request.cores * request.nodes
        launcher.ends_s = world.now_s + request.walltime_s
        world.at(launcher.ends_s, lambda: self._expire(launcher))
        if plan.dies_s is not None and plan.dies_s < request.walltime_s:
            dies_s = world.now_s + plan.dies_s
            world.at(dies_s, lambda: self._end_launcher(launcher, plan.death, "died by the test"))
        if plan.drains_s is not None and plan.drains_s < request.walltime_s:
            world.at(launcher.ends_s - plan.drains_s, lambda: self._drain(launcher))
        self._report_live(launcher)
        self.start_waiting()

    def _report_live(self, launcher: FakeLauncher) -> None:
        key, request = launcher.key, launcher.request
        slots = request.cores * request.nodes
        self._report(
            ev.LauncherStarted(
                self._world.now_s, self.index, key, "n1", slots, launcher.ends_s, "tcp", 0.01
            ),
            key,
            key,
        )

    def _reconnect(self, launcher: FakeLauncher) -> None:
        """Reconnect a launcher to the new engine, and report its running attempts and the outcomes
        that were not reported."""
        if launcher.key not in self._launchers:
            return
        launcher.is_disconnected = False
        self._report_live(launcher)
        for running in self._attempts_in(launcher):
            key = running.entry.key
            self._report_start(key)
            self._programs.report(key)
            if key in self._unreported:
                event = self._end(running, self._unreported.pop(key))
                if event is not None:
                    self._world.post(event.at_s, event)
        if launcher.draining:
            self._report_draining(launcher)
        self.start_waiting()

    def _drain(self, launcher: FakeLauncher) -> None:
        if launcher.key in self._launchers:
            launcher.draining = "its time is nearly over"
            if not launcher.is_disconnected:
                self._report_draining(launcher)

    def _report_draining(self, launcher: FakeLauncher) -> None:
        key = launcher.key
        event = ev.LauncherDraining(self._world.now_s, self.index, key, launcher.draining)
        self._report(event, key, key)

    def _stop(self, key: str, *, now: bool) -> None:
        launcher = self._launchers.get(key)
        if launcher is None:
            return
        launcher.stopping = True
        if now and launcher.ends_s is not None:
            self._end_launcher(launcher, "done", None, "reclaimed")
            return
        if launcher.ends_s is None:
            self._end_launcher(launcher, "cancelled", None)
        else:
            self._end_if_stopped(launcher)

    def _end_if_stopped(self, launcher: FakeLauncher) -> None:
        if launcher.stopping and not self._attempts_in(launcher):
            self._end_launcher(launcher, "done", None)

    def _expire(self, launcher: FakeLauncher) -> None:
        """End a launcher at the end of its walltime."""
        self._end_launcher(
            launcher, "done", None, "lost" if launcher.is_disconnected else "expired"
        )

    def _end_launcher(
        self,
        launcher: FakeLauncher,
        cause: Cause,
        message: str | None,
        attempts_cause: Cause = "lost",
    ) -> None:
        """End a launcher. The attempts in it end with the cause ``attempts_cause``."""
        key, world = launcher.key, self._world
        if key in self._ended_launchers:
            return
        self._ended_launchers[key] = cause, message
        self._launchers.pop(key, None)
        for running in self._attempts_in(launcher):
            event = self._end(
                running, Outcome(attempts_cause, message=f"its launcher ended: {cause}")
            )
            if event is not None:
                world.post(event.at_s, event)
        self._report(ev.LauncherEnded(world.now_s, self.index, key, cause, message), key, key)

    # Attempts

    def _attempts_in(self, launcher: FakeLauncher) -> list[FakeAttempt]:
        return [running for running in self.running.values() if running.launcher == launcher.key]

    def _start(self, entry: SubmittedAttempt, cores: int, launcher: str) -> None:
        super()._start(entry, cores, launcher)
        self._programs.start(entry.key, self._world.behaviour.program(entry.key))

    def _report_resized(self, event: ev.JobResized) -> None:
        running = self.running.get(event.key)
        if running is not None and not self._is_out_of_reach(running):
            self._report(event, event.key, running.launcher)

    def _reclaim(self, key: str) -> None:
        event = self._end(self.running[key], Outcome("reclaimed", message="by the test"))
        if event is not None:
            self._world.post(event.at_s, event)

    def _end(self, running: FakeAttempt, outcome: Outcome) -> ev.Event | None:
        """End an attempt. In a disconnected launcher, its outcome is kept until the launcher
        reconnects."""
        if self._is_out_of_reach(running):
            self._unreported.setdefault(running.entry.key, outcome)
            return None
        self._programs.end(running.entry.key)
        return super()._end(running, outcome)

    def _release(self, running: FakeAttempt) -> None:
        launcher = self._launchers.get(running.launcher)
        if launcher is not None:
            launcher.free_cores += running.cores
            self._end_if_stopped(launcher)

    def _is_out_of_reach(self, running: FakeAttempt) -> bool:
        launcher = self._launchers.get(running.launcher)
        return launcher is not None and launcher.is_disconnected
