"""Readings of the fourth rule of the queue (section 4.1.1). Each is a policy that differs from the
engine's in one rule.

The fourth rule prefers "requests of users who had the fewest allocated resources so far". The
engine takes it as printed: the resources allocated since the user arrived. The policies here serve
to find causes of differences, and are registered only while this study simulates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from wfrun.engine.policies.selection import SELECTION, SelectEthic
from wfrun.engine.protocols import Queue

PRINTED = SelectEthic.name


class ByRate(SelectEthic):
    """Prefers the user with the fewest allocated core seconds relative to the user's time in the
    system. This time is measured by the core seconds that all users were allocated meanwhile, since
    the slots are always busy."""

    name = "ethic-by-rate"
    summary = "study: the least usage over the time in the system"

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue)
        self._joined: dict[str, float] = {}
        self._usage: dict[str, float] = {}

    def _owner(self) -> str:
        queue = self.queue
        self._usage.update((o, queue.expected_s(o)) for o in queue.owners)
        total = sum(self._usage.values())
        rates = {}
        for owner in queue.owners:
            present = total - self._joined.setdefault(owner, total - self._usage[owner])
            rates[owner] = self._usage[owner] / present if present > 0 else 0.0
        least = min(rates.values())
        return queue.draw([owner for owner, rate in rates.items() if rate == least])


class SincePresent(SelectEthic):
    """A new user's account begins with the smallest account of the users present (start-time fair
    queueing), instead of with 0."""

    name = "ethic-since-present"
    summary = "study: new owners begin with the least account of those present"

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue)
        self._begun_with: dict[str, float] = {}

    def _owner(self) -> str:
        queue, begun = self.queue, self._begun_with
        accounts = {o: begun[o] + queue.expected_s(o) for o in queue.owners if o in begun}
        least = min(accounts.values(), default=0.0)
        for owner in queue.owners:
            if owner not in begun:
                begun[owner] = least
                accounts[owner] = least + queue.expected_s(owner)
        least = min(accounts.values())
        return queue.draw([owner for owner, account in accounts.items() if account == least])


class AtRandom(SelectEthic):
    """Drops the fourth rule: the user whose optional task runs next is drawn at random. A rule that
    counts only the tasks that run at the server now would have the same outcome."""

    name = "ethic-at-random"
    summary = "study: optional tasks of any owner at random"

    def _owner(self) -> str:
        return self.queue.draw(list(self.queue.owners))


class WithoutKills(SelectEthic):
    """Drops the kills: a mandatory task waits for a free slot instead of killing an optional
    task."""

    name = "ethic-without-kills"
    summary = "study: ethic, and nothing is killed"
    kills_optional: ClassVar[bool] = False


@contextmanager
def registered() -> Iterator[None]:
    """Register these policies by name until the block ends."""
    own = {each.name: each for each in (ByRate, SincePresent, AtRandom, WithoutKills)}
    SELECTION.update(own)
    try:
        yield
    finally:
        for name in own:
            del SELECTION[name]
