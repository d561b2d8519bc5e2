"""Selection policies by name: they choose the bags whose tasks are placed next (thesis section
5.1.3).

Third parties add theirs through the entry point group ``wfrun.selection``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from wfrun.engine.fitting.names import look_up
from wfrun.engine.protocols import Queue, Selection

Selected = Iterable[tuple[int, int | None]]


class _Base(ABC):
    """Base class of selection policies: an arriving bag waits for the next selection."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @abstractmethod
    def select(self) -> Selected:
        """Implements `wfrun.engine.protocols.Selection.select`."""

    def arrived(self, bag: int) -> bool:
        return False


class SelectTasks(_Base):
    """S-T: all tasks of all bags. The tasks of an arriving bag join immediately."""

    name = "s-t"
    summary = "all tasks of all bags"

    def select(self) -> Selected:
        return [(bag, None) for bag in self.queue.waiting]

    def arrived(self, bag: int) -> bool:
        return True


class SelectBags(_Base):
    """S-BoT: one bag after another, in the order of arrival."""

    name = "s-bot"
    summary = "one bag after another, as they arrive"

    def select(self) -> Selected:
        return [(self.queue.waiting.first(), None)]


class SelectUserPriority(_Base):
    """S-U-Prio: all tasks of the owner with the highest priority. The priority of an owner is the
    highest priority of the owner's waiting bags. Ties go to the owner who has waited longest."""

    name = "s-u-prio"
    summary = "all tasks of the owner with the highest priority"

    def select(self) -> Selected:
        queue = self.queue
        owner = max(queue.owners, key=lambda o: (queue.priority(o), -queue.owners[o].first()))
        return [(bag, None) for bag in queue.owners[owner]]


class SelectUserTasks(_Base):
    """S-U-T: all tasks of the owner with the lowest usage of the sites. Ties go to the owner who
    has waited longest."""

    name = "s-u-t"
    summary = "all tasks of the owner with the lowest use of the sites"

    def select(self) -> Selected:
        return [(bag, None) for bag in self.queue.owners[self._owner()]]

    def _owner(self) -> str:
        queue = self.queue
        return min(queue.owners, key=lambda o: (queue.usage_s(o), queue.owners[o].first()))


class SelectUserBags(SelectUserTasks):
    """S-U-BoT: the earliest bag of the owner with the lowest usage of the sites."""

    name = "s-u-bot"
    summary = "the first bag of the owner with the lowest use of the sites"

    def select(self) -> Selected:
        return [(self.queue.owners[self._owner()].first(), None)]


class SelectUsersInTurn(_Base):
    """S-U-GRR: all waiting tasks of the next owner in round-robin order. Owners are in the order of
    their first bags. Bags that an owner submits later wait for the next round."""

    name = "s-u-grr"
    summary = "all tasks of one owner after another"

    def select(self) -> Selected:
        return [(bag, None) for bag in self.queue.owners[self.queue.next_owner()]]


class SelectTasksInTurn(_Base):
    """S-U-RR: one task, of the earliest bag, of the next owner in round-robin order. A bag of N
    tasks thus takes N rounds."""

    name = "s-u-rr"
    summary = "one task of one owner after another"

    def select(self) -> Selected:
        return [(self.queue.owners[self.queue.next_owner()].first(), 1)]


class SelectEthic(SelectUserTasks):
    """Mandatory tasks first, of the earliest bag that has any; then one optional task of the owner
    with the lowest expected usage. The expected usage of an owner is the usage of the sites when
    the owner's dispatched tasks have ended. Ties go to the owner with the fewest dispatched tasks,
    then at random (DIET-ethic, section 4.1.1, with one queue for all sites). Tasks of workflows,
    and of bags without optional tasks, are mandatory."""

    name = "ethic"
    summary = "mandatory tasks, then optional ones of the owner with the lowest use"
    kills_optional: ClassVar[bool] = True
    """Whether running optional tasks are killed for mandatory tasks that no site has room for."""

    def select(self) -> Selected:
        queue = self.queue
        for bag in queue.waiting:
            if mandatory := queue.mandatory(bag):
                return [(bag, mandatory)]
        return [(queue.owners[self._owner()].first(), 1)]

    def _owner(self) -> str:
        queue = self.queue
        ranks = {o: (queue.expected_s(o), queue.dispatched(o)) for o in queue.owners}
        least = min(ranks.values())
        return queue.draw([owner for owner, rank in ranks.items() if rank == least])


SELECTION: dict[str, type[Selection]] = {
    policy.name: policy
    for policy in (
        SelectTasks,
        SelectBags,
        SelectUserPriority,
        SelectUserTasks,
        SelectUserBags,
        SelectUsersInTurn,
        SelectTasksInTurn,
        SelectEthic,
    )
}
"""Selection policies by name: those of thesis section 5.1.3 in its order, then others."""


def selection_class(name: str) -> type[Selection]:
    """The policy with this name. Raises InvalidError for an unknown name; its hint suggests the
    most similar name."""
    return look_up(SELECTION, name, "selection policy")
