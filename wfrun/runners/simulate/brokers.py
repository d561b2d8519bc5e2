"""Simulates several brokers, each with its own engine, in one world (thesis section 6.2.1).

A broker schedules one workflow. It knows its own placements immediately, but learns of other
brokers' tasks only from the periodic reports of the sites. Head nodes process submissions and
copies. The outputs of a task return to the submission site before its successors become eligible.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.model import ORIGIN, Catalog, Workflow
from wfrun.runners.run.clock import VirtualClock
from wfrun.runners.run.loop import Loop
from wfrun.runners.simulate.simulation import complete_links
from wfrun.sites.simulated.head_node import HeadModel, SimulatedHeadNode
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.network import SimNetwork
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.shared_site import SharedSite
from wfrun.sites.simulated.site import ENDS, LAST, request_of


class BrokerWorld(msgspec.Struct, frozen=True):
    """The simulated world that all brokers share."""

    catalog: Catalog
    submission: str
    """The site whose head node runs the brokers and keeps the outputs of all tasks."""
    model: SiteModel = SiteModel()
    head: HeadModel = HeadModel()
    background: Mapping[str, Sequence[SimulatedJob]] = {}
    status_s: float = 10.0
    """Interval at which sites report the load that other brokers and users cause, in seconds."""
    apart_s: float = 0.0
    """Time between the starts of two brokers, in seconds."""
    returns: bool = True
    """Whether outputs return to the submission site before successors become eligible."""
    own_speed: bool = False
    """Whether run times depend on the speed of the site. False: a task takes the same time at all
    sites, as a program that only sleeps does."""


class BrokerRun(msgspec.Struct, frozen=True):
    """The outcome of a simulation of several brokers."""

    logs: tuple[list[ev.Event], ...]
    """The events of each broker. In the log of a broker its workflow has the number 0 and the
    digest ``0``."""
    ready_s: Mapping[str, float]
    """Time at which all inputs of an attempt were at its site, by key of the attempt, in
    seconds."""
    loads: Mapping[str, Sequence[tuple[float, float]]]
    """Load of the head node of each site, as (time in seconds, load from then on). A load of 1 is
    100%."""


def simulate_brokers(
    workflows: Sequence[Workflow], world: BrokerWorld, settings: ev.Settings
) -> BrokerRun:
    """Simulate a broker for each workflow, until all brokers have ended. Equal arguments give equal
    logs. Raises InvalidError for workflows and sites that cannot be simulated, and ValueError if
    the submission site is unknown."""
    shared = _Shared(world, settings.seed)
    brokers = [_Broker(number, w, shared, settings) for number, w in enumerate(workflows)]
    _synchronously(shared.run(brokers))
    names = [spec.name for spec in world.catalog.sites]
    loads = {name: head.loads for name, head in zip(names, shared.heads, strict=True)}
    ready_s = {key: at_s for broker in brokers for key, at_s in broker.ready_s.items()}
    return BrokerRun(tuple(broker.events for broker in brokers), ready_s, loads)


class _Shared:
    """The clock, sites, head nodes and network that all brokers share."""

    def __init__(self, world: BrokerWorld, seed: int) -> None:
        self.world = world
        self.clock = VirtualClock()
        specs = world.catalog.sites
        self.home = [spec.name for spec in specs].index(world.submission)
        self.heads = [SimulatedHeadNode(self.clock) for _ in specs]
        self.sites = [
            SharedSite(
                spec,
                index,
                self.clock,
                world.model,
                background=world.background.get(spec.name, ()),
                seed=seed,
            )
            for index, spec in enumerate(specs)
        ]
        self._network: SimNetwork[Callable[[], None]] = SimNetwork(
            [spec.name for spec in specs], complete_links(world.catalog)
        )
        self._advance_s = float("inf")
        self._open = 0

    async def run(self, brokers: Sequence[_Broker]) -> None:
        """Simulate until all brokers have ended."""
        for site in self.sites:
            await site.begin()
        self._open = len(brokers)
        self.clock.schedule(0.0, self._report, LAST)
        for number, broker in enumerate(brokers):
            self.clock.schedule(number * self.world.apart_s, broker.begin, LAST + 1)
        while any(broker.is_open for broker in brokers):
            await self.clock.next()
            for broker in brokers:
                broker.turn()
            self._open = sum(broker.is_open for broker in brokers)

    def _report(self) -> None:
        for site in self.sites:
            site.report()
        if self._open:
            self.clock.schedule(self.clock.now() + self.world.status_s, self._report, LAST)

    def copy(
        self, source: int, destination: int, size_bytes: int, then: Callable[[float], None]
    ) -> None:
        """Copy a file. The head node of the source and then that of the destination work on the
        copy; then its bytes move. ``then`` is called with the time for which the bytes moved, in
        seconds. A copy within a site takes no time."""
        if source == destination:
            then(0.0)
            return
        work_s = self.world.head.copy_s
        move = partial(self.move, source, destination, size_bytes, then)
        receive = partial(self.heads[destination].work, work_s, move)
        self.heads[source].work(work_s, receive)

    def move(
        self, source: int, destination: int, size_bytes: int, then: Callable[[float], None]
    ) -> None:
        """Move bytes over the network. ``then`` is called with the elapsed time in seconds."""
        begun_s = self.clock.now()

        def end() -> None:
            then(self.clock.now() - begun_s)

        self._network.start(end, source, destination, size_bytes, begun_s)
        self._schedule_advance()

    def _schedule_advance(self) -> None:
        change_s = self._network.next_change_s
        if change_s < self._advance_s:
            self._advance_s = change_s
            self.clock.schedule(change_s, self._advance, ENDS)

    def _advance(self) -> None:
        now_s = self.clock.now()
        if now_s < self._advance_s:  # replaced by an earlier call
            return
        self._advance_s = float("inf")
        for end in self._network.advance(now_s):
            end()
        self._schedule_advance()


class _Broker:
    """The engine of one workflow. It implements the clock, the log and the dispatcher of its
    loop."""

    lag_s = 0.0

    def __init__(
        self, number: int, workflow: Workflow, shared: _Shared, settings: ev.Settings
    ) -> None:
        self.run_id = f"broker{number}"
        self.events: list[ev.Event] = []
        self.ready_s: dict[str, float] = {}
        self._shared = shared
        self._workflow = workflow
        self._settings = msgspec.structs.replace(settings, seed=settings.seed + number)
        core = Core({"0": workflow})
        core.run.is_watched = False
        self._sizes = [file.size_bytes or 0 for file in workflow.files]
        self._site_of: dict[str, int] = {}
        """The site of each open attempt, by key."""
        self._task_of: dict[str, int] = {}
        self._cancelled: set[act.CopyFile] = set()
        """Cancelled copies. Their end is not reported, but they still load head nodes and links."""
        self._inbox: list[ev.Event] = []
        self._loop: Coroutine[Any, Any, None] | None = Loop(core, self, self, self).run()
        self._loop.send(None)  # up to its first wait for events

    @property
    def is_open(self) -> bool:
        return self._loop is not None

    def begin(self) -> None:
        """Start the run, and submit the workflow."""
        now_s, catalog = self.now(), self._shared.world.catalog
        self.receive(
            ev.RunStarted(now_s, self.run_id, self._settings, catalog.sites, catalog.links, 1)
        )
        for site in self._shared.sites:
            site.join(self.run_id, self.receive)
        self.receive(ev.WorkflowAdded(now_s, 0, self._workflow.name, "0"))

    def turn(self) -> None:
        """Let the loop process the events in the inbox."""
        if self._inbox and self._loop is not None:
            try:
                self._loop.send(None)
            except StopIteration:
                self._loop = None

    def receive(self, event: ev.Event) -> None:
        """Receive an event from a site. The end of an attempt is posted only after the outputs of
        the task have returned; any other event is posted at once."""
        if isinstance(event, ev.AttemptEnded):
            self._return(event)
        else:
            self.post(event)

    # The clock

    def now(self) -> float:
        return self._shared.clock.now()

    def post(self, event: ev.Event) -> None:
        self._inbox.append(event)
        self._shared.clock.post(event)  # ends the present step of the world

    def call_at(self, at_s: float, event: ev.Event) -> None:
        self._shared.clock.schedule(at_s, partial(self.post, event))

    async def next(self, *, lags: bool = False) -> list[ev.Event]:
        while not self._inbox:
            await _Pause()
        events, self._inbox = self._inbox, []
        return events

    def fail(self, error: BaseException) -> None:
        raise error

    # The log

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events += events

    def commit(self) -> None:
        """Do nothing: the log is in memory."""

    # The dispatcher

    async def __aenter__(self) -> None:
        """Do nothing."""

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    def dispatch(self, action: act.Action) -> None:
        """Carry an action out."""
        if isinstance(action, act.SubmitAttempts):
            for key, _, task in action.attempts:
                self._submit(action.site, key, task)
        elif isinstance(action, act.CopyFile):
            self._copy(action)
        elif isinstance(action, act.SetTimer):
            self.call_at(action.at_s, ev.TimerFired(action.at_s, action.timer))
        elif isinstance(action, act.CancelCopy):
            ends = (action.workflow, action.file, action.source, action.destination)
            self._cancelled.add(act.CopyFile(*ends))
        elif not isinstance(action, (act.EndRun, act.RemoveFiles)):
            raise AssertionError(f"a broker has no {type(action).__name__}")

    def _submit(self, site: int, key: str, task: int) -> None:
        shared, t = self._shared, self._workflow.tasks[task]
        speed_ratio = shared.sites[site].spec.speed_ratio if shared.world.own_speed else 1.0
        request = request_of(
            key,
            t.executable,
            t.resources,
            (t.runtime_s or 0.0) / speed_ratio,
            tuple(self._sizes[f] for f in t.outputs),
        )
        self._site_of[key] = site
        self._task_of[key] = task
        self.ready_s[key] = self.now()
        shared.sites[site].coming[key] = t.resources.cores

        def arrive() -> None:
            del shared.sites[site].coming[key]
            shared.sites[site].submit_now([request])

        shared.heads[site].work(shared.world.head.submit_s, arrive)

    def _return(self, event: ev.AttemptEnded) -> None:
        shared = self._shared
        site = self._site_of.pop(event.key)
        outputs = self._workflow.tasks[self._task_of.pop(event.key)].outputs

        def end(_: float) -> None:
            self.post(msgspec.structs.replace(event, at_s=self.now()))

        if not shared.world.returns or not outputs:
            end(0.0)
            return
        shared.move(site, shared.home, sum(self._sizes[f] for f in outputs), end)

    def _copy(self, action: act.CopyFile) -> None:
        size_bytes = self._sizes[action.file]

        def end(elapsed_s: float) -> None:
            if action in self._cancelled:
                self._cancelled.discard(action)
                return
            ends = (action.workflow, action.file, action.source, action.destination)
            self.post(ev.TransferEnded(self.now(), *ends, size_bytes, elapsed_s))

        if ORIGIN in (action.source, action.destination):
            end(0.0)  # the outputs are at the submission site already
        else:
            self._shared.copy(action.source, action.destination, size_bytes, end)


class _Pause:
    """Awaitable that suspends a broker's loop until the simulated world has events for it."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def _synchronously(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("a coroutine of the simulated world has suspended")
