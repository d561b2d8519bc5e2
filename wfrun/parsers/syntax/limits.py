"""What documents may contain: ids of tasks, names of files, texts, numbers.

Every workflow passes these checks when it is linked, every bag when it is built. Each function
returns the fault as the end of a message, or None if there is none.
"""

from __future__ import annotations

import re

from wfrun.engine.model import Resources

MAX_ID = 255
"""Maximum length of the id of a task, in characters."""
MAX_PART_BYTES = 255
"""Maximum length of one part of the name of a file, in bytes: usual file systems take no more."""
MAX_NAME_BYTES = 1024
"""Maximum length of the name of a file, in bytes. Linux accepts paths of 4,095 bytes, which also
hold the folder of the task at the site."""
MAX_PRIORITY = 2**31 - 1
"""Maximum priority. The minimum is its negative. Priorities are stored in 32 bits."""
MAX_COUNT = 10**9
"""Maximum number of cores, nodes or GPUs of a task."""
MAX_BYTES = 2**62
"""Maximum memory of a task and maximum size of a file, in bytes. Even twice this number, or its
rounding to floating point, fits 64 bits."""
MAX_SECONDS = 1e12
"""Maximum run time or walltime in seconds: clocks and their sums stay exact to milliseconds."""

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that control terminals, end lines, or are not text."""
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OUTSIDE = re.compile(r"\A\Z|\A/|(?:\A|/)\.\.(?:/|\Z)|\A\.?/*\Z")

ID_RULE = (
    f"An id has at most {MAX_ID} characters, no '/' and no control characters: rename the task."
)
NAME_RULE = (
    "A file name is a path relative to the task's directory: not empty, not absolute, without '..' "
    f"and control characters, at most {MAX_PART_BYTES} bytes between slashes and {MAX_NAME_BYTES} "
    "in all."
)


def cut(text: str) -> str:
    """A text in quotes for messages, cut to 80 characters."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def id_fault(text: str) -> str | None:
    """The fault of the id of a task."""
    if len(text) > MAX_ID:
        return f"has {len(text):,} characters"
    if "/" in text:
        return "has a '/'"
    if not text.isprintable() and CONTROL.search(text):
        return "has control characters"
    return None


def label_fault(text: str) -> str | None:
    """The fault of the name of a bag, an owner, an application or a program."""
    if len(text) > MAX_ID:
        return f"has {len(text):,} characters; at most {MAX_ID} are possible"
    return "has control characters" if CONTROL.search(text) else None


def name_fault(name: str) -> str | None:
    """The fault of the name of a file. Parts that are empty or ``.`` are accepted."""
    if CONTROL.search(name):
        return "has control characters"
    if _OUTSIDE.search(name):
        return "is not a path in the task's directory"
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        return f"has {size:,} bytes"
    if size > MAX_PART_BYTES and max(len(p.encode()) for p in name.split("/")) > MAX_PART_BYTES:
        return f"has a part of more than {MAX_PART_BYTES} bytes"
    return None


def text_fault(text: str) -> str | None:
    """The fault of a text that is passed to a program: an argument, or the value of a variable."""
    if "\0" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "a character that is no Unicode text"
    return None


def variable_fault(name: str, value: str) -> str | None:
    """The fault of the name or the value of an environment variable.

    Shells do not pass on a variable whose name begins with a digit or has other characters than
    letters, digits and underscores. Source: POSIX.1-2017, XBD section 8.1.
    """
    if not _VARIABLE.fullmatch(name):
        return f"the variable {cut(name)}; a name has letters, digits and '_', no digit at first"
    return text_fault(value)


def request_fault(asked: Resources) -> str | None:
    """The fault of the numbers in the request of a task."""
    for value, most, unit in (
        (asked.cores, MAX_COUNT, "cores"),
        (asked.nodes, MAX_COUNT, "nodes"),
        (asked.gpus, MAX_COUNT, "GPUs"),
        (asked.memory_bytes, MAX_BYTES, "bytes of memory"),
        (asked.walltime_s or 0, MAX_SECONDS, "seconds of walltime"),
    ):
        if value > most:
            return f"more than {most:,.0f} {unit}"
    return None
