"""The requests that a run sends to sites to run attempts, and the names of its files at each
site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.capabilities.attempt_claims import attempt_claim
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.growing.grown import is_malleable
from wfrun.engine.capabilities.health import Health
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.exchange import AttemptRequest, Content, InputLink, Outcome, OutputFile
from wfrun.engine.files.file_events import original_path
from wfrun.engine.jobs.sized import at_speed, sized_words
from wfrun.engine.model import ORIGIN, SiteSpec, Task, Workflow
from wfrun.engine.tasks.attempts import variant
from wfrun.engine.tasks.bag import BagFiles
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.files.images import sha256_of_image
from wfrun.runners.run.files.output_paths import OutputPaths
from wfrun.runners.run.files.stored_names import stored_as, stored_name
from wfrun.sites.contained import contained
from wfrun.sites.local.emulate import emulated

_NO_ENV: dict[str, str] = {}
"""Shared environment of all tasks that set no variables, because a run may make hundreds of
thousands of requests."""


class AttemptRequests:
    """Makes the requests to run attempts, and names the files of a run at each site and at
    ORIGIN."""

    def __init__(self, state: RunState, run: RunDir, specs: Sequence[SiteSpec]) -> None:
        self._state = state
        self._run = run
        self._specs = specs
        self._outputs: OutputPaths | None = None

    def attempt(self, key: str, number: int, task_index: int, site: int) -> AttemptRequest:
        """The request for one attempt, without optional inputs that do not exist."""
        w = self._state.workflows[number]
        workflow, task = w.workflow, w.workflow.tasks[task_index]
        files = workflow.files

        attempt = self._state.attempts.get(key)
        claims = self._state.find(ProcessorClaims)
        claim = None if claims is None else claims.by_job.get((number, task_index))
        own = variant(key) if self._state.own_outputs else 0

        def name(file: int | None) -> str | None:
            return None if file is None else files[file].name

        resources = at_speed(w.asked(task_index), self._specs[site].speed_ratio)
        if claim is not None:
            head = claim.parts[0].request
            cores = head.cores * head.nodes
            resources = replace(resources, cores=cores, nodes=head.nodes)
        request = AttemptRequest(
            key=key,
            argv=self._command(w, task_index),
            env=task.env or _NO_ENV,
            inputs=tuple(
                InputLink(stored_as(w, f), files[f].name)
                for f in task.inputs
                if self._is_there(w, task, f)
            ),
            outputs=tuple(
                OutputFile(files[f].name, stored_name(workflow, number, f, own), f in task.optional)
                for f in task.outputs
            ),
            stdin=name(task.stdin),
            stdout=name(task.stdout),
            stderr=name(task.stderr),
            resources=resources,
            avoid_hosts=() if self._health is None else self._health.avoided_hosts(site),
            job_walltime_s=None if attempt is None else attempt.walltime_s,
            # A placeholder was requested for as long as its job may take.
            expected_s=self._expected_s(w, task_index, site) if claim is None else None,
            max_log_bytes=self._state.settings.max_log_bytes,
            environment=self._specs[site].environment,
            checksums=self._state.settings.verifies_copies,
            claim=attempt_claim(self._state, number, task_index),
            claimed=() if claim is None else claim.nodes(),
            malleable=self._state.settings.malleable is not None and is_malleable(w, task_index),
        )
        if not self._state.settings.emulate:
            return request
        return emulated(
            request,
            runtime_s=w.runtime_s(task_index) / self._specs[site].speed_ratio,
            output_sizes=[files[f].size_bytes or 0 for f in task.outputs],
        )

    def _command(self, w: WorkflowState, task: int) -> tuple[str, ...]:
        """The command of a task. The command of a moldable job includes its size."""
        record = w.workflow.tasks[task]
        words = (record.executable, *record.arguments)
        if task not in w.workflow.moldable:
            return words
        asked = w.asked(task)
        return sized_words(words, record.id, asked.cores, asked.nodes)

    def site_of(self, key: str) -> int | None:
        """The site of an attempt; None if it has ended."""
        attempt = self._state.attempts.get(key)
        return None if attempt is None else attempt.site

    def outputs(self, key: str, outcome: Outcome) -> dict[str, Content]:
        """Expected contents of the outputs of an attempt, by name in the store. Sizes and digests
        come from ``outcome``, which was read from the exit record. Empty if the log has the end of
        the attempt."""
        attempt = self._state.attempts.get(key)
        if attempt is None:
            return {}
        w = self._state.workflows[attempt.workflow]
        own = variant(key) if self._state.own_outputs else 0
        files = w.workflow.tasks[attempt.task].outputs
        digests = outcome.digests or (None,) * len(files)
        return {
            stored_name(w.workflow, w.index, file, own): Content(size, digest)
            for file, size, digest in zip(files, outcome.sizes, digests, strict=False)
            if size is not None
        }

    def stored_inputs(self, keys: Iterable[str]) -> dict[str, tuple[tuple[int, int], Content]]:
        """The inputs of open attempts that, according to the log, are in the store of the attempt's
        site. Maps each name in the store to (workflow, file) and the expected content, which has a
        digest only if ``checksums`` is ``all``."""
        by_digest = self._state.settings.checksums == "all"
        inputs: dict[str, tuple[tuple[int, int], Content]] = {}
        for attempt in map(self._state.attempts.get, keys):
            if attempt is None:
                continue
            w = self._state.workflows[attempt.workflow]
            for file in w.workflow.tasks[attempt.task].inputs:
                if w.is_stored(file, attempt.site):
                    content = w.content(file)
                    expected = content if by_digest else Content(content.size_bytes)
                    inputs[stored_as(w, file)] = (w.index, file), expected
        return inputs

    def _is_there(self, w: WorkflowState, task: Task, file: int) -> bool:
        """Whether an input exists. Raises AssertionError if a required input does not exist,
        because the task must not start without it."""
        if w.present[file]:
            return True
        record = w.workflow.files[file]
        producer = None if record.producer is None else w.workflow.tasks[record.producer]
        optional = file in task.optional or (producer is not None and file in producer.optional)
        assert optional, (
            f"task {task.id!r} of {w.workflow.source} would be started without its input "
            f"{record.name!r}, which no site has: a defect of wfrun; `wfrun resume` writes the "
            "file again"
        )
        return False

    def _expected_s(self, w: WorkflowState, task: int, site: int) -> float | None:
        """Return the time in seconds in which a launcher at the site should be done with the task
        (`Launchers.expected_s`); None if it is unknown or the site has no launchers. A launcher
        that has less time left gives the queued attempt back to the engine."""
        spec = self._specs[site]
        if self._launchers is None or spec.access is None or spec.access.launchers is None:
            return None
        return self._launchers.expected_s(w, task, site)

    @property
    def _health(self) -> Health | None:
        return self._state.find(Health)

    @property
    def _launchers(self) -> Launchers | None:
        return self._state.find(Launchers)

    def content(self, number: int, file: int) -> Content:
        """Expected content of a file, as far as the run knows it."""
        w = self._state.workflows[number]
        sha256 = sha256_of_image(w.workflow, file)
        return w.content(file) if sha256 is None else replace(w.content(file), sha256=sha256)

    def path(self, number: int, file: int, site: int) -> str:
        """Location of a file: at a site its name in the store, at ORIGIN its path, or the URL of an
        initial input."""
        workflow = self._state.workflows[number].workflow
        if site != ORIGIN:
            return stored_as(self._state.workflows[number], file)
        record = workflow.files[file]
        if record.producer is not None:
            return str(self.output_path(number, file))
        if self._state.settings.emulate:
            return str(self._run.inputs.absolute() / stored_name(workflow, number, file))
        assert record.url is not None, "inputs are located before the run starts"
        return record.url

    def source_path(self, number: int, file: int, site: int) -> str:
        """Location from which a copy reads a file: the path in the replica catalog if the site has
        the original of an initial input, otherwise the location that `path` returns."""
        w = self._state.workflows[number]
        if site != ORIGIN and w.originals.get(file, 0) >> site & 1:
            return original_path(w.workflow.files[file], self._specs[site].name)
        return self.path(number, file, site)

    def stored(self, files: Iterable[tuple[int, int, int]]) -> list[str]:
        """The names in the stores of files given as (workflow, file, variant)."""
        workflows = self._state.workflows
        return [
            stored_name(workflows[number].workflow, number, file, own)
            for number, file, own in files
        ]

    def output_path(self, number: int, file: int) -> Path:
        """The path of an output at ORIGIN; see `OutputPaths`."""
        if self._outputs is None:
            several = self._state.expected != 1
            self._outputs = OutputPaths(self._run, several=several)
        return self._outputs.path(self._state.workflows[number].workflow, number, file)


def make_emulated_inputs(workflow: Workflow, number: int, run: RunDir) -> None:
    """Write the initial inputs of an emulated workflow as sparse files. Raises OSError."""
    run.inputs.mkdir(mode=0o700, exist_ok=True)
    if isinstance(workflow.files, BagFiles):
        wanted: Iterable[int] = range(workflow.files.input_count)
    else:
        files = workflow.files
        wanted = sorted({f for t in workflow.tasks for f in t.inputs if files[f].producer is None})
    for file in wanted:
        path = contained(run.inputs, stored_name(workflow, number, file))
        with open(path, "wb") as stream:
            stream.truncate(workflow.files[file].size_bytes or 0)
