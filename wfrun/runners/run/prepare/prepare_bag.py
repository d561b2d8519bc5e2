"""Prepares a bag for `prepare`: finds its inputs and its program, without making its tasks."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Bag, BagFile, Workflow
from wfrun.engine.tasks.bag import Expansion, expand
from wfrun.engine.tasks.templates import placeholders
from wfrun.parsers.bags.values import escaped
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.files.images import bag_with_image
from wfrun.runners.run.files.located import (
    SHOWN,
    find_locked,
    folders,
    in_path,
    is_inside,
    is_program,
    local_path,
    locked_program,
    missing_inputs,
    some,
)

MAX_PROGRAMS = 10_000
"""Maximum number of different programs that the command of a bag may name, because each is looked
up."""


def with_files(
    read: ReadDocument, places: Sequence[Path], *, at_sites: bool, remote_sites: bool
) -> Workflow:
    """Find the inputs, the program and the container image of a bag. Returns its workflow, whose
    inputs have absolute paths and actual sizes.

    If ``at_sites`` is set or the bag has a container, the program is looked up at the site when a
    task starts, but a program that belongs to the document becomes an input. Raises InvalidError if
    inputs, programs or images are missing.
    """
    bag = read.workflow.bag
    assert bag is not None
    at_sites = at_sites or bag.resources.container is not None
    bag = _with_executable(bag, read, places, at_sites=at_sites)
    bag = bag_with_image(bag, read, places, remote_sites=remote_sites)
    expansion = Expansion(bag)
    inputs = [_located(expansion, file, read, places) for file in bag.inputs]
    return expand(replace(bag, inputs=tuple(inputs)))


def _located(
    expansion: Expansion, file: BagFile, read: ReadDocument, places: Sequence[Path]
) -> BagFile:
    """Find the files of an input template. All files must be in the first place that has the first
    file."""
    written = file.name if file.url is None else local_path(file.url)
    assert written is not None, "what reads documents takes paths alone"
    count, _, reader = expansion.numbering(file.name + (file.url or ""))
    path = expansion.fill(written)
    candidates = [read.folder] if file.url is not None and os.path.isabs(written) else places
    first = path(reader(0))
    place = next((p for p in candidates if (p / first).exists()), candidates[0])
    base = str(place.absolute())
    sizes, missing = array("q"), []
    for number in range(count):
        try:
            sizes.append(os.stat(os.path.join(base, path(reader(number)))).st_size)
        except OSError:
            missing.append(path(reader(number)))
            if len(missing) > SHOWN:  # a bag may name a hundred million
                break
    if missing:
        line = read.line("inputs")
        raise missing_inputs(
            missing, folders(candidates), expansion.bag.source, line, all_=len(missing) <= SHOWN
        )
    url = written if os.path.isabs(written) else os.path.join(escaped(base), written)
    return replace(file, url=url, sizes=sizes.tobytes())


def _with_executable(
    bag: Bag, read: ReadDocument, places: Sequence[Path], *, at_sites: bool
) -> Bag:
    """Find the program of a bag. A relative path names an input, or a file that belongs to the
    document."""
    executable = bag.executable
    name = executable.removeprefix("./")
    if any(file.name == name for file in bag.inputs):
        return replace(bag, executable=f"./{name}")
    programs = list(_programs(bag))
    if "/" not in executable:
        path = (bag.env or {}).get("PATH")
        plain = path if path is None or not placeholders(path) else None
        missing = [p for p in programs if shutil.which(p, path=plain) is None]
        if missing and not at_sites:
            raise _not_found(read, missing, "in the PATH", in_path(missing[0], plain))
        return bag
    if os.path.isabs(executable):
        inside = is_inside(executable, read.folder)
        if not at_sites or inside:
            missing = [p for p in programs if not is_program(Path(p))]
            if missing:
                raise _not_found(read, missing, "there", [Path(missing[0])])
        return _carried(bag, executable) if at_sites and inside else bag
    candidates = list(dict.fromkeys((*(p.absolute() for p in places), Path.cwd())))
    for place in candidates:
        if all(is_program(place / program) for program in programs):
            found = os.path.join(escaped(str(place)), name)
            return _carried(bag, found) if at_sites else replace(bag, executable=found)
    missing = [p for p in programs if not any(is_program(c / p) for c in candidates)] or programs
    places_text = " or ".join(map(str, candidates))
    raise _not_found(read, missing, f"in {places_text}", [c / missing[0] for c in candidates])


def _programs(bag: Bag) -> Iterator[str]:
    count, _, reader = Expansion(bag).numbering(bag.executable)
    if count > MAX_PROGRAMS:
        raise InvalidError(
            f"the command names {count:,} programs, of which each is looked for; at most "
            f"{MAX_PROGRAMS:,} are possible",
            source=bag.source,
            hint="write the parameter as an argument, for example of a shell",
        )
    fill = Expansion(bag).fill(bag.executable)
    return (fill(reader(number)) for number in range(count))


def _carried(bag: Bag, path: str) -> Bag:
    """Add the program to the inputs, in a folder of its own in the sandbox."""
    name = f".wfrun-1/{os.path.basename(path)}"
    program = BagFile(name, path, executable=True)
    return replace(bag, executable=f"./{name}", inputs=(*bag.inputs, program))


def _not_found(
    read: ReadDocument, missing: Sequence[str], where: str, looked: Iterable[Path]
) -> InvalidError:
    """The error for missing programs. ``looked`` are the paths where the first of them was
    sought."""
    locked = find_locked(looked)
    if locked is not None:
        return locked_program(locked, read.workflow.source, read.line("command"))
    one = len(missing) == 1
    return InvalidError(
        f"the executable{'' if one else 's'} {some(missing)} {'is' if one else 'are'} "
        f"not found {where}",
        source=read.workflow.source,
        line=read.line("command"),
        hint="install it, or correct its path; --emulate replaces each task by one that takes "
        "its time",
    )
