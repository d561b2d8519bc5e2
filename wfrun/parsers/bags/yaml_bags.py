"""Bags in YAML: one bag, or several with common keys; see docs/bags.md.

The key ``optional`` of a bag states how many of its tasks must be done, and until when the others
are run; see docs/optional.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Bag, BagFile, OptionalTasks, Resources
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.file_entries import to_files, to_variables
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.bags.parameters import read_parameters
from wfrun.parsers.bags.values import to_command, to_name, to_priority, to_text
from wfrun.parsers.containers import to_container
from wfrun.parsers.syntax.sections import (
    Section,
    in_words,
    to_count,
    to_count_or_zero,
    to_duration,
    to_size,
)
from wfrun.parsers.syntax.yaml_document import YamlDocument, read_yaml

T = TypeVar("T")
Place = tuple[str | int, ...]

KEYS = (
    "bag", "owner", "application", "priority", "command", "parameters", "estimate", "cores",
    "memory", "gpus", "nodes", "walltime", "inputs", "outputs", "stdin", "stdout", "stderr", "env",
    "container", "optional",
)  # fmt: skip


def read_bags(path: Path, template: LineTemplate) -> list[BagDraft]:
    """Read the bags of a document, in its order. The ``template``, which other formats use, has no
    effect.

    Raises InvalidError, with the line, for a document that is not YAML, and for any fault of a bag
    or of a file that it takes values from.
    """
    document = read_yaml(path)
    value = document.value
    if not isinstance(value, dict):
        raise document.error(
            f"not a bag of tasks, but {in_words(value)}",
            hint="A bag is a mapping with the key 'command'; see docs/bags.md.",
        )
    if "bags" not in value:
        return [_BagReader(document, path, None).read()]
    listed = value["bags"]
    if not isinstance(listed, list) or not listed:
        raise document.error(
            f"'bags' must be a list of bags, not {in_words(listed)}" if listed != []
            else "there are no bags in the list",
            "bags", hint="Write '- bag: NAME' and its other keys for each.",
        )  # fmt: skip
    return [_BagReader(document, path, number).read() for number in range(len(listed))]


class _BagReader:
    """The reader of one bag: its own keys, and those that all bags of the document share."""

    def __init__(self, document: YamlDocument, path: Path, number: int | None) -> None:
        self._document, self._path = document, path
        many = number is not None
        shared = Section(document, (), "the document", (*KEYS, "bags") if many else KEYS)
        self._sections = [shared]
        self._name = path.stem
        if number is not None:
            own = Section(document, ("bags", number), f"bag {number + 1} of the list", KEYS)
            self._sections = [own, shared]
            self._name = f"{path.stem}-{number + 1}"
        self._places: dict[str, Place] = {}
        """The place of each template in the document, for messages."""
        self._parameters: dict[str, Place] = {}
        """The place of each parameter in the document, for messages."""

    def read(self) -> BagDraft:
        name = self._take("bag", to_name, self._name)
        for section in self._sections:
            section.title = f"the bag {name!r}"
        if not self._section("command"):
            raise self._sections[0].error(
                f"the bag {name!r} has no command",
                hint="Add 'command: PROGRAM ARGUMENTS'; parameters stand in braces.",
            )
        words: tuple[str, ...] = self._take("command", to_command, ())
        self._note(words, "command")
        inputs, outputs = self._files("inputs"), self._files("outputs")
        stdin = self._stream("stdin", inputs)
        stdout, stderr = self._stream("stdout", outputs), self._stream("stderr", outputs)
        estimate = self._take("estimate", to_text, None)
        if estimate is not None:
            self._note((estimate,), "estimate")
        bag = Bag(
            name=name,
            source=str(self._path),
            executable=words[0],
            arguments=words[1:],
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=self._env(),
            resources=self._resources(),
            estimate=estimate,
            owner=self._take("owner", to_name, ""),
            application=self._take("application", to_name, ""),
            priority=self._take("priority", to_priority, 0),
            optional=self._optional(),
        )
        lines = self._lines()
        parameters = self._section("parameters")
        if parameters is not None:
            axes = read_parameters(parameters, self._path.parent, self._parameters)
            bag = replace(bag, axes=axes)
        return BagDraft(bag, self._refuse, lines)

    def _refuse(self, message: str, what: str, hint: str | None = None) -> InvalidError:
        place = self._parameters.get(what) or self._places.get(what)
        if place is None:
            return self._sections[0].error(message, hint=hint)
        return self._document.error(message, *place, hint=hint)

    def _lines(self) -> dict[str, int]:
        """The line of each key that the bag or the document has, and, under the empty key, the line
        of the bag."""
        lines = {"": self._document.line(*self._sections[0].path)}
        for key in KEYS:
            section = self._section(key)
            if section is not None:
                lines[key] = self._document.line(*section.path, key)
        return lines

    def _section(self, key: str) -> Section | None:
        return next((section for section in self._sections if section.has(key)), None)

    def _take(self, key: str, convert: Callable[[Any], T], default: T) -> T:
        section = self._section(key)
        return default if section is None else section.take(key, convert, default)

    def _note(self, templates: tuple[str, ...], *path: str | int) -> None:
        section = self._section(str(path[0]))
        assert section is not None
        for template in templates:
            self._places.setdefault(template, (*section.path, *path))

    def _files(self, key: str) -> list[BagFile]:
        section = self._section(key)
        if section is None:
            return []
        files = to_files(section, key)
        for number, file in enumerate(files):
            self._note((file.name,), key, number)
            if file.url is not None:
                self._note((file.url,), key, number)
        return files

    def _stream(self, key: str, files: list[BagFile]) -> str | None:
        """Return the name of the file to which the bag redirects the standard stream ``key``, or
        None. Add the file to ``files`` (the inputs for stdin, otherwise the outputs) if it is not
        there yet."""
        name = self._take(key, to_text, None)
        if name is not None and all(file.name != name for file in files):
            files.append(BagFile(name))
            self._note((name,), key)
        return name

    def _env(self) -> dict[str, str] | None:
        section = self._section("env")
        if section is None:
            return None
        env = to_variables(section)
        for name, value in env.items():
            self._note((value,), "env", name)
        return env

    def _optional(self) -> OptionalTasks | None:
        section = self._section("optional")
        return None if section is None else read_optional(section)

    def _resources(self) -> Resources:
        resources = Resources(
            cores=self._take("cores", to_count, 1),
            memory_bytes=self._take("memory", to_size, 0),
            gpus=self._take("gpus", to_count_or_zero, 0),
            walltime_s=self._take("walltime", to_duration, None),
            nodes=self._take("nodes", to_count, 1),
            container=self._take("container", to_container, None),
        )
        if resources.cores % resources.nodes:
            section = self._section("cores") or self._section("nodes")
            assert section is not None
            raise section.error(
                f"{resources.cores} cores cannot be spread evenly over {resources.nodes} nodes",
                "nodes",
                hint="'cores' are those of all nodes together.",
            )
        return resources


_TIME_OF_DAY = re.compile(r"(\d{1,2}):([0-5]\d)", re.ASCII)
_MAX_MINUTES = 24 * 60


def read_optional(bag: Section) -> OptionalTasks:
    """Read which tasks of a bag are optional. Raises InvalidError, with the line, if the minimum is
    above the maximum, and for a section with neither a maximum nor a deadline."""
    section = bag.inner("optional", f"'optional' of {bag.title}", ("min", "max", "deadline"))
    least: int = section.take("min", to_count_or_zero, 0)
    most: int | None = section.take("max", to_count, None)
    nothing: tuple[float | None, float | None] = None, None
    within_s, until_s = section.take("deadline", _to_deadline, nothing)
    if most is not None and least > most:
        raise section.error(
            f"{section.title} has min {least}, above its max {most}",
            "min",
            hint="'min' tasks must be done, and at most 'max' are run.",
        )
    if most is None and within_s is None and until_s is None:
        raise bag.error(
            f"{section.title} has neither 'deadline' nor 'max', so no task would be optional",
            "optional",
            hint="Add 'deadline: 08:00', or a time from the arrival of the bag, such as 2 h.",
        )
    return OptionalTasks(least, most, within_s, until_s)


def _to_deadline(value: Any) -> tuple[float | None, float | None]:
    """The deadline as (seconds from the arrival of the bag, time of day in seconds); one of the two
    is None. A whole number without a unit is a time of day in minutes, because YAML 1.1 programs
    may store 18:30 as the number 18 * 60 + 30. Raises ValueError for such numbers below 60 or from
    24 h on."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 60 <= value < _MAX_MINUTES:
            raise ValueError(f"{value} has no unit; write 08:00, or a time such as {value} s")
        return None, value * 60.0
    match = _TIME_OF_DAY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return to_duration(value), None
    minutes = int(match[1]) * 60 + int(match[2])
    if minutes >= _MAX_MINUTES:
        raise ValueError(f"{value} is no time of day")
    return None, minutes * 60.0
