"""What a placement policy sees: a read-only window on the state, cut to what it declared."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache, partial
from math import inf
from random import Random
from typing import NoReturn, cast

from wfrun.engine.bag import tasks_of
from wfrun.engine.errors import InvalidError
from wfrun.engine.information import Information, Knowledge
from wfrun.engine.model import Workflow
from wfrun.engine.predictors import JobClass
from wfrun.engine.queue_model import Predict
from wfrun.engine.state import RunState, WorkflowState

_UNKNOWN = Knowledge.UNKNOWN

UNKNOWN_S = 3600.0
"""A task of which nothing can be predicted is expected to take so long on the reference processor:
an idle processor is then worth more than a fast one that is busy."""


class View:
    """One workflow and the sites, for one policy.

    The graph and the resource requests are always visible. The rest is refused with
    InvalidError unless the policy declared it (Information). Sites and tasks are indices;
    seconds and bytes.
    """

    def __init__(self, state: RunState, workflow: WorkflowState, information: Information) -> None:
        self._state = state
        self._workflow = workflow
        self._information = information
        for method, refusal in _refusals(information):
            setattr(self, method, refusal)

    # What every policy may know

    @property
    def task_count(self) -> int:
        return len(self._workflow.workflow.tasks)

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        """Per task, the tasks that have to be done before it."""
        return self._workflow.workflow.parents

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        return self._workflow.children

    def inputs(self, task: int) -> tuple[int, ...]:
        """The files that a task reads."""
        return self._workflow.workflow.tasks[task].inputs

    def producer(self, file: int) -> int | None:
        """The task that writes a file; None: an initial input."""
        return self._workflow.workflow.files[file].producer

    @property
    def site_count(self) -> int:
        return len(self._state.sites)

    def candidates(self, task: int) -> tuple[int, ...]:
        """The sites that may get this task now, in catalog order: open, large enough, and not
        one where it has failed as long as there is another."""
        mask = self._workflow.candidates(task, self._state)
        tuples = self._state.site_tuples
        found = tuples.get(mask)
        if found is None:
            found = tuples[mask] = tuple(s for s in range(len(self._state.sites)) if mask >> s & 1)
        return found

    def lacks_room(self, task: int, site: int) -> bool:
        """Whether nothing but a lack of room, in a run with launchers, keeps a site from being a
        candidate for this task."""
        choice = self._workflow.choice(task)
        return self._state.sites[site].is_well and bool(choice >> site & 1)

    def cores(self, task: int) -> int:
        return self._workflow.workflow.tasks[task].resources.cores

    def fits_all(self, site: int) -> bool:
        """Whether every task of the workflow could run there."""
        return all(mask >> site & 1 for mask in self._workflow.class_masks)

    def last_site(self) -> int:
        """That got the last task that was placed in the run, whosever it is; -1: none was."""
        return self._state.last_site

    def random(self) -> Random:
        """A generator of its own, seeded from the run's seed and the workflow's number."""
        return Random(f"{self._state.settings.seed}/{self._workflow.index}")

    # What has to be declared

    def idle(self, site: int) -> int:
        """Cores that nothing of ours or of others holds, of launchers those that are live; 0 where
        more is dispatched than fits."""
        s = self._state.sites[site]
        return max(0, s.slots_now - s.committed_cores)

    def load(self, site: int) -> float:
        """Cores asked for by all jobs running or queued there, ours and others', over the site's
        size (thesis section 6.1.3, Single Cluster)."""
        s = self._state.sites[site]
        if s.pool is not None:
            return s.committed_cores / max(1, s.pool.live_slots)
        background = s.background_demand if s.background else 0
        return (s.committed_cores + background) / s.spec.slots

    def speed_ratio(self, site: int) -> float:
        return self._state.sites[site].spec.speed_ratio

    def runtime_s(self, task: int) -> float:
        """On the reference processor. Where the document gives none: the mean of the known ones
        of the same kind of task, else of all, else 1."""
        runtimes_s = self._workflow.runtimes_s
        assert runtimes_s is not None, "the state keeps them for policies that declare run times"
        return runtimes_s[task]

    def runtimes_s(self) -> Sequence[float]:
        """``runtime_s`` of all tasks."""
        runtimes_s = self._workflow.runtimes_s
        assert runtimes_s is not None, "the state keeps them for policies that declare run times"
        return runtimes_s

    def predict_s(self, task: int, site: int) -> float:
        """What the task is going to take at the site, as the last two of its class there did; see
        `RunTimes.predict_s`. ``UNKNOWN_S`` where nothing is known."""
        return expected_s(self._state, self._workflow, task, site)

    def performance(self, site: int) -> float | None:
        """The site's speed beside the reference processor, as the tasks that ended there show it,
        the latest first of all; None: none has ended."""
        return self._state.sites[site].performance

    def size_bytes(self, file: int) -> int:
        """Of a file. Obtained at run time (R) it is known once the file is written, a priori (K)
        before that too. 0 where it is unknown."""
        size = self._workflow.sizes[file]
        if self._information.file_size is Knowledge.RUNTIME and not self._workflow.present[file]:
            return 0
        return max(0, size)

    def transfer_s(self, task: int, site: int) -> float:
        """To bring all inputs that are not there to the site, one after another, each from the
        place with the fastest link (the serial worst case of thesis section 6.2.1)."""
        return transfer_s(self._state, self._workflow, task, site)

    def reference_seconds_per_byte(self) -> float:
        """Of the mean link between two sites."""
        return self._state.network.reference_seconds_per_byte()

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the site's queue would start the task if it joined it now, as
        the expected run times of all that is there say; infinite where it never fits.

        Where the site's LRM backfills, that is the earliest hole in its plan that is long enough
        for the task, and for ``staging_s`` before it runs.
        """
        return self._start_and_runtime_s(site, task, staging_s)[0]

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the task would have run there: the sum of ``estimate_start_s``,
        ``staging_s`` and its run time at the site's speed (thesis section 6.1.3, policy 7)."""
        start_s, runtime_s = self._start_and_runtime_s(site, task, staging_s)
        return start_s + staging_s + runtime_s

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        """Of these sites the first one where ``estimate_completion_s`` of the task is the
        smallest."""
        state, w = self._state, self._workflow
        now_s, cores = state.now_s, self.cores(task)
        reference_s = None if w.runtimes_s is None else w.runtimes_s[task]
        kind = job_class(w, task) if reference_s is None else None
        best, best_s = sites[0], inf
        for index in sites:
            site = state.sites[index]
            model, speed_ratio = site.queue_model, site.spec.speed_ratio
            assert model is not None, "the state keeps them for policies that declare run times"
            if reference_s is not None:
                runtime_s = reference_s / speed_ratio
            else:
                assert kind is not None
                known_s = state.run_times.predict_s(kind, site.spec.name, speed_ratio)
                runtime_s = UNKNOWN_S / speed_ratio if known_s is None else known_s
            end_s = model.start_s(cores, runtime_s, now_s) + runtime_s
            if end_s < best_s:
                best, best_s = index, end_s
        return best

    def _start_and_runtime_s(self, site: int, task: int, staging_s: float) -> tuple[float, float]:
        s, now_s = self._state.sites[site], self._state.now_s
        model = s.queue_model
        assert model is not None, "the state keeps queue models for policies that declare run times"
        runtime_s = expected_s(self._state, self._workflow, task, site)
        start_s = model.start_s(self.cores(task), staging_s + runtime_s, now_s)
        return start_s - now_s, runtime_s


