"""A view with given facts, for tests of placement policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from wfrun.engine.jobs.open_sums import Weight
from wfrun.engine.prediction.job import Prediction


@dataclass
class FakeView:
    """Implements ``wfrun.engine.protocols.View`` with given facts. It also answers questions about
    information that a policy has not declared.

    Facts are stored by the index of a site, task or file, and may be changed between two questions.
    Missing facts have defaults: one task of 1 core and 1 s without files, and two empty sites of 8
    cores and speed 1. ``FakeView(parents=[()] * 5, idle_cores={1: 0})`` has five independent tasks,
    and site 1 has no idle core.
    """

    site_count: int = 2
    parents: Sequence[tuple[int, ...]] = ((),)
    """Predecessors of each task. The length is the number of tasks."""

    # Tasks and files

    task_cores: dict[int, int] = field(default_factory=dict)
    """Number of cores by task; default 1."""
    task_runtimes_s: dict[int, float] = field(default_factory=dict)
    """Run times in seconds on the reference processor, by task; default 1."""
    task_inputs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Input files by task; default none."""
    producers: dict[int, int] = field(default_factory=dict)
    """Task that writes a file, by file; default none."""
    sizes_bytes: dict[int, int] = field(default_factory=dict)
    """Size of a file in bytes, by file; default 0."""
    places: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Sites that hold a file, by file. A file without an entry needs no transfer to any site."""

    # Sites

    allowed_sites: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Sites at which a task may be placed if they have room, by task; default all."""
    full_sites: set[int] = field(default_factory=set)
    """Sites without room for any task."""
    idle_cores: dict[int, int] = field(default_factory=dict)
    """Idle cores by site; default 8."""
    loads: dict[int, float] = field(default_factory=dict)
    """Cores requested by all jobs, relative to the size of the site, by site; default 0."""
    speed_ratios: dict[int, float] = field(default_factory=dict)
    """Speed relative to the reference processor, by site; default 1."""
    performances: dict[int, float] = field(default_factory=dict)
    """Observed speed relative to the reference processor, by site; default None."""
    waits_s: dict[int, float] = field(default_factory=dict)
    """Expected wait in the queue of a site, in seconds, by site; default 0."""
    site_slots: dict[int, int] = field(default_factory=dict)
    """Cores by site; default 8."""
    tasks_open: dict[int, int] = field(default_factory=dict)
    """Number of open tasks by site; default 0."""
    times_s: dict[int, float] = field(default_factory=dict)
    """Sum of the run times of the open tasks, in seconds, by site; default 0."""
    works_s: dict[int, float] = field(default_factory=dict)
    """Sum, over the open tasks, of cores multiplied by run time, in core-seconds, by site; default
    0."""
    mean_waits: dict[tuple[int, str], float] = field(default_factory=dict)
    """Mean, over the open tasks, of the wait in seconds multiplied by a weight, by site and weight;
    default 0."""
    last_ends_s: dict[int, float] = field(default_factory=dict)
    """Time until the last job ends, in seconds, by site; default 0."""
    weighted_completions: dict[int, float] = field(default_factory=dict)
    """Sum, over the open tasks, of the expected end in seconds multiplied by the work in
    core-seconds, by site; default 0."""
    predictions_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Expected run times in seconds, by task and site; default: the run time over the speed of the
    site."""
    unpredicted: set[int] = field(default_factory=set)
    """Tasks without a prediction; by default there are none."""
    link_seconds_per_byte: dict[tuple[int, int], float] = field(default_factory=dict)
    """Transfer time in seconds per byte, by source and destination; default
    ``mean_seconds_per_byte``."""
    mean_seconds_per_byte: float = 1e-8
    """Mean transfer time of all links, in seconds per byte; the default is that of 100 MB/s."""

    # The run

    last_placed: int = -1
    """The site of the last placement in the run; -1 before the first."""
    seed: int = 0
    """Seed of ``random()``."""

    @property
    def task_count(self) -> int:
        return len(self.parents)

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        children: list[list[int]] = [[] for _ in self.parents]
        for task, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(task)
        return [tuple(c) for c in children]

    def inputs(self, task: int) -> tuple[int, ...]:
        return self.task_inputs.get(task, ())

    def producer(self, file: int) -> int | None:
        return self.producers.get(file)

    def candidates(self, task: int) -> tuple[int, ...]:
        return tuple(s for s in self._allowed(task) if s not in self.full_sites)

    def lacks_room(self, task: int, site: int) -> bool:
        return site in self.full_sites and site in self._allowed(task)

    def _allowed(self, task: int) -> Sequence[int]:
        return self.allowed_sites.get(task, tuple(range(self.site_count)))

    def cores(self, task: int) -> int:
        return self.task_cores.get(task, 1)

    def fits_all(self, site: int) -> bool:
        return all(site in self._allowed(task) for task in range(self.task_count))

    def slots(self, site: int) -> int:
        return self.site_slots.get(site, 8)

    def last_site(self) -> int:
        return self.last_placed

    def random(self) -> Random:
        return Random(self.seed)

    def idle(self, site: int) -> int:
        return self.idle_cores.get(site, 8)

    def load(self, site: int) -> float:
        return self.loads.get(site, 0.0)

    def speed_ratio(self, site: int) -> float:
        return self.speed_ratios.get(site, 1.0)

    def performance(self, site: int) -> float | None:
        return self.performances.get(site)

    def runtime_s(self, task: int) -> float:
        return self.task_runtimes_s.get(task, 1.0)

    def runtimes_s(self) -> Sequence[float]:
        return [self.runtime_s(task) for task in range(self.task_count)]

    def predict_s(self, task: int, site: int) -> float:
        predicted_s = self.predictions_s.get((task, site))
        return self.runtime_s(task) / self.speed_ratio(site) if predicted_s is None else predicted_s

    def predict(self, task: int, site: int) -> Prediction | None:
        return (
            None if task in self.unpredicted else Prediction(self.predict_s(task, site), "given", 1)
        )

    def size_bytes(self, file: int) -> int:
        return self.sizes_bytes.get(file, 0)

    def transfer_s(self, task: int, site: int) -> float:
        """Transfer time of a task's inputs in seconds. Inputs are copied one after another, each
        over its fastest link."""
        total_s = 0.0
        for file in self.inputs(task):
            places = self.places.get(file, ())
            if places and site not in places:
                links = ((source, site) for source in places)
                mean = self.mean_seconds_per_byte
                fastest = min(self.link_seconds_per_byte.get(link, mean) for link in links)
                total_s += self.size_bytes(file) * fastest
        return total_s

    def reference_seconds_per_byte(self) -> float:
        return self.mean_seconds_per_byte

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        return self.waits_s.get(site, 0.0)

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        wait_s = self.estimate_start_s(site, task, staging_s)
        return wait_s + staging_s + self.predict_s(task, site)

    def open_tasks(self, site: int) -> int:
        return self.tasks_open.get(site, 0)

    def open_time_s(self, site: int) -> float:
        return self.times_s.get(site, 0.0)

    def open_work_s(self, site: int) -> float:
        return self.works_s.get(site, 0.0)

    def mean_wait(self, site: int, weight: Weight = "one") -> float:
        return self.mean_waits.get((site, weight), 0.0)

    def last_end_s(self, site: int) -> float:
        return self.last_ends_s.get(site, 0.0)

    def weighted_completion(self, site: int) -> float:
        return self.weighted_completions.get(site, 0.0)

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        return min(sites, key=lambda site: self.estimate_completion_s(site, task))

    def earliest_staged_completion(self, task: int, sites: Sequence[int]) -> int:
        def end_s(site: int) -> float:
            return self.estimate_completion_s(site, task, self.transfer_s(task, site))

        return min(sites, key=end_s)
