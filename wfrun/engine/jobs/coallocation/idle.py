"""Idle processors by site, and the sorted orders of sites that policies need."""

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
    """Idle processors of each of ``sites``."""
    sums: tuple[int, ...]
    """Running sums of ``idle``."""


class IdleProcessors:
    """The idle processors of each site, numbered from 0.

    Each change of a number increments ``version``. Sorted orders are cached until the next change,
    since many waiting jobs are tried with the same numbers.
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
        """By site: the number of idle processors that a component can use, a multiple of ``unit``.
        ``sites``: mask of the allowed sites (-1: all); the number is 0 at other sites. ``widths``:
        maximum number by site; empty: no limits."""
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
        """Sites by decreasing number of ``usable`` processors."""
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
        """Set the number of idle processors of every site."""
        if self._idle != list(idle):
            self._idle[:] = idle
            self._changed()

    def take(self, placement: Placement) -> None:
        """Subtract the processors of a placement; all of them must be idle."""
        for site, size in placement:
            self._idle[site] -= size
        self._changed()

    def give_back(self, placement: Placement) -> None:
        """Add the processors of a placement to the idle processors."""
        for site, size in placement:
            self._idle[site] += size
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._by_kind.clear()
        self._ranked.clear()
