"""The cost of events in counted steps, and worlds to measure it in.

A step is one executed line of a file under ``wfrun/engine``, or one element of a collection that
such a line passes to a builtin that iterates over it (``sum``, ``min``, ``sorted``, ``list`` …).
Line events alone would miss the second kind: comprehensions and generators produce one per element,
loops in C none. Not counted: operators and methods that iterate (``a | b``, ``list.remove``) and
the comparisons of ``heapq.heappush`` and ``heappop``. Counts depend neither on the machine nor on
its load.
"""

from __future__ import annotations

import builtins
import heapq
import operator
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from math import log2
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import wfrun.engine
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import LauncherRequest, Outcome
from wfrun.engine.model import SiteSpec, Workflow

ENGINE = str(Path(wfrun.engine.__file__ or "").parent)

WALKS = ("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
"""Builtins whose cost is the length of their argument."""

HEAP_WALKS = ("heapify", "merge", "nlargest", "nsmallest")
"""The counted functions of ``heapq``."""

GROWTH = 1.3
"""Maximum ratio of the steps of an event in a large world to those in a small one."""

STEPS_PER_DOUBLING = 8
"""Maximum number of additional steps of an event for each doubling of the size: trees and heaps are
allowed."""

COUNTED_EVENTS = 800
"""Approximate number of events of one run that are counted: a random sample, since counting is ten
times slower than running."""

MAX_STEPS = 1_500_000
"""Maximum number of steps counted in a run. A run that exceeds it costs too much and is stopped."""


class Walk:
    """Replaces a builtin and counts the elements that it is given."""

    def __init__(self, original: Callable[..., Any], meter: Meter) -> None:
        self._original = original
        self._meter = meter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._meter.is_counting:
            self._meter.walked(args, sys._getframe(1).f_code)
        return self._original(*args, **kwargs)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._original)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __getitem__(self, item: Any) -> Any:
        return self._original[item]  # type: ignore[index]


