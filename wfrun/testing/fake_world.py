"""A world without I/O for tests of cores and policies: sites with FCFS queues or launchers, and
links with bandwidth, on a heap of future events."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.attempt_claims import attempt_claim
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import CopyCause, Outcome
from wfrun.engine.files.network import Network
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.tasks.attempts import variant
from wfrun.testing.fake_launchers import FakeLauncherSite
from wfrun.testing.fake_sites import Behaviour, Callback, FakeSite, SubmittedAttempt

Runtime = Callable[[int, int, int], float]
"""Run time in seconds of a task at a site, by (workflow, task, site)."""

Result = Callable[[str, int, int], Outcome]
"""Outcome of an attempt, by (key, workflow, task)."""


class FakedCopyFailure(NamedTuple):
    """The kind of failure of a copy; see ``TransferFailed``."""

    cause: CopyCause
    transient: bool = False
    end: Literal["source", "destination", ""] = ""


_FAILURES = {
    "transient": FakedCopyFailure("unknown", transient=True),
    "infeasible": FakedCopyFailure("unknown"),
    "absent": FakedCopyFailure("absent"),
}

Fails = Callable[
    [act.CopyFile], Literal["transient", "infeasible", "absent"] | FakedCopyFailure | None
]
"""The failure of a copy; None if the file arrives."""

METHODS = "first", "second"
"""Names of the transfer methods of a copy that has two methods."""

_FROM_USERS = (
    ev.RunStarted,
    ev.WorkflowAdded,
    ev.SubmissionEnded,
    ev.HistoryRead,
    ev.SiteObserved,
    ev.SiteLoadObserved,
    ev.SitePaused,
    ev.SiteReopened,
    ev.SiteCounted,
    ev.CancelAsked,
    ev.SiteHeld,
    ev.SiteFreed,
    ev.PriorityRaised,
    ev.TaskCancelled,
)
"""Events that come from the test, not from sites. If an engine dies before it receives such an
event, the next engine receives it. All other events are lost with the engine."""


class FakeWorld:
    """Carries out a core's actions at virtual times.

    ``result`` gives the outcome of an attempt, and ``runtime_s`` its run time. By default attempts
    succeed after their documented time at the site's speed, and write the documented files.
    ``fails`` gives the failure of a copy, and ``stalled_s`` its delay in seconds beyond the time
    that its link needs. ``has_methods`` tells whether a copy can also use a second transfer method.
    ``behaviour`` gives all other behaviour of sites.

    ``arrive_s`` has the time at which each workflow is added, by default 0. With ``together`` the
    core takes a single decision after workflows that arrive at the same time, as in real runs.
    Workflow ``i`` joins resource manager ``i % len(queues)``. ``reused`` has the tasks that earlier
    runs did, by workflow. ``own_outputs`` tells whether files are real, as in a run, rather than
    simulated. ``holds_sizes`` tells whether moldable jobs hold the cores of their size, rather than
    of their smallest size.

    ``log`` has every event in order, including the events that the core decides. ``keep_log=False``
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
        behaviour: Behaviour | None = None,
        stalled_s: Callable[[act.CopyFile], float] = lambda _: 0.0,
        has_methods: Callable[[act.CopyFile], bool] = lambda _: False,
        arrive_s: Sequence[float] = (),
        together: bool = False,
        queues: tuple[tuple[int, ...], ...] = (),
        reused: Mapping[int, tuple[ev.ReusedTasks, ...]] = {},
        keep_log: bool = True,
        own_outputs: bool = True,
        holds_sizes: bool = False,
    ) -> None:
        self._workflows = workflows
        self.documents = {str(i): w for i, w in enumerate(workflows)}
        """The workflows by their digest in the log."""
        self.core = Core(self.documents)
        self.core.run.is_watched = own_outputs
        self.catalog = catalog
        self.log: list[ev.Event] = []
        self.actions: list[act.Action] = []
        self.behaviour = behaviour or Behaviour()
        self.crashes = 0
        self.now_s = 0.0
        self._keep_log, self._holds_sizes = keep_log, holds_sizes
        self._durable = 0
        """Length of the durable part of the log: all events until the last action was carried
        out."""
        self._network = Network([s.name for s in catalog.sites], catalog.links)
        self._result = result or self._documented
        self._runtime_s = runtime_s or self._documented_s
        self._fails = fails
        self._stalled_s = stalled_s
        self._has_methods = has_methods
        self._written: dict[tuple[int, int, int], int] = {}
        """Sizes of written files in bytes, by (workflow, file, variant). Each attempt of a task has
        its own files."""
        self._cores: dict[str, int] = {}
        """Number of cores of each submitted attempt, by key."""
        self._claims: dict[str, str] = {}
        """Key of the claim in which a submitted attempt runs, by key of the attempt."""
        self._gone: set[tuple[int, int, int]] = set()
        """Files that have vanished at a site: (workflow, file, site). Copies of the file from that
        site still succeed."""
        self._future: list[tuple[float, int, ev.Event | Callback]] = []
        self._serial = 0
        self._has_engine = True
        self._channels: dict[str, float] = {}
        """Arrival time of the last event of each channel, in seconds."""
        self._sites = [self._make_site(i, spec) for i, spec in enumerate(catalog.sites)]
        self.post(0.0, ev.RunStarted(0.0, "w", settings, catalog.sites, catalog.links,
                                     len(workflows), queues, own_outputs=own_outputs))  # fmt: skip
        for i, workflow in enumerate(workflows):
            at_s = arrive_s[i] if arrive_s else 0.0
            queue = i % len(queues) if queues else 0
            done = reused.get(i, ())
            is_last = i + 1 == len(workflows) or (bool(arrive_s) and arrive_s[i + 1] > at_s)
            self.post(at_s, ev.WorkflowAdded(at_s, i, workflow.name, str(i), queue, done,
                                             more=together and not is_last))  # fmt: skip
            for file, size_bytes, _ in (file for part in done for file in part.files):
                self._written[i, file, 0] = size_bytes

    def _make_site(self, index: int, spec: SiteSpec) -> FakeSite:
        if spec.access is not None and spec.access.dispatch == "launchers":
            return FakeLauncherSite(index, spec, self)
        return FakeSite(index, spec, self)

    def post(self, at_s: float, event: ev.Event) -> None:
        """Deliver an event to the engine at the virtual time ``at_s``. Events of the same time
        arrive in the order of posting."""
        self._push(at_s, event)

    def at(self, at_s: float, callback: Callback) -> None:
        """Call ``callback`` at the virtual time ``at_s``, even while no engine is alive. If the
        callback returns an event, the engine receives it."""
        self._push(at_s, callback)

    def _push(self, at_s: float, what: ev.Event | Callback) -> None:
        self._serial += 1
        heapq.heappush(self._future, (at_s, self._serial, what))

    def deliver(self, event: ev.Event, key: str, channel: str) -> ev.Event | None:
        """Implements `FakeSiteContext.deliver`."""
        if not self._has_engine:
            return None
        arrival_s = self.now_s + self.behaviour.report_delay_s(key)
        if self._channels:
            arrival_s = max(arrival_s, self._channels.get(channel, 0.0))
        if arrival_s == self.now_s:
            return event
        self._channels[channel] = arrival_s
        self.post(arrival_s, msgspec.structs.replace(event, at_s=arrival_s))
        return None

    def run(self) -> str | None:
        """Run until the run ends or no event is left. Returns the outcome of the run; None: it has
        not ended."""
        for _ in self.steps():
            pass
        return self.core.state.ended

    def steps(self) -> Iterator[ev.Event]:
        """Run one event at a time. Yields each event after the core has processed it and its
        actions are carried out."""
        ended = False  # A resumed run may have ended before.
        while self._future and not ended:
            self.now_s, _, what = heapq.heappop(self._future)
            event = what if isinstance(what, ev.Event) else what()
            if event is None:
                continue
            if isinstance(event, ev.RunResumed):
                self._has_engine = True
            elif isinstance(event, ev.TransferEnded):
                self._gone.discard((event.workflow, event.file, event.destination))
            decided, actions = self.core.step(event)
            if self._keep_log:
                self.log.append(event)
                self.log.extend(decided)
                self.actions.extend(actions)
                if actions:
                    self._durable = len(self.log)
            for action in actions:
                self._carry_out(action)
            ended = self.core.state.ended is not None
            yield event

    def crash(
        self,
        lost: tuple[tuple[int, int, int], ...] = (),
        *,
        away_s: float = 0.0,
        forgets: bool = False,
    ) -> None:
        """Let the engine die. A new engine resumes from the log ``away_s`` seconds later.

        Copies and timers are lost, and so is everything that the behaviour of the sites does not
        keep. Events that sites would have reported until the resume are not delivered. ``lost`` are
        the (workflow, file, site) of files that the new engine does not find. With ``forgets`` the
        events since the last action were not durable, and are lost.
        """
        resumes_s = self.now_s + away_s
        missed = self._forget() if forgets and self._durable else []
        self.crashes += 1
        self._has_engine = False
        self._channels.clear()
        for site in self._sites:
            site.engine_died()
        self.core = Core(self.documents)
        self.core.replay(self.log)
        future, self._future = self._future, []
        for at_s, serial, what in sorted(future, key=lambda entry: entry[:2]):
            if not isinstance(what, ev.Event):
                self._future.append((at_s, serial, what))
            elif at_s <= resumes_s:
                missed.append(what)
            elif isinstance(what, _FROM_USERS):
                self._future.append((at_s, serial, what))
        heapq.heapify(self._future)
        # Before all other events of this moment.
        heapq.heappush(self._future, (resumes_s, 0, ev.RunResumed(resumes_s, lost)))
        for event in missed:
            if isinstance(event, _FROM_USERS):
                self.post(resumes_s, msgspec.structs.replace(event, at_s=resumes_s))

    def change(self, event: ev.RunChanged, unreachable: Sequence[int] = ()) -> list[ev.Event]:
        """Change the options and sites of the run. Call it after `crash`, before the next step.
        ``unreachable`` are sites that the change removes and that are out of reach: everything that
        the run has at these sites is lost. Returns the events that precede the resume in the log:
        the change, and the ends of lost attempts and launchers."""
        for index, spec in enumerate(event.sites):
            if index == len(self._sites):
                self._sites.append(self._make_site(index, spec))
            elif spec != self._sites[index].spec:
                self._sites[index].change(spec)
        self.catalog = Catalog(event.sites, event.links)
        self._network = Network([s.name for s in event.sites], event.links)
        events: list[ev.Event] = [event]
        self.core.apply_undecided(event)
        for site in unreachable:
            for end in self._lose(site, event.at_s):
                self.core.apply_undecided(end)
                events.append(end)
        self.log.extend(events)
        self._durable = len(self.log)
        return events

    def _lose(self, index: int, at_s: float) -> list[ev.Event]:
        """Cut off a site that is out of reach. Returns the ends of the run's attempts and launchers
        at the site. The files of the run at the site are reported as lost when the run is
        resumed."""
        state, message = self.core.state, "out of reach"
        self._sites[index].cut_off()
        self._sites[index] = self._make_site(index, self.catalog.sites[index])
        keys = [a.key for a in state.attempts.values() if a.site == index]
        pool = pool_at(state, index)
        launchers = [] if pool is None else list(pool.launchers)
        lost = tuple(
            (w.index, file, index)
            for w in state.workflows
            for file in range(len(w.present))
            if w.is_stored(file, index)
        )
        for number, (resumes_s, serial, what) in enumerate(self._future):
            if isinstance(what, ev.RunResumed):
                resumed = ev.RunResumed(what.at_s, tuple(dict.fromkeys((*what.lost, *lost))))
                self._future[number] = resumes_s, serial, resumed
        return [
            *(ev.AttemptEnded(at_s, key, Outcome("lost", message=message)) for key in keys),
            *(ev.LauncherEnded(at_s, index, key, "lost", message) for key in launchers),
        ]

    def _forget(self) -> list[ev.Event]:
        """Remove the part of the log that is not durable. Returns the removed events."""
        missed = self.log[self._durable :]
        del self.log[self._durable :]
        return missed

    # Facts about tasks

    def cores(self, key: str) -> int:
        """Number of cores that an attempt holds."""
        return self._cores[key]

    def claim(self, key: str) -> str:
        """Key of the claim in which an attempt runs; empty if it runs in no claim."""
        return self._claims.get(key, "")

    def missed(self, entry: SubmittedAttempt, site: int) -> tuple[tuple[int, int], ...]:
        """The inputs that an attempt does not find at its site, as (workflow, file)."""
        number, missed = entry.workflow, []
        present = self.core.state.workflows[number].present
        for file in self._workflows[number].tasks[entry.task].inputs:
            place = number, file, site
            if present[file] >> site & 1 and self.behaviour.vanishes(entry.key, *place):
                self._gone.add(place)
            if place in self._gone:
                missed.append((number, file))
        return tuple(missed)

    def is_gone(self, workflow: int, file: int, site: int) -> bool:
        """Whether a file has vanished at a site, and was not copied there or written again
        since."""
        return (workflow, file, site) in self._gone

    def attempt_runtime_s(self, workflow: int, task: int, site: int) -> float:
        """Run time of an attempt of a task at a site, in seconds."""
        return self._runtime_s(workflow, task, site)

    def outcome(self, key: str, workflow: int, task: int) -> Outcome:
        """Outcome of an attempt that runs to its end without interruption."""
        return self._result(key, workflow, task)

    def note_outputs(self, key: str, outcome: Outcome) -> None:
        """Record the sizes of the files that an ended attempt wrote."""
        if outcome.cause == "done" and outcome.sizes:
            workflow, task = (int(number) for number in key.split(".")[-3:-1])
            outputs = self._workflows[workflow].tasks[task].outputs
            for file, size in zip(outputs, outcome.sizes, strict=False):
                self._written[workflow, file, variant(key)] = size or 0
                self._gone -= {(workflow, file, site) for site in range(len(self._sites))}

    def _documented(self, key: str, workflow: int, task: int) -> Outcome:
        w = self._workflows[workflow]
        sizes = tuple(w.files[f].size_bytes or 0 for f in w.tasks[task].outputs)
        return Outcome(cause="done", exit_code=0, sizes=sizes)

    def _documented_s(self, workflow: int, task: int, site: int) -> float:
        record = self._workflows[workflow].tasks[task]
        return (record.runtime_s or 0.0) / self.catalog.sites[site].speed_ratio

    # Actions

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.SubmitAttempts):
            for key, workflow, task in action.attempts:
                attempt = self.core.state.attempts[key]
                asked = self._workflows[workflow].tasks[task].resources
                self._cores[key] = attempt.cores if self._holds_sizes else asked.cores
                claim = attempt_claim(self.core.state, workflow, task)
                if claim:
                    self._claims[key] = claim
            self._sites[action.site].submit(action.attempts)
        elif isinstance(action, act.CopyFile):
            self._copy(action)
        elif isinstance(action, act.CancelCopy):
            self._cancel_copy(action)
        elif isinstance(action, act.SetTimer):
            at_s = max(self.now_s, action.at_s)
            self.post(at_s, ev.TimerFired(at_s, action.timer))
        elif isinstance(action, act.CancelAttempts):
            self._sites[action.site].cancel(action.keys, queued_only=action.queued_only)
        elif isinstance(action, act.FindAttempts):
            self._sites[action.site].find(action.keys)
        elif isinstance(action, act.StartLaunchers):
            self._sites[action.site].start_launchers(action.launchers)
        elif isinstance(action, act.StopLaunchers):
            self._sites[action.site].stop_launchers(action.keys, now=action.now)
        elif isinstance(action, act.ResizeAttempt):
            self._sites[action.site].resize(action)
        elif isinstance(action, act.FindLaunchers):
            self._sites[action.site].find_launchers(action.keys)
        elif isinstance(action, act.EndRun):
            for site in self._sites:
                site.dismiss()

    def _cancel_copy(self, action: act.CancelCopy) -> None:
        """Remove the scheduled end of a copy, so that it is never reported."""
        ends = (action.workflow, action.file, action.source, action.destination)
        self._future = [
            entry
            for entry in self._future
            if not (
                isinstance(what := entry[2], (ev.TransferEnded, ev.TransferFailed))
                and (what.workflow, what.file, what.source, what.destination) == ends
            )
        ]
        heapq.heapify(self._future)

    def _copy(self, action: act.CopyFile) -> None:
        now_s = self.now_s
        file = action.workflow, action.file
        w = self.core.state.workflows[action.workflow]
        size = self._written.get((*file, w.variant_of(action.file)))
        if size is None:
            size = self._workflows[action.workflow].files[action.file].size_bytes or 0
        bit = self._network.bit(action.source)
        _, seconds_per_byte, latency_s = self._network.best_source(bit, action.destination)
        elapsed_s = latency_s + size * seconds_per_byte + self._stalled_s(action)
        if not action.avoid and self._has_methods(action):
            ends = *file, action.source, action.destination
            self.post(now_s, ev.CopyRouted(now_s, *ends, *METHODS))
        how = self._fails(action) if self._fails is not None else None
        if how is not None:
            failure = _FAILURES[how] if isinstance(how, str) else how
            self.post(
                now_s + elapsed_s,
                ev.TransferFailed(now_s + elapsed_s, *file, action.source,
                                  action.destination, "failed by the test", failure.transient,
                                  failure.cause, failure.end, action.avoid),
            )  # fmt: skip
            return
        self.post(
            now_s + elapsed_s,
            ev.TransferEnded(now_s + elapsed_s, *file, action.source, action.destination, size,
                             elapsed_s, avoided=action.avoid),
        )  # fmt: skip
