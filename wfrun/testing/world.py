"""A world without I/O for testing cores and policies: sites with FCFS queues and links with
bandwidth, on a heap of future events."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

from wfrun.engine import actions as act
from wfrun.engine import events as ev
from wfrun.engine.core import Core
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.network import Network
from wfrun.engine.records import Outcome

Runtime = Callable[[int, int, int], float]
"""(workflow, task, site) → seconds that the task takes there."""

Result = Callable[[str, int, int], Outcome]
"""(key, workflow, task) → how an attempt ends; its start and end are filled in."""

Fails = Callable[[act.CopyFile], Literal["transient", "infeasible"] | None]
"""How a copy fails; None: the file arrives."""


class World:
    """Carries out a core's actions at virtual times.

    ``result`` decides how attempts end, ``runtime_s`` after how long; by default they are done
    after their documented time at the site's speed and write what is documented. ``fails`` decides
    which copies fail. ``log`` holds every event in order, decided ones included. ``keep_log=False``
    saves memory.
    """

    def __init__(
        self,
        workflows: list[Workflow],
        catalog: Catalog,
        settings: ev.Settings,
        *,
        result: Result | None = None,
        runtime_s: Runtime | None = None,
        fails: Fails | None = None,
        keep_log: bool = True,
    ) -> None:
        self._documents = {str(i): w for i, w in enumerate(workflows)}
        self.core = Core(self._documents)
        self.catalog = catalog
        self.log: list[ev.Event] = []
        self.actions: list[act.Action] = []
        self._keep_log = keep_log
        self._network = Network([s.name for s in catalog.sites], catalog.links)
        self._result = result or self._documented
        self._runtime_s = runtime_s or self._documented_s
        self._fails = fails
        self._future: list[tuple[float, int, ev.Event]] = []
        self._serial = 0
        self._now_s = 0.0
        self._free = [s.slots for s in catalog.sites]
        self._queues: list[deque[tuple[str, int, int]]] = [deque() for _ in catalog.sites]
        self._running: dict[str, tuple[int, int]] = {}
        self.post(0.0, ev.RunStarted(0.0, "w", settings, catalog.sites, catalog.links,
                                     len(workflows)))  # fmt: skip
        for i, workflow in enumerate(workflows):
            self.post(0.0, ev.WorkflowAdded(0.0, i, workflow.name, str(i)))

    def post(self, at_s: float, event: ev.Event) -> None:
        """Let an event happen at a time; those of one time in the order of posting."""
        self._serial += 1
        heapq.heappush(self._future, (at_s, self._serial, event))

    def run(self) -> str | None:
        """To the end of the run, or until nothing is going to happen; returns the outcome."""
        for _ in self.steps():
            pass
        return self.core.state.ended

    def steps(self) -> Iterator[ev.Event]:
        """One event at a time."""
        ended = False  # a resumed run may have ended before
        while self._future and not ended:
            self._now_s, _, event = heapq.heappop(self._future)
            if isinstance(event, ev.AttemptEnded) and not self._leave(event.key):
                continue  # it was cancelled before
            decided, actions = self.core.step(event)
            if self._keep_log:
                self.log.append(event)
                self.log.extend(decided)
                self.actions.extend(actions)
            for action in actions:
                self._carry_out(action)
            ended = self.core.state.ended is not None
            yield event

    def _documented(self, key: str, workflow: int, task: int) -> Outcome:
        w = self.core.state.workflows[workflow].workflow
        sizes = tuple(w.files[f].size_bytes or 0 for f in w.tasks[task].outputs)
        return Outcome(cause="done", exit_code=0, sizes=sizes)

    def _documented_s(self, workflow: int, task: int, site: int) -> float:
        record = self.core.state.workflows[workflow].workflow.tasks[task]
        return (record.runtime_s or 0.0) / self.catalog.sites[site].speed_ratio

    def crash(self, lost: tuple[tuple[int, int, int], ...] = ()) -> None:
        """The engine dies and a new one takes over from the log. Copies, timers and what was
        queued at the sites are gone; what runs goes on, and its end is heard of. ``lost`` are
        (workflow, file, site) of files that the new one does not find any more."""
        self.core = Core(self._documents)
        self.core.replay(self.log)
        dead = (
            ev.TransferEnded,
            ev.TransferFailed,
            ev.TimerFired,
            ev.AttemptsSubmitted,
            ev.AttemptsFound,
            ev.RunResumed,
        )
        self._future = [entry for entry in self._future if not isinstance(entry[2], dead)]
        heapq.heapify(self._future)
        for queue in self._queues:
            queue.clear()
        # before all else of this moment
        heapq.heappush(self._future, (self._now_s, 0, ev.RunResumed(self._now_s, lost)))

    def _carry_out(self, action: act.Action) -> None:
        now_s = self._now_s
        if isinstance(action, act.SubmitAttempts):
            keys = tuple(key for key, _, _ in action.attempts)
            self.post(now_s, ev.AttemptsSubmitted(now_s, action.site, keys))
            self._queues[action.site].extend(action.attempts)
            self._start_waiting(action.site)
        elif isinstance(action, act.CopyFile):
            self._copy(action)
        elif isinstance(action, act.SetTimer):
            at_s = max(now_s, action.at_s)
            self.post(at_s, ev.TimerFired(at_s, action.timer))
        elif isinstance(action, act.CancelAttempts):
            self._cancel(action)
        elif isinstance(action, act.FindAttempts):
            active = tuple(k for k in action.keys if k in self._running)
            absent = tuple(k for k in action.keys if k not in self._running)
            self.post(now_s, ev.AttemptsFound(now_s, action.site, absent, active))

    def _start_waiting(self, site: int) -> None:
        now_s = self._now_s
        queue = self._queues[site]
        while queue:
            key, workflow, task = queue[0]
            record = self.core.state.workflows[workflow].workflow.tasks[task]
            if record.resources.cores > self._free[site]:
                return
            queue.popleft()
            self._free[site] -= record.resources.cores
            self._running[key] = (site, record.resources.cores)
            runtime_s = self._runtime_s(workflow, task, site)
            self.post(now_s, ev.AttemptStarted(now_s, key))
            outcome = self._result(key, workflow, task)
            self.post(now_s + runtime_s, ev.AttemptEnded(now_s + runtime_s, key, outcome))

    def _leave(self, key: str) -> bool:
        """Free the cores of an attempt that ends now; False if it is not there any more."""
        held = self._running.pop(key, None)
        if held is None:
            return False
        site, cores = held
        self._free[site] += cores
        self._start_waiting(site)
        return True

    def _copy(self, action: act.CopyFile) -> None:
        now_s = self._now_s
        w = self.core.state.workflows[action.workflow]
        size = max(0, w.sizes[action.file])
        bit = self._network.bit(action.source)
        _, seconds_per_byte, latency_s = self._network.best_source(bit, action.destination)
        elapsed_s = latency_s + size * seconds_per_byte
        how = self._fails(action) if self._fails is not None else None
        if how is not None:
            self.post(
                now_s + elapsed_s,
                ev.TransferFailed(now_s + elapsed_s, action.workflow, action.file, action.source,
                                  action.destination, "failed by the test", how == "transient"),
            )  # fmt: skip
            return
        self.post(
            now_s + elapsed_s,
            ev.TransferEnded(now_s + elapsed_s, action.workflow, action.file, action.source,
                             action.destination, size, elapsed_s),
        )  # fmt: skip

    def _cancel(self, action: act.CancelAttempts) -> None:
        now_s = self._now_s
        queue = self._queues[action.site]
        for key in action.keys:
            queued = [entry for entry in queue if entry[0] == key]
            if queued:
                queue.remove(queued[0])
                self._running[key] = (action.site, 0)
            elif action.queued_only or key not in self._running:
                continue
            self.post(now_s, ev.AttemptEnded(now_s, key, Outcome(cause="cancelled")))
