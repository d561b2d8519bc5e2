"""Idle processors of all sites, with the orders that policies need of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from wfrun.engine.jobs.coallocation.requests import Placement

_Kind = tuple[int, int, tuple[int, ...]]


class Ranked(NamedTuple):
    """Sites by decreasing number of idle processors; equal sites are in catalog order. Sites
    without idle processors are left out."""

    sites: tuple[int, ...]
    idle: tuple[int, ...]
    """Idle processors of each."""
    sums: tuple[int, ...]
    """Idle processors of the first site, of the first two, and so on."""


class IdleProcessors:
    """The idle processors of each site, numbered from 0.

    ``version`` changes with the numbers, and never returns to an earlier value. Orders are kept
    until it changes, since many waiting jobs are tried with the same numbers.
    """

    def __init__(self, idle: Iterable[int]) -> None:
        self._idle = list(idle)
        self.version = 0
        self._by_kind: dict[_Kind, tuple[int, ...]] = {}
        self._ranked: dict[_Kind, Ranked] = {}

    @property
    def counts(self) -> tuple[int, ...]:
        """Idle processors by site."""
        return self.usable(-1, 1)

    def usable(self, sites: int, unit: int, widths: tuple[int, ...] = ()) -> tuple[int, ...]:
        """By site: number of idle processors that a component can use. It is 0 at sites that are
        not in the mask, at most the width of the site, and a multiple of ``unit``."""
        kind = sites, unit, widths
        found = self._by_kind.get(kind)
        if found is None and sites == -1 and unit == 1 and not widths:
            found = self._by_kind[kind] = tuple(self._idle)
        if found is None:
            counts = list(map(min, self._idle, widths)) if widths else self._idle
            found = self._by_kind[kind] = tuple(
                count - count % unit if sites >> site & 1 else 0
                for site, count in enumerate(counts)
            )
        return found

    def ranked(self, sites: int, unit: int, widths: tuple[int, ...] = ()) -> Ranked:
        """The numbers of ``usable``, sorted."""
        kind = sites, unit, widths
        found = self._ranked.get(kind)
        if found is None:
            usable = self.usable(sites, unit, widths)
            order = sorted(range(len(usable)), key=usable.__getitem__, reverse=True)
            while order and not usable[order[-1]]:
                order.pop()
            idle = tuple([usable[site] for site in order])
            found = self._ranked[kind] = Ranked(tuple(order), idle, tuple(accumulate(idle)))
        return found

    def set(self, idle: Sequence[int]) -> None:
        """Set the numbers of all sites."""
        if self._idle != list(idle):
            self._idle[:] = idle
            self._changed()

    def take(self, placement: Placement) -> None:
        """Take the processors of a placement, which must be idle."""
        for site, size in placement:
            self._idle[site] -= size
        self._changed()

    def give_back(self, placement: Placement) -> None:
        """Give the processors of a placement back."""
        for site, size in placement:
            self._idle[site] += size
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._by_kind.clear()
        self._ranked.clear()
