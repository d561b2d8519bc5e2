"""Local sites whose launcher is killed or paused, whose disk is full, whose cores are pinned."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.events import SitePaused, SiteReopened
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources, SiteSpec
from wfrun.sites.local.pipes import Pipes
from wfrun.sites.local.site import LocalSite, available_cores
from wfrun.testing.probe import Probe, request, shell
from wfrun.testing.sites import wait_for_death

WAIT = 'echo $$ >> "$1"; while [ ! -e "$2" ]; do sleep 0.02; done'


@asynccontextmanager
async def opened(
    directory: Path, spec: SiteSpec | None = None, python: str = sys.executable
) -> AsyncIterator[tuple[LocalSite, Probe]]:
    site = LocalSite(spec or SiteSpec("here", 2), 3, directory, python=python)
    probe = Probe()
    await site.open(probe.post)
    try:
        yield site, probe
    finally:
        await site.close()


def launcher_pid(site: LocalSite) -> int:
    assert isinstance(site._pipe, Pipes)
    return site._pipe.pid


def asking(attempt: AttemptRequest, **resources: int) -> AttemptRequest:
    return AttemptRequest(
        attempt.key,
        attempt.argv,
        attempt.env,
        attempt.inputs,
        attempt.outputs,
        attempt.stdin,
        attempt.stdout,
        attempt.stderr,
        Resources(**resources),  # type: ignore[arg-type]
    )


async def test_a_killed_launcher_loses_its_running_attempts_alone(tmp_path: Path) -> None:
    pids, go = tmp_path / "pids", tmp_path / "go"
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request("local-0", "true")])
        await probe.ended("local-0")
        running = [shell(f"local-{n}", WAIT, str(pids), str(go)) for n in (1, 2)]
        await site.submit([*running, request("local-3", "true")])
        await probe.until(lambda: probe.was_started("local-1") and probe.was_started("local-2"))
        while len(pids.read_text().split()) < 2:
            await asyncio.sleep(0.01)
        os.kill(launcher_pid(site), signal.SIGKILL)
        assert (await probe.ended("local-1")).cause == "lost"
        assert (await probe.ended("local-2")).cause == "lost"
        assert (await probe.ended("local-3")).cause == "done"
        assert wait_for_death([int(pid) for pid in pids.read_text().split()])
        assert {
            f.state
            for f in (await site.find(["local-0", "local-1", "local-2", "local-3"])).values()
        } == {"ended"}
        assert len(probe.outcomes("local-0")) == 1


async def test_a_task_that_kills_the_launcher_is_lost(tmp_path: Path) -> None:
    async with opened(tmp_path / "site", SiteSpec("here", 1)) as (site, probe):
        await site.submit(
            [shell("local-1", "kill -KILL $PPID; sleep 600"), request("local-2", "true")]
        )
        assert (await probe.ended("local-1")).cause == "lost"
        assert (await probe.ended("local-2")).cause == "done"


async def test_a_dead_idle_launcher_is_restarted_when_needed(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        os.kill(launcher_pid(site), signal.SIGKILL)
        while site._pipe is not None:
            await asyncio.sleep(0.01)
        assert (await site.find(["local-1"]))["local-1"].state == "absent"
        await site.submit([request("local-1", "true")])
        assert (await probe.ended("local-1")).cause == "done"


async def test_a_launcher_that_dies_while_it_is_asked(tmp_path: Path) -> None:
    """The next launcher is asked, and the run goes on."""
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request("local-1", "true")])
        await probe.ended("local-1")
        for question in (site.find, lambda _: site.clean()):
            first = launcher_pid(site)
            os.kill(first, signal.SIGSTOP)
            asked = asyncio.ensure_future(question(["local-1", "local-2"]))
            await asyncio.sleep(0)
            os.kill(first, signal.SIGKILL)
            found = await asyncio.wait_for(asked, 30)
            if found is not None:
                assert {key: what.state for key, what in found.items()} == {
                    "local-1": "ended",
                    "local-2": "absent",
                }
            assert launcher_pid(site) != first


async def test_a_paused_launcher_wakes_up_beside_a_new_one(tmp_path: Path) -> None:
    """It still has the attempt in its queue, and finds it claimed."""
    witness, go, pids = tmp_path / "witness", tmp_path / "go", tmp_path / "pids"
    attempt = shell("local-2", 'echo ran >> "$1"', str(witness))
    async with opened(tmp_path / "site", SiteSpec("here", 1)) as (old, old_probe):
        await old.submit([shell("local-1", WAIT, str(pids), str(go)), attempt])
        await old_probe.started("local-1")
        old_pid = launcher_pid(old)
        os.kill(old_pid, signal.SIGSTOP)
        try:
            # Two cores: one is still taken by what the paused launcher runs.
            async with opened(tmp_path / "site", SiteSpec("here", 2)) as (site, probe):
                found = await site.find(["local-1", "local-2"])
                assert (found["local-1"].state, found["local-2"].state) == ("active", "absent")
                await site.submit([attempt])
                assert (await probe.ended("local-2")).cause == "done"
                os.kill(old_pid, signal.SIGCONT)
                go.touch()
                assert (await probe.ended("local-1")).cause == "done"
                assert (await old_probe.ended("local-2")).cause == "done"
        finally:
            os.kill(old_pid, signal.SIGCONT)
    assert witness.read_text() == "ran\n"


async def test_an_attempt_of_an_old_launcher_is_cancelled(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request("local-1", "sleep", "600")])
        await probe.started("local-1")
    async with opened(tmp_path / "site") as (site, probe):
        assert (await site.find(["local-1"]))["local-1"].state == "active"
        await site.cancel(["local-1"])
        assert (await probe.ended("local-1")).cause == "cancelled"


async def test_a_python_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="no-such-python"):
        async with opened(tmp_path / "site", python="/no-such-python"):
            pass


async def test_a_python_that_does_not_work(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="launcher could not be started"):
        async with opened(tmp_path / "site", python="false"):
            pass


async def test_a_launcher_that_is_killed_while_it_starts(tmp_path: Path) -> None:
    """Another one is started."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nmkdir {tmp_path}/once && kill -9 $$\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    async with opened(tmp_path / "site", python=str(python)) as (site, probe):
        assert (tmp_path / "once").exists()
        await site.submit([request("local-1", "true")])
        assert (await probe.ended("local-1")).cause == "done"


