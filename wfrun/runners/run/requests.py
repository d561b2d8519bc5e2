"""What the sites are asked to do, made from the workflow: requests of attempts, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from wfrun.engine.attempts import variant
from wfrun.engine.bag import BagFiles
from wfrun.engine.capabilities.health import Health
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.exchange import AttemptRequest, InputLink, OutputFile
from wfrun.engine.model import ORIGIN, SiteSpec, Task, Workflow
from wfrun.engine.state import RunState, WorkflowState
from wfrun.runners.run.directory import RunDir
from wfrun.sites.emulate import emulated

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

        own = variant(key) if self._state.max_replicas else 0

        def name(file: int | None) -> str | None:
            return None if file is None else files[file].name

        request = AttemptRequest(
            key=key,
            argv=(task.executable, *task.arguments),
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
            resources=w.asked(task_index),
            avoid_hosts=() if self._health is None else self._health.avoided_hosts(site),
            expected_s=self._expected_s(w, task_index, site),
        )
        if not self._state.settings.emulate:
            return request
        return emulated(
            request,
            runtime_s=(task.runtime_s or 0.0) / self._specs[site].speed_ratio,
            output_sizes=[files[f].size_bytes or 0 for f in task.outputs],
        )

    def _is_there(self, w: WorkflowState, task: Task, file: int) -> bool:
        """Whether an input is at the site. Raises AssertionError for one that is at no place and
        must not be absent: no task is to start without it."""
        if w.present[file]:
            return True
        record = w.workflow.files[file]
        producer = None if record.producer is None else w.workflow.tasks[record.producer]
        optional = file in task.optional or (producer is not None and file in producer.optional)
        assert optional, (
            f"task {task.id!r} of {w.workflow.source} would be started without its input "
            f"{record.name!r}, which is at no place: a defect of wfrun; `wfrun resume` makes the "
            "file again"
        )
        return False

    def _expected_s(self, w: WorkflowState, task: int, site: int) -> float | None:
        """Expected run time, for launchers."""
        spec = self._specs[site]
        if self._launchers is None or spec.access is None or spec.access.launchers is None:
            return None
        return self._launchers.expected_s(w, task, spec)

    @property
    def _health(self) -> Health | None:
        return self._state.find(Health)

    @property
    def _launchers(self) -> Launchers | None:
        return self._state.find(Launchers)

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
