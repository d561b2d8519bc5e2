"""The environments that sites set up for tasks, and the containers in which tasks run."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

RuntimeName = Literal["apptainer", "singularity", "docker", "podman", "command"]
RUNTIMES: tuple[RuntimeName, ...] = get_args(RuntimeName)
"""Container runtimes. ``command`` is a command line of the user's own."""

_REGISTRY = "docker://"
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
"""Suffixes of images that ``docker save`` and ``podman save`` write."""


class Container(msgspec.Struct, frozen=True):
    """The container that a document declares for a task."""

    image: str
    """A URL, such as ``docker://centos:8``, or a path. Absolute paths are paths at the site."""
    is_staged: bool = False
    """Whether the image is a file of the submit host, and so an input of the task. Its path is then
    relative to the sandbox."""
    sha256: str = ""
    """Checksum of the image's file in hexadecimal digits; empty if unknown."""
    mounts: tuple[str, ...] = ()
    """Directories of the site that the task sees: ``SOURCE:DESTINATION`` with absolute paths, and
    perhaps ``:ro`` or ``:rw``."""

    @property
    def shown(self) -> str:
        """The image as messages name it."""
        return self.image.rsplit("/", 1)[-1] if self.is_staged else self.image

    @property
    def is_file(self) -> bool:
        """Whether the image is a file, or a directory, rather than a URL."""
        return "://" not in self.image


class ContainerRuntime(msgspec.Struct, frozen=True):
    """The container runtime of a site, with its options."""

    name: RuntimeName
    command: tuple[str, ...] = ()
    """Words of the command line of the runtime ``command``. In the words, ``{image}``,
    ``{sandbox}`` and ``{files}`` stand for paths. The words of the task follow."""
    image: str | None = None
    """Image of tasks that declare no container, as in `Container.image`. None: such tasks run
    outside of containers."""
    binds: tuple[str, ...] = ()
    """Directories that every container sees, as in `Container.mounts`; ``~`` and ``$NAME`` are
    expanded at the site."""
    options: tuple[str, ...] = ()
    """Further options of the runtime's ``run`` or ``exec``, as the user wrote them."""
    global_options: tuple[str, ...] = ()
    """Options of the runtime itself, which come before ``run`` or ``exec``."""


class SiteEnvironment(msgspec.Struct, frozen=True):
    """The environment that a site sets up for each task."""

    prologue: tuple[str, ...] = ()
    """Shell commands that run before the task, in its shell."""
    variables: dict[str, str] = {}
    """Environment variables; variables of the task's document have precedence."""
    container: ContainerRuntime | None = None
    """Container runtime of the site; None: the site runs no containers."""


def container_fault(container: Container | None, site: SiteEnvironment | None) -> str | None:
    """Return as text why a site cannot run a task in its container, or None if it can."""
    if container is None:
        return None
    runtime = None if site is None else site.container
    if runtime is None:
        return "it runs no containers (its catalog entry has no 'container')"
    if runtime.name == "command":
        return "its own command mounts no directories" if container.mounts else None
    if runtime.name in ("apptainer", "singularity"):
        return None
    if container.is_file:
        if runtime.name == "podman" and container.image.endswith(_ARCHIVES):
            return None
        return f"{runtime.name} cannot run the file {container.shown}"
    if not container.image.startswith(_REGISTRY):
        return f"{runtime.name} cannot run {container.image}"
    return None
