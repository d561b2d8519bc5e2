"""Files and variables of YAML documents of bags and jobs."""

from __future__ import annotations

import posixpath

from wfrun.engine.model import BagFile
from wfrun.parsers.bags.values import is_elsewhere, to_text
from wfrun.parsers.syntax.sections import Section, in_words, to_truth

_INPUT_KEYS = ("name", "from", "executable")
_OUTPUT_KEYS = ("name", "to", "optional")


def to_files(section: Section, key: str) -> list[BagFile]:
    """Convert the list under ``key``, ``inputs`` or ``outputs``; empty where it is absent."""
    if not section.has(key):
        return []
    listed = section.values[key]
    if not isinstance(listed, list):
        raise section.error(f"{key} of {section.title} must be a list, not {in_words(listed)}", key)
    return [_to_file(section, key, number) for number in range(len(listed))]


def _to_file(section: Section, key: str, number: int) -> BagFile:
    value = section.values[key][number]
    known = _INPUT_KEYS if key == "inputs" else _OUTPUT_KEYS
    if not isinstance(value, dict):
        try:
            return BagFile(to_text(value))
        except ValueError as error:
            raise section.error(f"{key}: {error}", key, number) from None
    title = f"a file of the {key} of {section.title}"
    entry = Section(section.document, (*section.path, key, number), title, known)
    place = entry.take("from" if key == "inputs" else "to", to_text, None)
    if key == "inputs" and place is not None and is_elsewhere(place):
        raise entry.error(
            f"{place!r} is no file of this machine", "from",
            hint="'from' is a path, relative to the document.",
        )  # fmt: skip
    name = entry.take("name", to_text, None)
    if name is None and key == "inputs" and place is not None:
        name = posixpath.basename(place)
    if name is None:
        raise entry.error(f"{title} has no name", hint="Add 'name: PATH' in the sandbox.")
    executable = entry.take("executable", to_truth, False)
    optional = entry.take("optional", to_truth, False)
    return BagFile(name, place, executable, optional)


def to_variables(section: Section) -> dict[str, str]:
    """Convert the mapping under ``env`` to variables."""
    values = section.values["env"]
    if not isinstance(values, dict):
        raise section.error(
            f"env of {section.title} must be a mapping, not {in_words(values)}", "env"
        )
    env: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise section.error(f"{name!r} cannot be the name of a variable", "env", name)
        try:
            env[name] = to_text(value)
        except ValueError as error:
            raise section.error(f"{name} of env: {error}", "env", name) from None
    return env
