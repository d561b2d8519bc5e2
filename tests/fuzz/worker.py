"""One process that examines mutated documents of a format, with little memory and without rights to
change anything outside its folder.

Usage: python -m tests.fuzz.worker FORMAT SEED FIRST END FOLDER. It prints the number of each
document before it examines it, and the trace of each defect as a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.formats import FORMATS
from tests.fuzz.mutations import Mutator
from wfrun.engine.errors import WfrunError

MAX_MEMORY_BYTES = 500_000_000
"""Maximum memory for a document, beyond what the process has before the first one."""

_FORBIDDEN = frozenset(
    f"os.{name}"
    for name in (
        "exec", "fork", "posix_spawn", "spawn", "system", "remove", "rename", "mkdir", "rmdir",
        "symlink", "link", "truncate", "chmod", "chown",
    )
) | {
    "subprocess.Popen", "socket.connect", "socket.bind", "socket.getaddrinfo",
    "pickle.find_class", "shutil.rmtree", "shutil.copyfile",
}  # fmt: skip
"""Audit events of what no reader does (Python's "Audit events table")."""


class OutsideError(BaseException):
    """A document made its reader do something that readers must not do."""


class _Audit:
    is_on = False


def refuse_effects(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: refuse writes, processes and connections."""
    if not _Audit.is_on:
        return
    if event == "open":
        flags = arguments[2] or 0
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OutsideError(f"writes {arguments[0]!r}")
    elif event in _FORBIDDEN:
        raise OutsideError(f"{event}{arguments}")


def document(name: str, seed: int, number: int) -> bytes:
    """The document of this number."""
    return Mutator(Random(f"{seed} {name} {number}"), FORMATS[name].corpus()).document()


def reader_of(name: str) -> Callable[[Path], None]:
    """What examines the documents of a format; a test of the worker names another function."""
    other = os.environ.get("WFRUN_FUZZ_READER")
    if other is None:
        return FORMATS[name].examine
    module, _, function = other.partition(":")
    found: Callable[[Path], None] = getattr(import_module(module), function)
    return found


def examine(read: Callable[[Path], None], path: Path) -> str | None:
    """Examine a document; returns the trace of a defect."""
    _Audit.is_on = True
    try:
        read(path)
    except WfrunError as error:
        str(error).encode()
    except BaseException:  # MemoryError, RecursionError, OutsideError, and all else
        return traceback.format_exc()
    finally:
        _Audit.is_on = False
    return None


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """Bound the memory that is taken meanwhile."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + MAX_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def main() -> None:
    name, seed, first, end, folder = sys.argv[1:]
    os.chdir(folder)
    Path("table.csv").write_text("a,b\n1,2\n3,4\n")
    Path("values.txt").write_text("one\ntwo\n")
    form, corpus = FORMATS[name], FORMATS[name].corpus()
    path = Path(folder, f"x{form.suffix}")
    for data in corpus:  # imports what reading needs
        path.write_bytes(data)
        with contextlib.suppress(WfrunError):
            form.examine(path)
    read = reader_of(name)
    sys.addaudithook(refuse_effects)
    for number in range(int(first), int(end)):
        data = Mutator(Random(f"{seed} {name} {number}"), corpus).document()
        path.write_bytes(data)
        print(number, flush=True)
        with limited_memory():
            trace = examine(read, path)
        print("done", flush=True)  # the time of the next mutation does not count
        if trace is not None:
            print(json.dumps({"number": number, "trace": trace}), flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main()
