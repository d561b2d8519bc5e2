"""A cluster whose tasks are run by launchers: assignment, reports, failures, recovery."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from tests.sites.launchers.site_rig import SiteRig, ended, rig_at, started
from wfrun.engine import events as ev
from wfrun.engine.exchange import AttemptRequest, LauncherRequest
from wfrun.sites.launchers import recovery, site
from wfrun.sites.launchers.attempt_files import AttemptFiles
from wfrun.testing.probe import request


@pytest_asyncio.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SiteRig]:
    async with rig_at(tmp_path, monkeypatch) as rig:
        yield rig


def tasks(*keys: str) -> list[AttemptRequest]:
    return [request(key, "true") for key in keys]


async def test_from_submission_to_end(rig: SiteRig) -> None:
    await rig.open()
    await rig.site.submit(tasks("k1", "k2", "k3"))
    assert rig.probe.was_submitted("k3")
    link = await rig.launcher("L1")
    await rig.until(lambda: link.sent_attempts() == ["k1", "k2"])
    link.say({"started": ["k1", "k2"]}, ended("k1"))
    await rig.until(lambda: link.sent_attempts() == ["k1", "k2", "k3"])
    link.say({"started": ["k3"], **ended("k2")}, ended("k3", "k2", "unknown"))
    assert [rig.cause(key) for key in ("k1", "k2", "k3")] == ["done"] * 3
    starts = rig.events(ev.AttemptStarted)
    assert [(e.key, e.launcher) for e in starts] == [("k1", "L1"), ("k2", "L1"), ("k3", "L1")]
    (first,) = rig.events(ev.LauncherStarted)
    assert (first.host, first.slots, first.channel) == ("n1", 2, "tcp")
    assert rig.links.expected == {"L1"}


async def test_a_contested_attempt_is_found_in_the_journal_of_its_claimant(rig: SiteRig) -> None:
    await rig.open()
    link = await rig.launcher("L1")
    await rig.site.submit(tasks("k1", "k2"))
    await rig.until(lambda: len(link.sent_attempts()) == 2)
    rig.claim("k1")
    rig.claim("k2")
    rig.journal("old", {"queued": ["k1", "k2"]}, started("k1", "k2"), ended("k1"))
    link.say({"contested": ["k1", "k2"]})
    await rig.until(lambda: rig.cause("k1") == "done")
    await rig.until(lambda: rig.cause("k2") == "lost")
    assert rig.is_revoked("k2")
    assert not rig.is_revoked("k1")


@pytest.mark.slow
async def test_a_launcher_dies(rig: SiteRig) -> None:
    """Ends in its journal count; what it had started or claimed is lost, and can commit nothing
    more; the rest goes to another launcher."""
    await rig.open()
    link = await rig.launcher("L1", slots=5)
    await rig.site.submit(tasks("k1", "k2", "k3", "k4", "k5"))
    await rig.until(lambda: len(link.sent_attempts()) == 5)
    link.say({"started": ["k1", "k2"]})
    for key in ("k1", "k2", "k4"):
        rig.claim(key)
    rig.journal("L1", {"queued": ["k1", "k2", "k3", "k4"]}, started("k1", "k2"), ended("k1"))
    rig.end("L1")
    await rig.until(lambda: bool(rig.events(ev.LauncherEnded)))
    assert [rig.cause(f"k{n}") for n in range(1, 6)] == ["done", "lost", None, "lost", None]
    assert "k1" in [end.key for end in rig.events(ev.RecordedEnd)]  # its outputs are compared
    assert [key for key in ("k1", "k2", "k3", "k4") if rig.is_revoked(key)] == ["k2", "k4"]
    assert "the test ended it" in (rig.probe.outcomes("k2")[0].message or "")
    (end,) = rig.events(ev.LauncherEnded)
    assert end.cause == "exit"
    assert "the test ended it" in end.message
    other = await rig.launcher("L2", slots=4)
    await rig.until(lambda: sorted(other.sent_attempts()) == ["k3", "k5"])
    await rig.until(lambda: rig.links.expected == {"L2"})


@pytest.mark.slow
async def test_a_launcher_whose_node_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job leaves no exit record. That it has left the queue is enough: its tasks do not wait
    for the patience of the site."""
    async with rig_at(tmp_path, monkeypatch, patience_s=1000.0) as rig:
        await rig.open()
        link = await rig.launcher("L1")
        await rig.site.submit(tasks("k1", "k2"))
        await rig.until(lambda: len(link.sent_attempts()) == 2)
        link.say({"started": ["k1"]})
        rig.claim("k1")
        rig.journal("L1", {"queued": ["k1", "k2"]}, started("k1"))
        rig.kill("0")
        link.break_off()
        await rig.until(lambda: rig.cause("k1") == "lost")
        assert rig.is_revoked("k1")
        other = await rig.launcher("L2")
        await rig.until(lambda: other.sent_attempts() == ["k2"])


