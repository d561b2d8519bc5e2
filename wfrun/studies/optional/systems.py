"""The three systems, all run by the engine's own rules.

- *Servers*: the paper's DIET-ethic. Each server is an engine of its own with one slot and a queue.
  There, a client's bag has the mandatory tasks that the client's dispatcher sends, and enough
  optional tasks that one is always waiting. The paper's dispatcher has the same effect: it replaces
  each optional task that is done by another one.
- *Queue*: the core as users run it, with one queue for all slots.
- *Legacy*: servers as above that serve first come, first served, with n_submit tasks for each
  client.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.optional import Optionals
from wfrun.engine.core.state import RunState
from wfrun.engine.model import Axis, Bag, Catalog, OptionalTasks, Progression, SiteSpec, Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.runners.metrics.optional_bags import deserved_core_s, optional_shares
from wfrun.runners.simulate.simulation import Platform, begun
from wfrun.studies.optional import paper
from wfrun.studies.optional.rules import registered
from wfrun.studies.optional.scenarios import OptionalClient

SERVERS, QUEUE, LEGACY = "servers", "queue", "legacy"
SYSTEMS = (SERVERS, QUEUE, LEGACY)
_POLICY = "fpf"
_ENOUGH = 150
"""Number of tasks of a client's bag at a server. At most 134 tasks of 0.75 s fit before a deadline,
so a bag always has tasks left. The tasks completed at all servers together never reach n_max."""
_IN_TURN, _IN_ORDER = "s-u-rr", "s-bot"
"""Selection policies for first come, first served. The first is for clients that come at the same
time, whose requests interleave; the second is for other clients."""


class SystemSetting(msgspec.Struct, frozen=True):
    """The parameters with which a system serves tasks."""

    selection: str
    overhead_s: float
    """Maximum overhead of a task in seconds. The overhead occupies the slot, and is uniformly
    distributed from 0 to this maximum."""
    submitted: int | None = None
    """n_submit, the number of tasks that each client of the legacy system submits; None: n_max."""
    same_order: bool = False
    """Whether all clients deal out their tasks to the servers in the same order; otherwise each
    client begins at a random server."""


class OptionalOutcome(msgspec.Struct, frozen=True):
    """The results of each client, in the order of the clients."""

    completed: tuple[int, ...]
    allocated_s: tuple[float, ...]
    mandatory_s: tuple[float, ...]
    """Time in seconds at which the last mandatory task was done."""
    killed: int
    """Number of tasks that were killed to make room for mandatory ones."""

    def unhappy(self, clients: Sequence[OptionalClient]) -> int:
        """Number of clients whose mandatory tasks were not done by their deadline."""
        pairs = zip(self.mandatory_s, clients, strict=True)
        return sum(done_s > client.deadline_s for done_s, client in pairs)

    def satisfactions(self, clients: Sequence[OptionalClient], servers: int) -> list[float]:
        """The satisfaction of each client: allocated time divided by deserved time."""
        spans = {str(i): [(c.arrival_s, c.deadline_s)] for i, c in enumerate(clients)}
        deserved = deserved_core_s(spans, servers)
        return [used_s / deserved[str(i)] for i, used_s in enumerate(self.allocated_s)]


def one_queue(
    clients: Sequence[OptionalClient], servers: int, setting: SystemSetting, seed: int
) -> OptionalOutcome:
    """Run all bags with one queue for all slots."""
    most = setting.submitted or paper.MOST
    found = _run(
        clients,
        [(paper.MANDATORY, most)] * len(clients),
        [client.deadline_s for client in clients],
        servers, setting, f"{seed}",
    )  # fmt: skip
    return _joined([found])


def queue_at_each_server(
    clients: Sequence[OptionalClient], servers: int, setting: SystemSetting, seed: int
) -> OptionalOutcome:
    """Run the bags with a queue at each server. Each client deals out its tasks to the servers in
    turn.

    Servers do not communicate, but clients do: when a client's deadline has passed and all its
    mandatory tasks are done, it cancels its optional tasks at all servers. The time of this
    cancellation depends on all servers. Therefore all servers are simulated again and again with
    the times found in the round before, until these times do not change. Each round gets at least
    one further time right, in the order of time.
    """
    shares = [_shares(i, servers, setting, seed) for i in range(len(clients))]
    ends_s = [client.deadline_s for client in clients]
    while True:
        outcome = _joined(
            [
                _run(clients, [share[s] for share in shares], ends_s, 1, setting, f"{seed} {s}")
                for s in range(servers)
            ]
        )
        pairs = zip(clients, outcome.mandatory_s, strict=True)
        found_s = [max(client.deadline_s, done_s) for client, done_s in pairs]
        if found_s == ends_s:
            return outcome
        ends_s = found_s


def _shares(client: int, servers: int, setting: SystemSetting, seed: int) -> list[tuple[int, int]]:
    """(number of mandatory tasks, number of all tasks) that a client sends to each server."""
    first = 0 if setting.same_order else Random(f"servers {seed} {client}").randrange(servers)
    places = [(server - first) % servers for server in range(servers)]
    mandatory = [len(range(place, paper.MANDATORY, servers)) for place in places]
    if setting.submitted is None:
        return [(least, _ENOUGH) for least in mandatory]
    most = [len(range(place, setting.submitted, servers)) for place in places]
    return list(zip(mandatory, most, strict=True))


def _run(
    clients: Sequence[OptionalClient], shares: Sequence[tuple[int, int]], ends_s: Sequence[float],
    slots: int, setting: SystemSetting, seed: str,
) -> OptionalOutcome:  # fmt: skip
    """Simulate one engine with ``slots`` slots. ``shares`` has the (mandatory, all) numbers of
    tasks of each client, ``ends_s`` the time at which its optional tasks are cancelled."""
    bags = [
        _bag(i, client, share, end_s)
        for i, (client, share, end_s) in enumerate(zip(clients, shares, ends_s, strict=True))
    ]

    def runtime_s(workflow: int, task: int) -> float:
        overhead_s = setting.overhead_s * Random(f"{seed} {workflow} {task}").random()
        return clients[workflow].task_s + overhead_s

    with registered():
        state = begun(
            bags,
            Platform(Catalog((SiteSpec("s", slots=slots),))),
            ev.Settings(
                policy=_POLICY,
                selection=setting.selection or _order(clients),
                seed=Random(f"engine {seed}").randrange(1 << 30),
            ),
            runtime_s=runtime_s,
            arrivals_s=[client.arrival_s for client in clients],
        ).run()
    return _outcome(state)


def _order(clients: Sequence[OptionalClient]) -> str:
    return _IN_TURN if len({client.arrival_s for client in clients}) == 1 else _IN_ORDER


def _bag(number: int, client: OptionalClient, share: tuple[int, int], end_s: float) -> Workflow:
    least, most = share
    asked = OptionalTasks(least, most, within_s=end_s - client.arrival_s)
    axes = (Axis(("n",), (Progression(0, 1, max(1, most)),)),)
    return expand(
        Bag(str(number), "study", "x", axes=axes, estimate=repr(client.task_s), owner=str(number),
            optional=asked)
    )  # fmt: skip


def _outcome(state: RunState) -> OptionalOutcome:
    shares, bags = optional_shares(state), state.get(Optionals).bags
    assert shares is not None
    return OptionalOutcome(
        completed=tuple(owner.completed for owner in shares.owners),
        allocated_s=tuple(owner.allocated_core_s for owner in shares.owners),
        mandatory_s=tuple(bag.mandatory_s or 0.0 for bag in bags.values()),
        killed=sum(bag.killed for bag in bags.values()),
    )


def _joined(parts: Sequence[OptionalOutcome]) -> OptionalOutcome:
    """The outcome summed over all servers. A client's last mandatory task is the last of all
    servers."""
    return OptionalOutcome(
        completed=tuple(map(sum, zip(*(p.completed for p in parts), strict=True))),
        allocated_s=tuple(map(sum, zip(*(p.allocated_s for p in parts), strict=True))),
        mandatory_s=tuple(map(max, zip(*(p.mandatory_s for p in parts), strict=True))),
        killed=sum(p.killed for p in parts),
    )