class Meter:
    """Counts the steps of functions of the engine, in total and by function.

    Inside its ``with`` block, the names of builtins in modules of the engine refer to `Walk`
    objects.
    """

    def __init__(self) -> None:
        self.is_counting = False
        self.steps = 0
        self.functions: Counter[CodeType] = Counter()
        self._tracers: dict[CodeType, Callable[..., Any] | None] = {}
        self._changed: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Meter:
        walks: dict[str, Any] = {name: Walk(getattr(builtins, name), self) for name in WALKS}
        heaps = {name: Walk(getattr(heapq, name), self) for name in HEAP_WALKS}
        for name, module in list(sys.modules.items()):
            if name.startswith("wfrun.engine"):
                for walk, stand_in in walks.items():
                    self._change(module, walk, stand_in)
                for walk, stand_in in heaps.items():
                    if vars(module).get(walk) is getattr(heapq, walk):
                        self._change(module, walk, stand_in)
        for walk, stand_in in heaps.items():
            self._change(heapq, walk, stand_in)
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, before in reversed(self._changed):
            if before is None:
                delattr(module, name)
            else:
                setattr(module, name, before)
        self._changed.clear()

    def _change(self, module: Any, name: str, value: object) -> None:
        self._changed.append((module, name, vars(module).get(name)))
        setattr(module, name, value)

    def count(self, function: Callable[..., Any], *args: Any) -> tuple[Any, int]:
        """Call a function; returns its result and its steps."""
        before, outer = self.steps, sys.gettrace()
        self.is_counting = True
        sys.settrace(self._enter_frame)
        try:
            result = function(*args)
        finally:
            sys.settrace(outer)
            self.is_counting = False
        return result, self.steps - before

    def walked(self, args: tuple[Any, ...], caller: CodeType) -> None:
        """Count a call of a builtin. One with several arguments (``max(a, b)``) iterates over no
        collection, and an argument without a length is a generator, whose lines are counted."""
        if len(args) == 1 or (args and isinstance(args[0], int)):  # nsmallest(n, collection)
            elements = operator.length_hint(args[-1], 0)
            self.steps += elements
            self.functions[caller] += elements

    def _enter_frame(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if code not in self._tracers:
            self._tracers[code] = self._tracer(code)
        return self._tracers[code]

    def _tracer(self, code: CodeType) -> Callable[..., Any] | None:
        if not code.co_filename.startswith(ENGINE):
            return None
        functions = self.functions

        def trace(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            if event == "line":
                self.steps += 1
                functions[code] += 1
            return trace

        return trace


# Worlds


class Steppable(Protocol):
    """A world that drives a core of its own."""

    core: Core

    def steps(self) -> Iterator[ev.Event]:
        """Run one event at a time, to the end."""


class LauncherWorld:
    """Carries out the actions of a core at virtual times; all sites have launchers.

    A launcher starts ``QUEUE_S`` after it is requested, and ends when it is stopped and idle.
    Attempts start first come, first served, in the first launcher with enough free cores.
    """

    QUEUE_S = 20.0
    COPY_S = 0.5

    def __init__(
        self, workflows: Sequence[Workflow], sites: tuple[SiteSpec, ...], settings: ev.Settings
    ) -> None:
        self.core = Core({str(i): w for i, w in enumerate(workflows)})
        self._workflows = workflows
        self._sites = sites
        self._now_s = 0.0
        self._serial = 0
        self._future: list[tuple[float, int, ev.Event]] = []
        self._queues: list[deque[tuple[str, int, int]]] = [deque() for _ in sites]
        self._free: list[dict[str, int]] = [{} for _ in sites]
        """Free cores by live launcher."""
        self._size: dict[str, int] = {}
        self._stopping: set[str] = set()
        self._running: dict[str, tuple[int, str, int]] = {}
        """(site, launcher, cores) by attempt."""
        self.post(0.0, ev.RunStarted(0.0, "w", settings, sites, (), len(workflows)))
        for i, workflow in enumerate(workflows):
            self.post(0.0, ev.WorkflowAdded(0.0, i, workflow.name, str(i)))

    def post(self, at_s: float, event: ev.Event) -> None:
        self._serial += 1
        heapq.heappush(self._future, (at_s, self._serial, event))

    def steps(self) -> Iterator[ev.Event]:
        """Run one event at a time."""
        while self._future and self.core.state.ended is None:
            self._now_s, _, event = heapq.heappop(self._future)
            if isinstance(event, ev.AttemptEnded) and not self._leave(event.key):
                continue  # It was cancelled before.
            if isinstance(event, ev.LauncherStarted):
                self._free[event.site][event.key] = event.slots
                self._start_waiting(event.site)
            _, actions = self.core.step(event)
            for action in actions:
                self._carry_out(action)
            yield event

    def _carry_out(self, action: act.Action) -> None:
        now_s = self._now_s
        if isinstance(action, act.SubmitAttempts):
            keys = tuple(key for key, _, _ in action.attempts)
            self.post(now_s, ev.AttemptsSubmitted(now_s, action.site, keys))
            self._queues[action.site].extend(action.attempts)
            self._start_waiting(action.site)
        elif isinstance(action, act.CopyFile):
            at_s = now_s + self.COPY_S
            size = self._workflows[action.workflow].files[action.file].size_bytes or 0
            self.post(at_s, ev.TransferEnded(at_s, action.workflow, action.file, action.source,
                                             action.destination, size, self.COPY_S))  # fmt: skip
        elif isinstance(action, act.SetTimer):
            at_s = max(now_s, action.at_s)
            self.post(at_s, ev.TimerFired(at_s, action.timer))
        elif isinstance(action, act.StartLaunchers):
            for launcher in action.launchers:
                self._start_launcher(action.site, launcher)
        elif isinstance(action, act.StopLaunchers):
            for key in action.keys:
                self._stopping.add(key)
                self._end_if_idle(action.site, key)
        elif isinstance(action, act.CancelAttempts):
            self._cancel(action)

    def _start_launcher(self, site: int, launcher: LauncherRequest) -> None:
        now_s, cores = self._now_s, launcher.cores * launcher.nodes
        self._size[launcher.key] = cores
        self.post(now_s, ev.LaunchersSubmitted(now_s, site, (launcher.key,)))
        at_s = now_s + self.QUEUE_S
        started = ev.LauncherStarted(at_s, site, launcher.key, "n", cores, None, "tcp", 0.05)
        self.post(at_s, started)

    def _end_if_idle(self, site: int, launcher: str) -> None:
        if self._free[site].get(launcher) == self._size[launcher]:
            del self._free[site][launcher]
            self.post(self._now_s, ev.LauncherEnded(self._now_s, site, launcher, "done"))

    def _start_waiting(self, site: int) -> None:
        now_s, queue = self._now_s, self._queues[site]
        while queue:
            key, workflow, number = queue[0]
            task = self._workflows[workflow].tasks[number]
            cores = task.resources.cores
            free = self._free[site]
            launcher = next(
                (x for x, left in free.items() if left >= cores and x not in self._stopping), None
            )
            if launcher is None:
                return
            queue.popleft()
            free[launcher] -= cores
            self._running[key] = site, launcher, cores
            end_s = now_s + (task.runtime_s or 0.0) / self._sites[site].speed_ratio
            files = self._workflows[workflow].files
            outcome = Outcome("done", 0, started_s=now_s, ended_s=end_s,
                              sizes=tuple(files[f].size_bytes for f in task.outputs))  # fmt: skip
            self.post(now_s, ev.AttemptStarted(now_s, key, launcher))
            self.post(end_s, ev.AttemptEnded(end_s, key, outcome))

    def _leave(self, key: str) -> bool:
        """Free the cores of an attempt that ends now. Returns False if it has ended already."""
        held = self._running.pop(key, None)
        if held is None:
            return False
        site, launcher, cores = held
        if launcher:
            self._free[site][launcher] += cores
            self._start_waiting(site)
            if launcher in self._stopping:
                self._end_if_idle(site, launcher)
        return True

    def _cancel(self, action: act.CancelAttempts) -> None:
        queue = self._queues[action.site]
        for key in action.keys:
            queued = [entry for entry in queue if entry[0] == key]
            if queued:
                queue.remove(queued[0])
                self._running[key] = action.site, "", 0
            elif action.queued_only or key not in self._running:
                continue
            self.post(self._now_s, ev.AttemptEnded(self._now_s, key, Outcome("cancelled")))


# Costs


MIN_OF_A_KIND = 20
"""Minimum number of counted events of a kind whose median is compared."""


class Costs(NamedTuple):
    """Steps of the counted events of one run."""

    events: list[tuple[str, int]]
    """(kind of event, steps) of each event."""
    functions: dict[str, float]
    """Mean steps of an event by function."""
    ended: str | None
    """Outcome of the run; None if it cost too much and was stopped."""

    def share(self, quantile: float, kind: str | None = None) -> int:
        """A quantile of the steps of events; 0 without events."""
        steps = sorted(s for k, s in self.events if kind in (None, k))
        return steps[min(len(steps) - 1, int(quantile * len(steps)))] if steps else 0

    @property
    def median(self) -> int:
        return self.share(0.5)

    @property
    def most(self) -> int:
        """The 95th percentile."""
        return self.share(0.95)

    @property
    def mean(self) -> float:
        return sum(steps for _, steps in self.events) / max(1, len(self.events))


def costs_of(
    world: Steppable,
    expected_events: int,
    *,
    without: tuple[type[ev.Event], ...] = (ev.RunStarted,),
) -> Costs:
    """Run a world to its end and count a sample of its events, except those of some types. The size
    of the sample is `COUNTED_EVENTS` if the expected number of events occurs; with 0 all are
    counted."""
    share = COUNTED_EVENTS / expected_events if expected_events else 1.0
    random = Random(expected_events)
    meter = Meter()
    events: list[tuple[str, int]] = []
    step = world.core.step

    def counted(event: ev.Event) -> tuple[list[ev.Event], list[act.Action]]:
        if isinstance(event, without) or random.random() >= share:
            return step(event)
        result: tuple[list[ev.Event], list[act.Action]]
        result, steps = meter.count(step, event)
        events.append((type(event).__name__, steps))
        return result

    world.core.step = counted  # type: ignore[method-assign]
    with meter:
        for _ in world.steps():
            if meter.steps > MAX_STEPS:
                break
    by_function: Counter[str] = Counter()
    for code, steps in meter.functions.items():
        path = code.co_filename.removeprefix(ENGINE)[1:]
        by_function[f"{path}:{code.co_firstlineno} {code.co_name}"] += steps
    mean = {name: steps / len(events) for name, steps in by_function.items()}
    return Costs(events, mean, world.core.state.ended)


def allowed(steps: float, ratio: float) -> float:
    """Maximum steps of an event in a world that is ``ratio`` times as large."""
    return GROWTH * steps + STEPS_PER_DOUBLING * log2(max(1.0, ratio))


def assert_no_growth(small: Costs, large: Costs, ratio: float) -> None:
    """Assert that the steps of an event do not grow with the size of the world. The mean reveals
    rare events with a large cost, the 95th percentile whether some cost more, the median of each
    kind whether all do. The median of all events would depend on how many there are of each
    kind."""
    assert small.ended == "done", f"the small world ended as {small.ended}"
    counts = Counter(kind for kind, _ in small.events), Counter(kind for kind, _ in large.events)
    measures = [
        *(
            (f"median of {kind}", small.share(0.5, kind), large.share(0.5, kind))
            for kind in counts[0]
            if min(count[kind] for count in counts) >= MIN_OF_A_KIND
        ),
        ("95%", small.most, large.most),
        ("mean", round(small.mean), round(large.mean)),
    ]
    grown = [f"{what} {a} → {b}" for what, a, b in measures if b > allowed(a, ratio)]
    assert not grown, f"steps an event: {', '.join(grown)}\n{_report(small, large)}"
    assert large.ended == "done", f"the large world ended as {large.ended}"


def _report(small: Costs, large: Costs) -> str:
    """The kinds of events and the functions that cost more, as text."""
    lines = [f"counted events: {len(small.events)} and {len(large.events)}; median (95%) by kind:"]
    for kind in sorted({k for k, _ in large.events}):
        lines.append(
            f"  {kind:20} {small.share(0.5, kind):7} ({small.share(0.95, kind):7}) →"
            f" {large.share(0.5, kind):7} ({large.share(0.95, kind):7})"
        )
    lines.append("functions whose steps an event grew most:")
    grown = {name: mean - small.functions.get(name, 0.0) for name, mean in large.functions.items()}
    for name in sorted(grown, key=lambda n: -grown[n])[:8]:
        lines.append(
            f"  {small.functions.get(name, 0.0):8.1f} → {large.functions[name]:9.1f}  {name}"
        )
    return "\n".join(lines)
