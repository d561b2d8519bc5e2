"""Checks of the stage *check* that apply only to the jobs of `wfrun jobs`."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.engine.capabilities.claims.requests import divided_request, node_links_of, width_of
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.coallocation import IdleProcessors, place
from wfrun.engine.jobs.components import Components
from wfrun.engine.model import Catalog, Resources, Workflow
from wfrun.engine.settings import Settings
from wfrun.parsers.read import ReadDocument
from wfrun.parsers.syntax.sections import nearest


def check_jobs(read: ReadDocument, settings: Settings, *, timed: bool) -> None:
    """Raise InvalidError, with the line, for a job that the settings do not allow: a job with
    several sizes if the settings do not choose a size, or a job with components if the settings do
    not choose their sites. ``timed``: also for a job without a run time."""
    workflow = read.workflow
    if settings.malleable:
        _check_malleable(read)
    elif settings.sizing is None:
        for number in workflow.moldable:
            raise _refusal(
                read, number, "has several sizes",
                "--size binary chooses one by the queues of the clusters.",
            )  # fmt: skip
    if settings.place is None:
        for number in workflow.components:
            raise _refusal(
                read, number, "has components, and each job of this run goes to one site",
                "--place chooses the sites of components.",
            )  # fmt: skip
    if timed:
        for number, task in enumerate(workflow.tasks):
            if task.runtime_s is None:
                raise _refusal(
                    read, number, "has neither a walltime nor a runtime",
                    "A simulated job takes its runtime, else its walltime.",
                )  # fmt: skip


def _check_malleable(read: ReadDocument) -> None:
    """Raise InvalidError, with the line, for a job that a run with ``--malleable`` cannot place: a
    job with components, or with several sizes but not malleable."""
    workflow = read.workflow
    for number in workflow.components:
        raise _refusal(
            read, number, "has components", "With --malleable each job runs at one site."
        )
    for number, moldable in workflow.moldable.items():
        if not moldable.malleable:
            raise _refusal(
                read, number, "has several sizes and is not malleable",
                "Write 'malleable: true' if it can change between them, otherwise one size.",
            )  # fmt: skip


def check_smallest(read: ReadDocument, catalog: Catalog) -> None:
    """Raise InvalidError, with the line, for a job whose smallest size exceeds the slots of every
    site."""
    widest = max(site.slots for site in catalog.sites)
    for number, task in enumerate(read.workflow.tasks):
        if task.resources.cores > widest:
            text = f"needs at least {task.resources.cores} processors, the largest site has"
            raise _refusal(read, number, f"{text} {widest}", None)


def check_claims(
    read: ReadDocument,
    workflow: Workflow,
    masks: Mapping[Resources, int],
    catalog: Catalog,
    settings: Settings,
) -> None:
    """Raise InvalidError, with the line, for the first job that the policy ``settings.place``
    cannot place even at idle sites. ``workflow`` is the resolved workflow of the document.
    ``masks`` maps each resource request to the bit mask of the sites that the request fits."""
    for number, components in workflow.components.items():
        mask = masks[workflow.tasks[number].resources]
        if fault := _claim_fault(components, mask, catalog, settings):
            raise _refusal(read, number, *fault)


def _refusal(read: ReadDocument, number: int, message: str, hint: str | None) -> InvalidError:
    name = read.workflow.tasks[number].id
    return InvalidError(
        f"the job {name!r} {message}",
        source=read.workflow.source,
        line=read.line(name),
        hint=hint,
    )


def _claim_fault(
    components: Components, mask: int, catalog: Catalog, settings: Settings
) -> tuple[str, str | None] | None:
    """The reason why a job can never be placed, and a hint; None if the job can be placed."""
    names = [site.name for site in catalog.sites]
    widths = (f"{s.name}: {width_of(s, components.ppn)}" for s in catalog.sites)
    offer = f"a component can have: {', '.join(widths)}"
    if not components.splits and settings.place == "wf":
        return "is to be divided, which worst fit does not", "--place fcm or ca divides jobs."
    for part in (part for split in components.splits for part in split):
        if part.site is not None and part.site not in names:
            return f"has a component at {part.site!r}", nearest(part.site, names, "Sites")
        places = [s for s in catalog.sites if part.site in (None, s.name)]
        widest = max(width_of(site, components.ppn) for site in places)
        if part.size > widest:
            where = "every site" if part.site is None else part.site
            return f"has a component of {part.size} processors, wider than {where}", offer
    idle = IdleProcessors(site.slots for site in catalog.sites)
    request = divided_request(components, catalog.sites, mask)
    links = node_links_of(catalog.sites, settings.metric) if settings.place == "ca" else None
    if place(request, idle, settings.place or "", links) is None:
        return f"asks for {components.size} processors, which no division over the sites has", offer
    return None
