"""What the sites are asked to do, made from the workflow: requests of attempts, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from wfrun.engine.bag import BagFiles
from wfrun.engine.health import avoided_hosts
from wfrun.engine.model import ORIGIN, SiteSpec, Workflow
from wfrun.engine.records import AttemptRequest, InputLink, OutputFile
from wfrun.engine.replicas import variant
from wfrun.engine.state import RunState, WorkflowState
from wfrun.runners.rundir import RunDir
from wfrun.sites.emulate import emulated

GROWTH_OF_EXPIRED = 1.5
"""A task whose launcher's time was over before it had ended is expected to take this times what it
ran."""

SHARE_OF_LIFE = 0.75
"""A task is expected to take no more of a launcher's whole time than this, unless it has."""

_NO_ENV: dict[str, str] = {}
"""One for all of a hundred thousand tasks."""


def stored_name(workflow: Workflow, number: int, file: int, variant: int = 0) -> str:
    """The name of a file in the sites' stores: flat, unique in the run, readable. Where there are
    replicas, what each attempt writes has a name of its own (``variant``)."""
    base = re.sub(r"[^A-Za-z0-9._+=-]", "_", workflow.files[file].name.rsplit("/", 1)[-1])
    return f"{number}-{file}{f'.{variant}' if variant else ''}-{base[-120:]}"


def stored_as(w: WorkflowState, file: int) -> str:
    """The name of a file that the workflow has, or is going to have."""
    kept = 0
    if w.variants:
        producer = w.workflow.files[file].producer
        kept = 0 if producer is None else w.variants.get(producer, 0)
    return stored_name(w.workflow, w.index, file, kept)


class Requests:
    """Makes AttemptRequests, and knows where files are at ORIGIN."""

    def __init__(self, state: RunState, run: RunDir, specs: Sequence[SiteSpec]) -> None:
        self._state = state
        self._run = run
        self._specs = specs
        self._outputs: dict[int, dict[int, Path]] = {}

    def attempt(self, key: str, number: int, task_index: int, site: int) -> AttemptRequest:
        """The request of one attempt. Optional inputs that nobody wrote are left out."""
        w = self._state.workflows[number]
        workflow, task = w.workflow, w.workflow.tasks[task_index]
        files = workflow.files

        own = 0 if self._state.replicas is None else variant(key)

        def name(file: int | None) -> str | None:
            return None if file is None else files[file].name

        request = AttemptRequest(
            key=key,
            argv=(task.executable, *task.arguments),
            env=task.env or _NO_ENV,
            inputs=tuple(
                InputLink(stored_as(w, f), files[f].name) for f in task.inputs if w.present[f]
            ),
            outputs=tuple(
                OutputFile(files[f].name, stored_name(workflow, number, f, own), f in task.optional)
                for f in task.outputs
            ),
            stdin=name(task.stdin),
            stdout=name(task.stdout),
            stderr=name(task.stderr),
            resources=w.asked(task_index),
            avoid_hosts=avoided_hosts(self._state, site),
            expected_s=self._expected_s(w, task_index, site),
        )
        if not self._state.settings.emulate:
            return request
        return emulated(
            request,
            runtime_s=(task.runtime_s or 0.0) / self._specs[site].speed_ratio,
            output_sizes=[files[f].size_bytes or 0 for f in task.outputs],
        )

    def _expected_s(self, w: WorkflowState, task_index: int, site: int) -> float | None:
        """For launchers. What may be wrong is never taken for longer than one of them lives, or
        none would ever begin it; what has filled one is."""
        spec = self._specs[site]
        if spec.access is None or spec.access.launchers is None:
            return None
        task = w.workflow.tasks[task_index]
        life_s = spec.access.launchers.walltime_s
        kind = w.index, task.name
        length_s = self._state.lengths.expected_s(kind, task.runtime_s, spec.speed_ratio)
        ran_s = w.ran_s.get(task_index)
        if ran_s is not None:
            length_s = max(length_s or 0.0, GROWTH_OF_EXPIRED * ran_s)
            if ran_s > SHARE_OF_LIFE * life_s:
                return length_s
        return None if length_s is None else min(length_s, SHARE_OF_LIFE * life_s)

    def path(self, number: int, file: int, site: int) -> str:
        """Where a file is, or goes, at a site: a name in its store, or a path at ORIGIN."""
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

    def output_path(self, number: int, file: int) -> Path:
        """Where a final output is collected. Workflows of one run get a folder each; outputs of
        one name (under emulation) are told apart by their producers."""
        workflow = self._state.workflows[number].workflow
        if workflow.bag is not None:  # its names were checked when it was made
            record = workflow.files[file]
            return self._folder(number) / (record.url or record.name)
        if number not in self._outputs:
            self._outputs[number] = self._output_paths(number)
        return self._outputs[number][file]

    def _folder(self, number: int) -> Path:
        folder = self._run.outputs.absolute()
        if self._state.expected == 1:
            return folder
        name = self._state.workflows[number].workflow.name
        return folder / f"{number}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)}"

    def _output_paths(self, number: int) -> dict[int, Path]:
        workflow = self._state.workflows[number].workflow
        folder = self._folder(number)
        paths: dict[int, Path] = {}
        taken: set[str] = set()
        for index, file in enumerate(workflow.files):
            if not file.collect or file.producer is None:
                continue
            name = file.name
            if name in taken:
                name = f"{name}.{workflow.tasks[file.producer].id}"
            taken.add(name)
            paths[index] = folder / name
        return paths


def make_emulated_inputs(workflow: Workflow, number: int, run: RunDir) -> None:
    """Sparse stand-ins for the initial inputs. Raises OSError."""
    run.inputs.mkdir(exist_ok=True)
    if isinstance(workflow.files, BagFiles):
        wanted: Iterable[int] = range(workflow.files.input_count)
    else:
        files = workflow.files
        wanted = sorted({f for t in workflow.tasks for f in t.inputs if files[f].producer is None})
    for file in wanted:
        path = run.inputs / stored_name(workflow, number, file)
        with open(path, "wb") as stream:
            stream.truncate(workflow.files[file].size_bytes or 0)
