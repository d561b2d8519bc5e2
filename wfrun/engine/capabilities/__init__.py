"""The registry of all parts of a run, in the order in which their hooks are called."""

from __future__ import annotations

from collections.abc import Iterator

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.estimates.expected import ExpectedTimes
from wfrun.engine.capabilities.estimates.observations import Observations
from wfrun.engine.capabilities.estimates.performance import Performance
from wfrun.engine.capabilities.estimates.predictions import Predictions
from wfrun.engine.capabilities.estimates.queue_estimates import QueueEstimates
from wfrun.engine.capabilities.estimates.walltimes import Walltimes
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.capabilities.health import Health
from wfrun.engine.capabilities.launchers.allocation import Allocation
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.notifications import Notifications
from wfrun.engine.capabilities.optional import Optionals
from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.placing.in_order import InOrder
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.placing.selecting import Selecting
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.capabilities.reallocating.sizes import SizeChooser
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.capabilities.storing.cleanup import Cleanup
from wfrun.engine.capabilities.storing.late_copies import LateCopies
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.capabilities.withdrawals import Withdrawals
from wfrun.engine.core.capability import Capability, Part

CORE_FACTS: list[type[Part]] = [Binding, Predictions, Reservations]
"""Core parts that keep facts about sites and tasks."""

CAPABILITIES: list[type[Capability]] = [
    # Facts about sites and tasks.
    Storage,
    LateCopies,
    Launchers,
    Health,
    ExpectedTimes,
    Observations,
    Walltimes,
    Performance,
    QueueEstimates,
    AutoThrottle,
    Notifications,
    # Deciders, in the order of their decisions.
    # Jobs that are being moved have their site already, before sizes are chosen for the others.
    Reallocations,
    SizeChooser,
    # Running jobs grow before others are placed, where these do not come first.
    Malleability,
    # Jobs with claims are placed when these are granted; no policy is asked.
    ProcessorClaims,
    # So are tasks of owners who scavenge: their launchers pull them.
    Scavenging,
]
"""Capabilities that keep facts, or that decide before waiting tasks are placed. To add a
capability, write its file and add a line here."""

PLACING: list[type[Part]] = [Placements, Usages, InOrder, Selecting]
"""Core parts that place waiting tasks: `InOrder`, or `Selecting` with `Usages` in a run with a
selection policy."""

AFTER_PLACING: list[type[Capability]] = [
    # Waiting tasks come before replicas, which would take their cores. Launchers are requested for
    # what is still waiting, and attempts are withdrawn for cores that are still idle. Files are
    # removed last: those of the tasks that were just placed are counted.
    # Optional tasks are killed for what found no room.
    Optionals,
    Replication,
    Allocation,
    Withdrawals,
    Cleanup,
]
"""Capabilities that decide after waiting tasks were placed, in the order of their decisions."""


def all_parts() -> Iterator[type[Part]]:
    """All parts that a run may have, in the order in which they are made and called."""
    for parts in (CORE_FACTS, CAPABILITIES, PLACING, AFTER_PLACING):
        yield from parts
