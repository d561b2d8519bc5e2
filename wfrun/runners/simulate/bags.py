"""Simulates a workload of bags, and counts attempts. The tasks of a bag are submitted when the bag
arrives; the tasks of a bag from a log are submitted when their jobs were submitted. An architecture
assigns the tasks to its resource managers."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Task, Workflow
from wfrun.parsers.generate.bot_workload import BotWorkload, SubmittedBag
from wfrun.runners.simulate.architectures import Architecture, architecture_class
from wfrun.runners.simulate.simulation import Platform, Simulation
from wfrun.sites.simulated.site import ARRIVALS, LAST

LATER = 2
"""Done tasks are counted at the time of the last arrival, and at this multiple of that time."""


class AttemptTally:
    """Counts of attempts and done tasks, and the processor time that attempts used. Each attempt
    uses one processor.

    ``until_s`` is the time of the last arrival. The numbers of tasks that are done by ``until_s``
    and by LATER times ``until_s`` measure the throughput of an architecture (thesis section 5.4.5).
    Utilization is measured until the last arrival, because the sites run empty afterwards.
    """

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.placed = 0
        """Number of attempts, replicas included."""
        self.done_in_time = 0
        """Number of tasks that were done by ``until_s``."""
        self.done_later = 0
        """Number of tasks that were done by LATER times ``until_s``."""
        self.used_s = 0.0
        """Processor seconds of all attempts."""
        self.wasted_s = 0.0
        """Processor seconds of attempts that did not complete their task: failed attempts and
        surplus replicas."""
        self.used_in_time_s = 0.0
        """Processor seconds up to ``until_s``."""
        self._done: set[str] = set()
        """Done tasks, by the part of the attempt's key that all attempts of a task share."""

    def ended(self, event: ev.AttemptEnded) -> bool:
        """Count an attempt that has ended. Returns whether it is the first successful attempt of
        its task."""
        outcome = event.outcome
        task = event.key.rpartition(".")[0]
        first = outcome.cause == "done" and task not in self._done
        if first:
            self._done.add(task)
            ended_s = event.at_s if outcome.ended_s is None else outcome.ended_s
            self.done_in_time += ended_s <= self.until_s
            self.done_later += ended_s <= LATER * self.until_s
        if outcome.started_s is not None and outcome.ended_s is not None:
            length_s = outcome.ended_s - outcome.started_s
            self.used_s += length_s
            if not first:
                self.wasted_s += length_s
            in_time_s = min(outcome.ended_s, self.until_s) - outcome.started_s
            self.used_in_time_s += max(0.0, in_time_s)
        return first


_NO_PARENTS: tuple[int, ...] = ()


class BagsOutcome(msgspec.Struct, frozen=True):
    """The outcome of a workload. Each list has one item per bag, in order of arrival."""

    makespans_s: list[float]
    """Time from the arrival of each bag to the end of its last task, in seconds."""
    work_s: list[float]
    """Sum of the run times of the tasks of each bag, in seconds on the reference processor."""
    sizes: list[int]
    tally: AttemptTally
    state: RunState


def simulate_bags(
    workload: BotWorkload, platform: Platform, architecture: str, settings: ev.Settings
) -> BagsOutcome:
    """Simulate a workload until all bags have ended. Policies know the estimated run times; tasks
    take their actual run times. Users have different priorities, which depend only on the seed.

    Raises InvalidError if the architecture is unknown, if the workload and the platform have
    different numbers of clusters, or if the policy leaves tasks unplaced.
    """
    if len(workload.clusters) != len(platform.catalog.sites):
        raise InvalidError(
            f"the workload has streams for {len(workload.clusters)} clusters, and there are "
            f"{len(platform.catalog.sites)} sites",
            source=workload.source,
        )
    submission = BagSubmission(workload, platform, architecture, settings)
    state = submission.simulation.run()
    if state.done + state.failed + state.blocked + state.unneeded < state.tasks:
        raise InvalidError(
            f"the simulated run ended with tasks that were never placed: {state.end_reason}",
            source=workload.source,
        )
    return BagsOutcome(
        makespans_s=[
            e - b.arrival_s for e, b in zip(submission.ends_s, workload.bags, strict=True)
        ],
        work_s=[sum(bag.runtime_s) for bag in workload.bags],
        sizes=[len(bag) for bag in workload.bags],
        tally=submission.tally,
        state=state,
    )


