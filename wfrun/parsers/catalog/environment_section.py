"""The part of a catalog entry that describes the environment of tasks: docs/environments.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from wfrun.engine.fitting.containers import (
    RUNTIMES,
    ContainerRuntime,
    RuntimeName,
    SiteEnvironment,
)
from wfrun.parsers.catalog.access import choice, own_path, remote_path
from wfrun.parsers.containers import to_image
from wfrun.parsers.syntax.limits import CONTROL, variable_fault
from wfrun.parsers.syntax.sections import Section, in_words

ENVIRONMENT_KEYS = ("prologue", "environment", "container")
CONTAINER_KEYS = ("runtime", "command", "image", "binds", "options", "global_options")
_PLACES = ("image", "sandbox", "files")
"""Names that the user's own container command (``command``) may contain in braces."""
_PLACE = re.compile(r"\{([^{}]*)\}")
_BIND = re.compile(r"(?:[/~$])[^:,]*(?::/[^:,]*(?::r[ow])?)?")
_NAMED: tuple[RuntimeName, ...] = tuple(name for name in RUNTIMES if name != "command")


def read_environment(site: Section, *, is_remote: bool, base: Path) -> SiteEnvironment | None:
    """Read the environment of a site; None if the site has none of its keys. Relative paths of this
    machine start at ``base``."""
    if not any(site.has(key) for key in ENVIRONMENT_KEYS):
        return None
    return SiteEnvironment(
        prologue=site.take("prologue", _prologue, ()),
        variables=_read_variables(site),
        container=_read_container(site, is_remote=is_remote, base=base),
    )


def _prologue(value: Any) -> tuple[str, ...]:
    """Shell commands: the lines of a text, or the items of a list, which may have several lines."""
    items = value.splitlines() if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"it must be text or a list of shell commands, not {in_words(value)}")
    for item in items:
        if CONTROL.search(item.replace("\n", "").replace("\t", "")):
            raise ValueError("it has control characters")
    kept = (item.strip() for item in items)
    return tuple(item for item in kept if item and not re.fullmatch(r"(#.*\n?)*", item))


def _read_variables(site: Section) -> dict[str, str]:
    values = site.values.get("environment", {})
    if not isinstance(values, dict):
        message = f"environment of {site.title} must be a mapping, not {in_words(values)}"
        raise site.error(message, "environment", hint="Write 'NAME: VALUE' for each variable.")
    variables: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, (bool, dict, list)) or value is None:
            message = f"{name} of environment of {site.title} must be text, not {in_words(value)}"
            raise site.error(message, "environment", name, hint="Put it in quotes.")
        variables[str(name)] = str(value)
        if fault := variable_fault(str(name), str(value)):
            raise site.error(f"environment of {site.title} has {fault}", "environment", name)
    return variables


def _read_container(site: Section, *, is_remote: bool, base: Path) -> ContainerRuntime | None:
    if not site.has("container"):
        return None
    if isinstance(site.values["container"], str):
        return ContainerRuntime(
            site.take("container", choice("container runtime", _NAMED), "docker")
        )
    section = site.inner("container", f"'container' of {site.title}", CONTAINER_KEYS)
    if section.has("command") == section.has("runtime"):
        message = f"{section.title} needs one of 'runtime' and 'command'"
        hint = f"Runtimes are {', '.join(_NAMED)}; 'command' is a command line of your own."
        raise section.error(message, hint=hint)
    own = section.has("command")
    for key in ("binds", "options", "global_options"):
        if own and section.has(key):
            message = f"{section.title} has a command of its own, and {key!r} besides"
            raise section.error(message, key, hint="Write them into the command.")

    def image(value: Any) -> str:
        if not (isinstance(value, str) and value.startswith(("~", "$"))):
            found = to_image(value)
            if "://" in found:
                return found
        return remote_path(value) if is_remote else own_path(value, base)

    return ContainerRuntime(
        name=section.take("runtime", choice("container runtime", _NAMED), "command"),
        command=section.take("command", _command, ()),
        image=section.take("image", image, None),
        binds=section.take("binds", lambda value: tuple(map(_bind, _texts(value))), ()),
        options=section.take("options", _texts, ()),
        global_options=section.take("global_options", _texts, ()),
    )


def _command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str) or not value.strip() or CONTROL.search(value):
        raise ValueError(f"it must be a command line, not {in_words(value)}")
    words = tuple(shlex.split(value))
    named = [name for word in words for name in _PLACE.findall(word)]
    for name in named:
        if name not in _PLACES:
            known = ", ".join(f"{{{place}}}" for place in _PLACES)
            raise ValueError(f"it names {{{name}}}; known are {known}")
    if "image" not in named:
        raise ValueError("it does not name {image}")
    return words


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"it must be a list, not {in_words(value)}: [--nv]")
    for text in value:
        if not isinstance(text, str) or not text or CONTROL.search(text):
            raise ValueError(f"{text!r} is not text that a program takes; put it in quotes")
    return tuple(value)


def _bind(text: str) -> str:
    if not _BIND.fullmatch(text):
        raise ValueError(
            f"{text!r} is no bind; write /SOURCE or /SOURCE:/DESTINATION, :ro or :rw may follow"
        )
    return text
