"""Requests of the user to add documents to a run, one file each in the folder ``additions`` of the
run directory.

The user's process checks the documents as at the start of a run, and writes the workflows to the
file of a request. The file is durable before the user is answered. If an engine drives the run, it
takes the request at once, otherwise the next engine takes it when the run is resumed. The engine
stores the workflows, posts their events, and removes the file once the events are in the log. If
the engine dies before that, the file is still there, so that the request is not lost. Each event
names its request, so that no engine adds a workflow twice. If the engine refuses a request, it
replaces the file by one with the reason.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.engine.model import Catalog, Workflow
from wfrun.parsers.atomic import drafted
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.directory.run_directory import RunDir, is_driven
from wfrun.runners.run.files.output_paths import workflow_folder
from wfrun.runners.run.prepare.owners import check_owner
from wfrun.runners.run.prepare.prepare import check_documents
from wfrun.runners.run.prepare.prepare_jobs import has_parallel_jobs, read_job_documents
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import digest_of, encode_workflow
from wfrun.sites.transfers.local.disk import sync_folder

SUFFIX = ".addition"
"""Suffix of the file of a request to add documents."""
REFUSED = ".refused"
"""Suffix of the file that replaces the file of a refused request, and holds the reason."""
MAX_FILES = 1_000_000
"""Maximum number of files of a run's first document for which `check_addition` compares its outputs
with the output folder of a further document. The check then takes at most a second."""
POLL_S = 0.05
"""Interval at which a writer checks whether its request was taken, in seconds."""


class CheckedAddition(msgspec.Struct, frozen=True):
    """Workflows that can join a run, with warnings for the user."""

    workflows: tuple[Workflow, ...]
    warnings: tuple[str, ...]


def check_addition(
    state: RunState,
    run: RunDir,
    documents: Sequence[Path | Workflow],
    *,
    owner: str = "",
    inputs: Path | None = None,
    template: LineTemplate | None = None,
) -> CheckedAddition:
    """Check documents that are to join a run, as at the start of a run, with the run's present
    options and sites. Raises InvalidError if a document is invalid, or cannot join the run."""
    if owner:
        check_owner(owner)
    refuse_ended(state, run)
    settings = state.settings
    if settings.pack is not None:
        raise InvalidError(
            f"the run {run.name} packs its jobs into one allocation, and takes no others",
            hint="a further run takes them: `wfrun jobs --pack`",
        )
    left = state.left_sites
    specs = tuple(site.spec for n, site in enumerate(state.sites) if n not in left)
    as_jobs = has_parallel_jobs(state)
    read: Sequence[Path | Workflow | ReadDocument] = documents
    if as_jobs:
        paths = [document for document in documents if isinstance(document, Path)]
        read = read_job_documents(paths, synthetic=settings.emulate).read
    checked = check_documents(
        read, Catalog(specs, state.links), settings,
        inputs=inputs, template=template, owner=owner, as_jobs=as_jobs,
    )  # fmt: skip
    workflows = tuple(each.workflow for each in checked)
    known = digests_of(state)
    for number, workflow in enumerate(workflows):
        refuse_known(workflow, digest_of(workflow), known)
        known[digest_of(workflow)] = len(state.workflows) + number
    _check_folders(state, workflows)
    warnings = tuple(warning for each in checked for warning in each.warnings)
    return CheckedAddition(workflows, warnings)


def refuse_ended(state: RunState, run: RunDir) -> None:
    """Raise InvalidError if all tasks of a run are done. A run that was cancelled, or that failed,
    can be resumed."""
    if state.ended == "done":
        raise InvalidError(
            f"the run {run.name} has ended: all its documents are done",
            hint="`wfrun run` starts a new run of the document; `--reuse` takes over what this one "
            "has done",
        )


def digests_of(state: RunState) -> dict[str, int]:
    """Map the digest of each workflow of a run to its number. Equal workflows map to their lowest
    number."""
    digests = {id(workflow): digest for digest, workflow in state.documents.items()}
    found: dict[str, int] = {}
    for w in state.workflows:
        found.setdefault(digests[id(w.workflow)], w.index)
    return found


def refuse_known(workflow: Workflow, digest: str, known: Mapping[str, int]) -> None:
    """Raise InvalidError if the run already has this workflow: the same document, name and
    owner."""
    if digest not in known:
        return
    of = f" of {name_line(workflow.owner)}" if workflow.owner else ""
    what = "bag" if workflow.bag is not None else "document"
    raise InvalidError(
        f"the run has the {what} {name_line(workflow.name)}{of} already, as its number "
        f"{known[digest]}",
        source=workflow.source,
        hint="to run it once more, give it another name or another owner",
    )


def _check_folders(state: RunState, workflows: Iterable[Workflow]) -> None:
    """Raise InvalidError if a workflow would write to a folder that is part of the first workflow's
    outputs. This can happen only if the run began with one workflow, whose outputs use the whole
    output folder."""
    if state.expected != 1 or not state.workflows:
        return
    first = state.workflows[0].workflow
    if len(first.files) > MAX_FILES:
        return
    taken = {
        (file.url or file.name).partition("/")[0]
        for file in first.files
        if file.collect and file.producer is not None
    }
    for number, workflow in enumerate(workflows, len(state.workflows)):
        folder = workflow_folder(workflow, number)
        if folder in taken:
            raise InvalidError(
                f"its outputs would be in the folder {folder}, which the first document of the run "
                "writes",
                source=workflow.source,
                hint="give it another name",
            )


def write_addition(run: RunDir, workflows: Sequence[Workflow]) -> Path:
    """Write the file of a request durably, readable by its owner only. Raises InfeasibleError if
    the file cannot be written."""
    path = run.additions / f"{time.time_ns():020}-{os.getpid()}{SUFFIX}"
    try:
        if not run.additions.is_dir():
            run.additions.mkdir(mode=0o700, exist_ok=True)
            sync_folder(run.path)
        with drafted(path, 0o600) as stream:
            stream.write(msgspec.msgpack.encode([encode_workflow(w)[1] for w in workflows]))
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(run.additions)
    except OSError as error:
        raise InfeasibleError(f"the request cannot be written: {error}") from error
    return path


def await_answer(run: RunDir, written: Path) -> bool:
    """Wait until an engine has taken a request. Returns False if no engine drives the run: the
    request then waits for `wfrun resume`. Raises InvalidError if the engine refused the request, or
    if all tasks of the run are done; in this case the request is withdrawn."""
    while written.exists():
        if not is_driven(run):
            state = read_state(run)
            if f"{written.stem}.0" in state.requests:
                break  # The engine died before it removed the file; the next one does.
            if state.ended == "done":  # No engine drives it again.
                written.unlink(missing_ok=True)
                refuse_ended(state, run)
            return False
        time.sleep(POLL_S)
    reason = written.with_suffix(REFUSED)
    try:
        text = reason.read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    reason.unlink(missing_ok=True)
    raise InvalidError(text)


def effect(run: RunDir, workflows: Sequence[Workflow], *, taken: bool) -> Iterable[str]:
    """Describe the effect of a request for the user, one line for each workflow."""
    for workflow in workflows:
        what = "bag" if workflow.bag is not None else "document"
        of = f" of {name_line(workflow.owner)}" if workflow.owner else ""
        count = len(workflow.tasks)
        tasks = f"{count:,} task{'s' * (count != 1)}"
        yield f"added the {what} {name_line(workflow.name)}{of} with {tasks} to {run.name}"
    if not taken:
        command = command_line("wfrun", "resume", run.path)
        yield f"the run is not running; they begin when it goes on: {command}"