@pytest.mark.slow
async def test_a_launcher_that_never_connects_ends_with_its_stderr(rig: SiteRig) -> None:
    await rig.open('echo "there is no such module" >&2\n')
    await rig.start("L1")
    await rig.until(lambda: bool(rig.events(ev.LauncherEnded)))
    (end,) = rig.events(ev.LauncherEnded)
    assert end.cause == "launch-failed"
    assert "there is no such module" in end.message


@pytest.mark.slow
async def test_a_launcher_is_away(rig: SiteRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its unstarted attempts go to another launcher after a while, its running ones do not; which
    of the two runs an attempt that both have, the claim decides."""
    monkeypatch.setattr(site, "REASSIGN_S", 0.5)
    await rig.open()
    away, other = await rig.launcher("L1", 2), await rig.launcher("L2", 2)
    await rig.site.submit(tasks("k1", "k2", "k3", "k4"))
    await rig.until(lambda: len(away.sent_attempts()) == len(other.sent_attempts()) == 2)
    runs, waits = away.sent_attempts()
    away.say({"started": [runs]})
    away.break_off()
    (drains,) = rig.events(ev.LauncherDraining)
    assert (drains.key, drains.reason) == ("L1", "the line is dead")
    other.say(ended(*other.sent_attempts()))
    await rig.until(lambda: other.sent_attempts()[2:] == [waits])
    back = rig.play("L1")
    back.answers = {runs: {"state": "active"}}
    back.connect()
    assert back.sent_keys("return") == [waits]
    back.say({"started": [waits]})
    other.say({"contested": [waits]})
    back.say(ended(waits, runs))
    assert [rig.cause(key) for key in (runs, waits)] == ["done", "done"]
    assert len(rig.events(ev.LauncherStarted)) == 3


async def test_lost_messages_are_sent_again(rig: SiteRig) -> None:
    await rig.open()
    link = await rig.launcher("L1", slots=3)
    await rig.site.submit(tasks("k1", "k2", "k3"))
    await rig.until(lambda: len(link.sent_attempts()) == 3)
    link.break_off()
    back = rig.play("L1")
    outcome = {"cause": "exit", "exit_code": 4}
    back.answers = {"k1": {"state": "ended", "outcome": outcome}, "k2": {"state": "active"}}
    back.connect(slots=3)
    await rig.until(lambda: rig.cause("k1") == "exit")
    await rig.until(lambda: back.sent_attempts() == ["k3"])


@pytest.mark.slow
async def test_returned_attempts_go_to_other_launchers(rig: SiteRig) -> None:
    await rig.open()
    first = await rig.launcher("L1")
    await rig.site.submit(tasks("k1"))
    await rig.until(lambda: first.sent_attempts() == ["k1"])
    first.say({"returned": ["k1"]})
    await rig.site.submit(tasks("k2"))
    await rig.until(lambda: first.sent_attempts() == ["k1", "k2"])
    other = await rig.launcher("L2")
    await rig.until(lambda: other.sent_attempts() == ["k1"])


@pytest.mark.slow
async def test_prefetched_attempts_are_recalled_for_an_idle_launcher(rig: SiteRig) -> None:
    await rig.open()
    first = await rig.launcher("L1")
    await rig.site.submit(tasks("k0"))
    await rig.until(lambda: first.sent_attempts() == ["k0"])
    outcome = {"cause": "done", "started_s": 10.0, "ended_s": 10.02}
    first.say({"started": ["k0"]}, {"ended": [["k0", outcome]]})
    await rig.site.submit(tasks(*(f"k{n}" for n in range(1, 8))))
    await rig.until(lambda: len(first.sent_attempts()) > 5)
    held = first.sent_attempts()[1:]
    first.say({"started": held[:2]})
    other = await rig.launcher("L2")
    await rig.until(lambda: bool(first.sent_keys("return")))
    back = first.sent_keys("return")
    assert set(back) <= set(held[2:])
    first.say({"returned": back})
    await rig.until(lambda: set(back) <= set(other.sent_attempts()))


@pytest.mark.slow
async def test_attempts_are_cancelled_in_every_state(rig: SiteRig) -> None:
    await rig.open()
    first, gone = await rig.launcher("L1", slots=1), await rig.launcher("L2", slots=1)
    await rig.site.submit(tasks("k1", "k2", "k3"))
    await rig.until(lambda: len(first.sent_attempts()) == len(gone.sent_attempts()) == 1)
    (near,), (far,) = first.sent_attempts(), gone.sent_attempts()
    gone.break_off()
    await rig.site.cancel(["k3", near, far, "unknown"], queued_only=True)
    assert rig.cause("k3") == "cancelled"
    assert rig.cause(far) == "cancelled"
    assert rig.is_claimed(far)  # so it cannot start there any more
    assert rig.cause(near) is None
    assert {"cancel": [near], "queued_only": True} in first.received
    first.say(ended(near, cause="cancelled"))
    assert rig.cause(near) == "cancelled"
    await rig.site.submit(tasks("k4"))
    await rig.until(lambda: first.sent_attempts() == [near, "k4"])
    first.say({"started": ["k4"]})
    rig.claim("k4")
    first.break_off()
    await rig.site.cancel(["k4"])
    back = rig.play("L1")
    back.answers = {"k4": {"state": "active"}}
    back.connect(slots=1)
    await rig.until(lambda: back.sent_keys("cancel") == ["k4"])


async def test_an_attempt_cancelled_while_it_is_returned_is_not_assigned_again(
    rig: SiteRig,
) -> None:
    await rig.open()
    link = await rig.launcher("L1")
    await rig.site.submit(tasks("k1", "k2"))
    await rig.until(lambda: len(link.sent_attempts()) == 2)
    await rig.site.cancel(["k1"], queued_only=True)
    link.say({"returned": ["k1", "k2"]})
    assert rig.cause("k1") == "cancelled"
    assert rig.cause("k2") is None


@pytest.mark.slow
async def test_a_cancelled_attempt_that_two_launchers_have_starts_in_neither(
    rig: SiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connected launcher's answer says nothing about the unreachable one."""
    monkeypatch.setattr(site, "REASSIGN_S", 0.5)
    await rig.open()
    away = await rig.launcher("L1", slots=1)
    await rig.site.submit(tasks("k1"))
    await rig.until(lambda: away.sent_attempts() == ["k1"])
    away.break_off()
    other = await rig.launcher("L2", slots=1)
    await rig.until(lambda: other.sent_attempts() == ["k1"])
    await rig.site.cancel(["k1"], queued_only=True)
    assert rig.is_claimed("k1")
    assert rig.cause("k1") == "cancelled"
    assert not other.sent_keys("cancel")


@pytest.mark.slow
async def test_a_cancelled_attempt_of_an_unreachable_launcher_is_not_assigned_again(
    rig: SiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have started the attempt without being able to report it."""
    monkeypatch.setattr(site, "REASSIGN_S", 0.5)
    await rig.open()
    away = await rig.launcher("L1", slots=2)
    await rig.site.submit(tasks("k1", "k2"))
    await rig.until(lambda: away.sent_attempts() == ["k1", "k2"])
    await rig.site.cancel(["k1"], queued_only=True)
    assert away.sent_keys("cancel") == ["k1"]
    away.break_off()
    other = await rig.launcher("L2", slots=2)
    await rig.until(lambda: other.sent_attempts() == ["k2"])
    await rig.until(lambda: rig.cause("k1") == "cancelled")
    assert rig.is_claimed("k1")


@pytest.mark.slow
async def test_a_launcher_dies_while_it_is_asked_for(
    rig: SiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers that it has an attempt, and ends before the answer is used."""
    monkeypatch.setattr(recovery, "TRACELESS_S", 1.0)
    await rig.open()
    link = await rig.launcher("L2")
    await rig.site.submit(tasks("k1", "k2"))
    await rig.until(lambda: len(link.sent_attempts()) == 2)
    dies = await rig.launcher("L1")
    dies.answers = {"k1": {"state": "active"}}
    claimed = AttemptFiles.claimed

    async def late(records: AttemptFiles, keys: Sequence[str]) -> set[str]:
        if "k2" in keys and not rig.events(ev.LauncherEnded):
            rig.end("L1")
            await rig.until(lambda: bool(rig.events(ev.LauncherEnded)))
        elif not rig.events(ev.LauncherEnded):
            again.connect()  # while its end is looked into
        return await claimed(records, keys)

    monkeypatch.setattr(AttemptFiles, "claimed", late)
    again = rig.play("L1")
    rig.claim("k1")
    rig.claim("k2")
    link.say({"contested": ["k1", "k2"]})
    await rig.until(lambda: rig.cause("k1") == rig.cause("k2") == "lost")
    assert again.received == []
    await rig.site.submit(tasks("k3", "k4", "k5"))
    await rig.until(lambda: len(link.sent_attempts()) == 4)
    assert again.sent_attempts() == []


@pytest.mark.slow
async def test_launchers_are_stopped(rig: SiteRig) -> None:
    """A queued launcher is cancelled; a running one is asked to stop, and ends."""
    await rig.open()
    link = await rig.launcher("L1")
    await rig.start("L2")
    await rig.site.start_launchers([LauncherRequest("L3", 1, 2, 0, 0, 600.0)])
    await rig.until(lambda: any("L3" in e.keys for e in rig.events(ev.LaunchersSubmitted)))
    await rig.site.stop_launchers(["L1", "L3"])
    assert {"stop": True} in link.received
    await rig.until(lambda: [e.key for e in rig.events(ev.LauncherEnded)] == ["L3"])
    assert not rig.events(ev.LauncherEnded)[0].message
    await rig.site.submit(tasks("k1"))
    rig.end("L1")
    await rig.until(lambda: len(rig.events(ev.LauncherEnded)) == 2)
    assert link.sent_attempts() == []


@pytest.mark.slow
async def test_an_attempt_of_a_claim_runs_in_its_placeholder_which_ends_with_it(
    rig: SiteRig,
) -> None:
    """Also where the order to end comes before the placeholder has connected."""
    await rig.open()
    link = await rig.launcher("r.C1.0")
    await rig.start("r.C2.0")
    (task,) = tasks("k1")
    await rig.site.submit([msgspec.structs.replace(task, claim="r.C1"), *tasks("k2", "k3")])
    await rig.until(lambda: link.sent_attempts() == ["k1"])
    await rig.site.stop_launchers(["r.C1.0", "r.C2.0"], now=True)
    assert {"stop": True, "now": True} in link.received
    late = rig.play("r.C2.0")
    late.connect(2)
    await rig.until(lambda: {"stop": True, "now": True} in late.received)


@pytest.mark.slow
async def test_a_launcher_that_is_away_ends_with_the_run_though_a_command_fails(
    rig: SiteRig,
) -> None:
    await rig.open()
    link = await rig.launcher("L1")
    link.break_off()
    qdel = rig.place / "pbs" / "bin" / "qdel"
    qdel.rename(qdel.with_name("real-qdel"))
    qdel.write_text(
        f"#!/bin/sh\nmkdir {rig.place}/failed && exit 1\ntouch {rig.place}/again\n"
        f'exec {qdel.with_name("real-qdel")} "$@"\n'
    )
    qdel.chmod(0o755)
    await rig.site.dismiss()
    assert (rig.place / "failed").exists()
    assert (rig.place / "again").exists(), "the site is closed now"
    await rig.until(lambda: len(rig.events(ev.LauncherEnded)) == 1)


@pytest.mark.slow
async def test_the_journal_of_a_launcher_that_reported_all_is_not_read(
    rig: SiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal may be long, and the connection slow."""
    read: list[str] = []

    async def journals_of(records: AttemptFiles, launcher: str, nodes: int) -> list[object]:
        read.append(launcher)
        return []

    monkeypatch.setattr(AttemptFiles, "journals_of", journals_of)
    await rig.open()
    link, other = await rig.launcher("L1"), await rig.launcher("L2")
    await rig.site.submit(tasks("k1", "k2", "k3", "k4"))
    await rig.until(lambda: len(link.sent_attempts()) == len(other.sent_attempts()) == 2)
    link.say(ended(*link.sent_attempts()))
    rig.end("L1")
    rig.end("L2")
    await rig.until(lambda: len(rig.events(ev.LauncherEnded)) == 2)
    assert set(read) == {"L2"}


async def test_records_that_can_t_be_written_pause_the_site(rig: SiteRig) -> None:
    await rig.open()
    link = await rig.launcher("L1")
    link.say({"failing": "the disk is full"})
    assert [e.reason for e in rig.events(ev.SitePaused)] == ["the disk is full"]
    link.say({"recovered": True})
    assert len(rig.events(ev.SiteReopened)) == 1


@pytest.mark.slow
async def test_another_engine_finds_the_attempts_of_the_first(
    rig: SiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.open()
    link = await rig.launcher("L1", slots=3)
    await rig.site.submit(tasks("k1", "k2", "k3", "k4"))
    await rig.until(lambda: len(link.sent_attempts()) == 3)
    for key in ("k1", "k2"):
        rig.claim(key)
    rig.journal("L1", {"queued": ["k1", "k2", "k3"]}, started("k1", "k2"), ended("k1"))
    await rig.again()
    found = await rig.site.find_launchers(["L1", "L2"])
    assert [found[key].state for key in ("L1", "L2")] == ["active", "absent"]
    assert rig.is_claimed("L2")  # if it were in the queue after all, it would not start
    back = rig.play("L1")
    back.answers = {"k2": {"state": "active"}, "k3": {"state": "active"}}
    back.connect(slots=3)
    known = await rig.site.find(["k1", "k2", "k3", "k4"])
    states = [known[f"k{n}"].state for n in (1, 2, 3, 4)]
    assert states == ["ended", "active", "active", "absent"]
    back.say(ended("k2"))
    assert rig.cause("k2") == "done"
    # A launcher that does not reconnect keeps the attempts of its journal.
    await rig.again()
    monkeypatch.setattr(recovery, "RECONNECT_S", 0.2)
    await rig.site.find_launchers(["L1"])
    known = await rig.site.find(["k2", "k3", "k4"])
    assert [known[f"k{n}"].state for n in (2, 3, 4)] == ["active", "active", "absent"]
    rig.claim("k3")
    rig.end("L1")
    await rig.until(lambda: bool(rig.events(ev.LauncherEnded)))
    assert [rig.cause(key) for key in ("k2", "k3")] == ["lost", "lost"]


async def test_an_attempt_that_would_outlast_every_launcher_is_refused(rig: SiteRig) -> None:
    await rig.open()
    long = request("k1", "true")
    await rig.site.submit([msgspec.structs.replace(long, expected_s=7200.0)])
    assert rig.cause("k1") == "refused"
    assert "'walltime'" in (rig.probe.outcomes("k1")[0].message or "")


async def test_a_question_to_a_malleable_job_waits_for_its_launcher(rig: SiteRig) -> None:
    """The previous engine may have died before it asked."""
    await rig.open()
    await rig.site.resize("k1", "L1", 3, (), 2)
    link = await rig.launcher("L1")
    question = {"attempt": "k1", "number": 3, "nodes": [], "shrink": 2}
    await rig.until(lambda: question in [m.get("resize") for m in link.received])
    said = {"attempt": "k1", "number": 3, "nodes": ["L2"], "gone": False, "failure": ""}
    link.say({"resized": said})
    (resized,) = rig.events(ev.JobResized)
    assert (resized.key, resized.number, resized.launchers) == ("k1", 3, ("L2",))
    link.break_off()
    link.connect()
    await rig.until(lambda: len(rig.events(ev.LauncherStarted)) == 2)
    assert [m.get("resize") for m in link.received].count(question) == 1
