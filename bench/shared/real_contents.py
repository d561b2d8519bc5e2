"""Emulation with real file contents: a workflow of the tasks, run times and sizes of a document,
whose tasks check all that they read and write what can be checked."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from bench.shared import content_task
from wfrun.engine.model import File, Resources, Task
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.writers.write_dax import write_dax

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")
PROGRAM = Path(content_task.__file__)


@dataclass(frozen=True, slots=True)
class RealWorkflow:
    """A workflow on disk."""

    document: Path
    inputs: Path
    """The folder of its input files."""
    outputs: dict[str, int]
    """Its final outputs and their sizes."""

    def words(self) -> list[str]:
        """The command line that names it."""
        return [str(self.document), "--inputs", str(self.inputs)]

    def wrong_outputs(self, folder: Path) -> list[str]:
        """The final outputs that are absent from the folder, or hold something else."""
        return [
            name
            for name, size_bytes in self.outputs.items()
            if not (folder / name).is_file()
            or not content_task.is_right(str(folder), name, size_bytes)
        ]


def document_of(folder: Path) -> Path:
    """CyberShake_1000 of the WorkflowSim collection, or one like it, written into the folder."""
    path = CORPUS / "dax" / "synthetic" / "CyberShake_1000.xml"
    if path.exists():
        return path
    made = folder / "cybershake.dax"
    write_dax(generate("cybershake", 1000, 1), made)
    return made


def with_real_contents(
    document: Path, folder: Path, *, time_scale: float, size_scale: float
) -> RealWorkflow:
    """Write the workflow, its program and its input files into a new folder."""
    folder.mkdir()
    read = read_workflow(document, emulate=True)
    files = [replace(f, size_bytes=round((f.size_bytes or 0) * size_scale)) for f in read.files]
    program = len(files)
    made = replace(
        read,
        tasks=[_task(task, files, program, time_scale) for task in read.tasks],
        files=[*files, File(PROGRAM.name, PROGRAM.stat().st_size)],
    )
    inputs = folder / "inputs"
    inputs.mkdir()
    for file in files:
        if file.producer is None:
            content_task.write(str(inputs), file.name, file.size_bytes or 0)
    shutil.copy(PROGRAM, inputs)
    write_dax(made, folder / f"{document.stem}.dax")
    outputs = {file.name: file.size_bytes or 0 for file in files if file.collect}
    return RealWorkflow(folder / f"{document.stem}.dax", inputs, outputs)


def _task(task: Task, files: list[File], program: int, time_scale: float) -> Task:
    runtime_s = (task.runtime_s or 1.0) * time_scale

    def words(indices: tuple[int, ...]) -> list[str]:
        return [f"{files[index].size_bytes}:{files[index].name}" for index in indices]

    return replace(
        task,
        executable="python3",
        # Without site packages Python starts in half the time.
        arguments=("-S", "-E", PROGRAM.name, f"{runtime_s:.4f}", *words(task.inputs), "--",
                   *words(task.outputs)),
        inputs=(*task.inputs, program),
        resources=Resources(),
        runtime_s=runtime_s,
    )  # fmt: skip
