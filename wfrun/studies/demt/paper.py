"""The numbers in the text of the paper (SPAA 2004, section 4.2). The text does not state the values
of its figures. A C_max ratio is a makespan divided by the lower bound of the makespan."""

from __future__ import annotations

WEAKLY_MOST = 2.0
"""Largest C_max ratio of DEMT with weakly parallel jobs."""
WEAKLY_OTHERS = 1.5
"""Approximate C_max ratio ("around") of all algorithms but DEMT and Gang with weakly parallel
jobs."""
LISTS_MOST = 2.0
"""Largest C_max ratio of the list algorithms with highly parallel jobs."""
MIXED = 2.0
"""Approximate ratio ("around") of DEMT with mixed jobs, for both criteria."""
WEIGHTED_MOST, WEIGHTED_MEAN = 2.5, 2.0
MAKESPAN_MOST, MAKESPAN_MEAN = 2.0, 1.9
SECONDS = 2.0
"""Maximum execution time in seconds for the largest instances."""
