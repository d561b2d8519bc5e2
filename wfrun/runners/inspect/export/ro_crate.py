"""A workflow of a run as a Workflow Run RO-Crate: what was run, by whom, what it read and wrote,
and what failed.

Sources: RO-Crate Metadata Specification 1.1; Workflow Run Crate and Process Run Crate 0.5
(w3id.org/ro/wfrun); Workflow RO-Crate 1.0. The workflow file in the crate is in WfFormat, and has
the graph as it was run. The user's document is not included, because it may have changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wfrun.engine.core.state import WorkflowState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.parsers.atomic import replacing
from wfrun.parsers.file_urls import shown_url
from wfrun.runners.inspect.export.attempts import AttemptRecord, RunAttempts
from wfrun.runners.inspect.export.wfformat import export_wfformat
from wfrun.runners.inspect.tables.results import owner_of
from wfrun.runners.run.files.output_paths import OutputPaths

METADATA, WORKFLOW = "ro-crate-metadata.json", "workflow.json"
_CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": "https://schema.org/sha256"},
]
_CRATE = "https://w3id.org/ro/crate/1.1"
_WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    _WORKFLOW_CRATE: ("Workflow RO-Crate", "1.0"),
}
_BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
_DONE = "http://schema.org/CompletedActionStatus"
_FAILED = "http://schema.org/FailedActionStatus"
_ACTIVE = "http://schema.org/ActiveActionStatus"
_MAX_TEXT = 10_000
"""Maximum number of characters of a command or of the message of a failure."""
_URI = ";/?:@&=+$,%#~!*'()"
"""Characters of a URL that stay as they are."""

Entity = dict[str, Any]


def export_ro_crate(read: RunAttempts, w: WorkflowState, path: Path) -> list[str]:
    """Write the crate of a workflow of a run: a zip file if ``path`` has that suffix, otherwise a
    folder. Returns the facts for which a crate has no place.

    Raises InvalidError for a folder that has files and is no crate, and InvalidError or
    InfeasibleError if the crate cannot be written.
    """
    if path.suffix.lower() != ".zip":
        return _write_folder(read, w, path)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            losses = _write_folder(read, w, Path(folder) / "crate")
            draft = Path(folder) / "draft"
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in (METADATA, WORKFLOW):
                    archive.write(Path(folder) / "crate" / name, name)
            os.replace(draft, path)
    except OSError as error:
        raise InfeasibleError(f"{path} cannot be written: {error.strerror or error}") from error
    return losses


def _write_folder(read: RunAttempts, w: WorkflowState, folder: Path) -> list[str]:
    try:
        folder.mkdir(exist_ok=True)
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InfeasibleError(f"{folder} cannot be written: {error.strerror or error}") from error
    if names and METADATA not in names:
        raise InvalidError(
            f"the folder {folder} has other files and is no crate",
            hint="name one that does not exist, or a file that ends with .zip",
        )
    losses = export_wfformat(read, w, folder / WORKFLOW)
    crate = _Crate(read, w, (folder / WORKFLOW).read_bytes())
    with replacing(folder / METADATA) as stream:
        stream.write(f'{{"@context": {json.dumps(_CONTEXT)},\n"@graph": [\n')
        separator = ""
        for entity in crate.entities():
            stream.write(separator + json.dumps(entity))
            separator = ",\n"
        stream.write("\n]}\n")
    if crate.open:
        losses.append(f"attempts that have not ended, left out: {crate.open:,}")
    return losses


class _Crate:
    """Makes the entities of a crate."""

    def __init__(self, read: RunAttempts, w: WorkflowState, document: bytes) -> None:
        self._read, self._w, self._document = read, w, document
        attempts = [a for a in read.attempts if a.workflow == w.index]
        self._attempts = [a for a in attempts if not a.is_open]
        self.open = len(attempts) - len(self._attempts)
        """Number of attempts that have not ended."""
        self._outputs = OutputPaths(read.run, several=read.state.expected != 1)
        self._programs: dict[str, int] = {}
        self._namespace = uuid.uuid5(uuid.NAMESPACE_OID, f"{read.state.run_id}.{w.index}")
        files: dict[int, None] = {}
        for task in w.workflow.tasks:
            self._programs.setdefault(task.name, len(self._programs))
            files.update(dict.fromkeys((*task.inputs, *task.outputs)))
        self._ids = {file: self._file_id(file) for file in files}

    def entities(self) -> Iterator[Entity]:
        yield {
            "@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"},
            "conformsTo": [{"@id": _CRATE}, {"@id": _WORKFLOW_CRATE}],
        }  # fmt: skip
        yield self._root()
        for profile, (name, number) in _PROFILES.items():
            yield {"@id": profile, "@type": "CreativeWork", "name": name, "version": number}
        yield {"@id": _BIOSCHEMAS, "@type": "CreativeWork", "name": "ComputationalWorkflow profile"}
        yield self._workflow()
        yield {
            "@id": "#wfformat", "@type": "ComputerLanguage", "name": "WfFormat", "version": "1.5",
            "identifier": {"@id": "https://github.com/wfcommons/WfFormat"},
            "url": {"@id": "https://github.com/wfcommons/WfFormat"},
        }  # fmt: skip
        yield {
            "@id": "#wfrun", "@type": "SoftwareApplication", "name": "wfrun",
            "softwareVersion": self._read.wfrun_version,
        }  # fmt: skip
        yield {"@id": "#agent", "@type": "Person", "name": owner_of(self._read.run) or "unknown"}
        for program, index in self._programs.items():
            yield {"@id": f"#program-{index}", "@type": "SoftwareApplication", "name": program}
        yield self._organized()
        yield self._run()
        yield from map(self._attempt, self._attempts)
        yield from map(self._file, self._ids)

    def _root(self) -> Entity:
        state, w = self._read.state, self._w
        actions = ["#engine", "#run", *(_action_id(a) for a in self._attempts)]
        return {
            "@id": "./",
            "@type": "Dataset",
            "name": f"{w.workflow.name or 'workflow'}, run {self._read.run.name}",
            "description": f"Run of a workflow: {self._read.word}, {w.done} of {len(w.status)} "
            f"tasks done at {', '.join(site.spec.name for site in state.sites)}",
            "datePublished": _date(state.end_s),
            "license": "not stated",
            "author": {"@id": "#agent"},
            "conformsTo": [{"@id": profile} for profile in _PROFILES],
            "mainEntity": {"@id": WORKFLOW},
            "hasPart": [{"@id": WORKFLOW}, *({"@id": file} for file in self._ids.values())],
            "mentions": [{"@id": action} for action in actions],
        }

    def _workflow(self) -> Entity:
        digest = hashlib.sha256(self._document).hexdigest()
        return {
            "@id": WORKFLOW,
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "name": self._w.workflow.name or "workflow",
            "description": "The tasks of the workflow, their files and order, as they were run",
            "conformsTo": {"@id": _BIOSCHEMAS},
            "encodingFormat": "application/json",
            "programmingLanguage": {"@id": "#wfformat"},
            "version": digest[:16],
            "contentSize": str(len(self._document)),
            "sha256": digest,
            "hasPart": [{"@id": f"#program-{index}"} for index in self._programs.values()],
        }

    def _organized(self) -> Entity:
        return {
            "@id": "#engine", "@type": "OrganizeAction", "instrument": {"@id": "#wfrun"},
            "name": f"wfrun {self._read.wfrun_version}", "agent": {"@id": "#agent"},
            "description": f"placement policy {self._read.state.settings.policy}",
            "result": {"@id": "#run"},
        }  # fmt: skip

    def _run(self) -> Entity:
        w, word = self._w, self._read.word
        files = w.workflow.files
        action: Entity = {
            "@id": "#run",
            "@type": "CreateAction",
            "name": f"run {self._read.run.name}",
            "description": f"wfrun placed {len(w.status)} tasks at the sites of its catalog",
            "instrument": {"@id": WORKFLOW},
            "agent": {"@id": "#agent"},
            "startTime": _date(w.added_s),
            "object": self._refs(file for file in self._ids if files[file].producer is None),
            "result": self._refs(
                file for file in self._ids if files[file].collect and self._is_written(file)
            ),
        }
        if w.open and word == "running":
            return action | {"actionStatus": _ACTIVE}
        action["endTime"] = _date(self._read.state.end_s if w.ended_s is None else w.ended_s)
        if w.done == len(w.status):
            return action | {"actionStatus": _DONE}
        left = len(w.status) - w.done
        error = f"{word}: {left} of {len(w.status)} tasks are not done, {w.failed} failed"
        return action | {"actionStatus": _FAILED, "error": error}

    def _attempt(self, a: AttemptRecord) -> Entity:
        task = self._w.workflow.tasks[a.task]
        site, files = self._read.state.sites[a.site].spec.name, self._w.workflow.files
        number = self._programs[task.name]
        action: Entity = {
            "@id": _action_id(a),
            "@type": "CreateAction",
            "name": f"{task.id}, attempt {a.number}",
            "description": shlex.join((task.executable, *task.arguments))[:_MAX_TEXT],
            "instrument": {"@id": f"#program-{number}"},
            "agent": {"@id": "#agent"},
            "location": f"{site}, {a.host}" if a.host else site,
            "object": self._refs(f for f in task.inputs if self._is_there(f)),
        }
        if a.started_s is not None:
            action["startTime"] = _date(a.started_s)
        if a.ended_s is not None:
            action["endTime"] = _date(a.ended_s)
        if a.state == "done":
            written = self._refs(f for f in task.outputs if files[f].producer == a.task)
            return action | {"result": written, "actionStatus": _DONE}
        message = "" if a.outcome is None else a.outcome.message or ""
        error = f"{a.state}: {message}" if message else a.state
        return action | {"actionStatus": _FAILED, "error": error[:_MAX_TEXT]}

    def _file(self, file: int) -> Entity:
        record, size_bytes = self._w.workflow.files[file], self._w.sizes[file]
        kind = guess_type(record.name)[0] or "application/octet-stream"
        entity: Entity = {
            "@id": self._ids[file], "@type": "File", "name": record.name, "encodingFormat": kind,
        }  # fmt: skip
        if size_bytes >= 0:
            entity["contentSize"] = str(size_bytes)
        sha256 = self._w.digests.get(file) or record.sha256
        if sha256 is not None:
            entity["sha256"] = sha256
        return entity

    def _refs(self, files: Iterator[int]) -> Entity | list[Entity]:
        """References to files. A single reference is no list, as in compacted JSON-LD."""
        found = [{"@id": self._ids[file]} for file in files]
        return found[0] if len(found) == 1 else found

    def _is_written(self, file: int) -> bool:
        producer = self._w.workflow.files[file].producer
        return producer is not None and self._read.is_done(self._w.index, producer)

    def _is_there(self, file: int) -> bool:
        return self._w.workflow.files[file].producer is None or self._is_written(file)

    def _file_id(self, file: int) -> str:
        """The URI of a file: the URI of its place if the place is known, otherwise a UUID made from
        the run and the file."""
        record = self._w.workflow.files[file]
        if record.producer is not None and record.collect:
            path = self._outputs.path(self._w.workflow, self._w.index, file)
            return path.as_uri() if self._is_written(file) else self._own_id(file)
        if record.producer is None and record.url:
            if record.url.startswith("/"):
                return Path(record.url).as_uri()
            if record.url.startswith(("http://", "https://", "ftp://", "sftp://", "file:///")):
                return quote(shown_url(record.url), safe=_URI)
        return self._own_id(file)

    def _own_id(self, file: int) -> str:
        return uuid.uuid5(self._namespace, str(file)).urn


def _action_id(attempt: AttemptRecord) -> str:
    return f"#attempt-{attempt.key}"


def _date(at_s: float) -> str:
    """The time in ISO 8601, UTC, as the profiles require. Times outside the years 1970 to 9999 are
    replaced by the nearest time in them."""
    at_s = min(max(at_s, 0.0), 253402300799.0)
    return datetime.fromtimestamp(at_s, timezone.utc).isoformat(timespec="milliseconds")
