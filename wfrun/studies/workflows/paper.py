"""The numbers in the text of the thesis.

Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010,
sections 6.2 and 6.3. Figures 6.3, 6.5 and 6.6 are pictures without numbers; what the text says
about them is in ``claims``.
"""

from __future__ import annotations

from typing import NamedTuple

ROUND_ROBIN = "round-robin"
SINGLE = "single-cluster"
ALL = "all-clusters"
FILE_AWARE = "file-aware"
COARSENING = "coarsening"
CLUSTER_MIN = "cluster-min"
HEFT = "heft"
HEFT_P = "heft-p"

POLICIES = (ROUND_ROBIN, SINGLE, ALL, FILE_AWARE, COARSENING, CLUSTER_MIN, HEFT, HEFT_P)

WORKLOADS: dict[str, tuple[tuple[str, int], ...]] = {
    "wf-small1": (("cybershake", 30), ("cybershake", 50), ("cybershake", 100)),
    "wf-small2": (("inspiral", 30), ("inspiral", 50), ("inspiral", 100)),
    "wf-large1": (("cybershake", 1000), ("montage", 1000)),
    "wf-large2": (("sipht", 1000), ("inspiral", 1000)),
}
"""Table 6.2: the families and sizes of each workload. The thesis's Montage-100 is replaced by
Inspiral-100, which has the makespan and sizes of the table; see the page of the study of
brokers."""

SMALL = ("wf-small1", "wf-small2")
LARGE = ("wf-large1", "wf-large2")

CHARACTERISTICS: dict[str, tuple[float, float]] = {
    "wf-small1": (220, 2246),
    "wf-small2": (1260, 23),
    "wf-large1": (410, 2866),
    "wf-large2": (3290, 1150),
}
"""Table 6.2: mean makespan on a reference cluster in seconds, and mean total size of the output
files in MB."""


class WaitEntry(NamedTuple):
    """One entry of Table 6.3 or 6.5."""

    qwt_s: float
    """Mean wait of a task in the queue of its cluster, in seconds."""
    ftd_s: float
    """Mean file transfer delay of a task, in seconds."""
    nft: float
    """Transfers between clusters per workflow."""
    held_s: float = 0.0
    """Mean time in seconds for which the throttle holds back a task at the level of the grid."""


TABLE_6_3: dict[tuple[str, bool], dict[str, WaitEntry]] = {
    ("wf-small1", False): {
        ROUND_ROBIN: WaitEntry(0, 1.26, 25),
        SINGLE: WaitEntry(0, 0, 0),
        ALL: WaitEntry(0, 0.4, 4),
        FILE_AWARE: WaitEntry(0, 0, 0),
        CLUSTER_MIN: WaitEntry(0, 0, 0),
        HEFT: WaitEntry(0, 0, 0),
    },
    ("wf-small2", False): {
        ROUND_ROBIN: WaitEntry(0, 0.5, 49),
        SINGLE: WaitEntry(0, 0, 0),
        ALL: WaitEntry(0, 0.1, 10),
        FILE_AWARE: WaitEntry(0, 0, 0),
        CLUSTER_MIN: WaitEntry(0, 0, 0),
        HEFT: WaitEntry(0, 0.2, 15),
    },
    ("wf-large1", False): {
        ROUND_ROBIN: WaitEntry(8, 1.1, 460),
        SINGLE: WaitEntry(49, 0, 0),
        ALL: WaitEntry(3.2, 1.44, 366),
        FILE_AWARE: WaitEntry(5, 0.43, 243),
        COARSENING: WaitEntry(34, 0.18, 39),
        CLUSTER_MIN: WaitEntry(3.3, 1.3, 495),
        HEFT: WaitEntry(4, 0.6, 218),
    },
    ("wf-large2", False): {
        ROUND_ROBIN: WaitEntry(7.5, 0.4, 778),
        SINGLE: WaitEntry(93, 0, 0),
        ALL: WaitEntry(0.4, 0.5, 637),
        FILE_AWARE: WaitEntry(2, 0.3, 354),
        COARSENING: WaitEntry(9.9, 0.01, 18),
        CLUSTER_MIN: WaitEntry(0.4, 0.5, 638),
        HEFT: WaitEntry(1.25, 0.2, 301),
    },
    ("wf-small1", True): {
        ROUND_ROBIN: WaitEntry(525, 1.23, 26),
        SINGLE: WaitEntry(0.03, 0, 0),
        ALL: WaitEntry(0, 1.2, 6.7),
        FILE_AWARE: WaitEntry(3.3, 0.01, 0.1),
        CLUSTER_MIN: WaitEntry(1.7, 0.1, 1.2),
        HEFT: WaitEntry(0, 0, 0),
        HEFT_P: WaitEntry(0, 0, 0),
    },
    ("wf-small2", True): {
        ROUND_ROBIN: WaitEntry(423, 0.5, 51),
        SINGLE: WaitEntry(0.3, 0, 0),
        ALL: WaitEntry(0.5, 0.1, 12),
        FILE_AWARE: WaitEntry(3, 0.01, 1.1),
        CLUSTER_MIN: WaitEntry(3.2, 0.01, 1.05),
        HEFT: WaitEntry(0, 0.2, 15),
        HEFT_P: WaitEntry(0.4, 0.2, 15),
    },
    ("wf-large1", True): {
        ROUND_ROBIN: WaitEntry(682, 1.2, 455),
        SINGLE: WaitEntry(113, 0, 0),
        ALL: WaitEntry(573, 3.1, 392),
        FILE_AWARE: WaitEntry(42, 0.4, 229),
        COARSENING: WaitEntry(93, 0.3, 58),
        CLUSTER_MIN: WaitEntry(42, 1.4, 466),
        HEFT: WaitEntry(9, 0.5, 290),
        HEFT_P: WaitEntry(9, 0.5, 290),
    },
    ("wf-large2", True): {
        ROUND_ROBIN: WaitEntry(842, 0.42, 756),
        SINGLE: WaitEntry(386, 0, 0),
        ALL: WaitEntry(598, 0.5, 636),
        FILE_AWARE: WaitEntry(79, 0.4, 422),
        COARSENING: WaitEntry(69, 0.04, 25.6),
        CLUSTER_MIN: WaitEntry(146, 0.68, 694),
        HEFT: WaitEntry(7.5, 0.4, 441),
        HEFT_P: WaitEntry(28, 0.4, 501),
    },
}
"""Entries of Table 6.3 by (workload, whether there is background load), then by policy."""

