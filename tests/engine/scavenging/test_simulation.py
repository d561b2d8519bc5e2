"""Sweeps on idle processors, against a second implementation that counts whole seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from wfrun.engine.jobs.scavenging.policies import Partition, all_sites, nothing, per_site
from wfrun.engine.jobs.scavenging.simulation import IdleChange, simulate


def by_seconds(
    changes: Sequence[IdleChange],
    joined_s: Sequence[float],
    policy: str,
    run_time_s: Callable[[int], float],
    end_s: int,
    start_s: int,
) -> list[tuple[int, int, int]]:
    """(done, preemptions, processor seconds) of each owner: each second ends tasks, divides the
    processors, and preempts the tasks that began last."""
    owners, sites = len(joined_s), len(changes[0].idle)
    state: Partition = nothing(owners, sites)
    slots: list[list[list[list[float]]]] = [[[] for _ in range(sites)] for _ in range(owners)]
    pool: list[list[float]] = [[] for _ in range(owners)]
    totals = [[0, 0, 0] for _ in range(owners)]
    serial = 0

    def pull(owner: int, at_s: float) -> list[float]:
        nonlocal serial
        serial += 1
        length = pool[owner].pop(0) if pool[owner] else run_time_s(owner)
        return [at_s, length, serial]

    for now in range(end_s + 1):
        ending = [
            (slot[0] + slot[1], slot[2], owner, slot)
            for owner in range(owners) for site in range(sites) for slot in slots[owner][site]
        ]  # fmt: skip
        for at_s, _, owner, slot in sorted(ending, key=lambda one: one[:2]):
            if at_s == now:
                totals[owner][0] += 1
                slot[:] = pull(owner, at_s)
        if now == end_s:
            break
        if any(change.at_s == now for change in changes) or now in joined_s:
            idle = [change.idle for change in changes if change.at_s <= now][-1]
            wanted = [10**6 if joined <= now else 0 for joined in joined_s]
            divide = per_site if policy == "persite" else all_sites
            kwargs = {"again": now in joined_s} if policy == "all" else {}
            state = divide(idle, state, wanted, **kwargs)
            for owner in range(owners):
                for site in range(sites):
                    mine = slots[owner][site]
                    while len(mine) > state.held[owner][site]:
                        latest = max(slot[0] for slot in mine)
                        first = next(slot for slot in mine if slot[0] == latest)
                        pool[owner].append(first[1])
                        mine.remove(first)
                        totals[owner][1] += 1
                    while len(mine) < state.held[owner][site]:
                        mine.append(pull(owner, now + start_s))
        for owner in range(owners):
            totals[owner][2] += sum(map(len, slots[owner]))
    return [(done, gone, held) for done, gone, held in totals]


@pytest.mark.parametrize("policy", ["persite", "all"])
@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_a_count_by_seconds(seed: int, policy: str) -> None:
    random = Random(seed)
    sites, owners = random.randint(1, 3), random.randint(1, 3)
    at = [0, *sorted(random.sample(range(1, 300), 8))]
    changes = [IdleChange(t, tuple(random.randint(0, 6) for _ in range(sites))) for t in at]
    joined_s = [random.choice([0, 0, 40, 90]) for _ in range(owners)]
    start_s = random.choice([0, 5])

    def draws() -> Callable[[int], float]:
        drawn = [Random(f"{seed} {owner}") for owner in range(owners)]
        return lambda owner: drawn[owner].randint(5, 60)

    found = simulate(changes, joined_s, policy, draws(), 300, start_s=start_s)
    slow = by_seconds(changes, joined_s, policy, draws(), 300, start_s)
    assert [(one.done, one.preemptions, one.processor_s) for one in found] == slow


def test_per_site_is_fair_where_all_is_not() -> None:
    """Two owners; other jobs come to one site again and again (section 4.3.2)."""
    changes = [IdleChange(0.0, (20, 20))]
    for begin in range(300, 3600, 600):
        changes += [IdleChange(begin, (0, 20)), IdleChange(begin + 300, (20, 20))]
    spread = {}
    for policy in ("persite", "all"):
        found = simulate(changes, [0, 60], policy, lambda owner: 100.0, 3600)
        done = [one.done for one in found]
        spread[policy] = (max(done) - min(done)) / sum(done)
    assert spread["persite"] < 0.02
    assert spread["all"] >= spread["persite"]
