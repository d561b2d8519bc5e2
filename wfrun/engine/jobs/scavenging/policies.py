"""Policies that divide the idle processors of sites among owners (thesis section 4.2.3).

Each is a pure function of the idle processors and of the processors that each owner holds now. It
returns the processors that each owner is to hold. An owner shrinks only for another job, for
another owner's share, or when it needs fewer processors, so a second call with the result changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

POLICIES = {
    "persite": "Equipartition-PerSite: the idle processors of each site are divided equally",
    "all": "Equipartition-All: all idle processors are divided equally, whatever their site; what "
    "is reclaimed returns to those who lost it",
}
"""Descriptions of the sharing policies, by name."""

Table = tuple[tuple[int, ...], ...]
"""Numbers of processors, by owner and then by site."""


class Partition(NamedTuple):
    """The division of the idle processors among owners."""

    held: Table
    lost: Table
    """Processors that were reclaimed from each owner at each site. They return to the owner when
    they are idle again. Zero under `per_site`."""


def per_site(
    idle: Sequence[int],
    before: Partition,
    wanted: Sequence[int],
    usable: Sequence[int] | None = None,
    /,
) -> Partition:
    """Equipartition-PerSite. ``idle``: by site, processors that no other job holds or waits for,
    including those that owners hold now; ``before``: the present division; ``wanted``: by owner,
    maximum at all sites together; ``usable``: by owner, mask of the sites that it can use (None:
    all).

    Each owner gets ⌊idle/owners⌋ at each site. A remainder stays with the owners who hold it.
    Otherwise it goes to the owners with the fewest processors at the site, then to the owners with
    the fewest in all. Processors that an owner does not want are divided among the others. Cost:
    sites times owners where owners have no limit.
    """
    owners = range(len(wanted))
    held = [[0] * len(idle) for _ in owners]
    totals = [0] * len(wanted)
    for site, count in enumerate(idle):
        limits = [wanted[n] - totals[n] if _uses(usable, n, site) else 0 for n in owners]
        each = min([count // max(1, len(wanted)), *limits])
        for owner in owners:  # No order matters before the remainder.
            held[owner][site] += each
            totals[owner] += each
        for _ in range(count - each * len(wanted)):
            takers = [n for n in owners if totals[n] < wanted[n] and _uses(usable, n, site)]
            if not takers:
                break
            first = min(
                takers,
                key=lambda n: (
                    held[n][site],
                    before.held[n][site] <= held[n][site],
                    before.held[n][site],
                    totals[n],
                    n,
                ),
            )
            held[first][site] += 1
            totals[first] += 1
    return Partition(_table(held), _table([[0] * len(idle) for _ in owners]))


def all_sites(
    idle: Sequence[int],
    before: Partition,
    wanted: Sequence[int],
    usable: Sequence[int] | None = None,
    /,
    *,
    again: bool = False,
) -> Partition:
    """Equipartition-All; the arguments are those of `per_site`. ``again``: an owner has come or
    gone, so all processors are divided anew. An owner then keeps processors that it holds, up to
    its new share, and ``lost`` is reset.

    Otherwise processors that other jobs need at a site are reclaimed evenly from the owners who
    hold processors there, the remainder from those who hold the most in all. Processors that become
    idle return to owners who lost some there; the rest goes to those who hold the fewest in all,
    site by site. The thesis does not say at which sites an owner shrinks (here: where it holds the
    most), nor in which order sites are given away (here: that of the catalog). Cost: processors
    times owners.
    """
    held = [list(row) for row in before.held]
    lost = [list(row) for row in before.lost]
    owners = range(len(wanted))
    for owner in owners:
        for site in range(len(idle)):
            if not _uses(usable, owner, site):
                held[owner][site] = 0
    for site, count in enumerate(idle):
        for owner in _reclaimed(held, site, count):
            held[owner][site] -= 1
            lost[owner][site] += 1
    if again:
        lost = [[0] * len(idle) for _ in owners]
        shares = _shares(sum(idle), [sum(row) for row in held], wanted)
    else:
        shares = list(wanted)
    for owner in owners:
        while sum(held[owner]) > shares[owner]:
            row = held[owner]
            row[max(range(len(idle)), key=row.__getitem__)] -= 1
    free = [count - sum(row[site] for row in held) for site, count in enumerate(idle)]
    for site in range(len(idle)):
        while free[site]:
            takers = [n for n in owners if sum(held[n]) < shares[n] and _uses(usable, n, site)]
            if not takers:
                break
            first = min(takers, key=lambda n: (-lost[n][site], sum(held[n]), n))
            lost[first][site] -= lost[first][site] > 0
            held[first][site] += 1
            free[site] -= 1
    return Partition(_table(held), _table(lost))


def _uses(usable: Sequence[int] | None, owner: int, site: int) -> bool:
    return usable is None or bool(usable[owner] >> site & 1)


def _reclaimed(held: Sequence[Sequence[int]], site: int, count: int) -> list[int]:
    """The owners who give back processors of a site until ``count`` are held there. An owner is
    listed once for each processor."""
    given = [0] * len(held)
    order = []
    for _ in range(sum(row[site] for row in held) - count):
        givers = [n for n in range(len(held)) if held[n][site] > given[n]]
        first = min(givers, key=lambda n: (given[n], given[n] - sum(held[n]), -n))
        given[first] += 1
        order.append(first)
    return order


def _shares(idle: int, held: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Equal shares of the processors of all sites: ⌊idle/owners⌋. A remainder stays with those who
    hold it, and otherwise goes to those who hold the fewest."""
    alone = tuple((count,) for count in held)
    found = per_site((idle,), Partition(alone, alone), wanted)
    return [row[0] for row in found.held]


def _table(rows: Sequence[Sequence[int]]) -> Table:
    return tuple(map(tuple, rows))


def nothing(owners: int, sites: int) -> Partition:
    """The initial partition: no owner holds or has lost processors."""
    return Partition(((0,) * sites,) * owners, ((0,) * sites,) * owners)


def preempted(pulled_s: Sequence[float], count: int) -> list[int]:
    """Return the positions of the ``count`` launchers of an owner at a site that give back their
    processors: those that pulled their task last, since they lose the least work (section 4.2.4).
    ``pulled_s``: time at which each launcher pulled its task, in seconds."""
    return sorted(range(len(pulled_s)), key=lambda n: (-pulled_s[n], n))[:count]


Preemption = Callable[[Sequence[float], int], Sequence[int]]
"""Callback that chooses the launchers to preempt, with the arguments and the result of
`preempted`."""

PREEMPTION: dict[str, Preemption] = {"last-pulled": preempted}
"""Preemption orders by name. Users may add their own (section 4.2.4)."""
