"""Numbers that the text of thesis chapter 2 states. Its figures are pictures without numbers."""

from __future__ import annotations

NODES = {"Vrije": 85, "Amsterdam": 41, "Delft": 68, "MultimediaN": 46, "Leiden": 32}
"""Nodes of the clusters of the DAS-3 (Table 1.2)."""

LATENCIES_MS: dict[frozenset[str], float] = {
    frozenset(pair.split()): value
    for pair, value in {
        "Vrije": 0.03, "Amsterdam": 0.03, "Delft": 0.05, "MultimediaN": 0.03, "Leiden": 0.03,
        "Vrije Amsterdam": 0.4, "Vrije Delft": 1.15, "Vrije MultimediaN": 0.4, "Vrije Leiden": 1.0,
        "Amsterdam Delft": 1.1, "Amsterdam MultimediaN": 0.03, "Amsterdam Leiden": 0.6,
        "Delft MultimediaN": 1.45, "MultimediaN Leiden": 0.6,
    }.items()
}  # fmt: skip
"""Latencies in ms between the nodes of two clusters, and of one cluster (Table 2.1)."""

WAVE_S = {1: 200.0, 4: 750.0}
"""Run times of Wave in seconds, by the number of clusters (section 2.5.1)."""
SYNTHETIC_S = 180.0
"""Run time of the synthetic application on one cluster, in seconds (section 2.5.3)."""

SATURATION = {
    ("wave", "wf"): (85, 90),
    ("prime", "fcm"): (90, 95),
    ("poisson", "fcm"): (80, 85),
    ("wave", "fcm"): (70, 75),
    ("wave", "fcm2"): (75, 80),
}
"""Net utilizations [%] between which saturation sets in, by workload and policy (Table 2.3)."""
SATURATION_LARGE = {"without": (75, 80), "with": (60, 70)}
"""Net utilizations [%] between which saturation sets in with large jobs, under both FCM and CA,
without and with Delft (section 2.6.2)."""

CHANGES = {"prime": (-16.0, 75, 80), "poisson": (-5.0, 65, 65), "wave": (50.0, 70, 70)}
"""By application: the change of the mean response time [%] with background load, and the two net
utilizations [%] between which the change without background load equals it (Table 2.4)."""
GAPS_S = {"without": 50.0, "with": 230.0}
"""Mean response time under FCM less that under CA, in seconds, without and with Delft (section
2.6.1)."""
COALLOCATED = 0.3
"""Upper bound of the share of co-allocated jobs with background load (section 2.5.2)."""
