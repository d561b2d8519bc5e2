"""Tables of run times by type of task, for workflows that state none.

A table is a YAML mapping from the type of a task (its name in the document, such as ``mProject``)
to its run time on a processor of speed 1, as `wfrun.parsers.syntax.units.parse_duration` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.parsers.syntax.units import parse_duration
from wfrun.parsers.syntax.yaml_document import read_yaml


class RuntimeTable:
    """Run times in seconds by type of task, and the line of each in the file."""

    def __init__(self, source: str, runtimes_s: Mapping[str, float], lines: Mapping[str, int]):
        self.source = source
        self.runtimes_s = runtimes_s
        self._lines = lines

    def fill(self, workflow: Workflow) -> Workflow:
        """Give each task without a run time the run time of its type, if the table has it."""
        if workflow.bag is not None:
            known = self.runtimes_s.get(workflow.tasks[0].name)
            return workflow if known is None else with_estimate(workflow, known)
        tasks = [
            task
            if task.runtime_s is not None or task.name not in self.runtimes_s
            else replace(task, runtime_s=self.runtimes_s[task.name])
            for task in workflow.tasks
        ]
        return replace(workflow, tasks=tasks)

    def check_names(self, types: set[str]) -> None:
        """Raise InvalidError for an entry whose name is not in ``types``; the message names the
        nearest type."""
        for name in self.runtimes_s:
            if name not in types:
                near = get_close_matches(name, types, n=1)
                raise InvalidError(
                    f"no workflow has a task of the type {name!r}",
                    source=self.source,
                    line=self._lines[name],
                    hint=(f"did you mean {near[0]!r}? " if near else "")
                    + "the types are: "
                    + ", ".join(sorted(types)[:20])
                    + (", …" if len(types) > 20 else ""),
                )


def with_estimate(workflow: Workflow, runtime_s: float) -> Workflow:
    """Give a bag the estimate ``runtime_s``, unless it has an estimate."""
    bag = workflow.bag
    assert bag is not None
    if bag.estimate is not None:
        return workflow
    return expand(replace(bag, estimate=repr(runtime_s)))


def read_runtimes(path: str | Path) -> RuntimeTable:
    """Read a table. Raises InvalidError, with file and line, if the file is not a valid table."""
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise document.error(
            "a table of run times is a mapping from types of tasks to times",
            hint="write lines such as 'mProject: 12.5 s'",
        )
    runtimes_s: dict[str, float] = {}
    for name, value in document.value.items():
        try:
            runtime_s = parse_duration(value)
        except ValueError as error:
            raise document.error(f"run time of {str(name)!r}: {error}", name) from error
        if runtime_s < 0:
            raise document.error(f"run time of {str(name)!r}: {value} is below 0", name)
        runtimes_s[str(name)] = runtime_s
    lines = {str(name): document.line(name) for name in document.value}
    return RuntimeTable(document.source, runtimes_s, lines)
