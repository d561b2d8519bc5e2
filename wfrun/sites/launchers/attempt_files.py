"""What is written at a cluster about attempts: claims, journals, and what was given up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wfrun.engine.errors import TransientError
from wfrun.sites.cluster.head_node import COMMAND_S, HeadNode, text
from wfrun.sites.launchers.journals import NodeId, writer_of
from wfrun.sites.remote.host import Host, NewFile

MOST_BYTES = 1 << 30


class AttemptFiles:
    """Asks until there is an answer, whatever happens to the connection."""

    def __init__(self, head: HeadNode) -> None:
        self._head = head

    async def names(self, launchers: Collection[str]) -> list[tuple[NodeId, str]]:
        """The journals that are there, each with who writes it; ``launchers`` are known."""
        names = [n for n in await self._head.insist(self._list) if n.endswith(".jsonl")]
        return [(writer_of(name, launchers), name) for name in names if name != "records.jsonl"]

    async def journals_of(self, launcher: str, nodes: int) -> list[tuple[NodeId, bytes]]:
        """Those of one launcher."""
        further = [((launcher, node), f"{launcher}.{node}.jsonl") for node in range(1, nodes)]
        return await self.journals([((launcher, 0), f"{launcher}.jsonl"), *further])

    async def _list(self, host: Host) -> list[str]:
        listing = await host.run(["ls", "-1", f"{self._head.directory}/exits"], timeout_s=COMMAND_S)
        if listing.exit_code != 0:
            raise TransientError(f"the journals can't be listed: {text(listing.errors)}")
        return text(listing.output).split("\n")

    async def journals(self, names: Sequence[tuple[NodeId, str]]) -> list[tuple[NodeId, bytes]]:
        """What is in these, one after another, since they may be long."""
        found = []
        for writer, name in names:
            paths = [f"{self._head.directory}/exits/{name}"]
            (content,) = await self._head.insist(
                lambda host, paths=paths: host.read(paths, limit=MOST_BYTES)  # type: ignore[misc]
            )
            if content is not None:
                found.append((writer, content))
        return found

    async def claimed(self, keys: Sequence[str]) -> set[str]:
        """Those of these that somebody has claimed."""
        paths = [f"{self._head.directory}/attempts/{key}.out" for key in keys]
        stats = await self._head.insist(lambda host: host.stat(paths)) if paths else []
        return {key for key, stat in zip(keys, stats, strict=True) if stat is not None}

    async def revoke(self, keys: Sequence[str]) -> None:
        """From now on these commit nothing."""
        directory = f"{self._head.directory}/attempts"
        files = [NewFile(f"{directory}/{key}.revoked", b"") for key in keys]
        if files:
            await self._head.insist_on_room(lambda host: host.write(files))

    async def tail(self, key: str) -> str:
        """The end of what it wrote to stderr."""
        paths = [f"{self._head.directory}/attempts/{key}.err"]
        (found,) = await self._head.insist(lambda host: host.read(paths, limit=2000))
        return text(found or b"").strip()
