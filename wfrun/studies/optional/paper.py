"""What the text of the paper says in numbers (INRIA RR-7959). Its Figures 4 to 9 are pictures
without numbers in the text."""

from __future__ import annotations

SERVERS, CLIENTS = 10, 10
TASK_S, DEADLINE_S = 1.0, 100.0
MANDATORY, MOST = 3, 1000
"""n_min and n_max (section 5.1)."""

GAP_S = 0.1
"""Between consecutive submissions (5.1.2)."""
INTERVAL_S = 10.0
"""Between regular arrivals (5.1.3)."""
TASKS_S = (0.75, 2.0)
"""Interval of the random execution times (5.1.4)."""

IDEAL = 100
"""n_ideal of simultaneous and consecutive submissions: that of all slots in 100 s (5.1.2)."""
TIMES_FAIRER = 150.0
"""Unfairness decreases by up to this factor (abstract, 5.1.2)."""
BEST_REGULAR = 190
"""n_submit with which the legacy system is the best for regular arrivals (5.1.3)."""
LEGACY_REGULAR, ETHIC_REGULAR = 1890, 1842
"""Completed tasks for regular arrivals: of the legacy system with 190, of DIET-ethic."""
LESS_REGULAR = 0.025
"""DIET-ethic completes fewer by this share."""

LARGE_SERVERS, LARGE_CLIENTS, LARGE_MOST = 138, 100, 10_000
LARGE_UNFAIRNESS, LARGE_COMPLETED, LARGE_POSSIBLE = 0.70, 13_605, 13_800
"""Table 2: in 100 s; nobody is unhappy."""

POLYNOMIAL = (3.1, -8.5, 24.7, 130.8, 107.7, -804.2, -2038.5, 1856.8, 4618.6)
"""Coefficients, constant first, of the arrival rate of a day by M. Calzarossa and G. Serazzi (IEEE
Trans. Computers C-34(2), 1985), for -0.5 to 0.5, as the Parallel Workloads Archive gives them."""
