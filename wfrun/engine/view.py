"""What a placement policy sees: a read-only window on the state, cut to what it declared."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NoReturn

from wfrun.engine.errors import InvalidError
from wfrun.engine.information import Information, Knowledge
from wfrun.engine.model import Workflow
from wfrun.engine.state import RunState, WorkflowState

_UNKNOWN = Knowledge.UNKNOWN


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
        self._candidates: dict[int, tuple[int, ...]] = {}
        refused = {
            "status": ("idle", "load", "estimate_start_s", "estimate_completion_s"),
            "processing_speed": ("speed_ratio", "estimate_completion_s"),
            "link_speed": ("transfer_s", "reference_seconds_per_byte"),
            "task_runtime": ("runtime_s", "estimate_start_s", "estimate_completion_s"),
            "file_size": ("transfer_s", "size_bytes"),
        }
        for piece, methods in refused.items():
            if getattr(information, piece) is _UNKNOWN:
                for method in methods:
                    setattr(self, method, _Refusal(method, piece))

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
        found = self._candidates.get(mask)
        if found is None:
            found = tuple(s for s in range(len(self._state.sites)) if mask >> s & 1)
            self._candidates[mask] = found
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

    def _start_and_runtime_s(self, site: int, task: int, staging_s: float) -> tuple[float, float]:
        s, now_s = self._state.sites[site], self._state.now_s
        model, runtimes_s = s.queue_model, self._workflow.runtimes_s
        assert model is not None, "the state keeps queue models for policies that declare run times"
        assert runtimes_s is not None, "and run times"
        runtime_s = runtimes_s[task] / s.spec.speed_ratio
        start_s = model.start_s(self.cores(task), staging_s + runtime_s, now_s)
        return start_s - now_s, runtime_s


class _Refusal:
    def __init__(self, method: str, piece: str) -> None:
        self._message = (
            f"a placement policy asked for View.{method} without declaring {piece!r} "
            "in its Information"
        )

    def __call__(self, *args: object) -> NoReturn:
        raise InvalidError(self._message, hint="declare it: information = Information(...)")


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


def expected_runtimes_s(workflow: Workflow) -> list[float]:
    """Run time of each task on the reference processor, with stand-ins for unknown ones."""
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
