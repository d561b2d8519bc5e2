"""What the text of the paper says in numbers (SPAA 2004, section 4.2). Its figures are not in the
text."""

from __future__ import annotations

WEAKLY_MOST = 2.0
"""C_max of DEMT with weakly parallel jobs."""
WEAKLY_OTHERS = 1.5
"""C_max of all others but Gang there: "around"."""
LISTS_MOST = 2.0
"""C_max of the list algorithms with highly parallel jobs."""
MIXED = 2.0
"""Both criteria of DEMT with mixed jobs: "around"."""
WEIGHTED_MOST, WEIGHTED_MEAN = 2.5, 2.0
MAKESPAN_MOST, MAKESPAN_MEAN = 2.0, 1.9
SECONDS = 2.0
"""Execution time for the largest instances."""
