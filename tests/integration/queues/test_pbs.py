"""A site of PBS, as far as recordings of it play its part: what befalls jobs there. And what the
player prints is what was recorded."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tests.fakes import pbs
from tests.runners.harness import LONG_S, User
from tests.sites.batch.recordings import OPENPBS, recorded
from wfrun.engine.events import JobLimitReached, JobsWait, SitePaused, SiteReopened
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.checks.check import check
from wfrun.runners.admin.show import show
from wfrun.runners.cli.predict.predict_command import predict
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.entry_error import EntryError
from wfrun.sites.kind import AnySite
from wfrun.testing.probe import Probe, request, shell

RUN = "r1"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".profile").write_text(f"PATH={tmp_path}/pbs/bin:$PATH; export PATH\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("wfrun.sites.cluster.head_node.RETRY_DELAYS_S", (0.5,))
    yield tmp_path / "pbs"
    pbs.end(tmp_path / "pbs")


Opened = Callable[[SiteSpec], AbstractAsyncContextManager[tuple[AnySite, Probe]]]


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


def site_of(directory: Path, walltime_s: float | None = None) -> SiteSpec:
    access = Access(transport="local", poll_min_s=0.3, poll_max_s=1.0, patience_s=2.0)
    scratch = str(directory.parent / "scratch")
    return SiteSpec("here", 2, kind="pbs", directory=scratch, access=access, walltime_s=walltime_s)


def jobs_of(directory: Path) -> list[dict[str, Any]]:
    """All jobs that were accepted."""
    return list(json.loads((directory / "state.json").read_text())["jobs"].values())


def states(directory: Path) -> set[str]:
    return {e["state"] for job in jobs_of(directory) for e in job["elements"].values()}


async def until(what: Callable[[], bool]) -> None:
    """Until that is so at the site."""
    deadline_s = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.05)


def waits(probe: Probe) -> list[tuple[str, int]]:
    """The reasons for waits that were reported, each with the number of held jobs."""
    return [(e.reason, e.held) for e in probe.events if isinstance(e, JobsWait)]


def run(directory: Path, command: str, *arguments: str) -> tuple[int, str, str]:
    result = subprocess.run(
        [directory / "bin" / command, *arguments],
        input="sleep 30\n",
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("limit", ["user", "ncpus"])
async def test_more_jobs_than_may_be_queued(directory: Path, opened: Opened, limit: str) -> None:
    pbs.install(directory, slots=2, limits={limit: 5})
    keys = [f"pbs-{n}" for n in range(6)]
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request(key, "true") for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"


async def test_the_limit_is_learned_from_refusals(directory: Path, opened: Opened) -> None:
    """Nothing is known before: an array that exceeds the limit is refused whole."""
    pbs.install(directory, slots=8, limits={"user": 5})
    keys = [f"pbs-{n}" for n in range(20)]
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request(key, "sleep", "0.5") for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"
        reported = [e.jobs for e in probe.events if isinstance(e, JobLimitReached)]
    accepted = [len(job["elements"]) for job in jobs_of(directory)]
    # On a busy machine PBS frees a place after the end of its job was reported, so that further
    # submissions are refused.
    assert len(pbs.asked(directory, "qsub")) - len(accepted) <= 10
    assert reported[-1] == 5
    assert 0 not in reported


async def test_an_array_that_is_too_large_is_halved(directory: Path, opened: Opened) -> None:
    pbs.install(directory, slots=8, queue_max_array=3)
    keys = [f"pbs-{n}" for n in range(10)]
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request(key, "true") for key in keys])
        for key in keys:
            assert (await probe.ended(key)).cause == "done"
    sizes = [len(job["elements"]) for job in jobs_of(directory)]
    assert sorted(sizes) == [2, 2, 2, 2, 2]


async def test_a_queue_that_is_disabled_for_a_while(directory: Path, opened: Opened) -> None:
    """A site that accepts nothing, and in whose queue nothing of ours ends, says so."""
    pbs.install(directory, slots=2, enabled=False)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request("pbs-1", "true")])
        await probe.until(lambda: any(isinstance(e, SitePaused) for e in probe.events))
        (paused,) = [e for e in probe.events if isinstance(e, SitePaused)]
        assert "Queue is not enabled" in paused.reason
        await site.cancel(["pbs-1"])
        assert (await probe.ended("pbs-1")).cause == "cancelled"
        await probe.until(lambda: any(isinstance(e, SiteReopened) for e in probe.events))
        await site.submit([request("pbs-2", "true")])
        await probe.until(lambda: sum(isinstance(e, SitePaused) for e in probe.events) == 2)
        pbs.configure(directory, enabled=True)
        assert (await probe.ended("pbs-2")).cause == "done"
        assert sum(isinstance(e, SiteReopened) for e in probe.events) == 2


async def test_an_element_that_is_queued_again_does_not_run_twice(
    directory: Path, opened: Opened
) -> None:
    pbs.install(directory, slots=2)
    record = directory.parent / "record"
    async with opened(site_of(directory)) as (site, probe):
        note = f'echo "$WFRUN_ATTEMPT" >>{record}; sleep 600'
        await site.submit([shell("pbs-1", note), shell("pbs-2", f"echo pbs-2 >>{record}")])
        assert (await probe.ended("pbs-2")).cause == "done"
        await probe.started("pbs-1")
        await until(lambda: "pbs-1" in record.read_text())
        pbs.requeue(directory, "0[1]", "0[2]")  # the ended one, too
        assert (await probe.ended("pbs-1")).cause == "lost"
        await until(lambda: not states(directory) - {"F"})
    assert sorted(record.read_text().split()) == ["pbs-1", "pbs-2"]
    assert len(probe.outcomes("pbs-2")) == 1


async def test_elements_are_listed_only_when_some_may_have_ended(
    directory: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wfrun.sites.cluster.queue_watch.UNSTARTED_S", 1.0)
    pbs.install(directory, slots=3)
    go = directory.parent / "go"
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([shell(f"pbs-{n}", wait) for n in range(5)])
        for key in ("pbs-0", "pbs-1", "pbs-2"):
            await probe.started(key)
        asked = pbs.asked(directory, "qstat")
        await until(lambda: len(pbs.asked(directory, "qstat")) > len(asked) + 3)
        assert not any("-t" in words for words in pbs.asked(directory, "qstat"))
        # One leaves without a record.
        run(directory, "qdel", "-W", "force", "0[5].pbshost")
        assert (await probe.ended("pbs-4")).cause == "lost"
        assert ["-t", "-f", "-F", "json", "0[].pbshost"] in pbs.asked(directory, "qstat")
        go.touch()
        for key in ("pbs-0", "pbs-1", "pbs-2", "pbs-3"):
            assert (await probe.ended(key)).cause == "done"


async def test_an_array_that_is_held(directory: Path, opened: Opened) -> None:
    """By its user or an administrator: it waits, and goes on when it is released."""
    pbs.install(directory, slots=2)
    spec = site_of(directory)
    assert spec.access is not None
    access = msgspec.structs.replace(spec.access, options=("-h",))
    async with opened(msgspec.structs.replace(spec, access=access)) as (site, probe):
        await site.submit([shell("pbs-1", "true"), shell("pbs-2", "true")])
        await probe.until(lambda: waits(probe) == [("Hold_Types = u", 2)])
        assert not probe.outcomes("pbs-1")
        run(directory, "qrls", "0[].pbshost")
        assert {(await probe.ended(key)).cause for key in ("pbs-1", "pbs-2")} == {"done"}
        await probe.until(lambda: waits(probe)[-1] == ("", 0))


async def test_a_queue_that_is_stopped_for_a_while(directory: Path, opened: Opened) -> None:
    """It accepts jobs, and starts none."""
    pbs.install(directory, slots=2, started=False)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([shell("pbs-1", "true"), shell("pbs-2", "true")])
        await site.submit([request("pbs-3", "true", cores=2)])
        await probe.until(lambda: waits(probe)[-1:] == [("Not Running: Queue not started.", 3)])
        pbs.configure(directory, started=True)
        for key in ("pbs-1", "pbs-2", "pbs-3"):
            assert (await probe.ended(key)).cause == "done"
        await probe.until(lambda: waits(probe)[-1] == ("", 0))


async def test_a_start_is_seen_soon_after_the_end_before_it(
    directory: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However rarely the queue is asked while nothing changes."""
    monkeypatch.setattr("wfrun.sites.cluster.queue_watch.SLOWER", 1e9)
    pbs.install(directory, slots=1)
    spec = site_of(directory)
    assert spec.access is not None
    access = msgspec.structs.replace(spec.access, poll_max_s=10_000.0)
    go = [directory.parent / f"go-{n}" for n in range(2)]
    script = "until [ -e {} ]; do sleep 0.05; done"
    async with opened(msgspec.structs.replace(spec, access=access)) as (site, probe):
        await site.submit([shell(f"pbs-{n}", script.format(go[n])) for n in range(2)])
        await probe.started("pbs-0")
        asked = len(pbs.asked(directory, "qstat"))
        await until(lambda: len(pbs.asked(directory, "qstat")) > asked)  # nothing has changed
        go[0].touch()
        assert (await probe.ended("pbs-0")).cause == "done"
        await probe.started("pbs-1")
        go[1].touch()
        assert (await probe.ended("pbs-1")).cause == "done"