@lru_cache
def _refusals(information: Information) -> list[tuple[str, _Refusal]]:
    """What a policy with this declaration may not ask for: methods of the view."""
    refused = {
        "status": (
            "idle", "load", "estimate_start_s", "estimate_completion_s", "earliest_completion"
        ),
        "processing_speed": (
            "speed_ratio", "performance", "estimate_completion_s", "earliest_completion"
        ),
        "link_speed": ("transfer_s", "reference_seconds_per_byte"),
        "task_runtime": (
            "runtime_s", "runtimes_s", "predict_s", "estimate_start_s", "estimate_completion_s",
            "earliest_completion",
        ),
        "file_size": ("transfer_s", "size_bytes"),
    }  # fmt: skip
    refusals = [
        (method, _Refusal(method, piece))
        for piece, methods in refused.items()
        if getattr(information, piece) is _UNKNOWN
        for method in methods
    ]
    if information.task_runtime is Knowledge.HISTORICAL:
        refusals += [(m, _Refusal(m, "task_runtime=K")) for m in ("runtime_s", "runtimes_s")]
    if information.processing_speed is Knowledge.HISTORICAL:
        only_known = ("speed_ratio", "estimate_completion_s", "earliest_completion")
        refusals += [(m, _Refusal(m, "processing_speed=K")) for m in only_known]
    return refusals


