"""Variations of what random worlds run: parallel jobs with sizes, inputs with several sources, and
tasks that earlier runs did."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from tests.engine.model.layouts import GIB, Layout
from wfrun.engine import events as ev
from wfrun.engine.model import (
    ORIGIN,
    Catalog,
    File,
    InputSource,
    Moldable,
    Resources,
    Task,
    Workflow,
)
from wfrun.runners.run.prepare.prepare_jobs import direct

REALLOCATIONS = (None, "mct-reg", "mct-can", "minmin-reg", "minmin-can")


def with_jobs(random: Random, layout: Layout) -> Layout:
    """The same sites, without launchers, with parallel jobs in place of the workflows, as `wfrun
    jobs` runs them. One site takes every job."""
    sites = list(direct(Catalog(layout.sites)).sites)
    first = max(range(len(sites)), key=lambda site: sites[site].slots)
    sites[first] = msgspec.structs.replace(
        sites[first], memory_bytes=0, walltime_s=None, storage_bytes=None
    )
    old = layout.settings
    settings = ev.Settings(
        policy=random.choice(["mst", "mst", "mct", "mwt", "lbal-s", "random"]),
        retries=old.retries,
        retry_delay_s=old.retry_delay_s,
        on_failure=old.on_failure,
        seed=old.seed,
        sizing=random.choice([None, "binary", "exhaustive"]),
        reallocate=random.choice(REALLOCATIONS),  # type: ignore[arg-type]
        reallocate_every_s=random.choice([1.0, 10.0, 60.0]),
        reallocate_gain_s=random.choice([0.0, 5.0, 60.0]),
    )
    widest = min(8, sites[first].slots)
    workflows = [
        jobs_of(random, number, widest, is_sized=settings.sizing is not None)
        for number in range(len(layout.workflows))
    ]
    return layout._replace(
        workflows=workflows,
        sites=tuple(sites),
        settings=settings,
        queues=(),
        bad_site=-1 if layout.bad_site == first else layout.bad_site,
    )


def jobs_of(random: Random, number: int, widest: int, *, is_sized: bool) -> Workflow:
    """Parallel jobs of at most ``widest`` processors. ``is_sized``: most have several sizes."""
    tasks: list[Task] = []
    files: list[File] = []
    moldable: dict[int, Moldable] = {}
    for index in range(random.choice([1, 4, 12])):
        reads: tuple[int, ...] = ()
        if random.random() < 0.3:
            files.append(File(f"in{index}", random.randrange(10**8)))
            reads = (len(files) - 1,)
        writes: tuple[int, ...] = ()
        if random.random() < 0.5:
            files.append(File(f"out{index}", producer=index, collect=random.random() < 0.7))
            writes = (len(files) - 1,)
        sizes = [n for n in (1, 2, 4, 8) if n <= widest]
        cores, walltime_s = random.choice(sizes), random.choice([20.0, 100.0, 400.0])
        if is_sized and len(sizes) > 1 and random.random() < 0.7:
            chosen = tuple(sorted(random.sample(sizes, random.randint(2, len(sizes)))))
            cores, share = chosen[0], random.choice([0.0, 0.5, 1.0])
            times_s = tuple(walltime_s / size**share for size in chosen)
            moldable[index] = Moldable(chosen, times_s, random.choice([None, None, 2]))
            walltime_s = times_s[0]
            if cores > (moldable[index].ppn or cores):  # else no local site would take it
                moldable[index] = Moldable(chosen, times_s)
        asked = Resources(
            cores, random.choice([0, 0, 1]) * GIB, walltime_s=walltime_s, parallel=True
        )
        runtime_s = random.choice([None, walltime_s, walltime_s / 3])
        tasks.append(
            Task(f"j{index}", "j", "x", inputs=reads, outputs=writes, resources=asked,
                 runtime_s=runtime_s)
        )  # fmt: skip
    return Workflow(
        f"j{number}", "j.yaml", tasks, files, [()] * len(tasks),
        owner=random.choice(["", "ann"]), moldable=moldable,
    )  # fmt: skip


def with_sources(random: Random, workflow: Workflow, sites: Sequence[str]) -> Workflow:
    """The same workflow with initial inputs that sites have already, some of them at sites alone.
    The files of bags have one source."""
    if workflow.bag is not None:
        return workflow
    files = [
        file
        if file.producer is not None or random.random() < 0.3
        else _at_sites(random, file, sites)
        for file in workflow.files
    ]
    return msgspec.structs.replace(workflow, files=files)


def _at_sites(random: Random, file: File, sites: Sequence[str]) -> File:
    names = random.sample(list(sites), random.randint(1, len(sites)))
    return msgspec.structs.replace(
        file,
        sources=tuple(InputSource(f"/data/{file.name}", name) for name in names),
        url=random.choice([None, "/here/" + file.name]),
        size_bytes=random.choice([file.size_bytes, None]),
    )


def reused_of(random: Random, workflow: Workflow, sites: int) -> tuple[ev.ReusedTasks, ...]:
    """Tasks of a workflow that one or two earlier runs did. What their successors read, and what is
    collected, is at some place, unless it is optional and was not written."""
    tasks = range(len(workflow.tasks))
    share = random.choice([0.0, 0.2, 0.5, 1.0])
    done = {task for task in tasks if random.random() < share}
    if workflow.bag is None:
        for task in reversed(tasks):
            if task in done:
                done.update(workflow.parents[task])
        # The outputs of some are gone, so that they run again although their successors do not.
        done = {task for task in done if random.random() < 0.85}
    needed = {f for task in tasks if task not in done for f in workflow.tasks[task].inputs}
    parts: list[list[int]] = [[], []]
    for task in sorted(done):
        parts[random.random() < 0.3].append(task)
    return tuple(
        _reused(random, workflow, run, part, needed, sites)
        for run, part in zip(("one", "two"), parts, strict=True)
        if part
    )


def _reused(
    random: Random, workflow: Workflow, run: str, part: Sequence[int], needed: set[int], sites: int
) -> ev.ReusedTasks:
    files, lost = [], []
    for task in part:
        record = workflow.tasks[task]
        for file in record.outputs:
            if file in record.optional and random.random() < 0.4:
                continue
            if file in needed or workflow.files[file].collect:
                files.append((file, random.randrange(10**7), random.randrange(ORIGIN, sites)))
            else:
                lost.append(file)
    return ev.ReusedTasks(run, tuple(part), tuple(files), tuple(lost))
