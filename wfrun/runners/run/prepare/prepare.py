"""Prepares a run that can start, from documents and options.

All errors of the user's input are found here, before anything is started. Each document passes four
stages, each with its own record: *read* (`ReadDocument`), *resolve* (`ResolvedDocument`), *check*
(`CheckedDocument`) and *build* (`Plan`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.engine.policies.selection import selection_class
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.formats import has_commands, line_formats, may_be_table, titles
from wfrun.parsers.input_catalog import read_input_catalog
from wfrun.parsers.read import ReadDocument, read_document
from wfrun.parsers.syntax.yaml_document import read_yaml
from wfrun.runners.run.prepare.checks import CheckedDocument, check
from wfrun.runners.run.prepare.owners import with_owner
from wfrun.runners.run.prepare.resolve import resolve
from wfrun.runners.run.prepare.scaling import emulated
from wfrun.runners.run.prepare.scavenging import check_options, scavengeable


class Plan(msgspec.Struct, frozen=True):
    """A run that can start: checked workflows, sites and settings."""

    workflows: list[Workflow]
    catalog: Catalog
    settings: Settings
    warnings: tuple[str, ...]


def this_machine() -> Catalog:
    """The catalog of a run without ``--sites``: one local site with all cores."""
    slots = len(os.sched_getaffinity(0))
    return Catalog((SiteSpec("local", slots=slots),))


def prepare(
    documents: Sequence[Path | Workflow | ReadDocument],
    catalog: Catalog,
    settings: Settings,
    *,
    inputs: Path | None = None,
    at_sites: bool = False,
    template: LineTemplate | None = None,
    owner: str = "",
    needs_files: bool = True,
    as_jobs: bool = False,
) -> Plan:
    """Take documents through the four stages.

    ``needs_files`` False, as in a simulation: missing inputs and executables are only warnings, and
    parallel jobs need run times. ``at_sites``: emulated tasks run at the catalog's clusters, not at
    local sites that stand in for them. ``template``: for tables and lists of commands. ``owner``:
    owner of the documents, none of which may name another owner. ``as_jobs``: see `check`.

    Raises InvalidError for the first invalid document, for a task that fits no site, and for
    contradictory settings. One error names all missing inputs of a document, and one error all its
    missing executables.
    """
    policy = placement_class(settings.policy)
    placement_options(policy, settings.policy_options)
    if not documents:
        raise InvalidError("there is no workflow to run")
    if settings.scavenge:
        check_options(settings)
        catalog, at_sites = scavengeable(catalog), True
    if settings.emulate:
        catalog = emulated(catalog, settings.time_scale, at_sites=at_sites)
    checked = check_documents(
        documents, catalog, settings, inputs=inputs, template=template, owner=owner,
        needs_files=needs_files, as_jobs=as_jobs,
    )  # fmt: skip
    return _build(checked, catalog, settings)


def check_documents(
    documents: Sequence[Path | Workflow | ReadDocument],
    catalog: Catalog,
    settings: Settings,
    *,
    inputs: Path | None = None,
    template: LineTemplate | None = None,
    owner: str = "",
    needs_files: bool = True,
    as_jobs: bool = False,
) -> list[CheckedDocument]:
    """Read, resolve and check documents for the sites of a run. Arguments and errors are those of
    `prepare`."""
    policy = placement_class(settings.policy)
    if template is not None:
        _check_template(template, [d for d in documents if isinstance(d, Path)])
    input_catalog = None
    if settings.input_catalog and not settings.emulate:
        input_catalog = read_input_catalog(Path(settings.input_catalog))
    now_s = time.time() if needs_files else None
    checked: list[CheckedDocument] = []
    for read in _read(documents, settings, template):
        if owner:
            read = with_owner(read, owner)
        found = resolve(read, catalog, settings, inputs, input_catalog, needs_files=needs_files)
        checked.append(
            check(
                found, catalog, settings, policy,
                as_jobs=as_jobs, timed=not needs_files, now_s=now_s,
            )
        )  # fmt: skip
    return checked


def _read(
    documents: Sequence[Path | Workflow | ReadDocument],
    settings: Settings,
    template: LineTemplate | None,
) -> Iterator[ReadDocument]:
    """Read documents one at a time. A workflow or a document that is already read is passed on."""
    for document in documents:
        if isinstance(document, Path):
            yield from read_document(document, emulate=settings.emulate, template=template)
        else:
            yield ReadDocument(document) if isinstance(document, Workflow) else document


def _build(checked: Sequence[CheckedDocument], catalog: Catalog, settings: Settings) -> Plan:
    workflows = [each.workflow for each in checked]
    if (
        settings.input_catalog
        and not settings.emulate
        and all(workflow.bag is not None for workflow in workflows)
    ):
        raise InvalidError("--input-catalog has no effect: bags name the paths of their inputs")
    settings = with_selection(settings, workflows, catalog)
    warnings = tuple(warning for each in checked for warning in each.warnings)
    return Plan(workflows, catalog, settings, warnings)


def _check_template(template: LineTemplate, paths: Sequence[Path]) -> None:
    """Raise InvalidError if the template applies to none of the documents."""
    if template.command is not None:
        if not any(map(may_be_table, paths)):
            raise InvalidError(
                "--command is for the rows of tables, and no document is one",
                hint="The command of a YAML document stands in it. The names of tables end with "
                ".csv, .tsv or .txt.",
            )
    elif not any(map(has_commands, paths)):
        raise InvalidError(
            "--input, --output, --stdout and --estimate are for documents whose lines are tasks, "
            "and no document is one",
            hint=f"These are {titles(line_formats())}. In a YAML document the options are keys.",
        )


def with_selection(settings: Settings, workflows: Sequence[Workflow], catalog: Catalog) -> Settings:
    """Return the settings, with the selection policy ``s-bot`` (one bag after another) if a
    workflow is a bag and the settings name no selection policy.

    With ``scavenge`` the settings are unchanged, because launchers pull tasks. Raises InvalidError
    for an unknown selection policy, and if the sites have too few cores for a task and its
    replicas.
    """
    if settings.scavenge:
        return settings
    if settings.selection:
        _check_selection(settings.selection)
    elif any(workflow.bag is not None for workflow in workflows):
        settings = msgspec.structs.replace(settings, selection="s-bot")
    if settings.replicas:
        _check_replicas(settings.replicas, workflows[0].source, catalog)
    return settings


def _check_selection(name: str) -> None:
    try:
        selection_class(name)
    except InvalidError as error:
        raise InvalidError(error.message, source="--selection", hint=error.hint) from error


def _check_replicas(replicas: int, document: str, catalog: Catalog) -> None:
    """Raise InvalidError if the sites have too few cores to run a task and all of its replicas at
    the same time."""
    cores = sum(site.slots for site in catalog.sites)
    if replicas < cores:
        return
    path = Path(catalog.source) if catalog.source is not None else None
    raise InvalidError(
        f"--replicas is {replicas}, but the sites have {cores} core{'s' * (cores != 1)} in all",
        source=document if path is None else str(path),
        line=read_yaml(path).line("sites") if path is not None and path.is_file() else None,
        hint=f"A task and its replicas hold at least a core each: at most {cores - 1} replicas.",
    )
