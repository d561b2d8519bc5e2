"""Invariants 1, 2, 5 and 6 of the design, over random workflows, policies, failures and orders
of events."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.amounts import examples
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action, SetTimer, SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.fitting.fit import fits
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.model import ORIGIN, Catalog, LinkSpec, Workflow
from wfrun.engine.policies.placement import PLACEMENT, WORKFLOW_POLICIES
from wfrun.testing.fake_world import FakeWorld, Result

MANY = hypothesis_settings(max_examples=examples(150), deadline=None)


CAUSES: list[Cause] = [
    "exit", "signal", "output", "launch-failed", "memory", "walltime", "staging", "disk-full",
    "refused", "preempted", "node", "cancelled", "lost",
]  # fmt: skip
"""Causes of the failures that sites report."""


def failing(seed: int, share: float, world: list[FakeWorld], causes: list[Cause]) -> Result:
    """A result function in which attempts fail at random."""

    def result(key: str, workflow: int, task: int) -> Outcome:
        random = Random(f"{seed}/{key}")
        if random.random() < share:
            host = random.choice([None, "n1", "n2"])
            return Outcome(random.choice(causes), host=host, peak_memory_bytes=2**29)
        record = world[0].core.state.workflows[workflow].workflow
        sizes = tuple(record.files[f].size_bytes for f in record.tasks[task].outputs)
        return Outcome("done", exit_code=0, host=random.choice(["n1", "n2"]), sizes=sizes)

    return result


def make_world(
    several: list[Workflow],
    catalog: Catalog,
    settings: ev.Settings,
    seed: int,
    share: float,
    causes: list[Cause] = CAUSES,
) -> FakeWorld:
    """A world with failures, sites that close and reopen, and random run times."""
    holder: list[FakeWorld] = []
    world = FakeWorld(
        several,
        catalog,
        settings,
        result=failing(seed, share, holder, causes),
        runtime_s=lambda w, t, s: Random(f"{seed}/{w}/{t}/{s}").choice([0.0, 1.0, 1.5, 40.0]),
    )
    holder.append(world)
    random = Random(seed)
    for _ in range(random.randrange(3)):
        site = random.randrange(len(catalog.sites))
        at_s = random.choice([0.0, 1.0, 30.0])
        world.post(at_s, ev.SitePaused(at_s, site, "closed by the test"))
        world.post(at_s + 5, ev.SiteReopened(at_s + 5, site))
        background = tuple(
            ev.BackgroundJob(f"b{i}", 1, random.choice([None, 0.0]), random.choice([None, 9.0]))
            for i in range(random.randrange(3))
        )
        world.post(at_s + 1, ev.SiteObserved(at_s + 1, site, background))
    return world


class InvariantChecker:
    """Checks the invariants against the log alone, without the state of the core."""

    def __init__(self, several: list[Workflow], catalog: Catalog, settings: ev.Settings) -> None:
        self.workflows = several
        self.throttle = settings.throttle if isinstance(settings.throttle, int) else None
        most = max(PLACEMENT[settings.policy].replicas, settings.replication == "stragglers")
        self.replicas = most if settings.replicas is None else settings.replicas
        self.sites = catalog.sites
        self.asked = [[t.resources for t in w.tasks] for w in several]
        """Lower bounds of the current requests of tasks, as far as the log tells."""
        self.refused: set[tuple[int, int, int]] = set()
        self.present: set[tuple[int, int, int]] = {
            (w, f, ORIGIN)
            for w, workflow in enumerate(several)
            for f, file in enumerate(workflow.files)
            if file.producer is None
        }
        self.done: set[tuple[int, int]] = set()
        self.open: dict[str, ev.AttemptPlaced] = {}
        self.keys: set[str] = set()
        self.submitted: set[str] = set()
        self.paused: set[int] = set()

    def check(self, event: ev.Event) -> None:
        if isinstance(event, ev.AttemptPlaced):
            self._placed(event)
        elif isinstance(event, ev.SitePaused):
            self.paused.add(event.site)
        elif isinstance(event, ev.SiteReopened):
            self.paused.discard(event.site)
        elif isinstance(event, ev.RunResumed):
            self.refused.clear()
            self.paused.clear()
        elif isinstance(event, ev.AttemptEnded):
            placed = self.open.pop(event.key, None)
            if placed is not None:
                self._learn(placed, event.outcome)
            if placed is not None and event.outcome.cause == "done":
                task = (placed.workflow, placed.task)
                if task in self.done:
                    assert self.replicas, "a task succeeded twice"
                    return  # Its files are not used.
                self.done.add(task)
                for other in self._others(task):
                    if other.key not in self.submitted:  # Taken back without an event.
                        del self.open[other.key]
                record = self.workflows[placed.workflow].tasks[placed.task]
                for file in record.outputs:
                    self.present.add((placed.workflow, file, placed.site))
        elif isinstance(event, ev.TransferEnded):
            assert (event.workflow, event.file, event.source) in self.present
            self.present.add((event.workflow, event.file, event.destination))
        elif isinstance(event, ev.AttemptsFound):
            self.submitted -= set(event.absent)

    def _others(self, task: tuple[int, int]) -> list[ev.AttemptPlaced]:
        return [p for p in self.open.values() if (p.workflow, p.task) == task]

    def _learn(self, placed: ev.AttemptPlaced, outcome: Outcome) -> None:
        workflow, task = placed.workflow, placed.task
        asked = self.asked[workflow][task]
        if outcome.cause == "refused":
            self.refused.add((workflow, task, placed.site))
        elif self._others((workflow, task)):
            return
        elif outcome.cause == "memory":  # A retry requests more.
            asked = msgspec.structs.replace(asked, memory_bytes=asked.memory_bytes + 1)
        elif outcome.cause == "walltime" and asked.walltime_s is not None:
            asked = msgspec.structs.replace(asked, walltime_s=asked.walltime_s + 1)
        self.asked[workflow][task] = asked

    def _placed(self, event: ev.AttemptPlaced) -> None:
        task = (event.workflow, event.task)
        workflow = self.workflows[event.workflow]
        assert event.key not in self.keys, "an attempt's key was used twice"
        self.keys.add(event.key)
        assert task not in self.done
        others = self._others(task)
        are_away = self.replicas and others and all(p.site in self.paused for p in others)
        assert len(others) <= self.replicas or are_away
        assert all((event.workflow, p) in self.done for p in workflow.parents[event.task])
        assert fits(self.asked[event.workflow][event.task], self.sites[event.site])
        assert (*task, event.site) not in self.refused
        self.open[event.key] = event
        dispatched = sum(p.workflow == event.workflow for p in self.open.values())
        assert self.throttle is None or dispatched <= self.throttle

    def forget_withdrawn(self, state: RunState) -> None:
        """Drop attempts in staging that were taken back without an event."""
        if state.draining or state.stopping or state.max_replicas:
            self.open = {k: v for k, v in self.open.items() if k in state.attempts}

    def submit(self, action: SubmitAttempts) -> None:
        for key, workflow, task in action.attempts:
            assert key in self.open, "submitted without a durable key"
            assert key not in self.submitted, "submitted twice"
            self.submitted.add(key)
            for file in self.workflows[workflow].tasks[task].inputs:
                if self.workflows[workflow].files[file].producer is None or any(
                    (workflow, file, place) in self.present for place in range(len(self.sites))
                ):
                    assert (workflow, file, action.site) in self.present


def audit(world: FakeWorld, checker: InvariantChecker) -> None:
    """Run a world to its end and check every event."""
    checked = given = 0
    for _ in world.steps():
        for event in world.log[checked:]:
            checker.check(event)
        checked = len(world.log)
        for action in world.actions[given:]:
            if isinstance(action, SubmitAttempts):
                checker.submit(action)
        given = len(world.actions)
        checker.forget_withdrawn(world.core.state)


@MANY
@given(
    st.lists(workflows(), min_size=1, max_size=3),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.2, 0.6]),
)
def test_predecessors_inputs_and_throttle_hold_and_every_run_ends(
    several: list[Workflow], catalog: Catalog, settings: ev.Settings, seed: int, share: float
) -> None:
    world = make_world(several, catalog, settings, seed, share)
    checker = InvariantChecker(several, catalog, settings)
    audit(world, checker)
    state = world.core.state
    assert state.ended in ("done", "failed")
    assert state.done == len(checker.done)
    if share == 0.0:
        assert state.ended == "done"
    if settings.on_failure == "continue" and state.end_reason is None:
        for w in state.workflows:
            failed = {t for t, status in enumerate(w.status) if status == 5}
            for task in range(len(w.workflow.tasks)):
                ancestors = _ancestors(w.workflow, task)
                if not failed & (ancestors | {task}):
                    assert (w.index, task) in checker.done, "an independent task was not run"


def _ancestors(workflow: Workflow, task: int) -> set[int]:
    found: set[int] = set()
    stack = [task]
    while stack:
        for parent in workflow.parents[stack.pop()]:
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return found


@MANY
@given(
    st.lists(workflows(max_tasks=10), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
)
def test_crashes_lose_and_double_nothing(
    several: list[Workflow],
    catalog: Catalog,
    settings: ev.Settings,
    seed: int,
    crashes: list[int],
) -> None:
    settings = msgspec.structs.replace(settings, retries=50)
    # "launch-failed" is left out: an executable that is nowhere is not tried again
    world = make_world(several, catalog, settings, seed, 0.1, ["exit", "lost", "disk-full"])
    checker = InvariantChecker(several, catalog, settings)
    checked = 0
    crashes[0] += 1 + len(several)  # the start and the workflows become durable together
    for gap in crashes:
        for count, _ in enumerate(world.steps(), start=1):
            for event in world.log[checked:]:
                checker.check(event)
            checker.forget_withdrawn(world.core.state)
            checked = len(world.log)
            if count == gap:
                break
        if world.core.state.ended is not None:
            break
        world.crash()
    for event in world.log[checked:]:
        checker.check(event)
    checked = len(world.log)
    for _ in world.steps():
        for event in world.log[checked:]:
            checker.check(event)
        checker.forget_withdrawn(world.core.state)
        checked = len(world.log)
    assert world.core.state.ended == "done"
    assert len(checker.done) == sum(len(w.tasks) for w in several)


@MANY
@given(
    st.lists(workflows(max_tasks=10), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
    st.sampled_from(["drain", "kill"]),
    st.sampled_from([0.0, 0.5, 1.0, 3.0, 45.0]),
)
def test_a_cancelled_run_ends_soon_and_goes_on_when_resumed(
    several: list[Workflow],
    catalog: Catalog,
    settings: ev.Settings,
    seed: int,
    mode: Literal["drain", "kill"],
    at_s: float,
) -> None:
    settings = msgspec.structs.replace(settings, retries=50)
    world = make_world(several, catalog, settings, seed, 0.1, ["exit", "lost"])
    world.post(at_s, ev.CancelAsked(at_s, mode))
    checker = InvariantChecker(several, catalog, settings)
    audit(world, checker)
    if world.core.state.ended == "cancelled":
        asked = next(i for i, e in enumerate(world.log) if isinstance(e, ev.CancelAsked))
        after = world.log[asked:]
        assert not any(isinstance(e, ev.AttemptPlaced) for e in after)
        ends = [e.at_s for e in after if isinstance(e, ev.AttemptEnded)]
        assert max(ends, default=at_s) <= at_s + (0 if mode == "kill" else 40)
        assert mode == "drain" or world.core.state.now_s == at_s
        world.crash()
        world.run()
    assert world.core.state.ended == "done"
    successes = Counter(
        e.key.rsplit(".", 1)[0]
        for e in world.log
        if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "done"
    )
    assert set(successes.values()) == {1} or checker.replicas
    assert len(successes) == sum(len(w.tasks) for w in several)


@MANY
@given(
    st.lists(workflows(), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
)
def test_same_seed_and_events_give_the_same_actions(
    several: list[Workflow], catalog: Catalog, settings: ev.Settings, seed: int
) -> None:
    first = make_world(several, catalog, settings, seed, 0.3)
    second = make_world(several, catalog, settings, seed, 0.3)
    first.run()
    second.run()
    assert msgspec.json.encode(first.log) == msgspec.json.encode(second.log)
    assert first.actions == second.actions


@MANY
@given(
    st.lists(workflows(), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
    st.integers(1, 60),
)
def test_a_replayed_core_decides_as_the_one_that_lived(
    several: list[Workflow], catalog: Catalog, settings: ev.Settings, seed: int, steps: int
) -> None:
    world = make_world(several, catalog, settings, seed, 0.3)
    for count, _ in enumerate(world.steps(), start=1):
        if count == steps:
            break
    twin = Core({str(i): w for i, w in enumerate(several)})
    twin.replay(world.log)
    original = world.core.step
    differences = []

    def both(event: ev.Event) -> tuple[list[ev.Event], list[Action]]:
        expected = original(event)
        if without_wake_up(*twin.step(event)) != without_wake_up(*expected):
            differences.append(event)
        return expected

    world.core.step = both  # type: ignore[method-assign]
    world.run()
    assert not differences


def without_wake_up(
    decided: list[ev.Event], actions: list[Action]
) -> tuple[list[ev.Event], list[Action]]:
    """Without the timer of withdrawals, which the log does not state: each engine sets its own."""
    own = ("withdrawals",)
    return decided, [a for a in actions if not (isinstance(a, SetTimer) and a.timer in own)]


@MANY
@given(workflows(), catalogs(), settings_of_runs(), st.randoms(use_true_random=False))
def test_decisions_do_not_depend_on_undeclared_information(
    workflow: Workflow, catalog: Catalog, settings: ev.Settings, random: Random
) -> None:
    """Change only information that the policy has not declared: its decisions must not change."""
    declared = PLACEMENT[settings.policy].information
    changed, other = workflow, catalog
    if declared.task_runtime is Knowledge.UNKNOWN:
        tasks = [msgspec.structs.replace(t, runtime_s=random.random()) for t in workflow.tasks]
        changed = msgspec.structs.replace(changed, tasks=tasks)
    if declared.file_size is not Knowledge.KNOWN:
        files = [
            f if f.producer is None else msgspec.structs.replace(f, size_bytes=random.randrange(99))
            for f in workflow.files
        ]
        changed = msgspec.structs.replace(changed, files=files)
    # Known run times are those at each site, which show its speed.
    if Knowledge.UNKNOWN is declared.processing_speed is declared.task_runtime:
        sites = tuple(
            msgspec.structs.replace(s, speed_ratio=random.random() + 0.1) for s in catalog.sites
        )
        other = msgspec.structs.replace(other, sites=sites)

    def place(document: Workflow, sites: Catalog) -> list[ev.Event]:
        world = FakeWorld(
            [document],
            sites,
            settings,
            runtime_s=lambda w, t, s: workflow.tasks[t].runtime_s or 0.0,
            result=lambda k, w, t: Outcome(
                "done",
                sizes=tuple(workflow.files[f].size_bytes for f in workflow.tasks[t].outputs),
            ),
        )
        world.run()
        return [e for e in world.log if isinstance(e, ev.AttemptPlaced)]

    assert place(changed, other) == place(workflow, catalog)


def test_links_matter_only_to_policies_that_declare_them() -> None:
    """A slow link away from the data changes file-aware's choice, and no choice of the others
    that declare no link speed."""
    from wfrun.engine.model import File, SiteSpec, Task

    files = [File("a", size_bytes=10**9, producer=0), File("b", size_bytes=1, producer=1)]
    tasks = [
        Task("t0", "x", "x", outputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(0,), outputs=(1,), runtime_s=1.0),
    ]
    workflow = Workflow("w", "w", tasks, files, [(), (0,)])
    sites = (SiteSpec("alpha", slots=1), SiteSpec("beta", slots=1))
    slow = Catalog(sites, (LinkSpec("alpha", "beta", 1e3), LinkSpec("beta", "alpha", 1e3)))
    chosen: Counter[str] = Counter()
    for policy in (p.name for p in WORKFLOW_POLICIES):
        world = FakeWorld([workflow], slow, ev.Settings(policy=policy))
        world.run()
        first, second = (e for e in world.log if isinstance(e, ev.AttemptPlaced))
        chosen[policy] = int(first.site == second.site)
    assert chosen["file-aware"] == chosen["heft"] == chosen["coarsening"] == 1
    assert chosen["round-robin"] == 0
