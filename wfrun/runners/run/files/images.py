"""Container images that are files of the submit host. An image becomes an input of the tasks that
use it.

So the run's transfers copy the image to each site once. Its checksum is computed here, and compared
at each site before the image is first used there.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import Bag, BagFile, File, Resources, Task, Workflow
from wfrun.parsers.bags.values import escaped
from wfrun.parsers.read import ReadDocument

_FOLDER = ".wfrun-image"
"""Folder of images in the sandbox. Each image has its own folder in it, because names may be
equal."""
_CHUNK_BYTES = 1 << 20


def bag_with_image(
    bag: Bag, read: ReadDocument, places: Sequence[Path], *, remote_sites: bool
) -> Bag:
    """Add the image of the bag's container to the bag's inputs if the image is a file of this
    machine. Raises InvalidError if the image is missing, or its checksum differs from the
    document's."""
    container = bag.resources.container
    if container is None or not container.is_file:
        return bag
    line = read.line("container")
    path = _find(container, places, bag.source, line, remote_sites=remote_sites)
    if path is None:
        return bag
    staged = _staged(container, path, 1, bag.source, line)
    return replace(
        bag,
        inputs=(*bag.inputs, BagFile(staged.image, escaped(str(path)))),
        resources=replace(bag.resources, container=staged),
    )


def with_images(workflow: Workflow, places: Sequence[Path], *, remote_sites: bool) -> Workflow:
    """Add the images of the tasks' containers to the tasks' inputs, as `bag_with_image` does for a
    bag."""
    files = list(workflow.files)
    found: dict[Container, tuple[Container, int] | None] = {}
    resources: dict[Resources, Resources] = {}

    def stage(container: Container) -> tuple[Container, int] | None:
        path = _find(container, places, workflow.source, None, remote_sites=remote_sites)
        if path is None:
            return None
        staged = _staged(container, path, len(found) + 1, workflow.source, None)
        files.append(File(staged.image, _size_bytes(path), url=str(path)))
        return staged, len(files) - 1

    tasks: list[Task] = []
    for task in workflow.tasks:
        container = task.resources.container
        if container is not None and container.is_file:
            if container not in found:
                found[container] = stage(container)
            image = found[container]
            if image is not None:
                asked = resources.setdefault(
                    task.resources, replace(task.resources, container=image[0])
                )
                task = replace(task, resources=asked, inputs=(*task.inputs, image[1]))
        tasks.append(task)
    return replace(workflow, tasks=tasks, files=files) if found else workflow


def sha256_of_image(workflow: Workflow, file: int) -> str | None:
    """The checksum of a file that is a container image; None for other files and for images that
    are directories."""
    name = workflow.files[file].name
    if not name.startswith(f"{_FOLDER}/"):
        return None
    containers = (task.resources.container for task in workflow.tasks)
    image = next((c for c in containers if c and c.is_staged and c.image == name), None)
    return (image.sha256 or None) if image else None


def _find(
    container: Container,
    places: Sequence[Path],
    source: str,
    line: int | None,
    *,
    remote_sites: bool,
) -> Path | None:
    """The path of an image on this machine. None: the image is an absolute path at remote sites.
    Raises InvalidError if the image is missing."""
    looked = [Path(os.path.abspath(place / container.image)) for place in places]
    path = next((path for path in looked if path.exists()), None)
    if path is not None or (remote_sites and os.path.isabs(container.image)):
        return path
    raise InvalidError(
        f"the container image {container.image!r} is missing",
        source=source,
        line=line,
        hint="looked for " + " and ".join(map(str, dict.fromkeys(looked)))
        + "; an image of a registry is written as docker://NAME",
    )  # fmt: skip


def _staged(
    container: Container, path: Path, number: int, source: str, line: int | None
) -> Container:
    """Return the container with its image as an input, in the image folder ``number``. Raises
    InvalidError if the checksum of the image differs from the document's."""
    sha256 = _sha256(path) if path.is_file() else ""
    if container.sha256 and sha256 != container.sha256:
        raise InvalidError(
            f"the container image {path} has the SHA-256 checksum {sha256 or 'of no file'}, and "
            f"the document says {container.sha256}",
            source=source,
            line=line,
            hint="get the image again, or correct the checksum",
        )
    # Runtimes know formats by suffixes, and take ':' and ',' for separators.
    name = re.sub(r"[^A-Za-z0-9._-]", "_", path.name)[-100:]
    image = f"{_FOLDER}/{number}/{name}"
    return replace(container, image=image, is_staged=True, sha256=sha256)


def _size_bytes(path: Path) -> int:
    return path.stat().st_size


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
