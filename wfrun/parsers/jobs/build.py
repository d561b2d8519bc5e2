"""From parallel jobs as they are written to workflows of independent tasks, one for each owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wfrun.engine.jobs.components import Components
from wfrun.engine.jobs.sized import sized, sized_words
from wfrun.engine.model import BagFile, File, Moldable, Resources, Task, Workflow
from wfrun.parsers.jobs.draft import JobDraft
from wfrun.parsers.jobs.yaml_jobs import read_jobs

JobsReader = Callable[[Path], list[JobDraft]]


def make_jobs(
    path: Path, reader: JobsReader = read_jobs, *, together: bool = False
) -> list[tuple[Workflow, Mapping[str, int]]]:
    """Read the jobs of a document. Return for each owner a workflow of the owner's jobs, and the
    lines of these jobs by name, in the order of the owners' first jobs. With ``together`` a single
    workflow has all jobs."""
    owners: dict[str, list[JobDraft]] = {}
    for draft in reader(path):
        owners.setdefault("" if together else draft.owner, []).append(draft)
    return [
        (_workflow(path, owner, drafts, several=len(owners) > 1), {d.name: d.line for d in drafts})
        for owner, drafts in owners.items()
    ]


def _workflow(path: Path, owner: str, drafts: Sequence[JobDraft], *, several: bool) -> Workflow:
    builder = _Builder()
    for draft in drafts:
        builder.add(draft)
    return Workflow(
        name=f"{path.stem}-{owner}" if several and owner else path.stem,
        source=str(path),
        tasks=builder.tasks,
        files=builder.files,
        parents=[()] * len(builder.tasks),
        owner=owner,
        moldable=builder.moldable,
        weights=builder.weights,
        components=builder.components,
    )


class _Builder:
    """The tasks and files of one workflow."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.files: list[File] = []
        self.moldable: dict[int, Moldable] = {}
        self.weights: dict[int, float] = {}
        self.components: dict[int, Components] = {}
        self._inputs: dict[tuple[str, str | None, bool], int] = {}
        """Numbers of inputs by (name, place, whether it is a program). Jobs share inputs."""

    def add(self, draft: JobDraft) -> None:
        """Add a job as a task with its smallest size."""
        number, size = len(self.tasks), draft.sizes[0]
        inputs = {file.name: self._input(file) for file in draft.inputs}
        outputs = {file.name: self._output(file, draft, number) for file in draft.outputs}
        walltime_s = draft.walltimes_s[0] if draft.walltimes_s else None
        asked = Resources(memory_bytes=draft.memory_bytes, parallel=True)
        words = draft.command
        # Of a divided job the request is that of the process which starts the others.
        requested = (size, draft.ppn) if draft.components is None else (1, None)
        asked = sized(asked, *requested, walltime_s)
        if draft.components is not None:
            words = sized_words(words, draft.name, size, 1)
            self.components[number] = draft.components
        elif len(draft.sizes) == 1:
            words = sized_words(words, draft.name, asked.cores, asked.nodes)
        else:
            self.moldable[number] = Moldable(
                draft.sizes, draft.walltimes_s, draft.ppn, draft.malleable
            )
        if draft.weight != 1.0:
            self.weights[number] = draft.weight
        program = words[0].removeprefix("./")
        optional = (f.name for f in draft.outputs if f.optional)
        self.tasks.append(
            Task(
                id=draft.name,
                name=program.rsplit("/", 1)[-1],
                executable=f"./{program}" if program in inputs else words[0],
                arguments=words[1:],
                inputs=tuple(inputs.values()),
                outputs=tuple(outputs.values()),
                optional=tuple(outputs[name] for name in optional),
                stdin=None if draft.stdin is None else inputs[draft.stdin],
                stdout=None if draft.stdout is None else outputs[draft.stdout],
                stderr=None if draft.stderr is None else outputs[draft.stderr],
                env=draft.env,
                resources=asked,
                runtime_s=walltime_s if draft.runtime_s is None else draft.runtime_s,
                priority=draft.priority,
            )
        )

    def _input(self, file: BagFile) -> int:
        key = file.name, file.url, file.executable
        if key not in self._inputs:
            self._inputs[key] = len(self.files)
            self.files.append(File(file.name, url=file.url, executable=file.executable))
        return self._inputs[key]

    def _output(self, file: BagFile, draft: JobDraft, task: int) -> int:
        self.files.append(
            File(
                file.name,
                producer=task,
                url=f"{draft.name}/{file.url or file.name}",
                collect=True,
            )
        )
        return len(self.files) - 1
