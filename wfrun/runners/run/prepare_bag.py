"""What `prepare` does with a bag: from its templates and columns, without making its tasks."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from wfrun.engine.bag import Expansion, expand
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Bag, BagFile, Workflow
from wfrun.engine.templates import placeholders
from wfrun.parsers.bags.commands import escaped
from wfrun.parsers.bags.yaml_bags import line_in

SHOWN = 20


def with_files(
    workflow: Workflow, places: Sequence[Path], folder: Path, *, clusters: bool
) -> Workflow:
    """Inputs get the absolute paths where they were found and their true sizes, relative programs
    theirs; where there are clusters, these come along as inputs.

    Raises InvalidError for inputs and programs that are not there.
    """
    bag = workflow.bag
    assert bag is not None
    bag = _with_executable(bag, places, folder, clusters=clusters)
    expansion = Expansion(bag)
    inputs = [_located(expansion, file, places, folder) for file in bag.inputs]
    return expand(replace(bag, inputs=tuple(inputs)))


def scaled(workflow: Workflow, settings: Settings) -> Workflow:
    """The bag as it is going to be emulated. One without an estimate takes 1 s a task."""
    bag = workflow.bag
    assert bag is not None
    return expand(
        replace(
            bag,
            estimate=bag.estimate or "1",
            scale=bag.scale * settings.time_scale,
            resources=replace(bag.resources, walltime_s=None),
            output_bytes=round((bag.output_bytes or 0) * settings.size_scale),
        )
    )


# Inputs


def local_path(url: str) -> str | None:
    """The path that a ``file:`` URL or a plain path names; None for other URLs."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path) if parts.netloc in ("", "localhost") else None
    return url if "://" not in url else None


def _located(expansion: Expansion, file: BagFile, places: Sequence[Path], folder: Path) -> BagFile:
    """All files of a template are in one place: that in which the first of them is."""
    written = file.name if file.url is None else local_path(file.url)
    assert written is not None, "what reads documents takes paths alone"
    count, _, reader = expansion.numbering(file.name + (file.url or ""))
    path = expansion.fill(written)
    candidates = [folder] if file.url is not None and os.path.isabs(written) else places
    first = path(reader(0))
    place = next((p for p in candidates if (p / first).exists()), candidates[0])
    base = str(place.absolute())
    sizes, missing = array("q"), []
    for number in range(count):
        try:
            sizes.append(os.stat(os.path.join(base, path(reader(number)))).st_size)
        except OSError:
            missing.append(path(reader(number)))
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise InvalidError(
            f"{len(missing)} input files are missing: {', '.join(missing[:SHOWN])}{more}"
            if len(missing) > 1
            else f"the input file {missing[0]!r} is missing",
            source=expansion.bag.source,
            line=line_in(expansion.bag, "inputs"),
            hint="looked in "
            + " and ".join(str(p.absolute()) for p in candidates)
            + "; --inputs DIR names another place, and --emulate needs no input files",
        )
    url = written if os.path.isabs(written) else os.path.join(escaped(base), written)
    return replace(file, url=url, sizes=sizes.tobytes())


# Programs


def _with_executable(bag: Bag, places: Sequence[Path], folder: Path, *, clusters: bool) -> Bag:
    """A relative path is one of the document's own files, unless it is among the inputs."""
    executable = bag.executable
    name = executable.removeprefix("./")
    if any(file.name == name for file in bag.inputs):
        return replace(bag, executable=f"./{name}")
    programs = list(_programs(bag))
    if "/" not in executable:
        path = (bag.env or {}).get("PATH")
        plain = path if path is None or not placeholders(path) else None
        missing = [p for p in programs if shutil.which(p, path=plain) is None]
        if missing and not clusters:
            raise _not_found(bag, missing, "in the PATH")
        return bag
    if os.path.isabs(executable):
        inside = Path(os.path.normpath(executable)).is_relative_to(folder.absolute())
        if not clusters or inside:
            missing = [p for p in programs if not _is_program(Path(p))]
            if missing:
                raise _not_found(bag, missing, "there")
        return _carried(bag, executable) if clusters and inside else bag
    candidates = list(dict.fromkeys((*(p.absolute() for p in places), Path.cwd())))
    for place in candidates:
        if all(_is_program(place / program) for program in programs):
            found = os.path.join(escaped(str(place)), name)
            return _carried(bag, found) if clusters else replace(bag, executable=found)
    missing = [p for p in programs if not any(_is_program(c / p) for c in candidates)]
    raise _not_found(bag, missing or programs, "in " + " or ".join(map(str, candidates)))


def _programs(bag: Bag) -> Iterator[str]:
    count, _, reader = Expansion(bag).numbering(bag.executable)
    fill = Expansion(bag).fill(bag.executable)
    return (fill(reader(number)) for number in range(count))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _carried(bag: Bag, path: str) -> Bag:
    """The program as one more input, in a folder of its own in the sandbox."""
    name = f".wfrun-1/{os.path.basename(path)}"
    program = BagFile(name, path, executable=True)
    return replace(bag, executable=f"./{name}", inputs=(*bag.inputs, program))


def _not_found(bag: Bag, missing: Sequence[str], where: str) -> InvalidError:
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    listed = ", ".join(missing[:SHOWN]) + more
    one = len(missing) == 1
    return InvalidError(
        f"the executable{'' if one else 's'} {listed} {'is' if one else 'are'} not found {where}",
        source=bag.source,
        line=line_in(bag, "command"),
        hint="install it, correct its path, or see to it that it may be executed (chmod +x); "
        "--emulate replaces each task by one that takes its time",
    )
