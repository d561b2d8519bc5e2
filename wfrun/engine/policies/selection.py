"""Selection policies by name: whose tasks are considered next (thesis section 5.1.3).

Third parties add theirs through the entry point group ``wfrun.selection``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from wfrun.engine.names import look_up
from wfrun.engine.protocols import Queue, Selection

Chosen = Iterable[tuple[int, int | None]]


class _Base(ABC):
    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @abstractmethod
    def select(self) -> Chosen:
        """See ``wfrun.engine.protocols.Selection``."""

    def arrived(self, bag: int) -> bool:
        return False


class SelectTasks(_Base):
    """S-T: all tasks of all bags. Those of an arriving bag are added at once."""

    name = "s-t"
    summary = "all tasks of all bags"

    def select(self) -> Chosen:
        return [(bag, None) for bag in self.queue.waiting]

    def arrived(self, bag: int) -> bool:
        return True


class SelectBags(_Base):
    """S-BoT: the bags in the order of their arrival, one after another."""

    name = "s-bot"
    summary = "one bag after another, as they arrive"

    def select(self) -> Chosen:
        return [(self.queue.waiting.first(), None)]


class SelectUserPriority(_Base):
    """S-U-Prio: all tasks of the owner with the highest priority; of equal ones, of the one who
    has waited for longest. An owner's priority is the highest of the bags that wait."""

    name = "s-u-prio"
    summary = "all tasks of the owner with the highest priority"

    def select(self) -> Chosen:
        queue = self.queue
        owner = max(queue.owners, key=lambda o: (queue.priority(o), -queue.owners[o].first()))
        return [(bag, None) for bag in queue.owners[owner]]


class SelectUserTasks(_Base):
    """S-U-T: all tasks of the owner who has used the sites least; of equal ones, of the one who has
    waited for longest."""

    name = "s-u-t"
    summary = "all tasks of the owner with the lowest use of the sites"

    def select(self) -> Chosen:
        return [(bag, None) for bag in self.queue.owners[self._owner()]]

    def _owner(self) -> str:
        queue = self.queue
        return min(queue.owners, key=lambda o: (queue.usage_s(o), queue.owners[o].first()))


class SelectUserBags(SelectUserTasks):
    """S-U-BoT: the earliest bag of the owner who has used the sites least."""

    name = "s-u-bot"
    summary = "the first bag of the owner with the lowest use of the sites"

    def select(self) -> Chosen:
        return [(self.queue.owners[self._owner()].first(), None)]


class SelectUsersInTurn(_Base):
    """S-U-GRR: all waiting tasks of the next owner in round-robin order, which is that of their
    first bags. Bags that the owner submits meanwhile wait for the next turn."""

    name = "s-u-grr"
    summary = "all tasks of one owner after another"

    def select(self) -> Chosen:
        return [(bag, None) for bag in self.queue.owners[self.queue.next_owner()]]


class SelectTasksInTurn(_Base):
    """S-U-RR: one task of the next owner in round-robin order, from the earliest bag, so that a bag
    of N tasks is through after N rounds."""

    name = "s-u-rr"
    summary = "one task of one owner after another"

    def select(self) -> Chosen:
        return [(self.queue.owners[self.queue.next_owner()].first(), 1)]


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
    )
}
"""In the order of section 5.1.3."""


def selection_class(name: str) -> type[Selection]:
    """The policy of that name; InvalidError names the nearest right one."""
    return look_up(SELECTION, name, "selection policy")