async def test_a_launcher_that_can_not_be_started_again_pauses_the_site(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    async with opened(tmp_path / "site", python=str(python)) as (site, probe):
        await site.submit([request("local-1", "sleep", "600"), request("local-2", "true")])
        await probe.ended("local-2")
        python.unlink()
        os.kill(launcher_pid(site), signal.SIGKILL)
        await probe.until(lambda: isinstance(probe.events[-1], SitePaused))
        python.symlink_to(sys.executable)
        assert (await probe.ended("local-1")).cause == "lost"
        await probe.until(lambda: any(isinstance(e, SiteReopened) for e in probe.events))


async def test_the_directory_is_made_and_private(tmp_path: Path) -> None:
    async with opened(tmp_path / "deep" / "site") as (site, _):
        assert (tmp_path / "deep" / "site").stat().st_mode & 0o777 == 0o700
        assert site.store_path("f") == tmp_path / "deep" / "site" / "files" / "f"


async def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfeasibleError, match="site here: its directory"):
        async with opened(tmp_path / "file" / "site"):
            pass


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


async def test_open_on_a_full_disk(small_disk: Path) -> None:
    (small_disk / "site").mkdir()
    fill(small_disk)
    with pytest.raises(InfeasibleError, match="No space left"):
        async with opened(small_disk / "site"):
            pass


async def test_a_disk_that_fills_up_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with opened(small_disk / "site") as (site, probe):
        await site.submit([shell("local-1", WAIT, "/dev/null", str(go))])
        await probe.started("local-1")
        ballast = fill(small_disk)
        # More than fits into what is left of the journal's last page.
        late = [request(f"late-{n}-{'x' * 100}", "true") for n in range(80)]
        await site.submit(late)
        for attempt in late:
            assert (await probe.ended(attempt.key)).cause in ("disk-full", "done")
        assert probe.outcomes(late[-1].key)[0].cause == "disk-full"
        assert any(isinstance(event, SitePaused) for event in probe.events)
        go.touch()
        assert (await probe.ended("local-1")).cause == "done"
        ballast.unlink()
        await probe.until(lambda: any(isinstance(e, SiteReopened) for e in probe.events))
        await site.submit([request("local-2", "true")])
        assert (await probe.ended("local-2")).cause == "done"
    async with opened(small_disk / "site") as (site, probe):
        found = await site.find(["local-1", "local-2"])
        assert [answer.state for answer in found.values()] == ["ended", "ended"]


