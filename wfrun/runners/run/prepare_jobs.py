"""What `wfrun jobs` does before `prepare`: read the jobs; let sites run each as a batch job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.model import Access, Catalog, SiteSpec, Workflow
from wfrun.engine.names import look_up
from wfrun.engine.policies.placement import ALLOCATION_STRATEGIES
from wfrun.engine.state import RunState
from wfrun.parsers.formats import FORMATS, Content, has_key, unreadable
from wfrun.parsers.jobs.build import make_jobs
from wfrun.parsers.jobs.log_jobs import JobLines, is_log, read_log_jobs
from wfrun.parsers.read import ReadDocument
from wfrun.sites.batch.system import BatchJob, BatchSystem
from wfrun.sites.kinds import make_batch_system

_JOBS = next(each for each in FORMATS if each.holds == "jobs")


DEFAULT_STRATEGY = "mst"
"""The earliest start."""


class JobDocuments(NamedTuple):
    """The jobs of some documents."""

    read: list[ReadDocument]
    arrivals_s: list[float]
    """Time at which each is submitted in a simulation, in seconds after the start."""
    remarks: list[str]
    """On what was mended or dropped of workload logs."""


def read_job_documents(
    paths: Sequence[Path],
    *,
    synthetic: bool,
    timed: bool,
    sized: bool,
    skip_bad_lines: bool = False,
) -> JobDocuments:
    """Read documents of parallel jobs, and workload logs if jobs without a program can be run
    (``synthetic``). ``timed``: each job needs a run time. ``sized``: the size of jobs with several
    ones is chosen. ``skip_bad_lines``: lines of logs that cannot be read are dropped. Raises
    InvalidError, with document and line."""
    found = JobDocuments([], [], [])
    for path in paths:
        try:
            if is_log(path):
                _check_synthetic(path, synthetic)
                workflows, arrivals_s, remarks = read_log_jobs(path, skip_bad_lines=skip_bad_lines)
                found.remarks.extend(remarks)
                lines = JobLines(path)
                found.read.extend(ReadDocument(w, path.parent, _JOBS, lines) for w in workflows)
                found.arrivals_s.extend(arrivals_s)
                continue
            made = _made(path)
        except OSError as error:
            raise unreadable(path, error) from error
        found.read.extend(ReadDocument(jobs, path.parent, _JOBS, lines) for jobs, lines in made)
        found.arrivals_s.extend([0.0] * len(made))
    for each in found.read:
        if not sized:
            _check_rigid(each)
        if timed:
            _check_timed(each)
    return found


def _made(path: Path) -> list[tuple[Workflow, Mapping[str, int]]]:
    """The jobs of a document, and their lines. The error for a document of another format says
    what runs it."""
    try:
        return make_jobs(path)
    except InvalidError:
        if not _is_for_run(Content(path)):
            raise
        raise InvalidError(
            "not a document of parallel jobs, but of a workflow or of bags of tasks",
            source=str(path),
            hint="`wfrun run` runs it. `wfrun help jobs` describes documents of jobs.",
        ) from None


def _is_for_run(content: Content) -> bool:
    """Whether a document that is none of jobs is clearly one of the others."""
    others = (each for each in FORMATS if each.name in ("table", "jsdl", "dax", "wfformat"))
    return has_key(b"pegasus", b"bags?")(content) or any(o.recognize(content) for o in others)


def _check_synthetic(path: Path, synthetic: bool) -> None:
    if not synthetic:
        raise InvalidError(
            "the jobs of a workload log have no programs",
            source=str(path),
            hint="--simulate runs them in virtual time, --emulate as sleeps.",
        )


def _check_rigid(read: ReadDocument) -> None:
    for task in read.workflow.moldable:
        name = read.workflow.tasks[task].id
        raise InvalidError(
            f"the job {name!r} has several sizes",
            source=read.workflow.source,
            line=read.line(name),
            hint="--size binary chooses one by the queues of the clusters.",
        )


def _check_timed(read: ReadDocument) -> None:
    for task in read.workflow.tasks:
        if task.runtime_s is None:
            raise InvalidError(
                f"the job {task.id!r} has neither a walltime nor a runtime",
                source=read.workflow.source,
                line=read.line(task.id),
                hint="A simulated job takes its runtime, else its walltime.",
            )


def strategy(name: str) -> str:
    """The name of an allocation strategy. Raises InvalidError, which suggests the most similar
    one."""
    strategies = {each.name: each for each in ALLOCATION_STRATEGIES}
    return look_up(strategies, name, "allocation strategy").name


def has_parallel_jobs(state: RunState) -> bool:
    """Whether a run is one of parallel jobs."""
    tasks = (w.workflow.tasks[0] for w in state.workflows if w.workflow.bag is None)
    return any(task.resources.parallel for task in tasks)


def direct(catalog: Catalog) -> Catalog:
    """The same sites with a batch job for each job: no launchers, no arrays, so that each job can
    be cancelled, and started by the batch system, on its own."""
    return replace(catalog, sites=tuple(map(_direct, catalog.sites)))


def _direct(site: SiteSpec) -> SiteSpec:
    if site.access is None or not site.has_batch_system:
        return site
    access = replace(site.access, dispatch="jobs", launchers=None, max_array=1)
    several = _takes_several_nodes(make_batch_system(site.kind, access), access)
    return replace(site, access=access, max_nodes=site.max_nodes if several else 1)


def _takes_several_nodes(system: BatchSystem, access: Access) -> bool:
    """Whether the catalog lets a job have several nodes, which Grid Engine gives only by a parallel
    environment of their number of cores."""
    job = BatchJob(
        name="wfrun-nodes", count=1, nodes=2, cores=1, memory_bytes=0, gpus=0, walltime_s=None,
        queue=access.queue, account=access.account, options=(), avoid_nodes=(), log="", output="",
        command=(),
    )  # fmt: skip
    try:
        system.submit(job, "")
    except InfeasibleError:
        return False
    return True