async def test_jobs_that_wait_for_room(directory: Path, opened: Opened) -> None:
    """An array that has begun has a comment that is no reason."""
    pbs.install(directory, slots=1)
    go = directory.parent / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done"
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([shell("pbs-1", script), shell("pbs-2", script)])
        await probe.started("pbs-1")
        await site.submit([shell("pbs-3", "true")])
        await probe.until(
            lambda: waits(probe) == [("Not Running: Not enough free nodes available", 0)]
        )
        go.touch()
        for key in ("pbs-1", "pbs-2", "pbs-3"):
            assert (await probe.ended(key)).cause == "done"


@pytest.mark.parametrize("dispatch", ["jobs", "launchers"])
async def test_a_check_waits_for_the_output_of_its_jobs(
    directory: Path, dispatch: Literal["jobs", "launchers"], capsys: pytest.CaptureFixture[str]
) -> None:
    """A job keeps its cores for half a minute, and its user gets a mail, if it cannot be
    delivered."""
    pbs.install(directory, slots=2, stage_out_s=2.0)
    spec = site_of(directory)
    assert spec.access is not None
    launchers = LauncherSpec(cores=1, max=1, walltime_s=600.0) if dispatch == "launchers" else None
    access = msgspec.structs.replace(spec.access, dispatch=dispatch, launchers=launchers)
    spec = msgspec.structs.replace(spec, access=access)
    checked = await check([spec], LONG_S, None, as_json=False)
    assert not checked.has_failures, capsys.readouterr().out
    await until(lambda: states(directory) == {"F"})
    assert pbs.undelivered(directory) == []
    assert not list((directory.parent / "scratch").iterdir())


