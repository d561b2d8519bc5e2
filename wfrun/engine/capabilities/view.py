"""The view of a placement policy: `wfrun.engine.protocols.View` on the state, restricted to what
the policy declares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import NoReturn

from wfrun.engine.capabilities.estimates.performance import Performance
from wfrun.engine.capabilities.estimates.predictions import Predictions
from wfrun.engine.capabilities.estimates.queue_estimates import QueueEstimates
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import WorkflowState
from wfrun.engine.errors import InvalidError
from wfrun.engine.files.staging import transfer_s
from wfrun.engine.fitting.information import Information, Knowledge
from wfrun.engine.jobs.open_sums import Weight
from wfrun.engine.prediction.job import Prediction

_UNKNOWN = Knowledge.UNKNOWN


class StateView:
    """Implements ``View`` for one workflow. The cost of an answer does not depend on the number of
    tasks or workflows."""

    def __init__(
        self, run: Run, workflow: WorkflowState, information: Information | None = None
    ) -> None:
        """``information``: the declaration to use instead of the one of the run's policy."""
        self._run = run
        self._state = run.state
        self._workflow = workflow
        self._information = run.state.information if information is None else information
        if (queues := run.state.find(QueueEstimates)) is not None:
            self._queues = queues  # Absent without need: then its methods are refused.
        self._predictions = run.state.get(Predictions)
        for method, refusal in refusals(self._information):
            setattr(self, method, refusal)

    # For every policy

    @property
    def task_count(self) -> int:
        return len(self._workflow.workflow.tasks)

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        return self._workflow.workflow.parents

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        return self._workflow.children

    def inputs(self, task: int) -> tuple[int, ...]:
        return self._workflow.workflow.tasks[task].inputs

    def producer(self, file: int) -> int | None:
        return self._workflow.workflow.files[file].producer

    @property
    def site_count(self) -> int:
        return len(self._state.sites)

    def candidates(self, task: int) -> tuple[int, ...]:
        w = self._workflow
        return _sites_of(self._run.candidates(w, task, w.workflow.tasks[task].resources.cores))

    def lacks_room(self, task: int, site: int) -> bool:
        allowed = self._workflow.allowed_sites(task)
        if (moves := self._state.find(Reallocations)) is not None:
            destination = moves.destination(self._workflow, task)
            if destination != site and destination in self.candidates(task):
                return False  # It is being moved, whatever room there is.
        return self._state.sites[site].is_healthy and bool(allowed >> site & 1)

    def cores(self, task: int) -> int:
        return self._workflow.workflow.tasks[task].resources.cores

    def fits_all(self, site: int) -> bool:
        return all(mask >> site & 1 for mask in self._workflow.class_masks)

    def slots(self, site: int) -> int:
        return self._state.sites[site].slots or 1

    def last_site(self) -> int:
        return self._state.last_site

    def random(self) -> Random:
        return Random(f"{self._state.settings.seed}/{self._workflow.index}")

    # To be declared

    def idle(self, site: int) -> int:
        s = self._state.sites[site]
        idle = s.slots_now - s.committed_cores
        if idle <= 0 or (s.spec.backfills is False and s.others_wait):
            return 0
        return idle

    def load(self, site: int) -> float:
        s = self._state.sites[site]
        return (s.committed_cores + s.foreign_cores) / (s.slots or 1)

    def speed_ratio(self, site: int) -> float:
        return self._state.sites[site].spec.speed_ratio

    def performance(self, site: int) -> float | None:
        return self._state.get(Performance).by_site[site]

    def runtime_s(self, task: int) -> float:
        return self.runtimes_s()[task]

    def runtimes_s(self) -> Sequence[float]:
        runtimes_s = self._workflow.runtimes_s
        assert runtimes_s is not None, "the state keeps them for policies that declare run times"
        return runtimes_s

    def predict_s(self, task: int, site: int) -> float:
        return self._expected_s(task, site)

    def predict(self, task: int, site: int) -> Prediction | None:
        return self._predictions.predict(self._workflow, task, site)

    def size_bytes(self, file: int) -> int:
        size = self._workflow.sizes[file]
        if self._information.file_size is Knowledge.RUNTIME and not self._workflow.present[file]:
            return 0
        return max(0, size)

    def transfer_s(self, task: int, site: int) -> float:
        return transfer_s(self._state, self._workflow, task, site)

    def reference_seconds_per_byte(self) -> float:
        return self._state.network.reference_seconds_per_byte()

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        runtime_s, now_s = self._expected_s(task, site), self._state.now_s
        return self._queues.start_s(self._workflow, task, site, staging_s + runtime_s) - now_s

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        runtime_s, now_s = self._expected_s(task, site), self._state.now_s
        start_s = self._queues.start_s(self._workflow, task, site, staging_s + runtime_s)
        return start_s - now_s + staging_s + runtime_s

    def open_tasks(self, site: int) -> int:
        return len(self._state.sites[site].attempts)

    def open_time_s(self, site: int) -> float:
        return self._queues.models[site].sums.time_s

    def open_work_s(self, site: int) -> float:
        return self._queues.models[site].sums.work_s

    def mean_wait(self, site: int, weight: Weight = "one") -> float:
        return self._queues.models[site].sums.mean_wait(weight)

    def last_end_s(self, site: int) -> float:
        now_s = self._state.now_s
        return self._queues.models[site].last_end_s(now_s) - now_s

    def weighted_completion(self, site: int) -> float:
        sums = self._queues.models[site].sums
        since_start = sums.weighted_completion - self._state.started_s * sums.work_s
        return since_start + self._queues.models[site].overdue_work(self._state.now_s)

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        return self._queues.earliest_completion(self._workflow, task, sites)

    def earliest_staged_completion(self, task: int, sites: Sequence[int]) -> int:
        return self._queues.earliest_completion(self._workflow, task, sites, staged=True)

    def _expected_s(self, task: int, site: int) -> float:
        runtimes_s = self._workflow.runtimes_s
        if runtimes_s is not None:
            return runtimes_s[task] / self._state.sites[site].spec.speed_ratio
        return self._predictions.expected_s(self._workflow, task, site)


