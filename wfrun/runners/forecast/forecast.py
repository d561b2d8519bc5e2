"""Predicts a run: run times by type of task and site, queue waits, and the end with an interval.

The predicted end is that of the plan (`wfrun.runners.forecast.plan`). Its interval comes from
further simulations of the plan. In these the run times of tasks are drawn at random from those of
earlier tasks, and the jobs of other users end at random times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from math import ceil, floor
from random import Random

import msgspec
from msgspec.structs import replace

from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.prediction.run_times import JobClass
from wfrun.engine.settings import Settings
from wfrun.engine.tasks.bag import BagTasks
from wfrun.runners.experiments.subjects.subjects import Warn
from wfrun.runners.forecast.forecast_runtimes import (
    EarlierTasks,
    TypeForecast,
    class_of,
    earlier_tasks,
    type_forecasts,
)
from wfrun.runners.forecast.plan import (
    PlanInputs,
    Present,
    PresentSite,
    Sources,
    plan_inputs,
    reached,
)
from wfrun.runners.forecast.plan_alternatives import Throttle
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.simulate.plan import OverdueError, makespan_s, plan_run
from wfrun.runners.simulate.queue_waits import ExpectedWait, expected_wait, sampled

SAMPLES = 40
"""Maximum number of simulations from which the interval of the end is computed."""
MIN_SAMPLES = 5
"""Minimum number of simulations for an interval. With fewer there is no interval."""
COVERAGE = 0.9
"""Share of the simulations whose end is within the interval."""
WITHIN_S = 10.0
"""Default time limit of all simulations for the interval, in seconds."""
MIN_OBSERVED = 4
"""Minimum number of earlier tasks of a class. The tasks of a class with fewer earlier tasks have
their planned run times in all simulations."""


class End(msgspec.Struct, frozen=True):
    """Predicted end of the run, in seconds from now, with its interval."""

    makespan_s: float | None
    """Predicted makespan; None: some tasks would not end."""
    unfinished: int
    """Number of tasks that would not end."""
    failure: str | None
    """Why some tasks would not end, in one line; None: all would end."""
    low_s: float | None
    high_s: float | None
    """Upper end of the interval, which contains the planned end and the fraction `COVERAGE` of the
    simulated ends. None: tasks would be left undone, there are too few simulations, or nothing
    varies between them."""
    samples: int
    """Number of simulations from which the interval was computed."""
    varied: int
    """Number of tasks whose run times vary between the simulations."""


class SiteForecast(msgspec.Struct, frozen=True):
    """A site, with the predicted waits of jobs that are submitted now."""

    present: PresentSite
    waits: tuple[ExpectedWait, ...]
    """Predicted wait for each number of cores that tasks request. Empty for a site that has no
    queue or is not up."""


class RunForecast(msgspec.Struct, frozen=True):
    """The prediction of a run."""

    policy: str
    throttle: Throttle
    is_emulated: bool
    """Whether tasks are emulated by sleeping, so that the load of hosts does not matter."""
    types: tuple[TypeForecast, ...]
    sites: tuple[SiteForecast, ...]
    end: End | None
    """Predicted end of the run; None: the run time of some task is unknown."""
    sources: Sources | None


def forecast_of(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    settings: Settings,
    present: Present,
    *,
    history: HistoryFile | None,
    assumed_s: float | None,
    limit_s: float | None,
    warn: Warn,
) -> RunForecast:
    """Predict a run on the sites that are up. ``limit_s`` is the time limit of all simulations for
    the interval of the end, in seconds; None: `WITHIN_S`, or longer if `MIN_SAMPLES` simulations
    need more time. ``assumed_s`` replaces unknown run times, in seconds on the reference processor.

    Raises InfeasibleError if no site is up, and InvalidError for a task that fits no site.
    """
    up = reached(catalog, present)
    earlier = earlier_tasks(history, workflows, catalog, settings.predictor)
    types = type_forecasts(workflows, up, earlier, assumed_s)
    inputs = end = None
    if not any(site.source == "unknown" for each in types for site in each.sites):
        inputs = plan_inputs(
            workflows, catalog, settings, present, history=history, assumed_s=assumed_s, warn=warn
        )
        end = _end(workflows, inputs, earlier, limit_s)
    return RunForecast(
        policy=settings.policy,
        throttle=settings.throttle,
        is_emulated=settings.emulate,
        types=tuple(types),
        sites=tuple(_site(site, present, types) for site in present.sites),
        end=end,
        sources=None if inputs is None else inputs.sources,
    )


def _site(site: PresentSite, present: Present, types: Sequence[TypeForecast]) -> SiteForecast:
    if not site.has_queue or site.state != "up":
        return SiteForecast(site, ())
    longest_s: dict[int, float] = {}
    for each in types:
        for runtime in each.sites:
            if runtime.site == site.site:
                cores_s = longest_s.get(each.cores, 0.0)
                longest_s[each.cores] = max(cores_s, runtime.high_s or runtime.runtime_s or 0.0)
    ahead = present.ahead.get(site.site, ())
    waits = (
        expected_wait(cores, requested_s, site.slots, ahead)
        for cores, requested_s in sorted(longest_s.items())
    )
    return SiteForecast(site, tuple(waits))


def _end(
    workflows: Sequence[Workflow],
    inputs: PlanInputs,
    earlier: EarlierTasks,
    limit_s: float | None,
) -> End:
    begun_s = time.monotonic()
    planned = plan_run(inputs.workflows, inputs.platform, inputs.settings, inputs.reused)
    if limit_s is None:
        # Simulations with other run times take somewhat longer or shorter.
        limit_s = max(WITHIN_S, 2 * MIN_SAMPLES * (time.monotonic() - begun_s))
    draws = _Draws(workflows, inputs.workflows, earlier)
    found: list[float] = []
    if not planned.unfinished and (draws.varied or any(inputs.platform.background.values())):
        found = sorted(_sampled_ends(inputs, draws, limit_s))
    low_s = high_s = None
    if len(found) >= MIN_SAMPLES and planned.makespan_s is not None:
        beyond = (1 - COVERAGE) / 2 * (len(found) + 1)
        low_s = min(planned.makespan_s, found[max(0, floor(beyond) - 1)])
        high_s = max(planned.makespan_s, found[min(len(found), ceil(len(found) + 1 - beyond)) - 1])
    return End(
        planned.makespan_s, planned.unfinished, planned.failure, low_s, high_s, len(found),
        draws.varied,
    )  # fmt: skip


def _sampled_ends(inputs: PlanInputs, draws: _Draws, limit_s: float) -> list[float]:
    deadline_s = time.monotonic() + limit_s
    found: list[float] = []
    for number in range(SAMPLES):
        random = Random(number)
        background = {
            site: sampled(jobs, random) for site, jobs in inputs.platform.background.items()
        }
        platform = replace(inputs.platform, background=background)
        try:
            end_s = makespan_s(
                inputs.workflows, platform, inputs.settings, deadline_s, inputs.reused,
                draws.sample(random),
            )  # fmt: skip
        except OverdueError:
            break
        if end_s is not None:
            found.append(end_s)
    return found


class _Draws:
    """Random run times of the tasks of a run.

    Each simulation first resamples the run times of the earlier tasks of each class with
    replacement, so that their mean varies between simulations. Then each task of the class draws
    one run time from this sample (bootstrap; Efron 1979).
    """

    def __init__(
        self,
        workflows: Sequence[Workflow],
        filled: Sequence[Workflow],
        earlier: EarlierTasks,
    ) -> None:
        """``filled`` are the ``workflows`` with the planned run time of each task."""
        self._earlier_s: dict[JobClass, list[float]] = {}
        self._kinds: list[Callable[[int], JobClass | None]] = []
        """For each workflow: a function that returns the class of the task with a given number;
        None if the run time of the task is documented."""
        self._planned_s: list[Callable[[int], float | None]] = []
        """For each workflow: a function that returns the planned run time of the task with a given
        number, in seconds."""
        self.varied = 0
        """Number of tasks whose run times vary between simulations."""
        for workflow, planned in zip(workflows, filled, strict=True):
            for kind, count in Counter(_predicted_classes(workflow)).items():
                found = earlier.reference_s(kind)
                if len(found) >= MIN_OBSERVED:
                    self._earlier_s[kind] = found
                    self.varied += count
            self._kinds.append(self._kind_of(workflow))
            self._planned_s.append(_planned_of(planned))

    def _kind_of(self, workflow: Workflow) -> Callable[[int], JobClass | None]:
        """Return a function that returns the class of the task with a given number; None if the run
        time of the task is documented. All tasks of a bag have the same class, which is computed
        only once."""
        if workflow.bag is not None:
            kind = next(_predicted_classes(workflow), None)
            return lambda _: kind
        kinds = [None if t.runtime_s is not None else class_of(workflow, t) for t in workflow.tasks]
        return kinds.__getitem__

    def sample(self, random: Random) -> Callable[[int, int], float]:
        """Draw the run times of one simulation. Returns a function that draws the run time of
        (workflow, task), in seconds on the reference processor."""
        drawn = {
            kind: random.choices(found, k=len(found)) for kind, found in self._earlier_s.items()
        }

        def runtime_s(workflow: int, task: int) -> float:
            kind = self._kinds[workflow](task)
            found = None if kind is None else drawn.get(kind)
            if found is not None:
                return random.choice(found)
            planned_s = self._planned_s[workflow](task)
            assert planned_s is not None
            return planned_s

        return runtime_s


def _planned_of(workflow: Workflow) -> Callable[[int], float | None]:
    tasks = workflow.tasks
    if isinstance(tasks, BagTasks):
        return tasks.runtime_s
    return lambda task: tasks[task].runtime_s


def _predicted_classes(workflow: Workflow) -> Iterator[JobClass]:
    """The class of each task without a documented run time."""
    if workflow.bag is not None:
        first = workflow.tasks[0]
        if first.runtime_s is None:
            yield from repeat(class_of(workflow, first), len(workflow.tasks))
        return
    for task in workflow.tasks:
        if task.runtime_s is None:
            yield class_of(workflow, task)
