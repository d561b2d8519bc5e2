"""Makes the subject of an experiment from the arguments of ``wfrun simulate``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.generate.bots_model import ROWS
from wfrun.parsers.read import read_workflows
from wfrun.parsers.workflows.runtimes import RuntimeTable, with_estimate
from wfrun.runners.experiments.subjects.workloads import LogOfBags, Workloads, log_of_bags
from wfrun.runners.simulate.simulation import check_runtimes

Kind = Literal["documents", "workloads", "queue"]
"""Kinds of subjects: documents of workflows and bags, workloads of bags, or the queue of one
cluster (from its log)."""

NAMES: dict[Kind, str] = {
    "documents": "documents",
    "workloads": "workloads of bags",
    "queue": "the queue of a log",
}

Warn = Callable[[str], None]
"""Called with a warning for the user."""

_BAGS = "bags:"
"""Prefix that makes an argument a workload of bags. It is needed where the argument alone would
mean something else, such as a log."""


def kind_of(subject: str | Path | Workflow) -> Kind:
    """The kind of an argument. A row of the workload model, or ``bags:`` followed by a row or a
    log, is a workload of bags. Another log is the queue of its cluster. Anything else is a
    document."""
    if isinstance(subject, Workflow):
        return "documents"
    word = str(subject)
    if word.startswith(_BAGS) or (word in ROWS and not Path(word).exists()):
        return "workloads"
    return "queue" if _is_log(word) else "documents"


def kind_of_all(subjects: Sequence[str | Path | Workflow]) -> Kind:
    """The kind that all subjects have. Raises InvalidError for none, for several kinds, and for
    more than one log of a queue."""
    if not subjects:
        raise InvalidError(
            "there is nothing to simulate",
            hint="name documents of workflows or bags, workloads of bags (average, das-2, …, "
            "bags:LOG), or the log of a cluster's queue (*.swf, *.gwf)",
        )
    kinds = {kind_of(subject): subject for subject in subjects}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = kinds.items()
        raise InvalidError(
            f"{_shown(first)} stands for {NAMES[one]}, and {_shown(second)} for {NAMES[other]}",
            hint="simulate them separately; bags:LOG takes the bags of a log",
        )
    kind = next(iter(kinds))
    if kind == "queue" and len(subjects) > 1:
        raise InvalidError(
            f"{len(subjects)} logs are given, and the queue of one log is simulated at a time",
            hint="name one of them; bags:LOG takes the bags of a log",
        )
    return kind


def _shown(subject: str | Path | Workflow) -> str:
    return subject.name if isinstance(subject, Workflow) else str(subject)


def _is_log(word: str) -> bool:
    return re.search(r"\.(swf|gwf)(\.|$)", Path(word).name) is not None


def workloads_of(words: Sequence[str], tasks: int | None, *, skip_bad_lines: bool) -> Workloads:
    """Return the workloads with these names. Raises InvalidError if there is no such workload, or
    if a log cannot be read."""
    labels: list[str] = []
    logs: list[LogOfBags] = []
    for word in words:
        name = word.removeprefix(_BAGS)
        if name in ROWS:
            labels.append(name)
            continue
        if not _is_log(name):
            near = get_close_matches(name, ROWS, n=1)
            raise InvalidError(
                f"there is no workload {name!r}",
                hint=(f"did you mean {near[0]!r}? " if near else "")
                + f"there are {', '.join(ROWS)}, and logs in files *.swf or *.gwf",
            )
        try:
            logs.append(log_of_bags(Path(name), skip_bad_lines=skip_bad_lines))
        except OSError as error:
            raise InvalidError(f"the log cannot be read: {error.strerror}", source=name) from error
        labels.append(logs[-1].name)
    return Workloads(tuple(dict.fromkeys(labels)), tuple(dict.fromkeys(logs)), tasks)


def workflows_of(
    documents: Sequence[str | Path | Workflow],
    runtime_s: float | None,
    table: RuntimeTable | None,
    warn: Warn,
    *,
    template: LineTemplate | None = None,
    fill: Callable[[list[Workflow]], list[Workflow]],
) -> list[Workflow]:
    """Read the workflows of documents, and fill in missing run times from the table, else with
    ``runtime_s``, else by ``fill``. ``template`` is for documents whose lines are tasks. Raises
    InvalidError if a document is invalid, or if a task still has no run time."""
    workflows: list[Workflow] = []
    for document in documents:
        if isinstance(document, Workflow):
            workflows.append(document)
            continue
        _check_exists(document)
        for workflow in read_workflows(document, emulate=True, template=template):
            source = workflow.source
            for warning in workflow.warnings:
                warn(warning if source in warning else f"{source}: {warning}")
            workflows.append(workflow)
    if table is not None:
        table.check_names({name for workflow in workflows for name in _types(workflow)})
        workflows = [table.fill(workflow) for workflow in workflows]
    if runtime_s is not None:
        workflows = [_with_default(workflow, runtime_s) for workflow in workflows]
    workflows = fill(workflows)
    for workflow in workflows:
        check_runtimes(workflow)
    return workflows


def _check_exists(document: str | Path) -> None:
    """Raise InvalidError if no such document exists and its name resembles that of a workload."""
    near = get_close_matches(str(document), ROWS, n=1)
    if near and not Path(document).exists():
        raise InvalidError(
            f"there is neither a document nor a workload {str(document)!r}",
            hint=f"did you mean {near[0]!r}?",
        )


def _types(workflow: Workflow) -> set[str]:
    if workflow.bag is not None:
        return {workflow.tasks[0].name}
    return {task.name for task in workflow.tasks}


def _with_default(workflow: Workflow, runtime_s: float) -> Workflow:
    if workflow.bag is not None:
        return with_estimate(workflow, runtime_s)
    replace = msgspec.structs.replace
    return replace(
        workflow,
        tasks=[
            t if t.runtime_s is not None else replace(t, runtime_s=runtime_s)
            for t in workflow.tasks
        ],
    )


def warn_of_sizes(workflow: Workflow, warn: Warn) -> None:
    """Warn of files of unknown size: their transfers take no time."""
    if workflow.bag is not None:
        for file in workflow.bag.inputs:
            warn(
                f"{workflow.source}: the inputs {file.name!r} have no size: they are taken as empty"
            )
        return
    passed = {index for task in workflow.tasks for index in task.inputs}
    unknown = [index for index in sorted(passed) if workflow.files[index].size_bytes is None]
    if unknown:
        warn(
            f"{workflow.source}: {len(unknown)} of {len(passed)} files that tasks read have no "
            f"size, the first is {workflow.files[unknown[0]].name!r}: they are taken as empty"
        )
