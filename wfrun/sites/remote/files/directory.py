"""The run's directory at a site, and its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfrun.engine.errors import InfeasibleError
from wfrun.sites import node
from wfrun.sites.entry_error import EntryError
from wfrun.sites.remote.host import Host, NewFile


async def find_directory(host: Host, site: str, written: str, name: str) -> str:
    """Return the absolute path of the run's directory, which is in the directory of the site.

    ``written`` is the catalog's ``directory``, which may begin with ``~`` or a variable of the
    login environment. ``name`` is the name of the run's directory. Raises InfeasibleError if that
    variable is not set.
    """
    head, slash, tail = written.partition("/")
    if head == "~":
        head = (await host.facts()).home
    elif head.startswith("$"):
        variable = head.strip("${}")
        result = await host.run(["printenv", variable])
        head = result.output.decode("utf-8", "surrogateescape").rstrip("\n")
        if not head.startswith("/"):
            raise EntryError(
                f"site {site}: its directory is {written!r}, and ${variable} is not set there",
                key="directory",
                hint="Write the path itself as 'directory' in the catalog.",
            )
    return f"{head.rstrip('/')}{slash}{tail}".rstrip("/") + f"/{name}"


async def make_directory(host: Host, site: str, written: str, name: str) -> str:
    """Make the run's directory, or check that the existing one is the user's alone: node programs
    and scripts run from it. Returns its path. Raises InfeasibleError if that fails."""
    directory = await find_directory(host, site, written, name)
    try:
        await host.make_private(directory)
    except InfeasibleError as error:
        raise EntryError(
            f"site {site}: its directory cannot be used: {error.message}",
            key="directory",
            hint="Make a directory of your own there, with mode 0700, and name it as 'directory' "
            "in the catalog.",
        ) from error
    names = ("attempts", "batches", "bin", "exits", "files", "output")
    await host.make_directories([f"{directory}/{name}" for name in names])
    return directory


async def put_programs(
    host: Host, directory: str, names: Sequence[str], data: Mapping[str, bytes] | None = None
) -> None:
    """Copy the node programs ``names`` and the files ``data``, contents by name, to ``bin`` in the
    run's directory."""
    programs = [node.FOLDER / name for name in names]
    files = {program.name: program.read_bytes() for program in programs} | dict(data or {})
    await host.write([NewFile(f"{directory}/bin/{name}", files[name]) for name in files])