async def test_an_output_that_can_not_be_committed_is_a_failure(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        site.store_path("taken").mkdir()
        (site.store_path("taken") / "f").touch()
        long = "n" * 300
        await site.submit(
            [
                shell("local-1", "echo 1 > out", outputs={"out": "taken"}),
                shell("local-2", "echo 1 > out", outputs={"out": long}),
            ]
        )
        assert (await probe.ended("local-1")).cause == "done"
        assert site.store_path("taken").read_text() == "1\n"
        assert (await probe.ended("local-2")).cause == "output"


async def test_outputs_that_are_directories_and_links(tmp_path: Path) -> None:
    script = "mkdir -p d/e; echo 12 > d/e/f; ln -s d/e/f link; ln -s in copy; chmod 755 d/e/f"
    outputs = {"d": "d", "link": "link", "copy": "copy"}
    async with opened(tmp_path / "site") as (site, probe):
        site.store_path("in").write_text("input")
        for key in ("local-1", "local-2"):  # The second replaces what the first has committed.
            await site.submit([shell(key, script, inputs={"in": "in"}, outputs=outputs)])
            outcome = await probe.ended(key)
            assert outcome.cause == "done", outcome
            assert outcome.sizes == (3, 3, 5)
        assert (site.store_path("d") / "e" / "f").read_text() == "12\n"
        for name, content in (("link", "12\n"), ("copy", "input")):
            assert not site.store_path(name).is_symlink()
            assert site.store_path(name).read_text() == content
        assert site.store_path("link").stat().st_mode & 0o777 == 0o555


async def test_the_target_of_a_link_outside_the_site_is_unchanged(tmp_path: Path) -> None:
    """A user's own file is neither made read-only nor shared with the store."""
    own = tmp_path / "own"
    own.write_text("before")
    own.chmod(0o640)
    script = 'ln -s "$1" soft; ln "$1" hard; mkdir d; ln "$1" d/hard'
    outputs = {name: name for name in ("soft", "hard", "d")}
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([shell("local-1", script, str(own), outputs=outputs)])
        outcome = await probe.ended("local-1")
        assert outcome.cause == "done", outcome
        assert own.stat().st_mode & 0o777 == 0o640
        own.write_text("after")
        for name in ("soft", "hard", "d/hard"):
            assert site.store_path(name).read_text() == "before"
            assert site.store_path(name).stat().st_mode & 0o222 == 0


@pytest.mark.parametrize("script", ["mkfifo out", "ln -s /dev/zero out", "mkfifo f; ln -s f out"])
async def test_outputs_that_are_no_files_are_refused(tmp_path: Path, script: str) -> None:
    """A pipe would let the next task wait for ever, a device fill the disk."""
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([shell("local-1", script, outputs={"out": "out"})])
        outcome = await probe.ended("local-1")
        assert outcome.cause == "output"
        assert "'out' is neither a file nor a directory" in (outcome.message or "")
        assert not site.store_path("out").exists()


async def test_cleaning_a_directory_that_was_removed(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, _):
        shutil.rmtree(tmp_path / "site")
        await asyncio.wait_for(site.clean(), 20)


async def test_a_directory_that_is_removed_while_tasks_run(tmp_path: Path) -> None:
    """They are lost, later ones get a new directory, and nothing waits for ever."""
    go = tmp_path / "go"
    script = 'while [ ! -e "$1" ]; do sleep 0.02; done; exit 3'
    async with opened(tmp_path / "site", SiteSpec("here", 1)) as (site, probe):
        await site.submit([shell("local-1", script, str(go)), shell("local-2", "true")])
        await probe.started("local-1")
        shutil.rmtree(tmp_path / "site")
        go.touch()
        assert (await probe.ended("local-1")).cause == "exit"
        assert (await probe.ended("local-2")).cause != "done"
        os.kill(launcher_pid(site), signal.SIGKILL)
        await site.submit([shell("local-3", "true")])
        assert (await probe.ended("local-3")).cause == "lost"
        await site.submit([shell("local-4", "echo 1 > out", outputs={"out": "kept"})])
        assert (await probe.ended("local-4")).cause == "done"
        assert site.store_path("kept").read_text() == "1\n"


async def test_an_input_is_replaced_not_overwritten(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        site.store_path("v1").write_text("b\na\n")
        attempt = request(
            "local-1",
            "sort",
            inputs={"f": "v1"},
            outputs={"f": "v2"},
            stdin="f",
            stdout="f",
        )
        await site.submit([attempt])
        assert (await probe.ended("local-1")).cause == "done"
        assert site.store_path("v1").read_text() == "b\na\n"
        assert site.store_path("v2").read_text() == "a\nb\n"


async def test_names_that_lead_out_of_the_sandbox_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit(
            [
                shell("local-1", "true", outputs={"../escaped": "f"}),
                request("local-2", "true", stdout="/tmp/escaped"),
            ]
        )
        for key in ("local-1", "local-2"):
            outcome = await probe.ended(key)
            assert outcome.cause == "launch-failed"
            assert "sandbox" in (outcome.message or "")


async def test_a_failed_sandbox_is_kept_and_a_good_one_is_not(tmp_path: Path) -> None:
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([shell(f"local-{n}", f"echo {n} > f; exit {n}") for n in (0, 1)])
        for key in ("local-0", "local-1"):
            await probe.ended(key)
        attempts = tmp_path / "site" / "attempts"
        assert not (attempts / "local-0").exists()
        assert (attempts / "local-1" / "f").read_text() == "1\n"
        await site.clean()
        assert not (attempts / "local-1").exists()


async def test_a_script_without_a_first_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$1"')
    script.chmod(0o755)
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request("local-1", str(script), "hello")])
        assert (await probe.ended("local-1")).cause == "done"
        assert (await site.log("local-1"))[0] == b"hello\n"


