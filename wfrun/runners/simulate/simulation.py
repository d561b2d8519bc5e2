"""One simulated run: the loop, the core and the policies of a real run, in virtual time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Literal

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.attempt_claims import attempt_claim
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.sized import at_speed
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec, Workflow
from wfrun.engine.policies.placement import observed_of
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.runners.run.clock import VirtualClock
from wfrun.runners.run.directory.simulated import SIMULATED_ID
from wfrun.runners.run.history.overheads import Overheads
from wfrun.runners.run.loop import EventLog, Loop, Observer
from wfrun.sites.simulated.launchers import SimulatedLauncherSite
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.network import SimNetwork
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.site import LAST, SimulatedRequest, SimulatedSite, request_of

_SCAVENGING_OBSERVE_S = 2.0
"""Maximum interval between observations of a queue with ``scavenge``, in seconds: the default of
``poll_min`` in catalogs."""

Sharing = Literal["max-min", "serial"]

AttemptRuntime = Callable[[int, int], float]
"""Returns the run time of a task, given by (workflow, task), in seconds on the reference
processor."""


class Platform(msgspec.Struct, frozen=True):
    """The simulated world of a run: sites, network, and other users' jobs."""

    catalog: Catalog
    model: SiteModel = SiteModel()
    sharing: Sharing = "max-min"
    """How transfers share a link. The thesis assumes ``serial`` (section 6.2.1)."""
    head_bytes_per_s: float | None = None
    """Bandwidth of each head node in bytes per second, shared by both directions; None:
    unlimited."""
    background: Mapping[str, Sequence[SimulatedJob]] = {}
    """Other users' jobs by site, in order of submission."""
    start_s: float = 0.0
    """Time at which the workflows are submitted, in seconds. Jobs of other users are submitted from
    time 0, so that the queues are full at ``start_s``."""
    overheads: Overheads = Overheads()
    """Overheads of sites and links that a real run has measured."""


class _NoLog:
    """A log that keeps nothing."""

    def append(self, events: Sequence[ev.Event]) -> None:
        """Drop the events."""

    def commit(self) -> None:
        """Do nothing."""


def simulate(
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: ev.Settings,
    *,
    log: EventLog | None = None,
    digests: Sequence[str] | None = None,
    observers: Sequence[Observer] = (),
    arrivals_s: Sequence[float] | None = None,
) -> RunState:
    """Simulate workflows to their end, and return the final state. Arguments and errors are those
    of `begun`."""
    simulation = begun(
        workflows,
        platform,
        settings,
        log=log,
        digests=digests,
        observers=observers,
        arrivals_s=arrivals_s,
    )
    return simulation.run()


def begun(
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: ev.Settings,
    *,
    log: EventLog | None = None,
    digests: Sequence[str] | None = None,
    observers: Sequence[Observer] = (),
    reused: Sequence[tuple[ev.ReusedTasks, ...]] | None = None,
    runtime_s: AttemptRuntime | None = None,
    arrivals_s: Sequence[float] | None = None,
) -> Simulation:
    """Return a simulation of workflows, ready for a call of its ``run``. Times of events are
    seconds from time 0 of the simulation.

    ``log`` gets the same events as the log of a real run; ``digests`` identify the workflows in it.
    ``reused`` are the tasks of each workflow that are done before the start. ``runtime_s`` gives
    actual run times that differ from those of the documents.

    ``arrivals_s`` are the times after the start at which workflows are submitted. Each submission
    is separate, even at equal times. None: all workflows are submitted together at the start, and
    one decision follows, as in a real run. Equal arguments give equal events. Raises InvalidError
    for a task without a run time.
    """
    for workflow in workflows:
        check_runtimes(workflow)
    names = list(digests) if digests is not None else [str(i) for i in range(len(workflows))]
    documents = dict(zip(names, workflows, strict=True))
    simulation = Simulation(
        documents, platform, settings, log=log, observers=observers, runtime_s=runtime_s
    )
    clock, start_s = simulation.clock, platform.start_s
    simulation.begin(len(workflows))
    for number, (workflow, name) in enumerate(zip(workflows, names, strict=True)):
        done = () if reused is None else reused[number]
        at_s = start_s if arrivals_s is None else start_s + arrivals_s[number]
        more = arrivals_s is None and number + 1 < len(workflows)
        added = ev.WorkflowAdded(at_s, number, workflow.name, name, reused=done, more=more)
        # After the reports of the information services at that time: policies know them then.
        clock.schedule(at_s, partial(clock.post, added), LAST + 1)
    return simulation


