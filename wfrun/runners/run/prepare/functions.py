"""Workflows and bags whose tasks are calls of Python functions.

Each task is the command ``python3 wfrun_function.py FILE FUNCTION ARGUMENTS RESULT``, with the
program ``wfrun/sites/node/alone/python_function.py`` as one of its inputs, so that it runs wherever
``python3`` is installed. Launchers recognize the program, and run the call in a warm interpreter.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from reprlib import repr as short
from typing import Any

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import File, Resources, Task, Workflow
from wfrun.parsers.bags.make import bag
from wfrun.parsers.bags.values import escaped
from wfrun.parsers.record_types import check_record, names_of
from wfrun.sites.node.alone import python_function

_MOST_BYTES = 100_000
"""Maximum size of the arguments of a call as JSON, in bytes. Linux limits an argument of a command
to 128 KiB."""


_MAKE_NAMES = frozenset(
    {"*", "__getattr__", "exec", "eval", "globals", "locals", "setattr", "vars"}
)
"""Names that a file can use to define further names at run time."""


class Call(msgspec.Struct, frozen=True):
    """A call of a function. As an argument of another call, it stands for its return value."""

    id: str
    """Id of the task that makes the call."""
    file: str
    """Name of the file with its return value as JSON; a final output if no other call uses it."""


def _module(module: object) -> Path:
    if not isinstance(module, (str, os.PathLike)):
        file = getattr(module, "__file__", None)
        raise InvalidError(
            f"{short(module)} is not the path of a Python file",
            hint=f"write {file!r}" if isinstance(file, str) else "give the path of a .py file",
        )
    path = Path(module).absolute()
    if not path.is_file() or path.suffix != ".py" or path.name == python_function.NAME:
        raise InvalidError(f"{module} is not a Python file", hint="give the path of a .py file")
    return path


def _names(module: Path) -> frozenset[str] | None:
    """Find the names that a Python file may define, without running it. None: any name is possible,
    because the file may define names at run time, or because this Python cannot parse or read
    it."""
    try:
        nodes = list(ast.walk(ast.parse(module.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    names, used = set[str](), set[str]()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            (names if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return None if (names | used) & _MAKE_NAMES else frozenset(names)


def _check_function(function: object, module: Path, names: frozenset[str] | None) -> None:
    """Raise InvalidError if ``function`` is not text, or not among ``names``, the result of
    `_names` (None: any name is allowed)."""
    if not isinstance(function, str):
        name = getattr(function, "__name__", "")
        raise InvalidError(
            f"{function!r} is not the name of a function",
            source=str(module),
            hint=f"tasks call functions of {module.name} by name: write "
            f"{name if names is None or name in names else 'its name'!r}",
        )
    if names is None or function in names:
        return
    near = get_close_matches(function, names, n=1)
    raise InvalidError(
        f"there is no function {function!r}",
        source=str(module),
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"tasks call functions of {module.name}; a program is a `Task` of a `Workflow`, or the "
        "command of a `bag`",
    )


def _arguments(args: object, kwargs: object, source: str) -> tuple[list[Any], dict[str, Any]]:
    """Return copies of the arguments of a call. Raises InvalidError if ``args`` is not a list, or
    if ``kwargs`` is not a mapping whose keys are text."""
    if isinstance(args, (str, bytes, Mapping, Set)) or not isinstance(args, Iterable):
        raise InvalidError(
            f"args is {short(args)}, and no list of arguments",
            source=source,
            hint="named arguments are `kwargs`"
            if isinstance(args, Mapping)
            else "write a list, in the order of the function's parameters",
        )
    named = {} if kwargs is None else kwargs
    if not isinstance(named, Mapping):
        raise InvalidError(
            f"kwargs is {short(named)}, and no dict of named arguments", source=source
        )
    for name in named:
        if not isinstance(name, str):
            raise InvalidError(
                f"{short(name)} cannot be the name of an argument",
                source=source,
                hint="write names as text",
            )
    return list(args), dict(named)


def function_bag(
    name: str,
    module: str | Path,
    function: str,
    *,
    parameters: Mapping[str | tuple[str, ...], Iterable[Any]] | None = None,
    points: Iterable[Mapping[str, Any]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Mapping[str, str] | Sequence[str] = (),
    estimate: float | str | None = None,
    resources: Resources = Resources(),  # noqa: B008
    owner: str = "",
    priority: int = 0,
    python: str = "python3",
) -> Workflow:
    """Make a bag of calls of a function of a Python file. The parameters are its keyword arguments.

    ``parameters`` and ``points`` are those of `wfrun.bag`, with values that JSON can express. The
    return value of a call is the output ``<function>-<number of the task>.json``. ``inputs`` and
    ``outputs`` name further files by templates, in which a parameter stands for its value in JSON
    notation. `FunctionWorkflow` describes the file and ``python``. Raises InvalidError like
    `wfrun.bag` and `FunctionWorkflow.call`.
    """
    path = _module(module)
    _check_function(function, path, _names(path))
    given: dict[str | tuple[str, ...], Iterable[Any]] = {}
    names: list[str] = []
    for key, values in (parameters or {}).items():
        names += [key] if isinstance(key, str) else key
        given[key] = values if isinstance(values, range) else _as_json(key, values)
    if points is not None:
        rest = iter(points)
        first = next(rest, None)
        names = [*(first or ()), *names]
        points = ({k: _json(v) for k, v in p.items()} for p in _again(first, rest))
    for parameter in names:
        if not isinstance(parameter, str) or not parameter.isidentifier():
            raise InvalidError(f"{parameter!r} cannot be an argument of {function}", source=name)
    words = ", ".join(f'"{parameter}": {{{parameter}}}' for parameter in names)
    result = f"{function}-{{index}}.json"
    command = [python, python_function.NAME, escaped(path.name), function,
               f'{{{{"kwargs": {{{{{words}}}}}}}}}', result]  # fmt: skip
    read = {python_function.NAME: escaped(python_function.__file__),
            escaped(path.name): escaped(str(path)), **{file: file for file in inputs}}  # fmt: skip
    kept = outputs if isinstance(outputs, Mapping) else {file: file for file in outputs}
    return bag(
        name,
        command,
        parameters=given,
        points=points,
        inputs=read,
        outputs={result: result, **kept},
        estimate=estimate,
        resources=resources,
        owner=owner,
        application=function,
        priority=priority,
    )


def _as_json(key: str | tuple[str, ...], values: Iterable[Any]) -> Iterator[Any]:
    if isinstance(key, str):
        return map(_json, values)
    return (tuple(map(_json, row)) for row in values)


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidError(
            f"{value!r} cannot be written as JSON: {error}",
            hint="pass numbers, text, lists and objects; other values in files (inputs)",
        ) from error


def _again(first: Mapping[str, Any] | None, rest: Iterator[Any]) -> Iterator[Any]:
    return iter(()) if first is None else chain((first,), rest)


class FunctionWorkflow:
    """A workflow of calls of the functions of one Python file.

    The file may import only packages that are installed at the sites, and Python files that are
    inputs of the calls. Raises InvalidError if ``module`` is not the path of a ``.py`` file.
    """

    def __init__(self, name: str, module: str | Path, *, python: str = "python3") -> None:
        """``python`` is the interpreter at the sites, a path or a name in the PATH."""
        path = _module(module)
        self._name, self._source, self._python = name, str(path), python
        self._functions = _names(path)
        self._tasks: list[Task] = []
        self._files: list[File] = []
        self._numbers: dict[str, int] = {}
        self._used: set[int] = set()
        self._add(File(python_function.NAME, url=python_function.__file__))
        self._add(File(path.name, url=str(path)))

    def call(
        self,
        function: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        resources: Resources = Resources(),  # noqa: B008
        runtime_s: float | None = None,
        priority: int = 0,
    ) -> Call:
        """Add a task that calls ``function``.

        Arguments are values that JSON can express, or earlier calls. ``inputs`` are names of
        further files that the call reads: outputs of earlier calls, or initial inputs, which the
        run locates like those of a document. ``outputs`` are names of files that the call writes
        besides its return value. ``runtime_s`` is the expected run time.

        The call runs in its own process and sandbox; an exception fails the task. Raises
        InvalidError if the arguments are not a list or cannot be expressed as JSON, if a file is
        written twice or read before it is written, or if the file has no function of this name.
        """
        _check_function(function, Path(self._source), self._functions)
        given, given_by_name = _arguments(args, kwargs, self._source)
        inputs = [name for name, _ in names_of("inputs", inputs, self._source)]
        outputs = [name for name, _ in names_of("outputs", outputs, self._source)]
        number = len(self._tasks)
        call = Call(f"{function}-{number}", f"{function}-{number}.json")
        places: list[tuple[int | str, Any]] = [*enumerate(given), *given_by_name.items()]
        calls = [(place, value.file) for place, value in places if isinstance(value, Call)]
        plain = [None if isinstance(value, Call) else value for value in given]
        named = {k: v for k, v in given_by_name.items() if not isinstance(v, Call)}
        words = self._words(call, {"args": plain, "kwargs": named, "files": calls})
        task = Task(
            id=call.id,
            name=function,
            executable=self._python,
            arguments=(python_function.NAME, Path(self._source).name, function, words, call.file),
            env=dict(env) if env else None,
            resources=resources,
            runtime_s=runtime_s,
            priority=priority,
        )
        check_record(task, "the call", self._source)
        written = (call.file, *outputs)
        if len(set(written)) < len(written) or not self._numbers.keys().isdisjoint(written):
            raise InvalidError(
                f"one of {', '.join(written)} is written twice, or read before it is written",
                source=self._source,
                hint="give the outputs of each call names of their own",
            )
        reads = [python_function.NAME, Path(self._source).name, *inputs, *(f for _, f in calls)]
        read = tuple(dict.fromkeys(self._number(name) for name in reads))
        self._used.update(read)
        made = tuple(self._add(File(name, producer=number)) for name in written)
        self._tasks.append(msgspec.structs.replace(task, inputs=read, outputs=made))
        return call

    def workflow(self) -> Workflow:
        """The workflow of the calls so far. Files that no call reads are final outputs."""
        files = [
            msgspec.structs.replace(file, collect=file.producer is not None)
            if number not in self._used
            else file
            for number, file in enumerate(self._files)
        ]
        parents = []
        for task in self._tasks:
            producers = {files[file].producer for file in task.inputs}
            parents.append(tuple(sorted(p for p in producers if p is not None)))
        return Workflow(self._name, self._source, list(self._tasks), files, parents)

    def _words(self, call: Call, words: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(words)
        except (TypeError, ValueError) as error:
            raise InvalidError(
                f"the arguments of {call.id} cannot be written as JSON: {error}",
                source=self._source,
                hint="pass numbers, text, lists, objects and, at the top level, earlier calls; "
                "other values in files (inputs)",
            ) from error
        if len(text) > _MOST_BYTES:
            raise InvalidError(
                f"the arguments of {call.id} take {len(text)} bytes as JSON",
                source=self._source,
                hint="pass them in a file (inputs), or as an earlier call",
            )
        return text

    def _number(self, name: str) -> int:
        return self._numbers[name] if name in self._numbers else self._add(File(name))

    def _add(self, file: File) -> int:
        self._numbers[file.name] = len(self._files)
        self._files.append(file)
        return len(self._files) - 1