async def test_a_job_that_can_never_run(directory: Path, opened: Opened) -> None:
    pbs.install(directory, slots=2)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request("pbs-1", "true", cores=3)])
        outcome = await probe.ended("pbs-1")
        assert outcome.cause == "refused"
        assert "Insufficient amount of resource: ncpus (R: 3 A: 2 T: 2)" in (outcome.message or "")
    assert json.loads(run(directory, "qstat", "-f", "-F", "json")[1]).get("Jobs", {}) == {}


async def test_a_job_that_needs_a_node_that_is_down(
    directory: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenPBS calls it impossible and takes that back when the node returns."""
    monkeypatch.setattr("wfrun.sites.cluster.refusals.ASK_AGAIN_S", 0.5)
    pbs.install(directory, slots=2, down=2)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([request("pbs-1", "true", cores=4)])
        await until(lambda: len(pbs.asked(directory, "pbsnodes")) > 2)
        assert not probe.outcomes("pbs-1")
        await site.submit([request("pbs-2", "true", cores=5)])
        assert (await probe.ended("pbs-2")).cause == "refused"
        assert not probe.outcomes("pbs-1")
        pbs.configure(directory, slots=4, down=0)
        await site.submit([shell("pbs-3", "true")])  # the player looks at its queue
        assert (await probe.ended("pbs-1")).cause == "done"


async def test_a_job_that_its_owner_deletes(directory: Path, opened: Opened) -> None:
    pbs.install(directory, slots=1, history=True)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([shell("pbs-1", "sleep 600"), shell("pbs-2", "sleep 600")])
        await probe.started("pbs-1")
        assert run(directory, "qdel", "0[1].pbshost", "0[2].pbshost") == (0, "", "")
        running, queued = await probe.ended("pbs-1"), await probe.ended("pbs-2")
        assert running.cause == queued.cause == "lost"
        assert "terminated by" in (running.message or "")
        assert "without having started" in (queued.message or "")


async def test_a_job_past_its_walltime(directory: Path, opened: Opened) -> None:
    """The site's own bound, of which the task knows nothing. PBS keeps no history, but the job
    knows its walltime, and PBS's message is in its output if PBS is quicker than its record."""
    pbs.install(directory, slots=1)
    async with opened(site_of(directory, walltime_s=1.0)) as (site, probe):
        await site.submit([shell("pbs-1", "sleep 600; exit 1")])
        outcome = await probe.ended("pbs-1")
    assert outcome.cause == "walltime"
    assert "walltime" in (outcome.message or "")


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("gap_s", [0.02, 1.0])
async def test_a_shell_that_goes_on_when_pbs_has_killed_its_command(
    directory: Path, opened: Opened, gap_s: float, history: bool
) -> None:
    """A live OpenPBS 23.06 signals the children first: the shell exits with 0, and the job's end is
    recorded before its own signal comes, or even without it. Only PBS knows that it was cut."""
    pbs.install(directory, slots=3, history=history, gap_s=gap_s)
    scripts = {
        "pbs-1": "sleep 40; echo x >o",
        "pbs-2": "trap 'echo caught' TERM; sleep 40; echo x >o",
        "pbs-3": "sh -c 'sleep 40; exit 0'; echo x >o",
    }
    async with opened(site_of(directory, walltime_s=6.0)) as (site, probe):
        await site.submit([shell(k, text, outputs={"o": k}) for k, text in scripts.items()])
        for key in scripts:
            outcome = await probe.ended(key)
            assert outcome.cause == "walltime", outcome
            assert "walltime" in (outcome.message or "")
            assert outcome.sizes == ()


@pytest.mark.parametrize("history", [False, True])
async def test_a_task_that_ends_well_near_the_walltime_of_its_job(
    directory: Path, opened: Opened, history: bool
) -> None:
    """PBS is asked, and a success is believed if it says nothing else."""
    pbs.install(directory, slots=1, history=history)
    async with opened(site_of(directory, walltime_s=10.0)) as (site, probe):
        await site.submit([shell("pbs-1", "sleep 8.5; echo x >o", outputs={"o": "o"})])
        assert (await probe.ended("pbs-1")).cause == "done"
        asked = [words for words in pbs.asked(directory, "qstat") if "-x" in words]
        assert asked
    async with opened(site_of(directory, walltime_s=600.0)) as (site, probe):
        await site.submit([shell("pbs-2", "sleep 1; echo x >o", outputs={"o": "o"})])
        assert (await probe.ended("pbs-2")).cause == "done"
        assert [words for words in pbs.asked(directory, "qstat") if "-x" in words] == asked


@pytest.mark.parametrize("gap_s", [0.02, 1.0])
async def test_a_cut_end_that_only_a_later_engine_sees(
    directory: Path, opened: Opened, gap_s: float
) -> None:
    pbs.install(directory, slots=1, gap_s=gap_s)
    async with opened(site_of(directory, walltime_s=6.0)) as (site, probe):
        await site.submit([shell("pbs-1", "sleep 40; echo x >o", outputs={"o": "o"})])
        await probe.started("pbs-1")
    await until(lambda: states(directory) == {"F"})
    async with opened(site_of(directory, walltime_s=6.0)) as (site, probe):
        found = (await site.find(["pbs-1"]))["pbs-1"]
        outcome = found.outcome or await probe.ended("pbs-1")
        assert outcome.cause == "walltime"


async def test_a_job_past_its_memory(directory: Path, opened: Opened) -> None:
    """PBS keeps no history: only its own words in the job's output say why it was killed."""
    pbs.install(directory, slots=1)
    hold = "import time; held = b'x' * (400 << 20); time.sleep(600)"
    asked = request("pbs-1", sys.executable, "-c", hold)
    resources = msgspec.structs.replace(asked.resources, memory_bytes=150 << 20)
    async with opened(site_of(directory)) as (site, probe):
        await site.submit([msgspec.structs.replace(asked, resources=resources)])
        outcome = await probe.ended("pbs-1")
    assert outcome.cause == "memory"
    assert "PBS killed the job: mem" in (outcome.message or "")
    assert "exceeded limit 153600kb" in (outcome.message or "")


async def test_a_profile_that_ends_the_jobs_shell(directory: Path, opened: Opened) -> None:
    """Nothing of wfrun runs, and only PBS's own copy of the output says why."""
    pbs.install(directory, slots=2)
    async with opened(site_of(directory)) as (site, probe):
        with (directory.parent / ".profile").open("a") as profile:
            wait = f"until [ -e {directory.parent}/go ]; do sleep 0.1; done"
            profile.write(f'[ -z "$PBS_JOBID" ] || {{ {wait}; export -f nothing; }}\n')
        await site.submit([shell("pbs-1", "true"), shell("pbs-2", "true")])
        for key in ("pbs-1", "pbs-2"):
            await probe.started(key)
        (directory.parent / "go").touch()
        for key in ("pbs-1", "pbs-2"):
            outcome = await probe.ended(key)
            assert outcome.cause == "lost"
            assert "ended before wfrun's script began; it printed:" in (outcome.message or "")
            assert "export: Illegal option -f" in (outcome.message or "")


async def test_a_profile_that_prints(directory: Path, opened: Opened) -> None:
    pbs.install(directory, slots=2)
    async with opened(site_of(directory)) as (site, probe):
        with (directory.parent / ".profile").open("a") as profile:
            profile.write("echo welcome; echo welcome >&2\n")
        await site.submit([shell("pbs-1", "echo one"), shell("pbs-2", "echo two")])
        assert {(await probe.ended(key)).cause for key in ("pbs-1", "pbs-2")} == {"done"}
        assert await site.log("pbs-2") == (b"two\n", b"")


async def test_jobs_get_no_environment_but_that_of_their_shell(
    directory: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task needs is set by ``~/.profile``, or passed by ``options: [-v, NAME=value]``."""
    pbs.install(directory, slots=1)
    monkeypatch.setenv("LOST_ON_THE_WAY", "1")
    spec = site_of(directory)
    assert spec.access is not None
    access = msgspec.structs.replace(spec.access, options=("-v", "PASSED=2"))
    async with opened(msgspec.structs.replace(spec, access=access)) as (site, probe):
        await site.submit([shell("pbs-1", 'echo "$LOST_ON_THE_WAY,$PASSED,$WFRUN_JOB_WALLTIME_S"')])
        assert (await probe.ended("pbs-1")).cause == "done"
        assert await site.log("pbs-1") == (b",2,\n", b"")


def test_its_answers_are_the_recorded_ones(directory: Path) -> None:
    pbs.install(directory, slots=8, limits={"generic": 10})

    def same(name: str, command: str, *arguments: str, told: dict[str, str] | None = None) -> None:
        there = recorded(OPENPBS, name)
        output = there.output
        for old, new in (told or {}).items():
            output = output.replace(old, new)
        assert run(directory, command, *arguments) == (there.exit_code, output, there.errors)

    array = ("-J", "0-4", "-l", "select=1:ncpus=1", "-l", "walltime=00:01:00")
    same("version", "qstat", "--version")
    same("qsub-array", "qsub", "-N", "wfarr", *array, told={"3[]": "0[]"})
    same("qsub-bad-queue", "qsub", "-q", "nosuch")
    same("qsub-bad-resource", "qsub", "-l", "select=1:ngpus=x")
    same("qsub-bad-resource2", "qsub", "-l", "foo=1")
    same("qsub-unicode", "qsub", "-N", "wf é$(x)")
    same("qsub-limit", "qsub", "-J", "1-6")
    same("qdel-unknown", "qdel", "999999")
    same("qdel-ok", "qdel", "0[]")
    same("qstat-unknown", "qstat", "-f", "-F", "json", "999999.pbshost")


def test_its_jobs_look_like_recorded_ones(directory: Path) -> None:
    pbs.install(directory, slots=2, history=True)
    asked = ("-l", "select=1:ncpus=2:mem=100mb", "-l", "walltime=00:05:00")
    assert run(directory, "qsub", "-N", "wf-1", *asked)[1] == "0.pbshost\n"
    assert run(directory, "qsub", "-N", "wf-2", "-J", "0-4", *asked[:2])[1] == "1[].pbshost\n"
    there = json.loads(recorded(OPENPBS, "qstat-xtf-json").output)["Jobs"]

    def jobs(*options: str) -> dict[str, dict[str, object]]:
        code, output, errors = run(directory, "qstat", *options, "-t", "-f", "-F", "json")
        assert (code, errors) == (0, "")
        text = json.dumps(json.loads(output), indent=4, separators=(",", ":"))
        assert output == text + "\n"
        return json.loads(output).get("Jobs", {})  # type: ignore[no-any-return]

    shown = jobs()
    assert list(shown) == ["0.pbshost", "1[].pbshost", *(f"1[{n}].pbshost" for n in range(5))]
    assert list(shown["0.pbshost"]) == list(there["1.pbshost"])
    assert shown["0.pbshost"]["Resource_List"] == there["1.pbshost"]["Resource_List"]
    assert shown["1[].pbshost"]["array_indices_remaining"] == "0,1,2,3,4"
    run(directory, "qdel", "0")
    run(directory, "qdel", "1[]")
    deadline_s = time.monotonic() + LONG_S
    while shown := jobs():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert run(directory, "qstat", "-f", "-F", "json", "0") == (
        35,
        "",
        "qstat: 0.pbshost Job has finished, use -x or -H to obtain historical job information\n",
    )
    ended = jobs("-x")
    deleted = json.loads(recorded(OPENPBS, "qstat-after").output)["Jobs"]["1.pbshost"]
    assert ended["0.pbshost"]["Exit_status"] == deleted["Exit_status"] == 271
    assert ended["0.pbshost"]["substate"] == deleted["substate"]
    assert set(ended["0.pbshost"]) == set(deleted) - {"session_id"}
    assert {ended[f"1[{n}].pbshost"]["job_state"] for n in range(5)} == {"F"}


async def test_a_queue_that_does_not_exist_is_found_when_the_site_is_opened(
    directory: Path, opened: Opened
) -> None:
    pbs.install(directory, 2)
    spec = site_of(directory)
    assert spec.access is not None
    spec = msgspec.structs.replace(spec, access=msgspec.structs.replace(spec.access, queue="nope"))
    with pytest.raises(EntryError, match="Unknown queue") as refused:
        async with opened(spec):
            pass
    assert refused.value.key == "queue"
    assert not (directory / "state.json").exists() or not jobs_of(directory)


def test_the_waits_of_its_queue_are_predicted(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `wfrun sites show` and `wfrun predict`, which do not contradict each other."""
    pbs.install(directory, slots=2)
    spec = site_of(directory)
    assert not asyncio.run(show([spec], None, as_json=True))
    (idle,) = json.loads(capsys.readouterr().out)
    assert [wait["bound_s"] for wait in idle["waits"]] == [0, 0]
    for _ in range(3):
        assert run(directory, "qsub")[0] == 0
    asyncio.run(until(lambda: states(directory) == {"R", "Q"}))
    assert not asyncio.run(show([spec], None, as_json=True))
    (busy,) = json.loads(capsys.readouterr().out)
    one, node = busy["waits"]
    assert (one["cores"], node["cores"]) == (1, 2)
    assert 0 < one["wait_s"] < node["wait_s"] <= node["bound_s"]
    monkeypatch.chdir(directory.parent)
    Path("list.txt").write_text("sleep 1\n" * 4)
    Path("sites.yaml").write_text(
        "sites:\n  here: {kind: pbs, slots: 2, transport: local, directory: ~/scratch}\n"
    )
    words = ["list.txt", "--sites", "sites.yaml", "--runtime", "3600", "--history", "none"]
    predict.main([*words, "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    (site,) = found["sites"]
    assert site["present"]["jobs_ahead"] == 3
    (wait,) = site["waits"]
    assert 0 < wait["wait_s"] <= wait["bound_s"]
    assert found["end"]["low_s"] < found["end"]["high_s"]  # as the ends of the others vary
    assert found["end"]["low_s"] >= 2 * 3600
    predict.main(words, standalone_mode=False)
    out = capsys.readouterr().out
    assert "ends of other users' jobs vary" in out
    assert "at most" in out


def test_what_a_cut_task_has_written_is_never_final(directory: Path) -> None:
    """Its job commits before PBS has said that it was cut. Each attempt has names of its own in the
    store, so another one that does not write an optional output does not have it."""
    pbs.install(directory, slots=1, gap_s=1.5)
    home = directory.parent
    with (home / ".profile").open("a") as profile:
        # Its run time stays below the walltime of the site: a longer one would not be tried again.
        profile.write('[ -z "$PBS_JOBID" ] || sleep 4\n')
    script = (
        "case $WFRUN_ATTEMPT in *.1) sleep 600; echo wrong >out; echo wrong >extra;; "
        "*) echo right >out;; esac"
    )
    (home / "bag.yaml").write_text(
        f"command: sh -c '{script}'\nparameters: {{i: [1]}}\n"
        "outputs: [out, {name: extra, to: extra, optional: true}]\n"
    )
    user = User(home, LONG_S)
    catalog = user.catalog(
        "sites:\n  here: {kind: pbs, slots: 1, transport: local, directory: ~/scratch, "
        "walltime: 9 s, poll_min: 0.5, poll_max: 1}\n"
    )
    try:
        done = user.wfrun("bag.yaml", "--sites", catalog, "--run-dir", "r", "--keep", "all")
    finally:
        user.close()
    assert done.status == 0, done.text
    store = next((home / "scratch").glob("*/files"))
    assert "wrong\n" in [path.read_text() for path in store.iterdir()]  # it was committed
    found = {path.name: path.read_text() for path in (home / "r" / "outputs").iterdir()}
    assert found == {"out": "right\n"}


def test_an_array_that_stays_after_the_run(directory: Path) -> None:
    """After a kill of the server it is in state B for ever, with all elements expired."""
    pbs.install(directory, slots=2, stuck=True)
    user = User(directory.parent, LONG_S)
    (user.folder / "bag.yaml").write_text("command: 'true'\nparameters: {i: [1, 2]}\n")
    catalog = user.catalog(
        "sites:\n  here: {kind: pbs, slots: 2, transport: local, directory: ~/scratch, "
        "poll_min: 0.5, poll_max: 1}\n"
    )
    try:
        done = user.wfrun("bag.yaml", "--sites", catalog)
        assert done.status == 0, done.text
        assert "site here: its queue keeps jobs of this run" in done.err
        assert "by: qdel -W force -x '0[].pbshost'" in done.err
        pbs.configure(directory, stuck=False)
        done = user.wfrun("bag.yaml", "--sites", catalog)
        assert done.status == 0, done.text
        assert "its queue keeps" not in done.err
    finally:
        user.close()