class _Refusal:
    def __init__(self, method: str, piece: str) -> None:
        self._message = (
            f"a placement policy asked for View.{method} without declaring {piece!r} "
            "in its Information"
        )

    def __call__(self, *args: object) -> NoReturn:
        raise InvalidError(self._message, hint="declare it: information = Information(...)")


def expected_s(state: RunState, w: WorkflowState, task: int, site: int) -> float:
    """What a task is going to take at a site, by what the policy knows of run times: K or H."""
    spec = state.sites[site].spec
    if w.runtimes_s is not None:
        return w.runtimes_s[task] / spec.speed_ratio
    known_s = state.run_times.predict_s(job_class(w, task), spec.name, spec.speed_ratio)
    return UNKNOWN_S / spec.speed_ratio if known_s is None else known_s


def predicted(state: RunState, w: WorkflowState, task: int, site: int) -> Predict | None:
    """The same, asked again later; None: it is known and stays the same."""
    if w.runtimes_s is not None:
        return None
    spec = state.sites[site].spec
    return partial(state.run_times.predict_s, job_class(w, task), spec.name, spec.speed_ratio)


def job_class(w: WorkflowState, task: int) -> JobClass:
    """What run times of a task are to be like those of."""
    if w.last_class is None or w.last_class[0] != task:  # asked for each site, one after another
        one = w.workflow.tasks[task]
        w.last_class = task, JobClass(w.workflow.owner, one.name, one.resources.cores)
    return w.last_class[1]


def transfer_s(state: RunState, workflow: WorkflowState, task: int, site: int) -> float:
    """Expected seconds to bring all inputs that are not at the site there, one by one."""
    network, presents, sizes = state.network, workflow.present, workflow.sizes
    best = network.best[site]
    bit = 1 << site
    total_s = 0.0
    for file in workflow.workflow.tasks[task].inputs:
        present = presents[file]
        if present & bit or not present:
            continue
        _, seconds_per_byte, latency_s = best.get(present) or network.best_source(present, site)
        size_bytes = sizes[file]
        total_s += latency_s + size_bytes * seconds_per_byte if size_bytes > 0 else latency_s
    return total_s


def expected_runtimes_s(workflow: Workflow) -> Sequence[float]:
    """Run time of each task on the reference processor, with stand-ins for unknown ones."""
    if workflow.bag is not None:
        return tasks_of(workflow).runtimes_s() or array("d", [1.0]) * len(workflow.tasks)
    documented = [task.runtime_s for task in workflow.tasks]
    if None not in documented:
        return cast("list[float]", documented)
    known: dict[str, list[float]] = {}
    for task in workflow.tasks:
        if task.runtime_s is not None:
            known.setdefault(task.name, []).append(task.runtime_s)
    means = {name: sum(values) / len(values) for name, values in known.items()}
    everything = [value for values in known.values() for value in values]
    overall = sum(everything) / len(everything) if everything else 1.0
    return [
        task.runtime_s if task.runtime_s is not None else means.get(task.name, overall)
        for task in workflow.tasks
    ]
