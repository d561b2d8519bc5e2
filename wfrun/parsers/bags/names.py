"""Checks of the names of a bag's files: each is inside the sandbox, and outputs have different
names. The lengths of names are checked before any template is expanded.

A bag may have millions of tasks. In most cases the templates and the columns of values suffice for
the checks. Only in other cases are all names compared one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import sub

from wfrun.engine.model import Axis, Bag, Column, DictionaryColumn, PackedColumn, Progression
from wfrun.engine.tasks.bag import INDEX, Expansion
from wfrun.engine.tasks.templates import TemplatePart, parse_template, placeholders
from wfrun.parsers.bags.columns import (
    MAX_VALUES,
    distinct,
    has_empty,
    holds,
    holds_unusual,
    last_of,
)
from wfrun.parsers.bags.draft import Refuse
from wfrun.parsers.syntax.limits import CONTROL, MAX_PART_BYTES, NAME_RULE, cut, name_fault

MAX_NAMES = 10_000_000
"""Maximum number of names that are compared one by one."""
MAX_SHORT_NAMES = 1_000_000
"""Maximum number of names that are compared one by one for a bag with few values in its document
and tables. A bag with many values may have four names for each value, up to `MAX_NAMES`. A document
of a few lines thus takes seconds at most."""

_FEW = 6
"""Maximum number of parameters of a task that a message shows."""
_LONG = 40
"""Maximum number of characters of a value that a message shows."""

_UNTIDY = re.compile(r"(?:\A|/)\.?(?:/|\Z)")
"""Matches a name with a part that is empty or ``.``: two different such names may be one file."""
_NUMBERS = re.compile(r"[-+ ]?0?\d*(?:\.\d+)?[defgoxX]|0\d+", re.ASCII)
"""Format specifications whose result is a number. A number is never empty, and never consists of
dots or slashes alone. Other specifications pad with any character, or cut the value."""
_LETTERS = {
    **dict.fromkeys("efg", "-+.0123456789einfa"),
    **dict.fromkeys("xX", "-0123456789abcdefABCDEF"),
    **dict.fromkeys("do", "-0123456789"),
}
"""Characters that a number may contain, by the last character of its format specification."""


def check_names(expansion: Expansion, columns: Mapping[str, Column], refuse: Refuse) -> None:
    """Raise InvalidError for file names that cannot be used.

    These are names outside the sandbox, equal names of two files of a task, equal names of outputs
    of two tasks, and the name of an output that is also a folder in the path of another output.
    """
    bag = expansion.bag
    for file in (*bag.inputs, *bag.outputs):
        _check_inside(file.name, expansion, columns, refuse)
    _check_within_tasks(bag, expansion, columns, refuse)
    for file in bag.outputs:
        if file.url is not None:
            _check_inside(file.url, expansion, columns, refuse)
    templates = [file.url or file.name for file in bag.outputs]
    for template in templates:
        pair = _repeated(template, expansion, refuse)
        if pair is not None:
            name = expansion.fill(template)(pair[0])
            raise _twice(bag, name, pair, template, refuse)
    separable = all(_is_decodable(t, columns) for t in templates)
    if not separable or any(not _are_apart(a, b, columns) for a, b in combinations(templates, 2)):
        _compare_all(bag, expansion, templates, refuse)


def shown_parameters(expansion: Expansion, task: int) -> str:
    """The first parameters of a task for messages, such as ``seed=91, ligand=a``; long values are
    cut."""
    values = list(expansion.parameters(task).items())
    shown = [
        f"{name}={value if len(value) <= _LONG else value[: _LONG - 1] + '…'}"
        for name, value in values[:_FEW]
    ]
    return ", ".join([*shown, "…"] if len(values) > _FEW else shown)


def _check_inside(
    template: str, expansion: Expansion, columns: Mapping[str, Column], refuse: Refuse
) -> None:
    """Refuse a name that is not a path inside the sandbox.

    If each piece between two slashes of the template has a literal character other than a dot,
    every value without a slash gives a valid name. Such names are not enumerated.
    """
    used = [columns[name] for name in placeholders(template) if name != INDEX]
    parts = parse_template(template)
    if (
        all(_NUMBERS.fullmatch(part.spec) for part in parts if part.spec)
        and not any(CONTROL.search(part.literal) for part in parts)
        and not any(holds_unusual(column) for column in used)
        and longest(parts, columns) <= MAX_PART_BYTES
    ):
        pieces = "".join(p.literal + ("\0" if p.name else "") for p in parts).split("/")
        if all(piece.strip(".\0") for piece in pieces):
            return
        full = not any(holds(column, ".") or has_empty(column) for column in used)
        if full and all(piece.strip(".") for piece in pieces):
            return
    count, _, reader = expansion.numbering(template)
    fill = expansion.fill(template)
    _refuse_too_many(count, template, expansion.bag, refuse)
    for number in range(count):
        name = fill(reader(number))
        fault = name_fault(name)
        if fault is None and _UNTIDY.search(name):
            fault = "has parts that are empty or '.'"
        if fault is not None:
            raise refuse(
                f"{cut(name)} cannot be the name of a file in the sandbox of task "
                f"{reader(number)}: it {fault}",
                template,
                NAME_RULE,
            )


def _check_within_tasks(
    bag: Bag, expansion: Expansion, columns: Mapping[str, Column], refuse: Refuse
) -> None:
    files = (*bag.inputs, *bag.outputs)
    for one, other in combinations([file.name for file in files], 2):
        if one != other and _never_equal(one, other, columns):
            continue
        count, _, reader = expansion.numbering(one + other)
        _refuse_too_many(count, other, bag, refuse)
        first, second = expansion.fill(one), expansion.fill(other)
        for number in range(count):
            task = reader(number)
            if first(task) == second(task):
                raise refuse(
                    f"task {task} has two files with the name {first(task)!r}", other,
                    "Give each input and output of a task a name of its own.",
                )  # fmt: skip


def _repeated(template: str, expansion: Expansion, refuse: Refuse) -> tuple[int, int] | None:
    """Two tasks that certainly write a file of the same name, because the template gives the same
    text at two positions of an axis. None if no such tasks are found."""
    named = set(placeholders(template))
    if INDEX in named:
        return None
    step = expansion.count
    parts = [part for part in parse_template(template) if part.name is not None]
    for axis in expansion.bag.axes:
        step //= len(axis)
        own = [part for part in parts if part.name in axis.names]
        if own and not _is_kept_apart(axis, own):
            _refuse_too_many(len(axis), template, expansion.bag, refuse)
        pair = _alike(axis, own)
        if pair is not None:
            return pair[0] * step, pair[1] * step
    return None


def _alike(axis: Axis, parts: Sequence[TemplatePart]) -> tuple[int, int] | None:
    """Two positions of an axis at which ``parts`` give the same texts; None if there are none."""
    if len(axis) == 1:
        return None
    if not parts:
        return 0, 1
    if _is_kept_apart(axis, parts):
        return None
    columns = dict(zip(axis.names, axis.columns, strict=True))
    for part in parts:
        column = columns[part.name or ""]
        if isinstance(column, PackedColumn) and len(set(map(hash, _texts(part, column)))) == len(
            axis
        ):
            return None

    def texts() -> Iterator[tuple[str, ...]]:
        return zip(*(_texts(part, columns[part.name or ""]) for part in parts), strict=True)

    if len(set(map(hash, texts()))) == len(axis):
        return None
    seen: dict[tuple[str, ...], int] = {}
    for place, text in enumerate(texts()):
        first = seen.setdefault(text, place)
        if first != place:
            return first, place
    return None


def _is_kept_apart(axis: Axis, parts: Sequence[TemplatePart]) -> bool:
    """Whether one of the parts certainly gives a different text at every position of the axis."""
    columns = dict(zip(axis.names, axis.columns, strict=True))
    return any(_keeps_apart(part, columns[part.name or ""]) for part in parts)


def _keeps_apart(part: TemplatePart, column: Column) -> bool:
    """Whether this part certainly gives a different text for every value."""
    if not isinstance(column, Progression) or column.step == 0:
        return False
    return not part.spec or (column.decimals == 0 and part.spec[-1] in "doxX0123456789")


def _texts(part: TemplatePart, column: Column) -> Iterator[str]:
    if isinstance(column, DictionaryColumn):
        values = [part.formatted(value) for value in distinct(column)]
        return (values[code] for code in memoryview(column.codes).cast("I"))
    return map(part.formatted, distinct(column)) if part.spec else distinct(column)


def _is_decodable(template: str, columns: Mapping[str, Column]) -> bool:
    """Whether each name that the template gives determines the values of the parameters in it.

    This is certain if every part but the last is followed by a literal character that occurs in
    none of the part's values: two tasks that differ in a part then have different names. The result
    is False if a value contains a slash, because one name may then be a folder of another.
    """
    parts = parse_template(template)
    named = [n for n, part in enumerate(parts) if part.name is not None]
    for n in named:
        part = parts[n]
        if _may_hold(part, columns, "/"):
            return False
        if n != named[-1]:
            following = parts[n + 1].literal
            if not following or _may_hold(part, columns, following[0]):
                return False
    return True


def _may_hold(part: TemplatePart, columns: Mapping[str, Column], letter: str) -> bool:
    assert part.name is not None
    spec = part.spec
    if spec and (letter in spec or letter == " "):
        return True
    if spec and letter in _LETTERS.get(spec[-1], ""):
        return True
    if spec and spec[-1] not in _LETTERS and part.name != INDEX and letter in _LETTERS["e"]:
        return holds(columns[part.name], ".eE" + letter)
    if part.name == INDEX:
        return letter in "0123456789"
    return holds(columns[part.name], letter)


def _are_apart(one: str, other: str, columns: Mapping[str, Column]) -> bool:
    """Whether no name from one template can equal a name from the other template, or be a folder in
    its path."""
    first, second = parse_template(one), parse_template(other)
    if any(p.name is not None and _may_hold(p, columns, "/") for p in (*first, *second)):
        return False
    if _begin_apart(first[0].literal, second[0].literal):
        return True
    return one.count("/") == other.count("/") and _never_equal(one, other, columns)


def _never_equal(one: str, other: str, columns: Mapping[str, Column]) -> bool:
    """Whether a name from one template certainly differs from every name from the other template.

    It does if the literal beginnings or ends of the templates differ, or if one template always
    gives a character that the other cannot give.
    """
    first, second = parse_template(one), parse_template(other)
    if _begin_apart(first[0].literal, second[0].literal):
        return True
    if _begin_apart(_end(first)[::-1], _end(second)[::-1]):
        return True
    return _has_own_letter(first, second, columns) or _has_own_letter(second, first, columns)


def _has_own_letter(
    first: Sequence[TemplatePart], second: Sequence[TemplatePart], columns: Mapping[str, Column]
) -> bool:
    letters = {letter for part in first for letter in part.literal}
    letters.difference_update(*(part.literal for part in second))
    named = [part for part in second if part.name is not None]
    return any(not any(_may_hold(part, columns, x) for part in named) for x in letters)


def _begin_apart(one: str, other: str) -> bool:
    return not one.startswith(other) and not other.startswith(one)


def _end(parts: Sequence[TemplatePart]) -> str:
    return parts[-1].literal if parts[-1].name is None else ""


def _compare_all(bag: Bag, expansion: Expansion, templates: Sequence[str], refuse: Refuse) -> None:
    """Compare the output names of all tasks one by one. Hashes are compared first, and the names
    themselves only if hashes are equal."""
    count = expansion.count * len(templates)
    _refuse_too_many(count, templates[0], bag, refuse)
    fills = [expansion.fill(template) for template in templates]
    seen = {hash(fill(task)) for task in range(expansion.count) for fill in fills}
    suspects = len(seen) < count
    for task in range(expansion.count):
        for template, fill in zip(templates, fills, strict=True):
            name = fill(task)
            for end in (n for n, letter in enumerate(name) if letter == "/"):
                if hash(name[:end]) in seen:
                    _find_folder(bag, name[:end], (task, name), template, fills, refuse)
    if suspects:
        _find_twice(bag, templates, fills, refuse)


def _find_folder(
    bag: Bag,
    folder: str,
    inner: tuple[int, str],
    template: str,
    fills: Sequence[Callable[[int], str]],
    refuse: Refuse,
) -> None:
    for task in range(len(bag)):
        if any(fill(task) == folder for fill in fills):
            raise refuse(
                f"{folder!r} is an output of task {task} and also the folder of {inner[1]!r}, an "
                f"output of task {inner[0]}",
                template,
                "The two cannot be kept in one place: rename one of them.",
            )


def _find_twice(
    bag: Bag, templates: Sequence[str], fills: Sequence[Callable[[int], str]], refuse: Refuse
) -> None:
    first: dict[str, int] = {}
    for task in range(len(bag)):
        for template, fill in zip(templates, fills, strict=True):
            name = fill(task)
            if name in first:
                raise _twice(bag, name, (first[name], task), template, refuse)
            first[name] = task


def _twice(bag: Bag, name: str, tasks: tuple[int, int], template: str, refuse: Refuse) -> Exception:
    expansion = Expansion(bag)
    shown = [shown_parameters(expansion, task) or "no parameters" for task in tasks]
    return refuse(
        f"the output {name!r} is written by task {tasks[0]} ({shown[0]}) and by task {tasks[1]} "
        f"({shown[1]})",
        template,
        "Name all parameters in it that differ between tasks, or {index}, the number of the task.",
    )


def _refuse_too_many(count: int, template: str, bag: Bag, refuse: Refuse) -> None:
    columns = (column for axis in bag.axes for column in axis.columns)
    written = sum(len(c) for c in columns if not isinstance(c, Progression))
    if count > min(MAX_NAMES, max(MAX_SHORT_NAMES, 4 * written)):
        raise refuse(
            f"the {count:,} names {template!r} are too many to check one by one",
            template,
            "Separate its parameters by a character that is in none of their values, and keep "
            "slashes out of the values.",
        )


MAX_TEXT_BYTES = 1 << 20
"""Maximum length of an expanded template in bytes. Linux passes at most 128 KiB in one argument.
Without a limit a short document could expand to terabytes."""
_EXPONENT_DIGITS = 310
"""Maximum number of digits of a number with an exponent: ``f`` writes 1e308 in full."""
_SMALL = 64
"""Maximum length in bytes of all values of a column together for which this length is the bound of
the longest value. In larger columns the longest value is searched."""


def longest(parts: Sequence[TemplatePart], columns: Mapping[str, Column]) -> int:
    """An upper bound of the length in bytes of the texts that a template expands to."""
    total = 0
    for part in parts:
        total += len(part.literal.encode())
        if part.name is None:
            continue
        column = None if part.name == INDEX else columns[part.name]
        length = len(str(MAX_VALUES)) if column is None else _longest_value(column)
        total += _formatted(length, part.spec, column) if part.spec else length
    return total


def _formatted(length: int, spec: str, column: Column | None) -> int:
    """An upper bound of the length in bytes of a value formatted with ``spec``, if the value has at
    most ``length`` bytes."""
    numbers = [int(number) for number in re.findall(r"\d+", spec)]
    if spec[-1] == "f" and column is not None and holds(column, "eE"):
        length += _EXPONENT_DIGITS
    # Octal numbers are longer than decimal ones; a character of the padding may take 4 bytes.
    return 2 * length + 16 + sum(numbers) * (1 if spec.isascii() else 4)


def _longest_value(column: Column) -> int:
    """An upper bound of the length of a column's values in bytes. It is exact for columns of text
    with more than `_SMALL` bytes."""
    if isinstance(column, Progression):
        return max(len(str(column.start)), len(str(last_of(column)))) + column.decimals + 2
    plain = column.values if isinstance(column, DictionaryColumn) else column
    if len(plain.text) <= _SMALL:
        return len(plain.text)
    ends = memoryview(plain.ends).cast("Q")
    return max(ends[0], max(map(sub, ends[1:], ends), default=0))