@lru_cache(maxsize=4096)
def _sites_of(mask: int) -> tuple[int, ...]:
    """The sites of a mask. A cache, since policies ask often, and for few different masks."""
    return tuple(site for site in range(mask.bit_length()) if mask >> site & 1)


@lru_cache
def refusals(information: Information) -> list[tuple[str, _Refusal]]:
    """The methods of the view that a policy with this declaration must not call, each with the
    object that refuses the call. `StateView` replaces the methods by these objects, so that calls
    of allowed methods need no check."""
    of_queues = (
        "estimate_start_s", "estimate_completion_s", "earliest_completion",
        "earliest_staged_completion", "mean_wait", "last_end_s", "weighted_completion",
    )  # fmt: skip
    refused = {
        "status": (
            "idle", "load", "open_tasks", "open_time_s", "open_work_s", *of_queues,
        ),
        "processing_speed": (
            "speed_ratio", "performance", *of_queues,
        ),
        "link_speed": ("transfer_s", "reference_seconds_per_byte", "earliest_staged_completion"),
        "task_runtime": (
            "runtime_s", "runtimes_s", "predict_s", "predict", "open_time_s", "open_work_s",
            *of_queues,
        ),
        "file_size": ("transfer_s", "size_bytes", "earliest_staged_completion"),
    }  # fmt: skip
    found = [
        (method, _Refusal(method, piece))
        for piece, methods in refused.items()
        if getattr(information, piece) is _UNKNOWN
        for method in methods
    ]
    if not information.totals:
        of_totals = ("open_time_s", "open_work_s", "mean_wait", "weighted_completion")
        found = [(method, _Refusal(method, "totals")) for method in of_totals] + found
    if information.task_runtime is Knowledge.HISTORICAL:
        found += [(m, _Refusal(m, "task_runtime=K")) for m in ("runtime_s", "runtimes_s")]
    if information.processing_speed is Knowledge.KNOWN:
        found.append(("performance", _Refusal("performance", "processing_speed=H")))
    if information.processing_speed is Knowledge.HISTORICAL:
        only_known = (
            "speed_ratio", "estimate_completion_s", "earliest_completion",
            "earliest_staged_completion",
        )  # fmt: skip
        found += [(m, _Refusal(m, "processing_speed=K")) for m in only_known]
    return found


class _Refusal:
    """Raises InvalidError when it is called in place of a method of the view."""

    def __init__(self, method: str, piece: str) -> None:
        self._message = (
            f"a placement policy asked for View.{method} without declaring {piece!r} "
            "in its Information"
        )

    def __call__(self, *args: object) -> NoReturn:
        raise InvalidError(self._message, hint="declare it: information = Information(...)")
