"""A site of a ``FakeWorld`` whose attempts run in launchers."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine import events as ev
from wfrun.engine.exchange import Cause, LauncherRequest, Outcome
from wfrun.engine.model import SiteSpec
from wfrun.testing.fake_sites import FakeSite, RunningAttempt, SiteContext, SubmittedAttempt


class FakeLauncher:
    """A launcher that has not ended."""

    __slots__ = ("draining", "ends_s", "free_cores", "is_cut_off", "key", "request", "stopping")

    def __init__(self, request: LauncherRequest) -> None:
        self.key = request.key
        self.request = request
        self.free_cores = 0
        self.ends_s: float | None = None
        """When its walltime is over; None: it is queued."""
        self.draining = ""
        """Why it takes no more tasks; empty: it takes some."""
        self.stopping = False
        """It ends with its last running task."""
        self.is_cut_off = False
        """No engine hears of it any more until it ends."""


class FakeLauncherSite(FakeSite):
    """Attempts start first come, first served, in the launcher that lives longest of those that
    have the cores free and the time for it. What is longer than any walltime starts anywhere, and
    expires."""

    def __init__(self, index: int, spec: SiteSpec, world: SiteContext) -> None:
        super().__init__(index, spec, world)
        self._launchers: dict[str, FakeLauncher] = {}
        self._gone: dict[str, tuple[Cause, str | None]] = {}
        """Launchers that have ended, with what LauncherEnded tells."""
        self._unreported: dict[str, Outcome] = {}
        """How attempts ended in launchers that were cut off."""

    # Orders of the engine

    def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        world = self._world
        for request in launchers:
            key = request.key
            if key in self._launchers or key in self._gone:
                continue
            plan = world.behaviour.launcher(key)
            if plan.refused is not None:
                self._end_launcher(FakeLauncher(request), plan.refused, "refused by the test")
                continue
            self._launchers[key] = launcher = FakeLauncher(request)
            self._say(ev.LaunchersSubmitted(world.now_s, self.index, (key,)), key, key)
            world.at(world.now_s + plan.wait_s, lambda x=launcher: self._begin(x))  # type: ignore[misc]

    def stop_launchers(self, keys: Sequence[str]) -> None:
        world = self._world
        for key in keys:
            delay_s = world.behaviour.cancel_s(key)
            world.at(world.now_s + delay_s, lambda k=key: self._stop(k))  # type: ignore[misc]

    def find_launchers(self, keys: Sequence[str]) -> None:
        world = self._world
        for key in keys:
            launcher = self._launchers.get(key)
            if launcher is None:
                cause, message = self._gone.get(key, ("cancelled", "it was never submitted"))
                self._say(ev.LauncherEnded(world.now_s, self.index, key, cause, message), key)
            elif launcher.ends_s is not None and not launcher.is_cut_off:
                back_s = world.behaviour.return_s(key, world.crashes)
                launcher.is_cut_off = True
                if back_s is not None:
                    world.at(world.now_s + back_s, lambda x=launcher: self._come_back(x))  # type: ignore[misc]

    def dismiss(self) -> None:
        self.stop_launchers(tuple(self._launchers))

    # What happens

    def engine_died(self) -> None:
        keeps, crash = self._world.behaviour.keeps, self._world.crashes
        for key, launcher in list(self._launchers.items()):
            if not keeps(key, crash, started=launcher.ends_s is not None):
                self._end_launcher(launcher, "node", "it died with the engine")
        super().engine_died()

    def start_waiting(self) -> None:
        world = self._world
        while self.waiting:
            entry = self.waiting[0]
            cores = world.cores(entry.workflow, entry.task)
            launcher = self._choose(entry, cores)
            if launcher is None:
                return
            self.waiting.popleft()
            launcher.free_cores -= cores
            self._start(entry, cores, launcher.key)

    def _choose(self, entry: SubmittedAttempt, cores: int) -> FakeLauncher | None:
        world = self._world
        lasts_s = world.lasts_s(entry.workflow, entry.task, self.index)
        best: FakeLauncher | None = None
        best_s = 0.0
        for launcher in self._launchers.values():
            ends_s = launcher.ends_s
            if ends_s is None or launcher.free_cores < cores or not self._takes_tasks(launcher):
                continue
            in_time = world.now_s + lasts_s <= ends_s or lasts_s >= launcher.request.walltime_s
            if in_time and ends_s > best_s:
                best, best_s = launcher, ends_s
        return best

    def _takes_tasks(self, launcher: FakeLauncher) -> bool:
        return not (launcher.draining or launcher.stopping or launcher.is_cut_off)

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
        self._introduce(launcher)
        self.start_waiting()

    def _introduce(self, launcher: FakeLauncher) -> None:
        key, request = launcher.key, launcher.request
        slots = request.cores * request.nodes
        self._say(
            ev.LauncherStarted(
                self._world.now_s, self.index, key, "n1", slots, launcher.ends_s, "tcp", 0.01
            ),
            key,
            key,
        )

    def _come_back(self, launcher: FakeLauncher) -> None:
        """It is connected to the new engine, and tells what it runs."""
        if launcher.key not in self._launchers:
            return
        launcher.is_cut_off = False
        self._introduce(launcher)
        for running in self._attempts_in(launcher):
            key = running.entry.key
            self._tell_started(key)
            if key in self._unreported:
                told = self._end(running, self._unreported.pop(key))
                if told is not None:
                    self._world.post(told.at_s, told)
        if launcher.draining:
            self._tell_draining(launcher)
        self.start_waiting()

    def _drain(self, launcher: FakeLauncher) -> None:
        if launcher.key in self._launchers:
            launcher.draining = "its time is nearly over"
            if not launcher.is_cut_off:
                self._tell_draining(launcher)

    def _tell_draining(self, launcher: FakeLauncher) -> None:
        key = launcher.key
        event = ev.LauncherDraining(self._world.now_s, self.index, key, launcher.draining)
        self._say(event, key, key)

    def _stop(self, key: str) -> None:
        launcher = self._launchers.get(key)
        if launcher is None:
            return
        launcher.stopping = True
        if launcher.ends_s is None:
            self._end_launcher(launcher, "cancelled", None)
        else:
            self._end_if_stopped(launcher)

    def _end_if_stopped(self, launcher: FakeLauncher) -> None:
        if launcher.stopping and not self._attempts_in(launcher):
            self._end_launcher(launcher, "done", None)

    def _expire(self, launcher: FakeLauncher) -> None:
        """Its walltime is over."""
        self._end_launcher(launcher, "done", None, "lost" if launcher.is_cut_off else "expired")

    def _end_launcher(
        self, launcher: FakeLauncher, cause: Cause, message: str | None, tries: Cause = "lost"
    ) -> None:
        """End it, and what runs in it by the cause ``tries``."""
        key, world = launcher.key, self._world
        if key in self._gone:
            return
        self._gone[key] = cause, message
        self._launchers.pop(key, None)
        for running in self._attempts_in(launcher):
            told = self._end(running, Outcome(tries, message=f"its launcher ended: {cause}"))
            if told is not None:
                world.post(told.at_s, told)
        self._say(ev.LauncherEnded(world.now_s, self.index, key, cause, message), key, key)

    # Attempts

    def _attempts_in(self, launcher: FakeLauncher) -> list[RunningAttempt]:
        return [running for running in self.running.values() if running.launcher == launcher.key]

    def _end(self, running: RunningAttempt, outcome: Outcome) -> ev.Event | None:
        """What ends in a launcher that is cut off is not known before the launcher is back."""
        if self._is_out_of_reach(running):
            self._unreported.setdefault(running.entry.key, outcome)
            return None
        return super()._end(running, outcome)

    def _release(self, running: RunningAttempt) -> None:
        launcher = self._launchers.get(running.launcher)
        if launcher is not None:
            launcher.free_cores += running.cores
            self._end_if_stopped(launcher)

    def _is_out_of_reach(self, running: RunningAttempt) -> bool:
        launcher = self._launchers.get(running.launcher)
        return launcher is not None and launcher.is_cut_off
