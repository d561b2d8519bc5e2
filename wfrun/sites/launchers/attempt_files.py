"""Claims, journals and revocations of attempts: files in a run's directory at a cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wfrun.engine.errors import TransientError
from wfrun.sites.cluster.head_node import COMMAND_S, HeadRequests, text
from wfrun.sites.launchers.journals import NodeId, writer_of
from wfrun.sites.remote.host import Host, NewFile

MAX_JOURNAL_BYTES = 1 << 30


class AttemptFiles:
    """Reads and writes claims, journals and revocations over the connection to the head node.

    Each method retries without a limit until the head node has answered.
    """

    def __init__(self, head: HeadRequests) -> None:
        self._head = head

    async def journal_names(self, launchers: Collection[str]) -> list[tuple[NodeId, str]]:
        """The file names of all journals, each with its writer. ``launchers`` are the keys of the
        known launchers (see ``writer_of``)."""
        names = [
            n for n in await self._head.retry_until_answered(self._list) if n.endswith(".jsonl")
        ]
        return [(writer_of(name, launchers), name) for name in names if name != "records.jsonl"]

    async def _list(self, host: Host) -> list[str]:
        listing = await host.run(["ls", "-1", f"{self._head.directory}/exits"], timeout_s=COMMAND_S)
        if listing.exit_code != 0:
            raise TransientError(f"the journals cannot be listed: {text(listing.errors)}")
        return text(listing.output).split("\n")

    async def journals_of(self, launcher: str, nodes: int) -> list[tuple[NodeId, bytes]]:
        """The contents of the journals of one launcher with ``nodes`` nodes, each with its
        writer."""
        further = [((launcher, node), f"{launcher}.{node}.jsonl") for node in range(1, nodes)]
        return await self.journals([((launcher, 0), f"{launcher}.jsonl"), *further])

    async def journals(self, names: Sequence[tuple[NodeId, str]]) -> list[tuple[NodeId, bytes]]:
        """The contents of the journals ``names``, each with its writer; absent ones are left out.
        They are read one after another, since each may be long."""
        found = []
        for writer, name in names:
            paths = [f"{self._head.directory}/exits/{name}"]
            (content,) = await self._head.retry_until_answered(
                lambda host, paths=paths: host.read(  # type: ignore[misc]
                    paths, limit=MAX_JOURNAL_BYTES
                )
            )
            if content is not None:
                found.append((writer, content))
        return found

    async def claimed(self, keys: Sequence[str]) -> set[str]:
        """Return those of ``keys`` whose attempts are claimed by any process."""
        paths = [f"{self._head.directory}/attempts/{key}.out" for key in keys]
        stats = (
            await self._head.retry_until_answered(lambda host: host.stat(paths)) if paths else []
        )
        return {key for key, stat in zip(keys, stats, strict=True) if stat is not None}

    async def revoke(self, keys: Sequence[str]) -> None:
        """Make launchers refuse to commit the outputs of these attempts from now on."""
        directory = f"{self._head.directory}/attempts"
        files = [NewFile(f"{directory}/{key}.revoked", b"") for key in keys]
        if files:
            await self._head.retry_until_space(lambda host: host.write(files))

    async def stderr_tail(self, key: str) -> str:
        """The last 2000 bytes of the stderr of a launcher's batch job."""
        paths = [f"{self._head.directory}/attempts/{key}.err"]
        (found,) = await self._head.retry_until_answered(lambda host: host.read(paths, limit=2000))
        return text(found or b"").strip()
