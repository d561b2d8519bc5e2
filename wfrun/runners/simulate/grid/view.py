"""The view of a simulated grid that placement policies get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import NoReturn

from wfrun.engine.capabilities.view import refusals
from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.jobs.open_sums import OpenSums, Weight
from wfrun.engine.prediction.job import Prediction
from wfrun.runners.simulate.grid.state import GridState


class GridView:
    """Implements ``wfrun.engine.protocols.View``. The jobs are the tasks of one workflow without
    files. Methods for information that the policy has not declared raise an error, as in real
    runs."""

    def __init__(self, state: GridState, seed: int = 0) -> None:
        self._state = state
        self._seed = seed
        self._fitting: dict[int, tuple[int, ...]] = {}
        """The sites with at least this number of slots, by number of cores."""
        policy = state.scheduler.policy
        self._binds_late = policy.binds_late
        unknown = Knowledge.UNKNOWN
        asked = policy.information
        if asked.link_speed is not unknown or asked.file_size is not unknown:
            raise InvalidError(
                f"policy {policy.name!r} uses links and files, which jobs of a grid do not have",
                hint="take a policy such as ect, all-clusters, fpf, mst or mwt",
            )
        for method, refusal in refusals(asked):
            setattr(self, method, refusal)

    # For every policy

    @property
    def task_count(self) -> int:
        return len(self._state.jobs)

    @property
    def site_count(self) -> int:
        return len(self._state.sites)

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        return [()] * len(self._state.jobs)

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        return [()] * len(self._state.jobs)

    def inputs(self, task: int) -> tuple[int, ...]:
        return ()

    def producer(self, file: int) -> NoReturn:
        raise InvalidError(f"jobs of a grid have no file {file}")

    def candidates(self, task: int) -> tuple[int, ...]:
        cores = self._state.cores[task]
        if self._binds_late:
            return tuple([s for s, free in enumerate(self._state.free) if free >= cores])
        return self.fitting(cores)

    def fitting(self, cores: int) -> tuple[int, ...]:
        """The sites with at least ``cores`` slots."""
        found = self._fitting.get(cores)
        if found is None:
            sites = enumerate(self._state.sites)
            found = self._fitting[cores] = tuple(s for s, spec in sites if spec.slots >= cores)
        return found

    def lacks_room(self, task: int, site: int) -> bool:
        cores = self._state.cores[task]
        return self._binds_late and self._state.free[site] < cores <= self._state.slots[site]

    def cores(self, task: int) -> int:
        return self._state.cores[task]

    def fits_all(self, site: int) -> bool:
        return max(self._state.cores) <= self._state.slots[site]

    def slots(self, site: int) -> int:
        return self._state.slots[site]

    def last_site(self) -> int:
        return self._state.last_site

    def random(self) -> Random:
        return Random(f"{self._seed}/grid")

    # To be declared

    def idle(self, site: int) -> int:
        return max(0, self._state.slots[site] - self._state.committed[site])

    def load(self, site: int) -> float:
        return self._state.committed[site] / self._state.slots[site]

    def speed_ratio(self, site: int) -> float:
        return self._state.sites[site].speed_ratio

    def performance(self, site: int) -> float:
        return self._state.sites[site].speed_ratio

    def runtime_s(self, task: int) -> float:
        return self._state.expected_s(task, 0) * self._state.speeds[0]

    def runtimes_s(self) -> NoReturn:
        raise InvalidError("the jobs of a grid are not known before they are submitted")

    def predict_s(self, task: int, site: int) -> float:
        return self._state.expected_s(task, site)

    def predict(self, task: int, site: int) -> Prediction | None:
        return self._state.prediction(task, site)

    def size_bytes(self, file: int) -> int:
        return 0

    def transfer_s(self, task: int, site: int) -> float:
        return 0.0

    def reference_seconds_per_byte(self) -> float:
        return 0.0

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        state = self._state
        length_s = staging_s + state.expected_s(task, site)
        return state.estimates[site].start_s(state.cores[task], length_s, state.now_s) - state.now_s

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        start_s = self.estimate_start_s(site, task, staging_s)
        return start_s + staging_s + self._state.expected_s(task, site)

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        return min(sites, key=partial(self.estimate_completion_s, task=task))

    def earliest_staged_completion(self, task: int, sites: Sequence[int]) -> int:
        return self.earliest_completion(task, sites)

    def open_tasks(self, site: int) -> int:
        return self._state.open_jobs[site]

    def open_time_s(self, site: int) -> float:
        return self._state.estimates[site].loads().time_s

    def open_work_s(self, site: int) -> float:
        return self._state.estimates[site].loads().work_s

    def mean_wait(self, site: int, weight: Weight = "one") -> float:
        return self._sums(site).mean_wait(weight)

    def last_end_s(self, site: int) -> float:
        state = self._state
        return max(0.0, state.estimates[site].last_end_s(state.now_s) - state.now_s)

    def weighted_completion(self, site: int) -> float:
        state = self._state
        return self._sums(site).weighted_completion + state.estimates[site].overdue_work(
            state.now_s
        )

    def _sums(self, site: int) -> OpenSums:
        return self._state.estimates[site].sums(self._state.now_s)
