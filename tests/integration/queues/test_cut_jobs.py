"""Jobs that a real batch system cuts: whatever a shell exits with whose command was killed, its
task has not succeeded."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.suites.conformance import (
    WithLauncher,
    access_of,
    layout,
    run_id,
    shared_directory,
)
from tests.testbed.testbed import Testbed
from wfrun.engine.exchange import LauncherRequest, Outcome
from wfrun.engine.model import LauncherSpec, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.testing.probe import Probe, shell

SCRIPTS = {
    "goes-on": "sleep 400; echo x >o",
    "inner": "sh -c 'sleep 400; exit 0'; echo x >o",
    "traps": "trap 'echo caught' TERM USR1; sleep 400; echo x >o",
    "exits-well": "trap 'echo x >o; exit 0' TERM USR1; sleep 400 & wait",
    "ignores": "trap '' TERM USR1; sleep 400; echo x >o",
}


@pytest.fixture
def place(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from shared_directory(testbed, monkeypatch)


@asynccontextmanager
async def opened(
    name: str, place: Path, *options: str, walltime_s: float | None = None, launcher: bool = False
) -> AsyncIterator[tuple[Any, Probe]]:
    access = msgspec.structs.replace(
        access_of(name, "asyncssh"), poll_min_s=0.3, poll_max_s=2.0, options=options
    )
    if launcher:
        spec = LauncherSpec(cores=4, patience_s=60.0, walltime_s=600.0)
        access = msgspec.structs.replace(access, dispatch="launchers", launchers=spec)
    kind = layout().site(name).kind
    spec_of_site = SiteSpec(
        name, 8, kind=kind, directory=str(place), access=access, walltime_s=walltime_s
    )
    run = run_id(place)
    site: Any = make_site(spec_of_site, 0, run, f"wfrun-{run}", place, time.time)
    if launcher:
        wanted = LauncherRequest(f"{run}.L1", 1, 4, 0, 0, 600.0)
        site = WithLauncher(site, wanted, place / f"wfrun-{run}")
    probe = Probe()
    await site.open(probe.post)
    try:
        yield site, probe
    finally:
        await site.close()


async def ends_of(site: Any, probe: Probe, act: Callable[[], object] | None) -> dict[str, Outcome]:
    """The outcomes of all scripts; ``act`` cuts them when they run. None: they are cut by
    themselves."""
    keys = list(SCRIPTS)[:4] if act is not None else list(SCRIPTS)
    await site.submit([shell(key, SCRIPTS[key], outputs={"o": key}) for key in keys])
    if act is not None:
        for key in keys:
            await probe.started(key)
        await asyncio.sleep(5.0)  # until their commands run
        act()
    return {key: await probe.ended(key) for key in keys}


def call(testbed: Testbed, name: str, *command: str) -> None:
    environment = {**os.environ, **testbed.layout.environment(testbed.layout.site(name))}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=100)


def causes(ends: dict[str, Outcome]) -> set[str]:
    return {outcome.cause for outcome in ends.values()}


async def test_slurm_at_the_walltime(place: Path) -> None:
    async with opened("alpha", place, walltime_s=60.0) as (site, probe):
        ends = await ends_of(site, probe, None)
    assert causes(ends) == {"walltime"}, ends


async def test_grid_engine_at_the_walltime(place: Path) -> None:
    async with opened("gamma", place, walltime_s=15.0) as (site, probe):
        ends = await ends_of(site, probe, None)
    assert causes(ends) == {"walltime"}, ends


async def test_grid_engine_at_the_soft_walltime(place: Path) -> None:
    """It sends SIGUSR1 at s_rt."""
    async with opened("gamma", place, "-l", "s_rt=10", walltime_s=40.0) as (site, probe):
        ends = await ends_of(site, probe, None)
    assert "done" not in causes(ends), ends


@pytest.mark.parametrize("launcher", [False, True])
@pytest.mark.parametrize("words", [(), ("--signal=TERM", "--full")])
async def test_jobs_of_slurm_that_somebody_cancels_or_signals(
    testbed: Testbed, place: Path, words: tuple[str, ...], launcher: bool
) -> None:
    user = testbed.layout.site("alpha").user
    async with opened("alpha", place, launcher=launcher) as (site, probe):
        ends = await ends_of(
            site, probe, lambda: call(testbed, "alpha", "scancel", f"--user={user}", *words)
        )
    assert "done" not in causes(ends), ends


@pytest.mark.parametrize("launcher", [False, True])
async def test_jobs_of_grid_engine_that_somebody_deletes(
    testbed: Testbed, place: Path, launcher: bool
) -> None:
    user = testbed.layout.site("gamma").user
    async with opened("gamma", place, launcher=launcher) as (site, probe):
        ends = await ends_of(site, probe, lambda: call(testbed, "gamma", "qdel", "-u", user))
    assert "done" not in causes(ends), ends


async def test_slurm_at_the_limit_of_memory(place: Path) -> None:
    """Of this version without control groups, which looks at the memory of jobs once a second."""
    hold = "import time; x = b'x' * (400 << 20); time.sleep(400)"
    task = shell("k", '"$1" -c "$2"; echo x >o', "/usr/bin/python3", hold, outputs={"o": "o"})
    resources = msgspec.structs.replace(task.resources, memory_bytes=150 << 20)
    async with opened("alpha", place) as (site, probe):
        await site.submit([msgspec.structs.replace(task, resources=resources)])
        outcome = await probe.ended("k")
    assert outcome.cause in ("memory", "signal", "lost"), outcome


@pytest.mark.parametrize("name", ["alpha", "gamma"])
async def test_a_success_near_the_walltime(name: str, place: Path) -> None:
    """The batch system confirms it."""
    async with opened(name, place, walltime_s=60.0) as (site, probe):
        near = "sleep 56; echo x >o"
        await site.submit([shell("k-1", near, outputs={"o": "o"}), shell("k-2", "true")])
        outcome = await probe.ended("k-1")
        assert outcome.cause == "done", outcome
    records = [path.read_text() for path in place.glob("wfrun-*/exits/*")]  # of one or of several
    assert sum(text.count('"doubt"') for text in records) == 1
