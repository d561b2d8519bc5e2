"""What `wfrun jobs` does before `prepare`: read the jobs, and let sites run each job as a batch
job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.fitting.fit import most_nodes
from wfrun.engine.fitting.names import look_up
from wfrun.engine.jobs.coallocation.node_links import Metric
from wfrun.engine.model import Access, Catalog, LauncherSpec, SiteSpec, Workflow
from wfrun.engine.policies.placement import ALLOCATION_STRATEGIES
from wfrun.engine.settings import Settings
from wfrun.parsers.formats import (
    FORMATS,
    DocumentContent,
    DocumentFormat,
    formats_of,
    has_key,
    unreadable,
)
from wfrun.parsers.jobs.build import make_jobs
from wfrun.parsers.jobs.log_jobs import JobLines, is_log, read_log_jobs
from wfrun.parsers.read import ReadDocument
from wfrun.parsers.syntax.limits import MAX_SECONDS
from wfrun.sites.batch.system import BatchJob, BatchSystem
from wfrun.sites.kinds import make_batch_system

DEFAULT_STRATEGY = "mst"
"""Default allocation strategy: minimum start time."""
UNASKED_STRATEGY = "mlp"
"""Allocation strategy in the settings of runs with claims, which ignore it. It needs no information
about the sites."""


class JobDocuments(msgspec.Struct, frozen=True):
    """The jobs of documents and workload logs, in the order in which they were read."""

    read: list[ReadDocument]
    arrivals_s: list[float]
    """Time at which each job is submitted in a simulation, in seconds after the start."""
    remarks: list[str]
    """Remarks on lines of workload logs that were corrected or dropped."""

    def in_order(self) -> JobDocuments:
        """These jobs in the order of submission."""
        order = sorted(range(len(self.read)), key=self.arrivals_s.__getitem__)
        read = [self.read[number] for number in order]
        return JobDocuments(read, [self.arrivals_s[number] for number in order], self.remarks)


def read_job_documents(
    paths: Sequence[Path],
    *,
    synthetic: bool = False,
    together: bool = False,
    skip_bad_lines: bool = False,
) -> JobDocuments:
    """Read documents of parallel jobs, and workload logs. ``synthetic``: jobs may lack programs, as
    those of workload logs do. ``together``: the jobs of a document are one workflow, even if they
    have several owners. ``skip_bad_lines``: unreadable lines of logs are dropped. Raises
    InvalidError, with document and line."""
    known = formats_of("jobs")
    read: list[ReadDocument] = []
    arrivals_s: list[float] = []
    remarks: list[str] = []
    for path in paths:
        try:
            if is_log(path):
                _check_synthetic(path, synthetic)
                workflows, times_s, noted = read_log_jobs(path, skip_bad_lines=skip_bad_lines)
                lines = JobLines(path)
                read += [ReadDocument(each, path.parent, known[0], lines) for each in workflows]
                arrivals_s += times_s
                remarks += noted
                continue
            content = DocumentContent(path)
            found = next((each for each in known if each.recognize(content)), known[0])
            made = _made(path, content, found, together=together)
        except OSError as error:
            raise unreadable(path, error) from error
        read += [ReadDocument(jobs, path.parent, found, lines) for jobs, lines in made]
        arrivals_s += [0.0] * len(made)
    return JobDocuments(read, arrivals_s, remarks)


def _made(
    path: Path, content: DocumentContent, found: DocumentFormat, *, together: bool
) -> list[tuple[Workflow, Mapping[str, int]]]:
    """The jobs of a document of the format ``found``, and their lines. If the document is clearly
    of another format, the error names the command that runs it."""
    try:
        return make_jobs(path, found.load(), together=together)
    except InvalidError:
        if not _is_for_run(content):
            raise
        raise InvalidError(
            "not a document of parallel jobs, but of a workflow or of bags of tasks",
            source=str(path),
            hint="`wfrun run` runs it. `wfrun help jobs` describes documents of jobs.",
        ) from None


def _is_for_run(content: DocumentContent) -> bool:
    """Whether a document that does not hold jobs is clearly of another format. YAML formats share
    keys, so only keys that no document of jobs has identify them."""
    shared = [each.suffixes for each in formats_of("jobs")]
    others = [each for each in FORMATS if each.holds != "jobs" and each.suffixes not in shared]
    return has_key(b"pegasus", b"bags?")(content) or any(o.recognize(content) for o in others)


def _check_synthetic(path: Path, synthetic: bool) -> None:
    if not synthetic:
        raise InvalidError(
            "the jobs of a workload log have no programs",
            source=str(path),
            hint="--simulate runs them in virtual time, --emulate as sleeps.",
        )


def strategy(name: str) -> str:
    """Check the name of an allocation strategy, and return it. Raises InvalidError, with the most
    similar name, if it is unknown."""
    strategies = {each.name: each for each in ALLOCATION_STRATEGIES}
    return look_up(strategies, name, "allocation strategy").name


def has_parallel_jobs(state: RunState) -> bool:
    """Whether the tasks of a run are parallel jobs."""
    tasks = (w.workflow.tasks[0] for w in state.workflows if w.workflow.bag is None)
    return any(task.resources.parallel for task in tasks)


def direct(catalog: Catalog) -> Catalog:
    """Return the catalog with sites that run each job as a separate batch job, without launchers
    and job arrays. So each job can be cancelled, and started by the batch system, on its own."""
    return replace(catalog, sites=tuple(map(_direct, catalog.sites)))


def claimable(catalog: Catalog, settings: Settings, *, simulated: bool) -> Catalog:
    """Return the catalog with launchers at all sites, which claim (hold) the processors of jobs. A
    launcher may have the maximum size and walltime that its site allows. ``simulated``: sites
    without a batch system are allowed.

    Raises InvalidError for a site that is not allowed, or if the catalog does not state a link
    between nodes that the policy needs.
    """
    for site in catalog.sites:
        if not (simulated or (site.access is not None and site.has_batch_system)):
            raise InvalidError(
                f"site {site.name!r} has no batch system, so that no processors of it can be "
                "claimed",
                source=catalog.source,
                line=catalog.lines.get(site.name, {}).get(""),
                hint="leave it out of the catalog of a run with --place or --malleable",
            )
    if settings.place == "ca":
        _check_node_links(catalog, settings.metric)
    return replace(catalog, sites=tuple(map(_claimable, catalog.sites)))


def _claimable(site: SiteSpec) -> SiteSpec:
    access = site.access or Access()
    launchers = access.launchers or LauncherSpec(site.slots)
    longest_s = MAX_SECONDS if site.walltime_s is None else site.walltime_s
    nodes = most_nodes(replace(site, access=None)) or site.slots
    if site.has_batch_system and not _takes_several_nodes(
        make_batch_system(site.kind, access), access
    ):
        nodes = 1
    widest = replace(
        launchers, cores=site.node_cores or site.slots, nodes=nodes, min=0, max=0,
        memory_bytes=site.memory_bytes, gpus=site.gpus, walltime_s=longest_s,
    )  # fmt: skip
    return replace(site, access=replace(access, dispatch="launchers", launchers=widest))


def _check_node_links(catalog: Catalog, metric: Metric) -> None:
    for site in catalog.sites:
        stated = {
            link.site
            for link in site.node_links
            if (link.latency_s if metric == "latency" else link.bandwidth_bytes_per_s) is not None
        }
        for other in catalog.sites:
            if other.name not in stated:
                where = f"within {site.name}"
                if other is not site:
                    where = f"between the nodes of {site.name} and {other.name}"
                raise InvalidError(
                    f"--place ca needs the {metric} {where}",
                    source=catalog.source,
                    line=catalog.lines.get(site.name, {}).get(""),
                    hint="`wfrun sites links --nodes --write` measures it, for 'node_links'.",
                )


def _direct(site: SiteSpec) -> SiteSpec:
    if site.access is None or not site.has_batch_system:
        return site
    access = replace(site.access, dispatch="jobs", launchers=None, max_array=1)
    several = _takes_several_nodes(make_batch_system(site.kind, access), access)
    return replace(site, access=access, max_nodes=site.max_nodes if several else 1)


def spanning(catalog: Catalog) -> Catalog:
    """Return the catalog without the number of cores per node, so that a job may span several
    nodes. Jobs of workload logs need this, because the logs do not mention nodes."""
    sites = tuple(replace(site, node_cores=None) for site in catalog.sites)
    return replace(catalog, sites=sites)


def _takes_several_nodes(system: BatchSystem, access: Access) -> bool:
    """Whether the batch system can give a job several nodes, with the options of the catalog. In
    Grid Engine this requires a parallel environment that places the job's cores on several
    nodes."""
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
