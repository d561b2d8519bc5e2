"""What `wfrun jobs` does before `prepare`: read the jobs; let sites run each as a batch job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.names import look_up
from wfrun.engine.policies.placement import ALLOCATION_STRATEGIES
from wfrun.parsers.formats import FORMATS, unreadable
from wfrun.parsers.jobs.build import make_jobs
from wfrun.parsers.read import ReadDocument

_JOBS = next(each for each in FORMATS if each.holds == "jobs")


def read_job_documents(paths: Sequence[Path]) -> list[ReadDocument]:
    """Read documents of parallel jobs. Raises InvalidError, with document and line."""
    read = []
    for path in paths:
        try:
            made = make_jobs(path)
        except OSError as error:
            raise unreadable(path, error) from error
        read += [ReadDocument(jobs, path.parent, _JOBS, lines) for jobs, lines in made]
    for each in read:
        for task in each.workflow.moldable:
            name = each.workflow.tasks[task].id
            raise InvalidError(
                f"the job {name!r} has several sizes",
                source=each.workflow.source,
                line=each.line(name),
                hint="Give it one size.",
            )
    return read


def strategy(name: str) -> str:
    """The name of an allocation strategy. Raises InvalidError, which suggests the most similar
    one."""
    strategies = {each.name: each for each in ALLOCATION_STRATEGIES}
    return look_up(strategies, name, "allocation strategy").name


def direct(catalog: Catalog) -> Catalog:
    """The same sites with a batch job for each job: no launchers, no arrays, so that each job can
    be cancelled, and started by the batch system, on its own."""
    return replace(catalog, sites=tuple(map(_direct, catalog.sites)))


def _direct(site: SiteSpec) -> SiteSpec:
    if site.access is None or not site.has_batch_system:
        return site
    return replace(site, access=replace(site.access, dispatch="jobs", launchers=None, max_array=1))
