"""Malleable jobs of documents, simulated on the sites of a catalog (thesis chapter 3)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.malleable.manager import SizeBounds
from wfrun.engine.jobs.malleable.simulation import Rules, ScaledJob, simulate
from wfrun.engine.model import Catalog
from wfrun.parsers.read import ReadDocument


class MalleableJobResult(msgspec.Struct, frozen=True):
    """The outcome of a job. Times in seconds after the start of the simulation, sizes in
    processors."""

    workflow: str
    job: str
    site: str
    arrival_s: float
    start_s: float
    end_s: float
    smallest: int
    mean: float
    """Mean size over the execution of the job, in processors."""
    largest: int
    grows: int
    shrinks: int
    sizes: list[tuple[float, int]]
    """(time in seconds, size from then on) for each change of the job's size, beginning with its
    start."""


class MalleableResult(msgspec.Struct, frozen=True):
    """The outcome of a simulation."""

    jobs: list[MalleableJobResult]
    makespan_s: float
    """Time from the first arrival to the last end, in seconds."""
    utilization: float
    """Share of the processors of all sites that jobs held, over the makespan."""
    mean_response_s: float
    """Mean time from arrival to end, in seconds."""


def simulate_malleable(
    documents: Sequence[ReadDocument], arrivals_s: Sequence[float], catalog: Catalog, rules: Rules
) -> MalleableResult:
    """Simulate the jobs of documents. All jobs of a document arrive at its time in ``arrivals_s``.

    The processors of a site are one pool: nodes, memory and walltime limits are not simulated.
    Raises InvalidError, with the line, for a job without a run time, a job with components, a job
    with several sizes that is not malleable, and a job larger than every site. Also raises it if no
    job is malleable.
    """
    jobs: list[ScaledJob] = []
    names: list[tuple[str, str]] = []
    for read, arrival_s in zip(documents, arrivals_s, strict=True):
        for number, task in enumerate(read.workflow.tasks):
            jobs.append(_scaled_job(read, number, arrival_s, catalog))
            names.append((read.workflow.name, task.id))
    if not any(job.bounds.most > job.bounds.least for job in jobs):
        raise InvalidError(
            "no job is malleable",
            source=documents[0].workflow.source,
            hint="Write 'malleable: true' for jobs with several sizes, or leave out --malleable.",
        )
    sites = catalog.sites
    outcome = simulate(
        jobs, [site.slots for site in sites], rules, [site.speed_ratio for site in sites]
    )
    where: dict[int, int] = {}
    grows, shrinks = [0] * len(jobs), [0] * len(jobs)
    for _, change in outcome.changes:
        where[change.job] = change.site
        grows[change.job] += change.after > change.before > 0
        shrinks[change.job] += change.after < change.before
    found = []
    for number, (job, life) in enumerate(zip(jobs, outcome.lives, strict=True)):
        sizes = dict(life.sizes)  # The last size of each time: others were held for no time.
        found.append(
            MalleableJobResult(
                *names[number], sites[where[number]].name, job.arrival_s, life.start_s,
                life.end_s, min(sizes.values()), life.mean_size, max(sizes.values()),
                grows[number], shrinks[number], list(sizes.items()),
            )
        )  # fmt: skip
    makespan_s = max(life.end_s for life in outcome.lives) - min(job.arrival_s for job in jobs)
    used = sum(life.processor_s for life in outcome.lives)
    return MalleableResult(
        found,
        makespan_s,
        used / (makespan_s * sum(site.slots for site in sites)),
        fmean(life.end_s - job.arrival_s for life, job in zip(outcome.lives, jobs, strict=True)),
    )


def _scaled_job(read: ReadDocument, number: int, arrival_s: float, catalog: Catalog) -> ScaledJob:
    workflow = read.workflow
    task, moldable = workflow.tasks[number], workflow.moldable.get(number)
    line = read.lines.get(task.id)
    if number in workflow.components:
        raise InvalidError(
            f"the job {task.id!r} has components",
            source=workflow.source,
            line=line,
            hint="With --malleable each job runs at one site.",
        )
    runtime_s = task.runtime_s
    if runtime_s is None:
        raise InvalidError(
            f"the job {task.id!r} has neither a walltime nor a runtime",
            source=workflow.source,
            line=line,
            hint="A simulated job takes its runtime, else its walltime.",
        )
    if moldable is not None and not moldable.malleable:
        raise InvalidError(
            f"the job {task.id!r} has several sizes and is not malleable",
            source=workflow.source,
            line=line,
            hint="Write 'malleable: true' if it can change between them, otherwise one size.",
        )
    least, widest = task.resources.cores, max(site.slots for site in catalog.sites)
    if least > widest:
        raise InvalidError(
            f"the job {task.id!r} needs at least {least} processors, the largest site has {widest}",
            source=workflow.source,
            line=line,
        )
    if moldable is None:
        return ScaledJob(arrival_s, SizeBounds(least, least), lambda size: runtime_s)
    ratio = runtime_s / moldable.walltimes_s[0]
    times_s = {
        size: ratio * walltime_s
        for size, walltime_s in zip(moldable.sizes, moldable.walltimes_s, strict=True)
    }
    bounds = SizeBounds(least, moldable.sizes[-1])
    return ScaledJob(arrival_s, bounds, times_s.__getitem__, moldable.sizes)
