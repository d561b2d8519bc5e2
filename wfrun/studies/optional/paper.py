"""The numbers in the text of the paper (INRIA RR-7959). Figures 4 to 9 are pictures without numbers
in the text."""

from __future__ import annotations

SERVERS, CLIENTS = 10, 10
TASK_S, DEADLINE_S = 1.0, 100.0
MANDATORY, MOST = 3, 1000
"""n_min and n_max (section 5.1)."""

GAP_S = 0.1
"""Seconds between consecutive submissions (5.1.2)."""
INTERVAL_S = 10.0
"""Seconds between regular arrivals (5.1.3)."""
TASKS_S = (0.75, 2.0)
"""Minimum and maximum of the random execution times in seconds (5.1.4)."""

IDEAL = 100
"""n_ideal of simultaneous and consecutive submissions: the number of tasks that all slots together
run in 100 s (5.1.2)."""
TIMES_FAIRER = 150.0
"""Maximum factor by which unfairness decreases (abstract, 5.1.2)."""
BEST_REGULAR = 190
"""The n_submit with which the legacy system is best for regular arrivals (5.1.3)."""
LEGACY_REGULAR, ETHIC_REGULAR = 1890, 1842
"""Tasks completed for regular arrivals: by the legacy system with n_submit 190, and by
DIET-ethic."""
LESS_REGULAR = 0.025
"""Share by which DIET-ethic completes fewer tasks for regular arrivals."""

LARGE_SERVERS, LARGE_CLIENTS, LARGE_MOST = 138, 100, 10_000
LARGE_UNFAIRNESS, LARGE_COMPLETED, LARGE_POSSIBLE = 0.70, 13_605, 13_800
"""Table 2: unfairness, completed tasks and possible tasks in 100 s; nobody is unhappy."""

POLYNOMIAL = (3.1, -8.5, 24.7, 130.8, 107.7, -804.2, -2038.5, 1856.8, 4618.6)
"""Coefficients, constant first, of the arrival rate of a day by M. Calzarossa and G. Serazzi (IEEE
Trans. Computers C-34(2), 1985), for -0.5 to 0.5, as the Parallel Workloads Archive gives them."""