async def test_an_interpreter_that_is_absent(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    plain = tmp_path / "plain"
    plain.touch()
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request("local-1", str(script)), request("local-2", str(plain))])
        outcome = await probe.ended("local-1")
        assert outcome.cause == "launch-failed"
        assert "interpreter" in (outcome.message or "")
        outcome = await probe.ended("local-2")
        assert outcome.cause == "launch-failed"
        assert "not executable" in (outcome.message or "")


async def test_an_attempt_that_never_fits_is_refused_and_blocks_nothing(tmp_path: Path) -> None:
    spec = SiteSpec("here", 2, memory_bytes=1000, gpus=1)
    async with opened(tmp_path / "site", spec) as (site, probe):
        await site.submit(
            [
                asking(request("local-1", "true"), cores=3),
                asking(request("local-2", "true"), memory_bytes=1001),
                asking(request("local-3", "true"), gpus=2),
                asking(request("local-4", "true"), cores=2, memory_bytes=1000, gpus=1),
            ]
        )
        for key in ("local-1", "local-2", "local-3"):
            assert (await probe.ended(key)).cause == "launch-failed"
        assert (await probe.ended("local-4")).cause == "done"


async def test_memory_and_gpus_are_shared(tmp_path: Path) -> None:
    spec = SiteSpec("here", 4, memory_bytes=1000, gpus=2)
    gpu, order = 'echo "$CUDA_VISIBLE_DEVICES"; sleep 0.3', tmp_path / "order"
    note = 'echo "$1" >> "$2"; sleep 0.2; echo "$1" >> "$2"'
    async with opened(tmp_path / "site", spec) as (site, probe):
        await site.submit([asking(shell(f"gpu-{n}", gpu), gpus=1) for n in range(2)])
        await site.submit(
            [asking(shell(f"m-{n}", note, str(n), str(order)), memory_bytes=600) for n in (1, 2)]
        )
        for key in ("gpu-0", "gpu-1", "m-1", "m-2"):
            assert (await probe.ended(key)).cause == "done"
        assert {(await site.log(f"gpu-{n}"))[0] for n in range(2)} == {b"0\n", b"1\n"}
    assert order.read_text().split() == ["1", "1", "2", "2"]


async def test_pinned_cores(tmp_path: Path) -> None:
    cores = available_cores()
    script = "grep Cpus_allowed_list /proc/self/status; sleep 0.3"
    async with opened(tmp_path / "site", SiteSpec("here", cores, pin_cores=True)) as (site, probe):
        keys = [f"local-{n}" for n in range(cores)]
        await site.submit([shell(key, script) for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"
        assert len({(await site.log(key))[0] for key in keys}) == cores


@pytest.mark.slow
async def test_thousands_of_attempts_in_one_batch(tmp_path: Path) -> None:
    keys = [f"local-{n}" for n in range(1000)]
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request(key, "true") for key in keys])
        for key in keys:  # they end in any order
            await probe.ended(key)
        found = await site.find(keys)
        assert all(found[key].state == "ended" for key in keys)
        assert [len(probe.outcomes(key)) for key in keys[::100]] == [1] * 10
