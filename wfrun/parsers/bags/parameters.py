"""The parameters of a bag in YAML: lists, ranges, files, tables, and zips of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Column, Progression
from wfrun.engine.tasks.templates import NAME
from wfrun.parsers.bags.columns import column_of, progression
from wfrun.parsers.bags.text import read_table, read_values
from wfrun.parsers.bags.values import to_delimiter, to_text
from wfrun.parsers.syntax.sections import Section, in_words

_KINDS = ("range", "file", "rows", "zip")
_HINT = (
    "Values are a list, {range: [1, 100]}, {range: {from: 0, to: 1, step: 0.1}}, {file: NAME}, "
    "{rows: TABLE} or {zip: {…}}."
)
Place = tuple[str | int, ...]


def read_parameters(
    section: Section, directory: Path, places: dict[str, Place]
) -> tuple[Axis, ...]:
    """Read the axes under the key ``parameters``, and note the place of each parameter in
    ``places``.

    Files are relative to ``directory``. Raises InvalidError with the line.
    """
    values = section.values["parameters"]
    if not isinstance(values, dict):
        raise section.error(
            f"the parameters must be a mapping, not {in_words(values)}", "parameters",
            hint="Write 'NAME: [VALUE, VALUE]' for each.",
        )  # fmt: skip
    reader = _ParameterReader(section, directory, places)
    return tuple(reader.axis(key) for key in values)


class _ParameterReader:
    def __init__(self, section: Section, directory: Path, places: dict[str, Place]) -> None:
        self._section, self._directory, self._places = section, directory, places

    def axis(self, key: Any) -> Axis:
        """Read the parameters of one entry."""
        value = self._section.values["parameters"][key]
        path: Place = ("parameters", key)
        if isinstance(value, dict) and ("zip" in value or "rows" in value):
            kind = "zip" if "zip" in value else "rows"
            known = ("zip",) if kind == "zip" else ("rows", "delimiter")
            entry = self._inner(path, known)
            axis = self._zip(entry) if kind == "zip" else self._rows(entry)
            for name in axis.names:
                self._note(name, (*entry.path, kind))
            return axis
        name = self._name(key, path)
        return Axis((name,), (self._column(value, path),))

    def _name(self, key: Any, path: Place) -> str:
        if not isinstance(key, str) or not NAME.fullmatch(key):
            raise self._section.error(
                f"{str(key)!r} cannot be the name of a parameter", *path,
                hint="A name has letters, digits, hyphens and underscores, and begins with a "
                "letter; put true, yes, on and the like in quotes.",
            )  # fmt: skip
        self._note(key, (*self._section.path, *path))
        return key

    def _note(self, name: str, place: Place) -> None:
        if name in self._places:
            raise self._section.document.error(
                f"the parameter {name!r} is repeated", *place, hint="Rename one of the two."
            )
        self._places[name] = place

    def _inner(self, path: Place, known: tuple[str, ...]) -> Section:
        title = f"the parameter {str(path[-1])!r}"
        return Section(self._section.document, (*self._section.path, *path), title, known)

    def _column(self, value: Any, path: Place) -> Column:
        if isinstance(value, list):
            return self._listed(value, path)
        if not isinstance(value, dict):
            what = f"the values of the parameter {str(path[-1])!r} are {in_words(value)}"
            raise self._section.error(what, *path, hint=_HINT)
        entry = self._inner(path, ("range", "file"))
        if len(value) != 1:
            raise entry.error(f"{entry.title} has to have one of {_KINDS}", hint=_HINT)
        if entry.has("file"):
            return self._file(entry)
        return self._range(entry, path)

    def _listed(self, values: list[Any], path: Place) -> Column:
        if not values:
            raise self._section.error(
                f"the parameter {str(path[-1])!r} has no values: the product is empty", *path,
                hint="Give it at least one value, or leave it out.",
            )  # fmt: skip
        texts = []
        for number, value in enumerate(values):
            try:
                texts.append(to_text(value))
            except ValueError as error:
                raise self._section.error(str(error), *path, number, hint=_HINT) from None
        return column_of(texts)

    def _file(self, entry: Section) -> Column:
        path = self._directory / entry.take("file", to_text, "")
        with _reported_at(entry, "file"):
            column = read_values(path)
        if not len(column):
            raise entry.error(f"{path} has no values: the product is empty", "file")
        return column

    def _rows(self, entry: Section) -> Axis:
        path = self._directory / entry.take("rows", to_text, "")
        delimiter = entry.take("delimiter", to_delimiter, None)
        with _reported_at(entry, "rows"):
            return read_table(path, delimiter)

    def _range(self, entry: Section, path: Place) -> Progression:
        value = entry.values["range"]
        if isinstance(value, list):
            if len(value) not in (2, 3):
                raise entry.error("a range is [from, to] or [from, to, step]", "range", hint=_HINT)
            given: Mapping[str, Any] = dict(zip(("from", "to", "step"), value, strict=False))
        else:
            given = self._inner((*path, "range"), ("from", "to", "step", "count")).values
        for key, number in given.items():
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise entry.error(
                    f"{key!r} of a range is a number, not {in_words(number)}", "range", key,
                    hint="A number such as 1e3 is written 1.0e+3 in YAML.",
                )  # fmt: skip
        if "from" not in given or ("to" in given) == ("count" in given):
            raise entry.error("a range has 'from', and either 'to' or 'count'", "range", hint=_HINT)
        count = given.get("count")
        if count is not None and (not isinstance(count, int) or count < 1):
            raise entry.error(f"count {count}: the product is empty", "range", "count", hint=_HINT)
        try:
            return progression(given["from"], given.get("to"), given.get("step", 1), count)
        except ValueError as error:
            raise entry.error(f"the range of {entry.title}: {error}", "range") from None

    def _zip(self, entry: Section) -> Axis:
        given = entry.values["zip"]
        if not isinstance(given, dict) or not given:
            raise entry.error(
                f"a zip is a mapping of parameters, not {in_words(given)}", "zip", hint=_HINT
            )
        inner = Section(entry.document, entry.path, entry.title, ("zip",))
        reader = _ParameterReader(inner, self._directory, {})
        columns = {}
        for key in given:
            reader._name(key, ("zip", key))
            columns[key] = reader._column(given[key], ("zip", key))
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            counts = ", ".join(f"{name} has {len(column):,}" for name, column in columns.items())
            raise entry.error(
                f"parameters that vary together have as many values each, but {counts}", "zip",
                hint="Correct the lists; or take them out of the zip for all combinations.",
            )  # fmt: skip
        return Axis(tuple(columns), tuple(columns.values()))


@contextmanager
def _reported_at(entry: Section, key: str) -> Iterator[None]:
    """Report a file that cannot be read at the line where the document names it."""
    try:
        yield
    except InvalidError as error:
        if error.line is not None:
            raise
        raise entry.error(f"{error.source} {error.message}", key) from error
