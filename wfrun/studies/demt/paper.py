"""The numbers in the text of the paper (SPAA 2004, section 4.2). The text does not state the values
of its figures."""

from __future__ import annotations

WEAKLY_MOST = 2.0
"""Maximum C_max ratio of DEMT with weakly parallel jobs."""
WEAKLY_OTHERS = 1.5
"""C_max ratio of all other algorithms but Gang with weakly parallel jobs: "around"."""
LISTS_MOST = 2.0
"""Maximum C_max ratio of the list algorithms with highly parallel jobs."""
MIXED = 2.0
"""Ratio of both criteria of DEMT with mixed jobs: "around"."""
WEIGHTED_MOST, WEIGHTED_MEAN = 2.5, 2.0
MAKESPAN_MOST, MAKESPAN_MEAN = 2.0, 1.9
SECONDS = 2.0
"""Execution time for the largest instances."""
