"""Input catalogs: where the initial inputs of workflows are, by their logical names.

The format is that of Pegasus' replica catalogs: one line an entry (`text`), or YAML
(`yaml_catalog`). The whole file is checked: a bad line is an error even if no workflow needs it.
"""

from __future__ import annotations

import re
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.input_catalog.entries import InputCatalog
from wfrun.parsers.input_catalog.text import read_text
from wfrun.parsers.input_catalog.yaml_catalog import read_yaml_catalog

_YAML = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*(?:---|(?:x-)?pegasus\s*:|replicas\s*:)")
_HEAD_BYTES = 1 << 16


def read_input_catalog(path: Path) -> InputCatalog:
    """Read the replica catalog at ``path``. Raises InvalidError with the line of the first bad
    entry."""
    try:
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "is no regular file"
            raise InvalidError(f"the input catalog {what if path.exists() else 'is absent'}",
                               source=str(path))  # fmt: skip
        with open(path, "rb") as file:
            is_yaml = _YAML.match(file.read(_HEAD_BYTES)) is not None
        return (read_yaml_catalog if is_yaml else read_text)(path)
    except OSError as error:
        raise InvalidError(f"cannot be read: {error.strerror}", source=str(path)) from error
