"""The conformance suite for all sites, real or simulated.

The tasks of the suite only take time. This time may be real or virtual: the probe waits in the time
of the site.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from wfrun.engine.events import AttemptStarted
from wfrun.engine.exchange import AttemptRequest, Outcome
from wfrun.engine.protocols import Site
from wfrun.testing.probe import Probe

LONG_S = 600.0
"""Duration of tasks whose end no test waits for, in seconds."""


class AnySiteConformance:
    """The suite. Subclasses override ``make`` and ``task``, and ``make_probe`` if time is not real.

    Attributes describe behaviour that differs between kinds of sites. A subclass that sets an
    attribute states the reason.
    """

    pytestmark = pytest.mark.asyncio

    keeps_order = True
    """Whether tasks start in the order of submission, so that no narrow task overtakes a wide one.
    False: a batch system decides the order, and the site must only start each task once, within its
    slots."""
    crowd = 12
    """Number of tasks in tests where tasks wait for each other. It must be even. Sites where each
    task takes a second set a smaller number."""

    def make(self, directory: Path, slots: int) -> Site:
        """Make a site, which may use ``directory``."""
        raise NotImplementedError

    def task(
        self,
        key: str,
        takes_s: float,
        *,
        exit_code: int = 0,
        cores: int = 1,
        walltime_s: float | None = None,
    ) -> AttemptRequest:
        """Make the request of an attempt that runs for ``takes_s`` seconds and ends with
        ``exit_code``."""
        raise NotImplementedError

    def make_probe(self) -> Probe:
        """Make a probe. Called after ``make``."""
        return Probe()

    @asynccontextmanager
    async def opened(self, directory: Path, slots: int = 2) -> AsyncIterator[tuple[Site, Probe]]:
        """Open a site with a probe, and close the site at the end of the block."""
        site = self.make(directory, slots)
        probe = self.make_probe()
        await site.open(probe.post)
        try:
            yield site, probe
        finally:
            await site.close()

    # Ends of attempts

    async def test_a_success_took_its_time(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([self.task("k-1", 0.2)])
            outcome = await probe.ended("k-1")
            assert (outcome.cause, outcome.exit_code) == ("done", 0)
            begin_s, end_s = _interval(outcome)
            assert 0.15 < end_s - begin_s < LONG_S
            assert probe.was_submitted("k-1")
            assert probe.was_started("k-1")

    async def test_a_failure_has_its_exit_code(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([self.task("k-1", 0.0, exit_code=3), self.task("k-2", 0.0)])
            outcome = await probe.ended("k-1")
            assert (outcome.cause, outcome.exit_code) == ("exit", 3)
            assert outcome.message
            assert (await probe.ended("k-2")).cause == "done"

    async def test_a_task_past_its_walltime_is_ended(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit(
                [
                    self.task("k-1", LONG_S, walltime_s=0.2),
                    self.task("k-2", 0.1, walltime_s=LONG_S),
                ]
            )
            outcome = await probe.ended("k-1")
            assert outcome.cause == "walltime"
            begin_s, end_s = _interval(outcome)
            assert 0.15 < end_s - begin_s < LONG_S
            assert (await probe.ended("k-2")).cause == "done"

    # Cancellation

    async def test_cancelled_in_the_queue_and_while_it_runs(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            await site.submit([self.task("k-1", LONG_S), self.task("k-2", LONG_S)])
            await probe.started("k-1")
            await site.cancel(["k-2", "k-1"])
            for key in ("k-1", "k-2"):
                assert (await probe.ended(key)).cause == "cancelled"
            assert not probe.was_started("k-2")
            await site.submit([self.task("k-3", 0.0)])
            assert (await probe.ended("k-3")).cause == "done"
            await site.cancel(["k-1", "k-3"])  # They have ended: nothing happens.
            await probe.let_pass(0.1)
            assert len(probe.outcomes("k-1")) == len(probe.outcomes("k-3")) == 1

    async def test_cancelled_only_if_queued(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            await site.submit([self.task("k-1", 0.4), self.task("k-2", LONG_S)])
            await probe.started("k-1")
            await site.cancel(["k-1", "k-2", "unknown-key"], queued_only=True)
            assert (await probe.ended("k-2")).cause == "cancelled"
            assert (await probe.ended("k-1")).cause == "done"
            assert not probe.was_started("k-2")
            assert not probe.outcomes("unknown-key")

    # Order and slots

    async def test_starts_are_in_order_of_submission(self, tmp_path: Path) -> None:
        keys = [f"k-{n}" for n in range(self.crowd)]
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            for half in (keys[: self.crowd // 2], keys[self.crowd // 2 :]):
                await site.submit([self.task(key, 0.01) for key in half])
            await probe.until(lambda: all(probe.outcomes(key) for key in keys))
            self.check_order(probe, dict.fromkeys(keys, 1))

    async def test_a_wide_task_is_not_held_up(self, tmp_path: Path) -> None:
        """Check that a narrow task behind a wide task does not delay the wide task, with or without
        backfilling."""
        async with self.opened(tmp_path / "site", slots=2) as (site, probe):
            await site.submit(
                [
                    self.task("narrow", 0.2),
                    self.task("wide", 0.05, cores=2),
                    self.task("late", 0.4),
                ]
            )
            cores = {"narrow": 1, "wide": 2, "late": 1}
            await probe.until(lambda: all(probe.outcomes(key) for key in cores))
            self.check_order(probe, cores)

    async def test_no_more_cores_in_use_than_slots(self, tmp_path: Path) -> None:
        cores = {f"k-{n}": (1, 1, 2, 3)[n % 4] for n in range(self.crowd)}
        async with self.opened(tmp_path / "site", slots=3) as (site, probe):
            await site.submit([self.task(key, 0.05, cores=n) for key, n in cores.items()])
            await probe.until(lambda: all(probe.outcomes(key) for key in cores))
            assert most_in_use(probe, cores) == 3

    def check_order(self, probe: Probe, cores: Mapping[str, int]) -> None:
        """Check that each attempt of ``cores`` started once, and in this order if the site keeps
        the order. Check that the maximum number of cores in use equals the cores of the widest
        attempt. ``cores`` has the number of cores of each attempt, by key."""
        assert sorted(_starts(probe)) == sorted(cores)
        assert most_in_use(probe, cores) == max(cores.values())
        if self.keeps_order:
            assert self.starts(probe) == list(cores)

    def starts(self, probe: Probe) -> list[str]:
        """Keys of started attempts, in the order in which the site reports the starts."""
        return _starts(probe)

    # Each key starts once, and is found again

    async def test_a_key_starts_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([self.task("k-1", 0.1)])
            await site.submit([self.task("k-1", 0.1)])
            first = await probe.ended("k-1")
            reported = len(probe.outcomes("k-1"))
            await site.submit([self.task("k-1", 0.1)])
            await probe.until(lambda: len(probe.outcomes("k-1")) > reported)
            assert first.cause == "done"
            assert set(probe.outcomes("k-1")) == {first}
            assert _starts(probe) == ["k-1"]

    async def test_found_absent_active_or_ended(self, tmp_path: Path) -> None:
        keys = ["k-1", "k-2", "k-3", "k-4"]
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            await site.submit([self.task("k-1", 0.0, exit_code=1)])
            await probe.ended("k-1")
            await site.submit([self.task("k-2", 0.3), self.task("k-3", 0.0)])
            await probe.started("k-2")
            for _ in range(2):  # Asking changes nothing.
                found = await site.find(keys)
                states = [found[key].state for key in keys]
                assert states == ["ended", "active", "active", "absent"]
                assert found["k-1"].outcome == probe.outcomes("k-1")[0]
            assert (await probe.ended("k-3")).cause == "done"
            assert [found.state for found in (await site.find(keys)).values()].count("ended") == 3

    async def test_a_site_without_work_is_quiet(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([])
            await site.cancel([])
            assert dict(await site.find([])) == {}
            await probe.let_pass(0.1)
            assert not [event for event in probe.events if isinstance(event, AttemptStarted)]


def _starts(probe: Probe) -> list[str]:
    return [event.key for event in probe.events if isinstance(event, AttemptStarted)]


def _interval(outcome: Outcome) -> tuple[float, float]:
    assert outcome.started_s is not None
    assert outcome.ended_s is not None
    return outcome.started_s, outcome.ended_s


def most_in_use(probe: Probe, attempts: Mapping[str, int]) -> int:
    """Maximum number of cores in use at once. At equal times, ends come before starts."""
    changes = []
    for key, cores in attempts.items():
        begin_s, end_s = _interval(probe.outcomes(key)[0])
        changes += [(begin_s, 1, cores), (end_s, 0, -cores)]
    busy = most = 0
    for _, _, change in sorted(changes):
        busy += change
        most = max(most, busy)
    return most
