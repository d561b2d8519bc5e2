"""The owners of a run, their waiting tasks, and which owners share processors now."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from math import ceil

from wfrun.engine.core.state import RunState, WorkflowState


class Owner:
    """One owner and the owner's waiting tasks."""

    __slots__ = ("cores", "name", "open", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = 0
        """Number of workflows that have not ended."""
        self.cores = 0
        """Cores of eligible tasks, as far as throttles let them start."""
        self.ready: list[int] = []
        """Workflows with eligible tasks that their throttles let start, in the order of their
        arrival."""


class Owners:
    """All owners, numbered in the order of their first workflows.

    Sums are recomputed only for workflows that changed. Cost of a change: the task classes of the
    workflow.
    """

    def __init__(self, state: RunState, most: int | None) -> None:
        self._state = state
        self._most = most
        self.all: list[Owner] = []
        self._numbers: dict[str, int] = {}
        self._of: list[int] = []
        """Owner of each workflow."""
        self.turns: list[int] = []
        """Owners in the order of their arrival. An owner without an open workflow goes to the end
        when a new workflow arrives."""
        self._stale: set[int] = set()
        self._open: set[int] = set()
        self._cores: dict[int, int] = {}
        """By workflow with tasks that wait: the cores of these tasks."""

    def add(self, w: WorkflowState) -> int:
        """Add a workflow. Returns its owner."""
        self.refresh()
        name = w.workflow.owner
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.all)
            self.all.append(Owner(name))
        elif not self.all[number].open:
            self.turns.remove(number)
        if number not in self.turns:
            self.turns.append(number)
        self._of.append(number)
        self._stale.add(w.index)
        return number

    def of(self, workflow: int) -> int:
        """The owner of a workflow."""
        return self._of[workflow]

    def changed(self, workflow: int) -> None:
        """Note that tasks of a workflow have become eligible, were placed, or are no longer
        dispatched."""
        self._stale.add(workflow)

    def refresh(self) -> None:
        """Bring the sums up to date."""
        for index in self._stale:
            owner, w = self.all[self._of[index]], self._state.workflows[index]
            if (w.ended_s is None) is not (index in self._open):
                owner.open += 1 if w.ended_s is None else -1
                self._open ^= {index}
            before, cores = self._cores.pop(index, 0), self._waiting_cores(w)
            owner.cores += cores - before
            if cores:
                self._cores[index] = cores
            if cores and not before:
                insort(owner.ready, index)
            elif before and not cores:
                owner.ready.remove(index)
        self._stale.clear()

    def _waiting_cores(self, w: WorkflowState) -> int:
        count, throttle = w.eligible.count, self._state.throttle
        if not count or w.ended_s is not None:
            return 0
        allowed = count if throttle is None else min(count, max(0, throttle - w.dispatched))
        cores = sum(number * kind.cores for kind, number in w.eligible.counts.items())
        return ceil(cores * allowed / count)

    def admitted(self) -> tuple[int, ...]:
        """The numbers of the owners who share processors now, in ascending order. They are the
        owners with an open workflow who arrived first, up to the maximum number of admitted
        owners."""
        active = [number for number in self.turns if self.all[number].open]
        return tuple(sorted(active[: self._most]))

    def waiting(self) -> list[int]:
        """The owners with an open workflow who are not admitted, in the order of their arrival."""
        return [n for n in self.turns if self.all[n].open][self._most or len(self.all) :]

    def sites(self, number: int) -> int:
        """The sites that may run waiting tasks of an owner, as a mask."""
        mask = 0
        for index in self.all[number].ready:
            for kind in self._state.workflows[index].eligible.counts:
                mask |= kind.mask
        return mask

    def in_order(self, number: int) -> Sequence[int]:
        """The workflows of an owner with waiting tasks; workflows whose priority the user has
        raised come first."""
        ready, raised = self.all[number].ready, self._state.raised
        if not raised:
            return ready
        return sorted(ready, key=lambda index: (raised.get(index, 0), index))