class Simulation:
    """A simulated run: the core with its clock and simulated sites. Call ``begin``, then ``run``.

    The caller schedules submissions as events of ``clock``. A workflow must be in ``documents``
    when it is added. ``runtime_s`` gives the actual run times of tasks; None: those of the
    documents.
    """

    def __init__(
        self,
        documents: Mapping[str, Workflow],
        platform: Platform,
        settings: ev.Settings,
        *,
        log: EventLog | None = None,
        observers: Sequence[Observer] = (),
        runtime_s: AttemptRuntime | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.core = Core(documents)
        self.core.run.is_watched = False
        self.state = self.core.state
        self._platform = platform
        self._settings = settings
        self._catalog = _with_backfills(platform.catalog, platform.model)
        observed = observed_of(settings)
        self._sites = [
            _site_class(spec)(
                spec,
                index,
                self.clock,
                _model_of(spec, platform, settings),
                background=platform.background.get(spec.name, ()),
                observed_from_s=platform.start_s,
                observed=observed,
                seed=settings.seed,
            )
            for index, spec in enumerate(self._catalog.sites)
        ]
        dispatcher = SimulatedDispatch(self.clock, self.state, self._sites, platform, runtime_s)
        self._loop = Loop(self.core, log or _NoLog(), self.clock, dispatcher, observers)

    def begin(self, workflows: int, queues: tuple[tuple[int, ...], ...] = ()) -> None:
        """Schedule the start of the run; ``workflows`` and ``queues`` are fields of
        `RunStarted`."""
        at_s, catalog = self._platform.start_s, self._catalog
        begun = ev.RunStarted(
            at_s, SIMULATED_ID, self._settings, catalog.sites, catalog.links, workflows, queues
        )
        self.clock.call_at(at_s, begun)

    def run(self) -> RunState:
        """Simulate to the end, and return the final state.

        Garbage collection is switched off during the simulation: there is no cyclic garbage before
        its end, and the collector would take up to a fifth of the time.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            run_synchronously(_run(self._loop, self._sites, self.clock))
        finally:
            if collects:
                gc.enable()
        return self.state


def _model_of(spec: SiteSpec, platform: Platform, settings: ev.Settings) -> SiteModel:
    """The model of a site with its measured overheads. With ``scavenge`` the queue is observed at
    least every `_SCAVENGING_OBSERVE_S`."""
    model = platform.model
    if settings.scavenge:
        observe_s = min(model.observe_s, _SCAVENGING_OBSERVE_S)
        model = msgspec.structs.replace(model, observe_s=observe_s)
    found = platform.overheads.sites.get(spec.name)
    if found is None:
        return model
    return msgspec.structs.replace(
        model, start_s=found.start_s, end_s=found.end_s, hold_s=found.hold_s or 0.0
    )


AnySimulatedSite = SimulatedSite | SimulatedLauncherSite


def _site_class(spec: SiteSpec) -> type[SimulatedSite] | type[SimulatedLauncherSite]:
    return SimulatedLauncherSite if spec.has_launchers else SimulatedSite


def _with_backfills(catalog: Catalog, model: SiteModel) -> Catalog:
    """The catalog, with ``SiteSpec.backfills`` of each site set: true unless the simulated queues
    are FCFS."""
    backfills = model.lrm != Fcfs.name
    sites = (msgspec.structs.replace(spec, backfills=backfills) for spec in catalog.sites)
    return msgspec.structs.replace(catalog, sites=tuple(sites))


async def _run(loop: Loop, sites: Sequence[AnySimulatedSite], clock: VirtualClock) -> None:
    for site in sites:
        await site.open(clock.post)
    await loop.run()


def run_synchronously(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends, without an event loop. Simulated sites answer
    immediately, so that their methods never suspend."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("a coroutine of a simulated site has suspended")


class SimulatedDispatch:
    """Carries out actions at the simulated sites and in the simulated network."""

    def __init__(
        self,
        clock: VirtualClock,
        state: RunState,
        sites: Sequence[AnySimulatedSite],
        platform: Platform,
        runtime_s: AttemptRuntime | None = None,
    ) -> None:
        self._clock = clock
        self._state = state
        self._runtime_s = runtime_s
        self._sites = sites
        names = [spec.name for spec in platform.catalog.sites]
        heads = {}
        if platform.head_bytes_per_s is not None:
            heads = dict.fromkeys(names, platform.head_bytes_per_s)
        for spec in platform.catalog.sites:
            if (cap := spec.max_bandwidth_bytes_per_s) is not None:
                heads[spec.name] = min(cap, heads.get(spec.name, cap))
        self._network: SimNetwork[tuple[act.CopyFile, float, int]] = SimNetwork(
            names,
            complete_links(platform.catalog, platform.overheads.links),
            head_bytes_per_s=heads,
            sharing=platform.sharing,
        )
        self._is_serial = platform.sharing == "serial"
        self._advance_s = inf
        """Time of the next call of ``_advance``; infinite if none is scheduled."""
        self._cancelled: set[act.CopyFile] = set()
        """Cancelled copies, whose end is not reported. Their bytes still use the link, because a
        cancellation reaches the source late."""
        self._is_scheduling = False
        """Whether a call of ``_schedule_advance`` is already scheduled at the current time."""

    async def __aenter__(self) -> None:
        """Do nothing."""

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    def dispatch(self, action: act.Action) -> None:
        """Carry an action out; its results are scheduled on the clock."""
        if isinstance(action, act.CopyFile):
            self._copy(action)
        elif isinstance(action, act.CancelCopy):
            ends = (action.workflow, action.file, action.source, action.destination)
            self._cancelled.add(act.CopyFile(*ends))
        elif isinstance(action, act.SubmitAttempts):
            site = self._sites[action.site]
            speed = site.spec.speed_ratio
            requests = [self._request(a, speed) for a in action.attempts]
            if self._state.settings.place or self._state.settings.scavenge:
                requests = [
                    _in_claim(r, attempt_claim(self._state, *a[1:]))
                    for r, a in zip(requests, action.attempts, strict=True)
                ]
            site.submit_now(requests)
        elif isinstance(action, act.SetTimer):
            self._clock.call_at(action.at_s, ev.TimerFired(action.at_s, action.timer))
        elif isinstance(action, act.CancelAttempts):
            site = self._sites[action.site]
            run_synchronously(site.cancel(action.keys, queued_only=action.queued_only))
        elif isinstance(action, (act.StartLaunchers, act.StopLaunchers)):
            site = self._sites[action.site]
            assert isinstance(site, SimulatedLauncherSite)
            if isinstance(action, act.StartLaunchers):
                run_synchronously(site.start_launchers(action.launchers))
            else:
                run_synchronously(site.stop_launchers(action.keys, now=action.now))

    def _request(self, attempt: tuple[str, int, int], speed_ratio: float) -> SimulatedRequest:
        key, number, index = attempt
        w = self._state.workflows[number]
        workflow, task = w.workflow, w.workflow.tasks[index]
        actual_s = self._runtime_s
        runtime_s = w.runtime_s(index) if actual_s is None else actual_s(number, index)
        files = workflow.files
        return request_of(
            key,
            task.executable,
            at_speed(w.asked(index), speed_ratio),
            runtime_s / speed_ratio,
            tuple([files[f].size_bytes or 0 for f in task.outputs]),
        )

    def _copy(self, action: act.CopyFile) -> None:
        now_s = self._clock.now()
        size = max(0, self._state.workflows[action.workflow].sizes[action.file])
        attempt = self._first_waiting(action) if self._is_serial else None
        self._network.start(
            (action, now_s, size), action.source, action.destination, size, now_s, attempt
        )
        if not self._is_scheduling:  # once for all copies that start at this time
            self._is_scheduling = True
            self._clock.schedule(now_s, self._schedule_advance, 0)

    def _first_waiting(self, action: act.CopyFile) -> str | None:
        """The first attempt that waits for the copy; None if no attempt does. With ``serial``
        sharing the network copies the files of an attempt one after another."""
        waiting = self._state.copies[action.workflow, action.file, action.destination].waiting
        return waiting[0] if waiting else None

    def _schedule_advance(self) -> None:
        """If copies end now, schedule their report; otherwise schedule ``_advance`` at the next
        change of the network."""
        self._is_scheduling = False
        change_s, now_s = self._network.next_change_s, self._clock.now()
        if change_s < self._advance_s:
            if change_s == now_s:
                self._clock.schedule(now_s, self._report, 0)
            else:
                self._advance_s = change_s
                self._clock.schedule(change_s, self._advance, 0)

    def _advance(self) -> None:
        if self._clock.now() >= self._advance_s:  # Otherwise this call was replaced by another one.
            self._advance_s = inf
            self._report()

    def _report(self) -> None:
        """Post the end of each copy that has ended by now, except cancelled copies, and schedule
        ``_advance`` at the next change of the network."""
        now_s = self._clock.now()
        post, cancelled = self._clock.post, self._cancelled
        for action, begun_s, size in self._network.advance(now_s):
            if cancelled and action in cancelled:
                cancelled.discard(action)
                continue
            post(
                ev.TransferEnded(
                    now_s,
                    action.workflow,
                    action.file,
                    action.source,
                    action.destination,
                    size,
                    now_s - begun_s,
                )
            )
        change_s = self._network.next_change_s
        if change_s != self._advance_s:
            self._advance_s = change_s
            if change_s < inf:
                self._clock.schedule(change_s, self._advance, 0)


def _in_claim(request: SimulatedRequest, claim: str) -> SimulatedRequest:
    """Return the request with the claim whose processors the attempt uses. If ``claim`` is empty,
    the request is unchanged."""
    return msgspec.structs.replace(request, claim=claim) if claim else request


def complete_links(catalog: Catalog, measured: Sequence[LinkSpec] = ()) -> list[LinkSpec]:
    """Complete the links of the catalog by a link for each other pair of places: the ``measured``
    link, or else a link of unlimited bandwidth and no latency, as between local sites. Limits that
    the catalog states for a pair apply."""
    places = [*(spec.name for spec in catalog.sites), "origin"]
    stated = [link for link in catalog.links if link.has_speed]
    known = {(link.source, link.destination) for link in stated}
    found = {(link.source, link.destination): link for link in measured}
    missing = [(a, b) for a in places for b in places if a != b and (a, b) not in known]
    bounds = {(link.source, link.destination): link for link in catalog.links}
    added = [
        msgspec.structs.replace(
            found.get(pair) or LinkSpec(*pair),
            max_transfers=bound.max_transfers,
            max_bandwidth_bytes_per_s=bound.max_bandwidth_bytes_per_s,
        )
        for pair in missing
        for bound in [bounds.get(pair) or LinkSpec(*pair)]
    ]
    return [*stated, *added]


def check_runtimes(workflow: Workflow) -> None:
    """Raise InvalidError if a task has no run time."""
    if workflow.bag is not None and workflow.bag.estimate is not None:
        return
    unknown = [task for task in workflow.tasks if task.runtime_s is None]
    if unknown:
        raise InvalidError(
            f"{len(unknown)} of {len(workflow.tasks)} tasks have no run time, the first is "
            f"{unknown[0].id!r} ({unknown[0].name})",
            source=workflow.source,
            hint="give one to all with --runtime SECONDS, one to each type of task with "
            "--runtimes FILE, one to each line of a table with --estimate, or take them from a "
            "past run with --from-run RUN",
        )