class BagSubmission:
    """Submits the bags of a workload when they arrive, and gives their actual run times to the
    simulation."""

    def __init__(
        self, workload: BotWorkload, platform: Platform, architecture: str, settings: ev.Settings
    ) -> None:
        self._submissions = workload.submissions()
        self.tally = AttemptTally(self._submissions[-1].at_s)
        self._documents: dict[str, Workflow] = {}
        self.simulation = Simulation(
            self._documents,
            platform,
            settings,
            observers=[self._observe],
            runtime_s=self._runtime_s,
        )
        state = self.simulation.state
        self._routes: Architecture = architecture_class(architecture)(state, platform.catalog.sites)
        self._workload = workload
        self._priorities = _priorities(workload, settings.seed)
        self._runtimes_s: list[array[float]] = []
        """Run times of the tasks of each workflow, in seconds on the reference processor."""
        self._bag_of: list[int] = []
        """Number of the bag to which each workflow belongs."""
        self._queue_of: list[int] = []
        """Number of the queue to which each workflow was sent."""
        self.ends_s = [0.0] * len(workload.bags)
        """End of the last task of each bag, in seconds. The core may learn of the end later."""
        self._failed: set[tuple[int, int]] = set()
        """Tasks (workflow, task) that have failed for good."""
        self._next = 0
        """Number of the submission that comes next."""
        self.simulation.begin(-1, self._routes.queues())
        self._plan()

    def _note_end(self, workflow: int, at_s: float) -> None:
        bag = self._bag_of[workflow]
        self.ends_s[bag] = max(self.ends_s[bag], at_s)

    def _plan(self) -> None:
        """Schedule the next submission, after the ends of tasks at the same time. After the last
        submission, post that submissions have ended."""
        clock = self.simulation.clock
        if self._next < len(self._submissions):
            clock.schedule(self._submissions[self._next].at_s, self._arrive, ARRIVALS)
        else:
            clock.schedule(clock.now(), self._end, LAST)

    def _end(self) -> None:
        clock = self.simulation.clock
        clock.post(ev.SubmissionEnded(clock.now()))

    def _arrive(self) -> None:
        _, number, tasks = self._submissions[self._next]
        bag = self._workload.bags[number]
        for queue, chosen in self._routes.route(bag.user, bag.cluster, len(tasks)).items():
            of_queue = tasks if chosen is None else [tasks[one] for one in chosen]
            self._submit(number, bag, queue, None if len(of_queue) == len(bag) else of_queue)
        self._next += 1
        self._plan()

    def _submit(
        self, number: int, bag: SubmittedBag, queue: int, chosen: Sequence[int] | None
    ) -> None:
        clock = self.simulation.clock
        workflow = len(self._runtimes_s)
        estimates_s, runtimes_s = bag.estimate_s, bag.runtime_s
        if chosen is not None:
            estimates_s = array("d", [estimates_s[task] for task in chosen])
            runtimes_s = array("d", [runtimes_s[task] for task in chosen])
        self._runtimes_s.append(runtimes_s)
        self._bag_of.append(number)
        self._queue_of.append(queue)
        document = document_of(f"bag-{number}", bag, estimates_s, self._priorities[bag.user])
        digest = str(workflow)
        self._documents[digest] = document
        clock.post(ev.WorkflowAdded(clock.now(), workflow, document.name, digest, queue))

    def _runtime_s(self, workflow: int, task: int) -> float:
        return self._runtimes_s[workflow][task]

    def _observe(self, events: Sequence[ev.Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is ev.AttemptPlaced:
                self.tally.placed += 1
            elif kind is ev.AttemptEnded:
                assert isinstance(event, ev.AttemptEnded)
                _, number, task, *_ = event.key.split(".")
                workflow = int(number)
                is_done = self.tally.ended(event)
                if is_done or self._has_failed(workflow, int(task)):
                    ended_s = event.outcome.ended_s if is_done else None
                    self._note_end(workflow, event.at_s if ended_s is None else ended_s)
                    self._routes.ended(self._queue_of[workflow])
            elif kind is ev.WorkflowAdded:
                assert isinstance(event, ev.WorkflowAdded)
                del self._documents[event.digest]  # the state has it

    def _has_failed(self, workflow: int, task: int) -> bool:
        """Whether a task has failed for good. Returns true only once per task, although several of
        its attempts may have ended in one turn."""
        failed = self.simulation.state.workflows[workflow].status[task] == TaskStatus.FAILED
        if not failed or (workflow, task) in self._failed:
            return False
        self._failed.add((workflow, task))
        return True


def document_of(
    name: str, bag: SubmittedBag, estimates_s: Sequence[float], priority: int
) -> Workflow:
    """The bag as a workflow, whose tasks have the run times ``estimates_s``, in seconds."""
    tasks = [
        Task(str(i), bag.application, bag.application, runtime_s=s, priority=priority)
        for i, s in enumerate(estimates_s)
    ]
    return Workflow(
        name=name,
        source=name,
        tasks=tasks,
        files=(),
        parents=[_NO_PARENTS] * len(tasks),
        owner=bag.user,
        priority=priority,
    )


def _priorities(workload: BotWorkload, seed: int) -> Mapping[str, int]:
    users = sorted({bag.user for bag in workload.bags})
    Random(f"{seed}/priorities").shuffle(users)
    return {user: rank for rank, user in enumerate(users)}
