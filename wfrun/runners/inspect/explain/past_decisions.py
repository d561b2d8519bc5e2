"""Repeats past placement decisions, to show the scores on which they were based.

The core is restored to its state before the event that caused a decision, and decides again until
it comes to the placement in question. So the scores take account of the earlier placements of the
step, and of tasks that were planned but not placed, which the log does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.capabilities.reallocating.sizes import SizeChooser
from wfrun.engine.core.capability import Run
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus, WorkflowState
from wfrun.engine.events import DECISIONS, AttemptPlaced, Event
from wfrun.engine.explain.obstacles import Reason, site_obstacle
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement.scores import Scores, scores_of
from wfrun.engine.tasks.attempts import key_of
from wfrun.runners.run.store.checkpoints import read_core
from wfrun.runners.run.store.event_store import Store


class PastDecision(NamedTuple):
    """A placement decision, and what the policy saw when it took the decision."""

    policy: str
    """The name of the policy, or the option that decided in its place: ``size …`` or
    ``reallocate …``."""
    scores: Scores | None
    """None: the policy has no scores."""
    obstacles: tuple[Reason, ...]
    """Why the other sites were no candidates."""
    is_replica: bool
    is_repeated: bool
    """Whether this wfrun makes the same decision in the same state. If not, an older version, or an
    engine that had just been resumed, made the decision, and the scores follow from the state
    alone."""


class _FoundError(Exception):
    """Raised when the core comes to the placement in question."""


class _Witness(Core):
    """A core that decides until it places one task, and records what the policy saw."""

    def __init__(self, documents: Mapping[str, Workflow], run: Run, placed: AttemptPlaced) -> None:
        super().__init__(documents, run)
        self._placed = placed
        self.seen: PastDecision | None = None
        policies = self.state.get(Placements).by_workflow
        if placed.workflow < len(policies):
            self._watch(policies[placed.workflow])

    def _watch(self, policy: object) -> None:
        """Record the state whenever the policy is asked about the task, because the task may be
        planned some time before it is placed."""
        place = policy.place  # type: ignore[attr-defined]

        def watched(task: int) -> object:
            if task == self._placed.task:
                self.seen = self._look()
            return place(task)

        if hasattr(policy, "__dict__"):
            vars(policy)["place"] = watched

    def _look(self) -> PastDecision:
        return look(self.run, self.state.workflows[self._placed.workflow], self._placed.task)

    def place(self, w: WorkflowState, task: int, site: object, allowed: int) -> None:
        if key_of(w, task, w.attempts_of[task] + 1) == self._placed.key:
            self.seen = self.seen or self._look()
            is_same = site == self._placed.site
            self.seen = self.seen._replace(is_repeated=is_same)
            raise _FoundError
        super().place(w, task, site, allowed)


def look(run: Run, w: WorkflowState, task: int) -> PastDecision:
    """What the placement policy of a task sees in the present state."""
    state = run.state
    is_replica = w.status[task] == TaskStatus.DISPATCHED
    moves, sizes = state.find(Reallocations), state.find(SizeChooser)
    if moves is not None and moves.destination(w, task) is not None:
        return PastDecision(f"reallocate {state.settings.reallocate}", None, (), is_replica, False)
    if sizes is not None:
        name, scores = f"size {state.settings.sizing}", _offers(run, sizes, w, task)
    else:
        candidates = run.candidates(w, task, w.workflow.tasks[task].resources.cores)
        policy = state.get(Placements).by_workflow[w.index]
        name, scores = state.settings.policy, scores_of(policy, task) if candidates else None
    scored = {row.site for row in scores.rows} if sizes and scores else set()
    sites = (n for n in range(len(state.sites)) if not state.left >> n & 1 and n not in scored)
    obstacles = tuple(found for n in sites if (found := site_obstacle(run, w, task, n)))
    return PastDecision(name, scores, obstacles, is_replica, False)


def _offers(run: Run, sizes: SizeChooser, w: WorkflowState, task: int) -> Scores | None:
    """Scores of the sites for a job whose size the run chooses. They include sites that are open
    for the job but that the chosen size excludes."""
    cores = w.workflow.tasks[task].resources.cores
    mask = w.allowed_sites(task) & run.state.openings_for(cores).open
    for limit in run.hooks.limit_candidates:
        if limit != sizes.limit_candidates:
            mask = limit(w, task, cores, mask)
    return sizes.scores(w, task, mask)


def past_decision(
    store: Store, documents: Mapping[str, Workflow], seq: int, placed: AttemptPlaced
) -> PastDecision:
    """Repeat the placement decision that is event ``seq`` of a log, and return what the policy saw.
    Raises what ``read_core`` raises."""
    cause_seq, cause = _cause(store, seq)
    if cause is not None and cause_seq:
        core = read_core(store, cause_seq, documents)
        witness = _Witness(documents, core.run, placed)
        try:
            witness.step(cause)
        except _FoundError:
            if witness.seen is not None and witness.seen.is_repeated:
                return witness.seen
    core = read_core(store, seq, documents)
    return look(core.run, core.state.workflows[placed.workflow], placed.task)


def _cause(store: Store, seq: int) -> tuple[int, Event | None]:
    """The event that caused a decision, with its number: the last one before ``seq`` that is not
    itself a decision. (0, None) if there is none."""
    for number, event in store.before(seq):
        if not isinstance(event, DECISIONS):
            return number, event
    return 0, None
