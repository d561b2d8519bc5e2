"""The numbers in the text of thesis section 6.4.

Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010.
Figures 6.7 and 6.8 are pictures; the text gives a few of their values.
"""

from __future__ import annotations

from typing import NamedTuple

from wfrun.studies.workflows.paper import ALL, CLUSTER_MIN, SINGLE

POLICIES = (SINGLE, ALL, CLUSTER_MIN)

CYBERSHAKE_30 = ("cybershake", 30)
MONTAGE_100 = ("montage", 100)
INSPIRAL_100 = ("inspiral", 100)
CYBERSHAKE_1000 = ("cybershake", 1000)


class BrokerEntry(NamedTuple):
    """An entry of Table 6.6 or 6.7."""

    makespan_s: float
    """Total makespan for several instances."""
    nsl: float
    qwt_s: float
    """Mean queue wait of a task."""
    ftd_s: float
    """Mean file transfer delay of a task, without the delay of its initiation (section 6.4.2)."""


TABLES: dict[tuple[str, int, int], dict[str, BrokerEntry]] = {
    (*CYBERSHAKE_30, 1): {
        SINGLE: BrokerEntry(244.35, 1.38, 4.98, 0.99),
        ALL: BrokerEntry(251.40, 1.42, 4.19, 1.00),
        CLUSTER_MIN: BrokerEntry(247.46, 1.39, 5.16, 1.01),
    },
    (*MONTAGE_100, 1): {
        SINGLE: BrokerEntry(1380.49, 1.29, 4.67, 2.08),
        ALL: BrokerEntry(1390.72, 1.30, 4.62, 2.14),
        CLUSTER_MIN: BrokerEntry(1387.43, 1.30, 5.05, 2.15),
    },
    (*CYBERSHAKE_1000, 1): {
        SINGLE: BrokerEntry(1321.67, 6.51, 36.08, 0.05),
        ALL: BrokerEntry(1101.39, 5.42, 4.96, 0.02),
        CLUSTER_MIN: BrokerEntry(718.70, 3.54, 5.09, 0.02),
    },
    (*CYBERSHAKE_30, 5): {
        SINGLE: BrokerEntry(328.92, 1.85, 4.61, 1.01),
        ALL: BrokerEntry(331.89, 1.87, 5.46, 1.02),
        CLUSTER_MIN: BrokerEntry(330.14, 1.86, 3.57, 1.02),
    },
    (*MONTAGE_100, 5): {
        SINGLE: BrokerEntry(2195.24, 2.06, 15.82, 2.21),
        ALL: BrokerEntry(2377.00, 2.23, 17.29, 2.27),
        CLUSTER_MIN: BrokerEntry(3568.16, 3.35, 48.16, 2.58),
    },
    (*CYBERSHAKE_1000, 5): {
        SINGLE: BrokerEntry(1413.15, 6.96, 26.21, 0.06),
        ALL: BrokerEntry(2859.89, 14.08, 103.41, 0.12),
        CLUSTER_MIN: BrokerEntry(1940.47, 9.55, 6.56, 0.08),
    },
}
"""Tables 6.6 (one instance) and 6.7 (five): by family, size and number of instances."""

INSTANCES = 5
LIMITS = (25, 50, 100, 150)
"""Section 6.4.2: the concurrency limits per workflow."""

LATE_S = 100.0
LATE_SHARE = 0.37
"""Section 6.4.2: about 37% of the tasks wait longer than 100 s in a queue with All-Clusters."""

LOAD_FACTORS = {150: 2.0, 25: 4.0}
"""Section 6.4.2: the factor by which the load of the head node decreases, by concurrency limit."""
