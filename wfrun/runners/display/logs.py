"""The output of a task, attempt by attempt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.exchange import Outcome, PackedLog
from wfrun.engine.model import Access, SiteSpec, Workflow
from wfrun.engine.state import RunState, TaskStatus
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.display.report import task_parameters
from wfrun.runners.run.directory import RunDir
from wfrun.runners.run.session import read_state
from wfrun.runners.run.sites import terminal_prompter
from wfrun.runners.run.store import Store
from wfrun.sites.local.site import LocalSite
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.remote.directory import find_directory
from wfrun.sites.remote.host import Host

_DIGITS = 10
"""Maximum number of digits of a task number."""
TaskNumber = tuple[int, int]
"""Workflow and task, as indices."""
Texts = tuple[bytes, bytes] | str
"""stdout and stderr of an attempt, or the reason why they cannot be read."""


def print_logs(run: RunDir, task: str) -> None:
    """Print stdout and stderr of every attempt of a task, each under a line with its outcome.
    Raises InvalidError for an unknown task, with similar ids."""
    state = read_state(run)
    wanted = [(w.index, index) for w in state.workflows for index in _named(w.workflow, task)]
    if not wanted:
        raise InvalidError(f"run {run.name} has no task {task!r}", hint=_near(state, task))
    attempts = _attempts(run, wanted)
    dispatched = {(placed.workflow, placed.task) for placed, _ in attempts}
    texts = asyncio.run(_read_all(state, run, attempts))
    titled: set[TaskNumber] = set()
    for placed, outcome in attempts:
        number = placed.workflow, placed.task
        if number not in titled:
            titled.add(number)
            _print_parameters(state, number, task)
        _print_attempt(state, placed, outcome, texts[placed.key])
    for number in wanted:
        if number not in dispatched:
            click.echo(f"task {task} {_why_not(state, number)}")


def _named(workflow: Workflow, task: str) -> list[int]:
    """The tasks of a workflow with this id. Ids in a bag end with the number of the task."""
    if workflow.bag is None:
        return [index for index, record in enumerate(workflow.tasks) if record.id == task]
    number = task.rpartition("-")[2]
    if not (number.isascii() and number.isdigit() and len(number) < _DIGITS):
        return []
    index = int(number)
    is_there = index < len(workflow.tasks) and workflow.tasks[index].id == task
    return [index] if is_there else []


def _attempts(
    run: RunDir, wanted: Collection[TaskNumber]
) -> list[tuple[ev.AttemptPlaced, Outcome | None]]:
    """The attempts of these tasks and their outcomes, in the order of placement."""
    placed: dict[str, ev.AttemptPlaced] = {}
    outcomes: dict[str, Outcome] = {}
    store = Store(run.path)
    try:
        for event in store.load():
            if isinstance(event, ev.AttemptPlaced) and (event.workflow, event.task) in wanted:
                placed[event.key] = event
            elif isinstance(event, ev.AttemptEnded) and event.key in placed:
                outcomes[event.key] = event.outcome
    finally:
        store.close()
    return [(event, outcomes.get(key)) for key, event in placed.items()]


def _why_not(state: RunState, number: TaskNumber) -> str:
    status = state.workflows[number[0]].status[number[1]]
    if status == TaskStatus.BLOCKED:
        return "is blocked, because a task that it depends on has failed"
    return "has not been dispatched yet"


async def _read_all(
    state: RunState, run: RunDir, attempts: Sequence[tuple[ev.AttemptPlaced, Outcome | None]]
) -> dict[str, Texts]:
    """The output of each attempt by key, read over one connection per cluster."""
    texts: dict[str, Texts] = {}
    for index in dict.fromkeys(placed.site for placed, _ in attempts):
        packs = {
            placed.key: None if outcome is None else outcome.packed
            for placed, outcome in attempts
            if placed.site == index
        }
        spec = state.sites[index].spec
        if spec.access is None:
            directory = run.site_directory(spec, state.site_directory)
            site = LocalSite(spec, index, directory)
            for key, packed in packs.items():
                texts[key] = await site.log(key) if packed is None else _unpack(directory, packed)
        else:
            texts.update(await _read_far(spec, spec.access, state.site_directory, packs))
    return texts


def _unpack(directory: Path, packed: PackedLog) -> Texts:
    try:
        with open(directory / "logs" / packed.file, "rb") as file:
            file.seek(packed.offset_bytes)
            return file.read(packed.stdout_bytes), file.read(packed.stderr_bytes)
    except OSError as error:
        return str(error)


async def _unpack_far(host: Host, directory: str, packed: PackedLog) -> Texts:
    path = f"{directory}/logs/{packed.file}"
    size = packed.stdout_bytes + packed.stderr_bytes
    script = 'tail -c +"$2" "$1" | head -c "$3"'
    where = str(packed.offset_bytes + 1)
    result = await host.run(["sh", "-c", script, "sh", path, where, str(size)])
    if len(result.output) != size:
        return result.errors.decode("utf-8", "replace").strip() or f"{path} is too short"
    return result.output[: packed.stdout_bytes], result.output[packed.stdout_bytes :]


async def _read_far(
    spec: SiteSpec, access: Access, name: str, packs: Mapping[str, PackedLog | None]
) -> dict[str, Texts]:
    keys = [key for key, packed in packs.items() if packed is None]
    connection = connection_of(access, terminal_prompter())
    written = spec.directory or DEFAULT_DIRECTORY
    try:
        await connection.open(lambda reason: None)
        host = await connection.host()
        directory = await find_directory(host, spec.name, written, name)
        paths = [f"{directory}/attempts/{key}.{end}" for key in keys for end in ("out", "err")]
        found = [text or b"" for text in await host.read(paths, limit=1 << 30)]
        texts: dict[str, Texts] = {
            key: await _unpack_far(host, directory, packed)
            for key, packed in packs.items()
            if packed is not None
        }
    except WfrunError as error:
        where = f"{access.hosts[0] if access.hosts else 'localhost'}:{written}/{name}"
        return {
            key: f"{error}\nThe output is in {where}/"
            + (f"attempts/{key}.out and .err" if packed is None else f"logs/{packed.file}")
            for key, packed in packs.items()
        }
    finally:
        await connection.close()
    texts.update(zip(keys, zip(found[::2], found[1::2], strict=True), strict=True))
    return texts


def _print_parameters(state: RunState, number: TaskNumber, task: str) -> None:
    parameters = task_parameters(state.workflows[number[0]].workflow, number[1])
    if parameters:
        click.echo(f"--- {task}: {parameters}")


def _print_attempt(
    state: RunState, placed: ev.AttemptPlaced, outcome: Outcome | None, texts: Texts
) -> None:
    spec = state.sites[placed.site].spec
    how = _how(outcome)
    if isinstance(texts, str):
        click.echo(f"--- {placed.key} at {spec.name} ({how}): its output cannot be read:")
        click.echo(texts)
        if outcome is not None and outcome.message:
            click.echo(f"--- {outcome.message}")
        return
    files = _stream_files(state.workflows[placed.workflow].workflow, placed.task)
    for stream, text, file in zip(("stdout", "stderr"), texts, files, strict=True):
        where = f", written to its output {file}" if file is not None else ""
        click.echo(f"--- {placed.key} at {spec.name} ({how}): {stream}{where}")
        sys.stdout.flush()
        sys.stdout.buffer.write(text if not text or text.endswith(b"\n") else text + b"\n")
        sys.stdout.buffer.flush()
    if outcome is not None and outcome.message and outcome.cause != "exit":
        click.echo(f"--- {outcome.message}")


def _stream_files(workflow: Workflow, task: int) -> tuple[str | None, str | None]:
    """The outputs that hold the task's stdout and stderr."""
    record = workflow.tasks[task]
    stdout, stderr = (
        None if file is None else workflow.files[file].name
        for file in (record.stdout, record.stderr)
    )
    return stdout, stderr


def _how(outcome: Outcome | None) -> str:
    if outcome is None:
        return "open"
    how = str(outcome.cause)
    if outcome.exit_code not in (None, 0):
        how += f", exit code {outcome.exit_code}"
    if outcome.started_s and outcome.ended_s:
        how += f", {outcome.ended_s - outcome.started_s:.2f} s"
    return how


def _near(state: RunState, task: str) -> str | None:
    ids = [t.id for w in state.workflows for t in w.workflow.tasks[:5000]]
    near = get_close_matches(task, ids, n=3)
    return f"did you mean {', '.join(near)}?" if near else None
