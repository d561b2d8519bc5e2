"""A site of LSF, played after its manual: what befalls jobs there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import lsf
from tests.runners.harness import LONG_S
from wfrun.engine.events import LauncherStarted
from wfrun.engine.exchange import LauncherRequest
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.init import connected
from wfrun.runners.admin.survey import ask_offer, find_systems
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.entry_error import EntryError
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.testing.probe import Probe, request, shell

RUN = "r1"
Opened = Callable[[SiteSpec], AbstractAsyncContextManager[tuple[AnySite, Probe]]]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".profile").write_text(f"PATH={tmp_path}/lsf/bin:$PATH; export PATH\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("wfrun.sites.cluster.head_node.RETRY_DELAYS_S", (0.5,))
    yield tmp_path / "lsf"
    lsf.end(tmp_path / "lsf")


@pytest.fixture
def opened(directory: Path) -> Opened:
    @asynccontextmanager
    async def open_site(spec: SiteSpec) -> AsyncIterator[tuple[AnySite, Probe]]:
        site, probe = make_site(spec, 0, RUN, f"wfrun-{RUN}", directory, time.time), Probe()
        await site.open(probe.post)
        try:
            yield site, probe
        finally:
            await site.close()

    return open_site


def site_of(directory: Path, walltime_s: float | None = None, **settings: Any) -> SiteSpec:
    access = Access(transport="local", poll_min_s=0.3, poll_max_s=1.0, patience_s=2.0, **settings)
    scratch = str(directory.parent / "scratch")
    return SiteSpec("here", 2, kind="lsf", directory=scratch, access=access, walltime_s=walltime_s)


def run(directory: Path, command: str, *arguments: str) -> None:
    subprocess.run(
        [directory / "bin" / command, *arguments], check=True, timeout=LONG_S, capture_output=True
    )


async def until(what: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.05)


async def test_an_array_that_is_too_large_is_halved(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 8}, max_array=3)
    keys = [f"lsf-{n}" for n in range(10)]
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request(key, "true") for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"
    jobs = json.loads((directory / "state.json").read_text())["jobs"].values()
    assert sorted(len(job["elements"]) for job in jobs) == [2, 2, 2, 2, 2]


async def test_more_jobs_than_may_be_pending(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 1}, max_pending=3)
    keys = [f"lsf-{n}" for n in range(7)]
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request(key, "true") for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"


async def test_an_array_that_is_held(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 2})
    async with opened(site_of(directory, options=("-H",))) as (site, probe):
        await site.submit([shell("lsf-1", "true"), shell("lsf-2", "true")])
        await until(lambda: len(lsf.asked(directory, "bjobs")) > 3)
        assert not probe.outcomes("lsf-1")
        run(directory, "bresume", "101")
        assert {(await probe.ended(key)).cause for key in ("lsf-1", "lsf-2")} == {"done"}


@pytest.mark.parametrize("remembers", [True, False])
async def test_jobs_that_their_owner_kills(
    directory: Path, opened: Opened, remembers: bool
) -> None:
    """Told by bjobs, and by bhist when bjobs has forgotten them."""
    lsf.install(directory, {"hostA": 1}, remembers=remembers)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([shell("lsf-1", "sleep 600"), shell("lsf-2", "sleep 600")])
        await probe.started("lsf-1")
        run(directory, "bkill", "101[1-2]")
        running, queued = await probe.ended("lsf-1"), await probe.ended("lsf-2")
    assert running.cause == queued.cause == "lost"
    assert "TERM_OWNER" in (running.message or "")
    assert "without having started" in (queued.message or "")
    assert bool(lsf.asked(directory, "bhist")) or remembers


@pytest.mark.parametrize("script", ["exec sleep 600", "sleep 40; echo x >o"])
async def test_a_job_past_its_run_limit(directory: Path, opened: Opened, script: str) -> None:
    """The site's own bound. The second shell goes on when LSF's first signal has ended its
    command, and ends well."""
    lsf.install(directory, {"hostA": 1}, limit_ratio=0.05)
    async with opened(site_of(directory, walltime_s=60.0)) as (site, probe):
        await site.submit([shell("lsf-1", script, outputs={"o": "o"})])
        outcome = await probe.ended("lsf-1")
    assert outcome.cause == "walltime"
    assert "TERM_RUNLIMIT: job killed after reaching LSF run time limit" in (outcome.message or "")
    assert outcome.sizes == ()


async def test_a_job_past_its_memory(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 1}, remembers=False)
    hold = "import time; held = b'x' * (400 << 20); time.sleep(600)"
    asked = request("lsf-1", sys.executable, "-c", hold)
    resources = msgspec.structs.replace(asked.resources, memory_bytes=150 << 20)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([msgspec.structs.replace(asked, resources=resources)])
        outcome = await probe.ended("lsf-1")
    assert outcome.cause == "memory"
    assert "TERM_MEMLIMIT" in (outcome.message or "")


async def test_a_queue_that_does_not_exist(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 1})
    with pytest.raises(EntryError, match="nowhere: No such queue"):
        async with opened(site_of(directory, queue="nowhere")):
            pass


async def test_what_the_site_offers(directory: Path) -> None:
    lsf.install(directory, {"hostA": 1})
    async with connected(Access(transport="local"), None) as (_, host):
        (system,) = [each for each in await find_systems(host) if each.kind == "lsf"]
        assert system.version == "LSF 10.1.0.10"
        offer = await ask_offer(host, "lsf")
    assert [queue.name for queue in offer.queues] == ["normal", "short"]


async def test_a_task_on_several_hosts(directory: Path, opened: Opened) -> None:
    lsf.install(directory, {"hostA": 2, "hostB": 3})
    task = shell("lsf-1", "cat $WFRUN_NODEFILE >o", outputs={"o": "o"})
    resources = msgspec.structs.replace(task.resources, cores=4, nodes=2)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([msgspec.structs.replace(task, resources=resources)])
        assert (await probe.ended("lsf-1")).cause == "done"
    said = (directory.parent / "scratch" / f"wfrun-{RUN}" / "files" / "o").read_text()
    assert said == "hostA\nhostA\nhostB\nhostB\n"


async def test_launchers_use_all_hosts_and_ask_for_the_time(
    directory: Path, opened: Opened
) -> None:
    """LSF says less than the requested walltime: its run limits depend on the speed of a host."""
    lsf.install(directory, {"hostA": 2, "hostB": 2}, left_s=900)
    access = {"dispatch": "launchers", "launchers": LauncherSpec(cores=2, nodes=2)}
    async with opened(site_of(directory, walltime_s=3600, **access)) as (site, probe):
        assert isinstance(site, BatchLauncherSite)
        await site.start_launchers([LauncherRequest(f"{RUN}.L1", 2, 2, 0, 0, 3600.0)])
        tasks = [shell(f"lsf-{n}", "sleep 1", outputs={}) for n in range(4)]
        await site.submit(tasks)
        for task in tasks:
            assert (await probe.ended(task.key)).cause == "done"
    assert [words[:2] for words in lsf.asked(directory, "blaunch")] == [["-n", "hostB"]]
    started = [event for event in probe.events if isinstance(event, LauncherStarted)]
    ends_s = [event.ends_s for event in started]
    assert ends_s
    assert all(each is not None and each < time.time() + 900 for each in ends_s)
