"""Pegasus 5 workflows (YAML).

Source: Pegasus 5.0 schemas workflow.yml, rc.yml, tc.yml and common.yml, and its user guide,
"Workflow API" and "Catalogs". The reader takes jobs, their files, arguments, streams and profiles,
the dependencies, the replica and transformation catalogs (inline or as ``$ref`` to a local file),
their containers, and sub-workflows (``pegasusWorkflow``). It ignores site catalog, hooks and
metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wfrun.engine.fitting.containers import Container
from wfrun.parsers.containers import to_checksum, to_image, to_mount
from wfrun.parsers.file_urls import scheme_of
from wfrun.parsers.syntax.yaml_document import YamlDocument, read_yaml
from wfrun.parsers.workflows.catalogs import (
    PhysicalNames,
    TransformationCatalog,
    find_subworkflow,
    local_path,
    use_catalog_entry,
)
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import Draft, EdgeDraft, FileUse, SubworkflowDraft, TaskDraft
from wfrun.parsers.workflows.profiles import Profiles, profile_key

Where = tuple[str | int, ...]
"""The path of a part of the document: keys and indices."""


def read_pegasus5(document: Document, path: Path) -> Iterator[Draft]:
    """Read the document at ``path``.

    Raises InvalidError, with the line, for a document that is not YAML, is not a workflow, or is
    refused.
    """
    data = read_yaml(path)
    value = data.value
    if not isinstance(value, dict) or not ("pegasus" in value or "jobs" in value):
        document.refuse(
            "not a workflow",
            data.line(),
            "A Pegasus 5 workflow is a mapping with the keys pegasus, name and jobs.",
        )
    yield from _Pegasus5Reader(document, data, path).read()


class _Part:
    """A mapping of the document, with checked access to its keys."""

    def __init__(self, reader: _Pegasus5Reader, value: dict[Any, Any], where: Where) -> None:
        self.reader = reader
        self.value = value
        self.where = where

    def line(self, *steps: str | int) -> int:
        return self.reader.data.line(*self.where, *steps)

    def text(self, key: str) -> str | None:
        """A scalar as text; None where the key is absent."""
        value = self.value.get(key)
        return None if value is None else self.reader.text(value, (*self.where, key))

    def need(self, key: str, what: str) -> str:
        text = self.text(key)
        if not text:
            self.reader.refuse(f"{what} without {key}:", self.line())
        return text

    def parts(self, key: str) -> Iterator[_Part]:
        """Yield the mappings in the list under ``key``; none if the key is absent."""
        for index, item in enumerate(self.list(key)):
            where = (*self.where, key, index)
            if not isinstance(item, dict):
                self.reader.refuse(f"{key}: a mapping is wanted here", self.line(key, index))
            yield _Part(self.reader, item, where)

    def part(self, key: str) -> _Part | None:
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.reader.refuse(f"{key}: must be a mapping", self.line(key))
        return _Part(self.reader, value, (*self.where, key))

    def list(self, key: str) -> list[Any]:
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.reader.refuse(f"{key}: must be a list", self.line(key))
        return value

    def flag(self, key: str) -> bool | None:
        value = self.value.get(key)
        if value is not None and not isinstance(value, bool):
            self.reader.refuse(f"{key}: must be true or false", self.line(key))
        return value


class _Pegasus5Reader:
    def __init__(self, document: Document, data: YamlDocument, path: Path) -> None:
        self.document = document
        self.refuse = document.refuse
        self.data = data
        self._directory = path.parent
        self._transformations = TransformationCatalog()
        self._pfns: dict[str, PhysicalNames] = {}
        self._env: dict[str, str] = {}

    def read(self) -> Iterator[Draft]:
        """Yield all tasks, sub-workflows and edges of the document."""
        root = _Part(self, self.data.value, ())
        self.document.name = root.text("name") or self.document.name
        self._env = _env_of(self._profiles(root))
        for key in ("replicaCatalog", "transformationCatalog"):
            self._catalog(root, key)
        for job in root.parts("jobs"):
            yield self._job(job)
        for edge in root.parts("jobDependencies"):
            parent = edge.need("id", "a dependency")
            for index, child in enumerate(edge.list("children")):
                where = (*edge.where, "children", index)
                yield EdgeDraft(self.text(child, where), [parent], self.data.line(*where))

    def text(self, value: object, where: Where) -> str:
        """Convert a scalar to text, as it appears in a command or a name."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            self.refuse(f"{where[-1]}: text is wanted here", self.data.line(*where))
        return str(value)

    # Catalogs.

    def _catalog(self, root: _Part, key: str) -> None:
        """Read a catalog that is in the document itself, or in the local file that ``$ref``
        names."""
        catalog = root.part(key)
        if catalog is None:
            return
        reference = catalog.text("$ref")
        if reference is None:
            self._entries(catalog)
            return
        if scheme_of(reference) not in ("", "file"):
            self.document.warn(f"{key} that is elsewhere, not read", catalog.line("$ref"))
            return
        path = self._directory / (local_path(reference, self._directory) or reference)
        if not path.is_file():
            self.refuse(
                f"{key}: the file {reference} is not there",
                catalog.line("$ref"),
                f"It was looked for at {path}.",
            )
        outer, self.data = self.data, read_yaml(path)
        self.document.source = self.data.source
        if not isinstance(self.data.value, dict):
            self.refuse(f"not a {key}", self.data.line())
        self._entries(_Part(self, self.data.value, ()))
        self.data = outer
        self.document.source = outer.source

    def _entries(self, catalog: _Part) -> None:
        containers = {
            part.need("name", "a container"): part for part in catalog.parts("containers")
        }
        for replica in catalog.parts("replicas"):
            name = replica.need("lfn", "a replica")
            names = self._pfns.setdefault(name, PhysicalNames())
            for pfn in replica.parts("pfns"):
                names.places.append((pfn.text("site") or "local", pfn.need("pfn", "a replica")))
            url = names.url(self._directory)
            if url is not None:
                self.document.add_url(name, url)
                self.document.add_sources(name, names.sources(self._directory))
            if replica.flag("regex"):
                self.document.warn("replica catalog entry with regex, not read", replica.line())
            self._checksum(replica, name)
        for transformation in catalog.parts("transformations"):
            key = (
                transformation.text("namespace"),
                transformation.need("name", "a transformation"),
                transformation.text("version"),
            )
            entry = self._transformations.entry(key)
            entry.env.update(_env_of(self._profiles(transformation)))
            for site in transformation.parts("sites"):
                place = (site.text("name") or "local", site.need("pfn", "a site of it"))
                entry.places.append(place)
                entry.is_staged = entry.is_staged or site.text("type") == "stageable"
                named = site.text("container")
                if named is not None and named not in containers:
                    self.refuse(f"there is no container {named!r}", site.line("container"))
                if named is not None and entry.container is None:
                    entry.container = self._container(containers[named])
                    entry.env = {**_env_of(self._profiles(containers[named])), **entry.env}

    def _checksum(self, replica: _Part, name: str) -> None:
        checksum = replica.part("checksum")
        sha256 = None if checksum is None else checksum.text("sha256")
        if checksum is None or sha256 is None:
            return
        try:
            self.document.checksums.setdefault(name, to_checksum(sha256))
        except ValueError as error:
            self.refuse(f"checksum of {name}: {error}", checksum.line("sha256"))

    def _container(self, part: _Part) -> Container:
        """A container of the transformation catalog. Its ``type`` is ignored, since the image
        implies it."""
        checksum = part.part("checksum")
        sha256 = None if checksum is None else checksum.text("sha256")
        key = "image"
        try:
            image = to_image(part.need(key, "a container"))
            key = "checksum"
            digest = "" if sha256 is None else to_checksum(sha256)
            key = "mounts"
            mounts = tuple(map(to_mount, part.list(key)))
        except ValueError as error:
            self.refuse(f"{key} of a container: {error}", part.line(key))
        return Container(image, sha256=digest, mounts=mounts)

    # Jobs.

    def _job(self, job: _Part) -> TaskDraft | SubworkflowDraft:
        kind = job.text("type") or "job"
        node = job.need("id", "a job")
        if kind == "pegasusWorkflow":
            return self._subworkflow(job, node)
        if kind == "job":
            return self._task(job, node)
        known = "Types that are read: job, pegasusWorkflow."
        files = "DAGMan files are not read" if kind == "condorWorkflow" else "unknown"
        return self.refuse(f"job {node} of type {kind}: {files}", job.line("type"), known)

    def _subworkflow(self, job: _Part, node: str) -> SubworkflowDraft:
        name = job.need("file", "a sub-workflow")
        places, line = self._pfns.get(name), job.line("file")
        return find_subworkflow(self.document, node, name, places, self._directory, line)

    def _task(self, job: _Part, node: str) -> TaskDraft:
        name = job.need("name", f"job {node}")
        inputs: list[FileUse] = []
        outputs: list[FileUse] = []
        for use in job.parts("uses"):
            self._use(use, inputs, outputs)
        where = (*job.where, "arguments")
        draft = TaskDraft(
            id=node,
            name=name,
            executable=f"./{name}",
            arguments=tuple(
                self.text(argument, (*where, index))
                for index, argument in enumerate(job.list("arguments"))
            ),
            inputs=inputs,
            outputs=outputs,
            stdin=job.text("stdin"),
            stdout=job.text("stdout"),
            stderr=job.text("stderr"),
            line=job.line(),
        )
        if not any(use.executable and use.name == name for use in inputs):
            draft.executable = name
            key = (job.text("namespace"), name, job.text("version"))
            entry = self._transformations.find(key)
            if entry is not None:
                use_catalog_entry(self.document, entry, draft, self._directory, job.line())
        profiles = self._profiles(job)
        requests = self.document.requests(profiles, job.line())
        # The catalog's profiles take precedence over the document's (user guide, "Profiles
        # Conflict Resolution").
        draft.env = {**self._env, **(requests.env or {}), **(draft.env or {})} or None
        draft.resources, draft.priority = requests.resources, requests.priority
        draft.container = draft.container or requests.container
        if requests.runtime_s is not None:
            draft.runtime_s = self.document.runtime(requests.runtime_s, job.line())
        return draft

    def _use(self, use: _Part, inputs: list[FileUse], outputs: list[FileUse]) -> None:
        name = use.need("lfn", "a use")
        kind = use.need("type", f"use of {name}")
        size: Any = use.value.get("size")
        metadata = use.part("metadata")
        if size is None and metadata is not None:
            size = metadata.value.get("size")
        size_bytes = None
        if size is not None:
            text = self.text(size, (*use.where, "size"))
            size_bytes = self.document.size(text, use.line())
        optional = use.flag("optional") or False
        if kind == "input":
            executable = use.flag("executable") or False
            inputs.append(FileUse(name, size_bytes, optional, executable))
        elif kind == "output":
            outputs.append(FileUse(name, size_bytes, optional, False, use.flag("stageOut")))
        elif kind == "checkpoint":
            self.document.warn("checkpoint file, not kept between attempts", use.line())
        else:
            self.refuse(
                f"use of {name}: unknown type {kind}",
                use.line("type"),
                "It is input, output or checkpoint.",
            )

    def _profiles(self, part: _Part) -> Profiles:
        profiles: Profiles = {}
        spaces = part.part("profiles")
        for space in spaces.value if spaces is not None else ():
            keys = spaces.part(space) if spaces is not None else None
            for key, value in keys.value.items() if keys is not None else ():
                text = self.text(value, (*part.where, "profiles", space, key))
                profiles[profile_key(str(space), str(key))] = text
        return profiles


def _env_of(profiles: Profiles) -> dict[str, str]:
    return {key: text for (space, key), text in profiles.items() if space == "env"}
