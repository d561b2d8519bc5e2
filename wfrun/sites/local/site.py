"""A site on this machine: a directory, and tasks that are real processes in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.exchange import Content
from wfrun.engine.model import SiteSpec
from wfrun.sites import node
from wfrun.sites.local.direct_launcher import DirectLauncherSite
from wfrun.sites.local.launcher_host import LauncherPipe
from wfrun.sites.local.pipes import Pipes
from wfrun.sites.remote.agent import RefusedError, make_private
from wfrun.sites.stored import absent_here, remove_here


def available_cores() -> int:
    """Number of this machine's cores that this process may use (its CPU affinity)."""
    return len(os.sched_getaffinity(0))


BASE_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*",
    "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
"""Variables of wfrun's own environment that tasks on this machine inherit: those of a login, and
the GPUs granted to wfrun. Others, such as those of an activated virtual environment, are withheld:
a task that depends on them would succeed here and fail at other sites."""


class LocalSite(DirectLauncherSite):
    """A site on this machine with its files in ``directory``. ``python`` is the interpreter that
    runs the launcher."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        directory: Path,
        *,
        python: str = sys.executable,
        pack_logs: bool = False,
        dead_hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        host = _LocalHost(spec.name, directory.absolute(), python)
        super().__init__(spec, index, host, pack_logs=pack_logs, dead_hosts=dead_hosts, clock=clock)
        self.store = host.store

    def store_path(self, name: str) -> Path:
        """Path of a file in the site's store."""
        return self.store / name


class _LocalHost:
    """Implements ``LauncherHost``: this machine."""

    def __init__(self, site: str, directory: Path, python: str) -> None:
        self._site = site
        self._directory = directory
        self._python = python
        self.store = directory / "files"
        self.launcher_log = str(directory / "launcher.log")

    async def prepare(self) -> None:
        try:
            make_private(os.fsencode(self._directory))
            for name in ("attempts", "files", "exits"):
                (self._directory / name).mkdir(exist_ok=True)
            probe = self._directory / "exits" / f".probe-{os.getpid()}"
            try:
                probe.write_bytes(bytes(4096))
            finally:
                probe.unlink(missing_ok=True)
        except (OSError, RefusedError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise InfeasibleError(
                f"site {self._site}: its directory {self._directory} cannot be used: "
                f"{reason or error}",
                hint="Make room there, or give the site another 'directory' in the catalog.",
            ) from error

    async def is_removed(self) -> bool:
        return not self.store.is_dir()

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        program = str(node.FOLDER / "launchers/launcher.py")
        # Isolated and without site-packages: starts faster and takes less memory.
        flags = ("-I", "-S", "-X", "utf8")
        # JSON is ASCII, also for a directory whose name is not UTF-8.
        own = {"directory": str(self._directory), "variables": BASE_VARIABLES}
        words = json.dumps({**own, **config})
        argv = (self._python, *flags, "-c", node.LAUNCH_HERE, program, words)
        return Pipes(argv, self.launcher_log, on_lines, on_end)

    async def stderr_tail(self) -> str:
        return _read(self.launcher_log)[-2000:].decode("utf-8", "replace").strip()

    async def log(self, key: str) -> tuple[bytes, bytes]:
        base = self._directory / "attempts" / key
        return await asyncio.to_thread(lambda: (_read(f"{base}.out"), _read(f"{base}.err")))

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        return await asyncio.to_thread(absent_here, self.store, files)

    async def remove(self, names: Sequence[str]) -> None:
        await asyncio.to_thread(remove_here, self.store, names)

    async def close(self) -> None:
        """Nothing to release."""


def _read(path: str) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return Path(path).read_bytes()
    return b""
