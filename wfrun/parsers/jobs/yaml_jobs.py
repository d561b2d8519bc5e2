"""Parallel jobs in YAML; see docs/jobs.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.components import Components
from wfrun.engine.jobs.sized import shaped
from wfrun.engine.model import BagFile
from wfrun.engine.tasks.templates import placeholders
from wfrun.parsers.bags.file_entries import to_files, to_variables
from wfrun.parsers.bags.values import to_command, to_name, to_priority, to_text
from wfrun.parsers.jobs.components import to_components
from wfrun.parsers.jobs.draft import DIVIDED_NAMES, SIZE_NAMES, JobDraft
from wfrun.parsers.jobs.walltimes import Walltime, shown_sizes, to_sizes, to_walltime
from wfrun.parsers.syntax.limits import id_fault, name_fault, text_fault, variable_fault
from wfrun.parsers.syntax.sections import (
    Section,
    in_words,
    to_count,
    to_duration,
    to_positive,
    to_size,
    to_truth,
)
from wfrun.parsers.syntax.yaml_document import YamlDocument, read_yaml

T = TypeVar("T")

SHARED_KEYS = (
    "owner", "priority", "command", "size", "ppn", "walltime", "runtime", "memory", "inputs",
    "outputs", "stdin", "stdout", "stderr", "env", "weight", "components", "malleable",
)  # fmt: skip
KEYS = ("job", *SHARED_KEYS)


def read_jobs(path: Path) -> list[JobDraft]:
    """Read the jobs of a document, in its order.

    Raises InvalidError, with the line, for a document that is not YAML, and for any fault of a job.
    """
    document = read_yaml(path)
    value = document.value
    hint = "A document of jobs is a mapping with the list 'jobs'; see docs/jobs.md."
    if not isinstance(value, dict):
        raise document.error(f"not a document of jobs, but {in_words(value)}", hint=hint)
    _refuse_container(document, value)
    shared = Section(document, (), "the document", (*SHARED_KEYS, "jobs"))
    if not shared.has("jobs"):
        raise document.error("the document has no list of jobs", hint=hint)
    listed = value["jobs"]
    if not isinstance(listed, list) or not listed:
        raise document.error(
            f"'jobs' must be a list of jobs, not {in_words(listed)}" if listed != []
            else "there are no jobs in the list", "jobs", hint="Write '- job: NAME' for each.",
        )  # fmt: skip
    drafts: dict[str, JobDraft] = {}
    for number in range(len(listed)):
        draft = _JobReader(document, shared, number).read()
        if draft.name in drafts:
            raise document.error(
                f"the job {draft.name!r} stands here again; it is on line "
                f"{drafts[draft.name].line} already", "jobs", number,
                hint="Give each job its own name: it is the folder of its outputs.",
            )  # fmt: skip
        drafts[draft.name] = draft
    return list(drafts.values())


def _refuse_container(document: YamlDocument, value: object, *path: str | int) -> None:
    """Raise InvalidError for a job with a container, since it would have to be entered on each
    node."""
    if isinstance(value, dict) and "container" in value:
        raise document.error(
            "parallel jobs run in no container", *path, "container",
            hint="Let the command start its processes in one: 'mpirun apptainer exec IMAGE "
            "./program', with the image among the inputs or at the sites.",
        )  # fmt: skip


class _JobReader:
    """The reader of one job: its own keys, and those that all jobs of the document share."""

    def __init__(self, document: YamlDocument, shared: Section, number: int) -> None:
        _refuse_container(document, document.value["jobs"][number], "jobs", number)
        own = Section(document, ("jobs", number), f"job {number + 1} of the list", KEYS)
        self._name = own.take("job", to_name, f"job-{number + 1}")
        own.title = f"the job {self._name!r}"
        fault = "leads out of the folder of the outputs" if self._name in (".", "..") else None
        if fault := fault or id_fault(self._name):
            raise own.error(f"{own.title} {fault}: it cannot be the name of a job", "job")
        self._own = own
        self._sections = (own, shared)

    def read(self) -> JobDraft:
        ppn = self._take("ppn", to_count, None)
        components = self._components(ppn)
        sizes, walltimes_s = self._sizes(ppn, components)
        malleable = self._malleable(sizes)
        runtime_s = self._runtime(walltimes_s)
        command = self._command(SIZE_NAMES if components is None else DIVIDED_NAMES)
        inputs, outputs = self._files("inputs"), self._files("outputs")
        streams = {
            "stdin": self._stream("stdin", inputs),
            "stdout": self._stream("stdout", outputs),
            "stderr": self._stream("stderr", outputs),
        }
        self._check_names(inputs, outputs)
        return JobDraft(
            self._name,
            self._own.document.line(*self._own.path),
            command,
            sizes,
            walltimes_s,
            ppn=ppn,
            runtime_s=runtime_s,
            memory_bytes=self._take("memory", to_size, 0),
            owner=self._take("owner", to_name, ""),
            priority=self._take("priority", to_priority, 0),
            weight=self._take("weight", to_positive, 1.0),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            env=self._env(),
            components=components,
            malleable=malleable,
            **streams,
        )

    def _section(self, key: str) -> Section | None:
        return next((section for section in self._sections if section.has(key)), None)

    def _take(self, key: str, convert: Callable[[Any], T], default: T) -> T:
        section = self._section(key)
        return default if section is None else section.take(key, convert, default)

    def _error(self, message: str, key: str, hint: str | None = None) -> InvalidError:
        """An error at the key of the job, or at the key of the document if the job lacks it."""
        section = self._section(key)
        return (section or self._own).error(message, *([key] if section else []), hint=hint)

    def _components(self, ppn: int | None) -> Components | None:
        """The ways to divide the job over sites; None if the document states none."""
        sizes: tuple[int, ...] = self._take("size", to_sizes, ())
        if len(sizes) > 1 and self._section("components") is not None:
            raise self._error(
                f"{self._own.title} has components and the size {shown_sizes(sizes)}",
                "size",
                "A job that is divided over sites has one size.",
            )
        size = sizes[0] if sizes else None
        return self._take("components", lambda value: to_components(value, size, ppn), None)

    def _sizes(
        self, ppn: int | None, components: Components | None
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The sizes of the job that fit its nodes and its walltime table, and the walltime of
        each."""
        walltime: Walltime | None = self._take("walltime", to_walltime, None)
        table = () if walltime is None else walltime.sizes
        if components is not None:
            asked: tuple[int, ...] = (components.size,)
        else:
            asked = self._take("size", to_sizes, table or (1,))
        sizes = [size for size in asked if not table or size in table]
        if not sizes:
            raise self._error(
                f"{self._own.title} has the size {shown_sizes(asked)}, and the table of its "
                f"walltime has {shown_sizes(table)}",
                "walltime",
            )
        if components is None:
            sizes = [size for size in sizes if shaped(size, ppn) is not None]
        if not sizes:
            raise self._error(
                f"{self._own.title} has the size {shown_sizes(asked)}, which cannot be spread "
                f"over nodes with {ppn} processors each",
                "size",
                "Above 'ppn' a size is a multiple of it.",
            )
        walltimes_s = () if walltime is None else tuple(walltime.at(size) for size in sizes)
        if len(sizes) > 1 and (walltime is None or not walltime.depends):
            has = "no walltime" if walltime is None else "one walltime for all of them"
            raise self._error(
                f"{self._own.title} has several sizes and {has}",
                "size",
                "The choice of a size needs a walltime for each: a table, or {serial_s, parallel}.",
            )
        return tuple(sizes), walltimes_s

    def _malleable(self, sizes: Sequence[int]) -> bool:
        """Whether the job can change between its sizes while it runs. A ``malleable`` of the whole
        document applies only to the jobs with several sizes. Raises InvalidError for a job with one
        size that states ``malleable`` itself."""
        malleable = self._take("malleable", to_truth, False)
        if malleable and len(sizes) == 1 and self._own.has("malleable"):
            raise self._error(
                f"{self._own.title} is malleable and has the size {sizes[0]} alone",
                "malleable",
                "Give its 'size' as a list or as {min, max}, with a walltime for each.",
            )
        return malleable and len(sizes) > 1

    def _runtime(self, walltimes_s: Sequence[float]) -> float | None:
        """The run time in seconds with the smallest size. Raises InvalidError if it is longer than
        the walltime, since the job would always be killed."""
        runtime_s = self._take("runtime", to_duration, None)
        if runtime_s is not None and walltimes_s and runtime_s > walltimes_s[0]:
            smallest = " of the smallest size" if len(walltimes_s) > 1 else ""
            raise self._error(
                f"{self._own.title} has a runtime of {runtime_s:g} s, which is longer than its "
                f"walltime{smallest}, {walltimes_s[0]:g} s",
                "runtime",
                "Batch systems kill jobs at the end of their walltime.",
            )
        return runtime_s

    def _command(self, names: Sequence[str]) -> tuple[str, ...]:
        """The words of the command, which may contain the parameters ``names``."""
        if self._section("command") is None:
            raise self._own.error(
                f"{self._own.title} has no command", hint="Add 'command: PROGRAM ARGUMENTS'."
            )
        words: tuple[str, ...] = self._take("command", to_command, ())
        for word in words:
            try:
                unknown = [name for name in placeholders(word) if name not in names]
            except InvalidError as error:
                raise self._error(error.message, "command", error.hint) from None
            if unknown:
                raise self._error(
                    f"command of {self._own.title} names {{{unknown[0]}}}, which is none of "
                    f"{', '.join(f'{{{name}}}' for name in names)}",
                    "command",
                    "Braces of the command itself are doubled: {{ and }}.",
                )
            if fault := text_fault(word):
                raise self._error(f"command of {self._own.title} has {fault}", "command")
        return words

    def _files(self, key: str) -> list[BagFile]:
        section = self._section(key)
        return [] if section is None else to_files(section, key)

    def _stream(self, key: str, files: list[BagFile]) -> str | None:
        """The file of the standard stream ``key``. If ``files``, the job's inputs or outputs, lack
        the file, it is added to them."""
        name: str | None = self._take(key, to_text, None)
        if name is not None and all(file.name != name for file in files):
            files.append(BagFile(name))
        return name

    def _check_names(self, inputs: Sequence[BagFile], outputs: Sequence[BagFile]) -> None:
        for key, files in (("inputs", inputs), ("outputs", outputs)):
            for file in files:
                for name in (file.name, *([file.url] if file.url and key == "outputs" else [])):
                    if fault := name_fault(name):
                        raise self._error(f"the file {name!r} of {self._own.title} {fault}", key)
        names = [file.name for file in (*inputs, *outputs)]
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"{self._own.title} has two files {name!r}", "outputs")
        kept = [file.url or file.name for file in outputs]
        for name in kept:
            if kept.count(name) > 1 or any(other.startswith(f"{name}/") for other in kept):
                raise self._error(
                    f"two outputs of {self._own.title} cannot be kept as {name!r}",
                    "outputs",
                    "'to' is the name in the folder of the job's outputs.",
                )

    def _env(self) -> dict[str, str] | None:
        section = self._section("env")
        if section is None:
            return None
        env = to_variables(section)
        for name, value in env.items():
            if fault := variable_fault(name, value):
                raise section.error(f"env of {self._own.title} has {fault}", "env", name)
        return env
