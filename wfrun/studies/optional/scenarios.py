"""The clients of the five scenarios of section 5.1, and of Table 2."""

from __future__ import annotations

from random import Random

import msgspec

from wfrun.studies.optional import paper

SIMULTANEOUS, CONSECUTIVE, REGULAR = "simultaneous", "consecutive", "regular"
DIURNAL, VARIED = "diurnal", "diurnal, T varies"
SCENARIOS = (SIMULTANEOUS, CONSECUTIVE, REGULAR, DIURNAL, VARIED)
DAYS = (DIURNAL, VARIED)
LARGE = "Table 2"
FIGURES = dict(zip(SCENARIOS, range(4, 9), strict=True))
"""The figure of the paper of each scenario."""


class OptionalClient(msgspec.Struct, frozen=True):
    """A user with one bag."""

    arrival_s: float
    deadline_s: float
    """Deadline in seconds. Like ``arrival_s``, it counts from the start of the experiment."""
    task_s: float
    """T, the execution time of a task."""


def clients_of(scenario: str, seed: int) -> list[OptionalClient]:
    """The clients of a scenario, in the order of their arrivals. Only in diurnal scenarios do they
    depend on the seed."""
    random = Random(f"clients {scenario} {seed}")
    if scenario in DAYS:
        clients = []
        for second in range(int(paper.DEADLINE_S)):
            if random.random() < arrival_rate(second) / 10:
                task_s = random.uniform(*paper.TASKS_S) if scenario == VARIED else paper.TASK_S
                due_s = second + paper.DEADLINE_S
                clients.append(OptionalClient(float(second), due_s, task_s))
        return clients
    if scenario == REGULAR:
        arrivals_s = [i * paper.INTERVAL_S for i in range(paper.CLIENTS)]
        return [OptionalClient(a, a + paper.DEADLINE_S, paper.TASK_S) for a in arrivals_s]
    count = paper.LARGE_CLIENTS if scenario == LARGE else paper.CLIENTS
    gap_s = paper.GAP_S if scenario == CONSECUTIVE else 0.0
    return [OptionalClient(i * gap_s, paper.DEADLINE_S, paper.TASK_S) for i in range(count)]


def servers_of(scenario: str) -> int:
    """Number of servers, each with one slot."""
    return paper.LARGE_SERVERS if scenario == LARGE else paper.SERVERS


def arrival_rate(second: float) -> float:
    """The polynomial P of the arrival rate over the day, with the day scaled to 100 s. ``second``
    is from 0 to 100."""
    x = second / paper.DEADLINE_S - 0.5
    return sum(factor * x**power for power, factor in enumerate(paper.POLYNOMIAL))
