"""A site's directory at the far end, and what of ours stands in it."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.errors import InfeasibleError
from wfrun.sites import node
from wfrun.sites.remote.host import Host, NewFile


async def find_directory(host: Host, site: str, written: str, run_id: str) -> str:
    """The absolute path of the run's directory, below the one that the catalog names for the site,
    in which ``~`` and a variable of the login environment may be the first part.

    Raises InfeasibleError where the variable is not set there.
    """
    head, slash, tail = written.partition("/")
    if head == "~":
        head = (await host.facts()).home
    elif head.startswith("$"):
        name = head.strip("${}")
        result = await host.run(["printenv", name])
        head = result.output.decode("utf-8", "surrogateescape").rstrip("\n")
        if not head.startswith("/"):
            raise InfeasibleError(
                f"site {site}: its directory is {written!r}, and ${name} is not set there",
                hint="Write another 'directory' in the catalog.",
            )
    return f"{head.rstrip('/')}{slash}{tail}".rstrip("/") + f"/wfrun-{run_id}"


async def make_directory(host: Host, site: str, written: str, run_id: str) -> str:
    """Make the run's directory; returns its path. Raises InfeasibleError where it can't be
    made."""
    directory = await find_directory(host, site, written, run_id)
    names = ("attempts", "batches", "bin", "exits", "files")
    await host.make_directories([directory, *(f"{directory}/{name}" for name in names)])
    return directory


async def put_programs(host: Host, directory: str, names: Sequence[str]) -> None:
    """Write these programs of ours to ``bin``."""
    await host.write(
        [NewFile(f"{directory}/bin/{n}", (node.FOLDER / n).read_bytes()) for n in names]
    )