CDF_WORKLOADS = ("wf-small1", "wf-large1")
"""Figure 6.4: the workloads whose distributions are drawn."""

LIMITS = (50, 100, 150)
"""Section 6.3.1: the concurrency limits for single large workflows."""

TABLE_6_4: dict[tuple[str, str, bool], tuple[float, float, float, float]] = {
    (FILE_AWARE, "wf-large1", False): (-15, 16, -9, 25),
    (FILE_AWARE, "wf-large2", False): (17, 60, 18, 116),
    (CLUSTER_MIN, "wf-large1", False): (-4, 50, -20, 9),
    (CLUSTER_MIN, "wf-large2", False): (11, 68, 16, 123),
    (FILE_AWARE, "wf-large1", True): (-50, -37, -40, -26),
    (FILE_AWARE, "wf-large2", True): (4, 51, 6.5, 80),
    (CLUSTER_MIN, "wf-large1", True): (-30, -11, -27, -13),
    (CLUSTER_MIN, "wf-large2", True): (4, 43, 15, 75),
}
"""By (policy, workload, whether there is background load): the best and the worst change of the
makespan, then of the NSL, over the limits; in percent of the run without a throttle."""

MULTI = (("cybershake", 100, 5), ("cybershake", 100, 50), ("cybershake", 1000, 5))
"""Section 6.3.2: family, size, and number of instances submitted together."""

MULTI_LIMITS = {100: 15, 1000: 50}
"""Section 6.3.2: the concurrency limit per workflow, by the workflow's size."""

MULTI_VARIANTS = (
    (SINGLE, False),
    (FILE_AWARE, False),
    (FILE_AWARE, True),
    (CLUSTER_MIN, False),
    (CLUSTER_MIN, True),
    (HEFT, False),
)
"""The rows of Table 6.5: policy, and whether it is throttled."""

TABLE_6_5: dict[tuple[int, int], tuple[WaitEntry, ...]] = {
    (100, 5): (
        WaitEntry(0, 0, 0),
        WaitEntry(0, 0.02, 1.8),
        WaitEntry(0, 0, 0, 21),
        WaitEntry(0, 29, 12),
        WaitEntry(0, 6.22, 12.8, 63),
        WaitEntry(0.24, 0.13, 7.2),
    ),
    (100, 50): (
        WaitEntry(124, 0, 0),
        WaitEntry(95, 1.63, 30),
        WaitEntry(28, 2, 21, 71),
        WaitEntry(198, 30, 43),
        WaitEntry(36, 7, 28, 97),
        WaitEntry(121, 0.49, 24),
    ),
    (1000, 5): (
        WaitEntry(162, 0, 0),
        WaitEntry(182, 0.5, 400),
        WaitEntry(0, 0.01, 8, 134),
        WaitEntry(406, 1, 473),
        WaitEntry(1, 0.8, 314, 138),
        WaitEntry(123, 4.87, 319),
    ),
}
"""Entries in the order of MULTI_VARIANTS, by size and number of instances."""
