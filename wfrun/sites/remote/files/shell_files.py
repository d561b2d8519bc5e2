"""Files of a host without an agent, by the commands of any POSIX shell."""

from __future__ import annotations

import re
import shlex

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.host import Stat
from wfrun.sites.remote.transports.transport import Transport

_STAT = """\
if [ -d {path} ]; then echo directory
elif [ -f {path} ]; then [ -x {path} ] && echo executable; echo size $(wc -c < {path})
elif [ -e {path} ]; then echo other
else echo absent; fi"""
_RENAME = """\
chmod {mode:o} {path} || exit 1
if [ -d {final} ] && ! [ -h {final} ]
then mv {final} {old} && mv {path} {final} && rm -rf {old}
else mv -f {path} {final}; fi"""
_SIZE = re.compile(r"^size (\d+)$", re.MULTILINE)


class ShellFiles:
    """Implements ``PlainFiles`` by one command of a transport for each request."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def stat(self, path: str) -> Stat | None:
        failure = f"{self._transport.host}:{path} cannot be read"
        said = await self._run(_STAT.format(path=shlex.quote(path)), failure)
        words, size = said.split(), _SIZE.search(said)
        if "absent" in words:
            return None
        if "other" in words:
            raise InfeasibleError(f"{failure}: it is neither a file nor a directory")
        if "directory" in words:
            return Stat(0, False, True)
        size_bytes = None if size is None else number_of(size[1])
        if size_bytes is None:
            raise TransientError(f"{failure}: the host answered {said[:100]!r}")
        return Stat(size_bytes, "executable" in words, False)

    async def make_directory(self, path: str) -> None:
        failure = f"{self._transport.host}:{path} cannot be written"
        await self._run(f"umask 077; mkdir -p {shlex.quote(path)}", failure)

    async def rename(self, path: str, final: str, mode: int) -> None:
        names = {"path": path, "final": final, "old": f"{path}-old"}
        quoted = {key: shlex.quote(name) for key, name in names.items()}
        failure = f"{self._transport.host}:{final} cannot be written"
        await self._run(_RENAME.format(mode=mode, **quoted), failure)

    async def remove(self, path: str) -> None:
        failure = f"{self._transport.host}:{path} cannot be removed"
        await self._run(f"rm -rf {shlex.quote(path)}", failure)

    async def _run(self, script: str, failure: str) -> str:
        """Run a script; returns its output, without that of login profiles."""
        return (await cat.answer(self._transport, script, failure)).decode(errors="replace")
