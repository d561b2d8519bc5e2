"""All capabilities of a run, in the order in which their hooks are called."""

from __future__ import annotations

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.capabilities.cleanup import Cleanup
from wfrun.engine.capabilities.expected import ExpectedTimes
from wfrun.engine.capabilities.health import Health
from wfrun.engine.capabilities.late_copies import LateCopies
from wfrun.engine.capabilities.launchers.allocation import Allocation
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.notifications import Notifications
from wfrun.engine.capabilities.observations import Observations
from wfrun.engine.capabilities.performance import Performance
from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.placing.in_order import InOrder
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.placing.selecting import Selecting
from wfrun.engine.capabilities.predictions import Predictions
from wfrun.engine.capabilities.queue_estimates import QueueEstimates
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.capabilities.reallocating.sizes import Sizes
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.engine.capabilities.storage import Storage
from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.capabilities.walltimes import Walltimes
from wfrun.engine.capabilities.withdrawals import Withdrawals
from wfrun.engine.capability import Capability

CAPABILITIES: list[type[Capability]] = [
    # Facts about sites and tasks.
    Storage,
    LateCopies,
    Launchers,
    Binding,
    Health,
    ExpectedTimes,
    Predictions,
    Observations,
    Walltimes,
    Performance,
    QueueEstimates,
    Usages,
    Placements,
    Reservations,
    AutoThrottle,
    Notifications,
    # Deciders, in the order of their decisions. Waiting tasks come before replicas, which would
    # take their cores. Launchers are requested for what is still waiting, and attempts are
    # withdrawn for cores that are still idle. Files are removed last: those of the tasks that were
    # just placed are counted.
    # Jobs that are being moved have their site already, before sizes are chosen for the others.
    Reallocations,
    Sizes,
    InOrder,
    Selecting,
    Replication,
    Allocation,
    Withdrawals,
    Cleanup,
]
"""The registry. A new capability is a file and a line here."""
