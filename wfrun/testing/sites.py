"""The conformance suite for sites with real processes and files.

The tasks of the suite are small shell scripts. They must be able to write into the temporary
directory of the test, which the test then examines.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.protocols import Site
from wfrun.sites.node.tasks.digests import INLINE_BYTES, digest_of_bytes, measure
from wfrun.testing.any_site import AnySiteConformance, most_in_use
from wfrun.testing.probe import PATIENCE_S, request, shell

ODD_NAMES = (
    "with space",
    'quo\'te and "quote"',
    "$(touch injected)",
    "`touch injected`",
    "-leading-dash",
    "ünïcode ✓",
    "back\\slash;semicolon&and|pipe",
    "*",
    "sub directory/déep/file",
)

WAIT = 'while [ ! -e "$1" ]; do sleep 0.02; done'
"""A shell loop that waits until the file $1 exists."""


def wait_for_death(pids: Sequence[int]) -> bool:
    """Wait for the processes ``pids`` to end. Returns whether all have ended within PATIENCE_S."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.01)
    return False


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class SiteConformance(AnySiteConformance):
    """The suite. Subclasses override ``make``, ``put`` and ``get``."""

    queued_survive: bool | None = False
    """Whether queued attempts stay queued, and start later, if the site is closed or the engine is
    killed. False: they never start, and are absent. None: some stay, depending on where they
    wait."""

    @property
    def queued(self) -> tuple[str, ...]:
        """Possible states of an attempt that was queued when the site was closed."""
        if self.queued_survive is None:
            return ("active", "absent")
        return ("active",) if self.queued_survive else ("absent",)

    def make(self, directory: Path, slots: int) -> Site:
        """Make a site that keeps all its data in ``directory``. Two objects with the same directory
        stand for one site, as two engines in succession see it."""
        raise NotImplementedError

    def put(self, directory: Path, stored: str, content: bytes) -> None:
        """Write a file into the store of the site that uses ``directory``."""
        raise NotImplementedError

    def get(self, directory: Path, stored: str) -> bytes | None:
        """The content of a file in the store of the site that uses ``directory``; None if it does
        not exist."""
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
        """Make the request of a shell task that sleeps for ``takes_s`` seconds and then exits."""
        words = (str(takes_s), str(exit_code))
        script = 'sleep "$1"; [ "$2" = 0 ] || echo failed >&2; exit "$2"'
        return shell(key, script, *words, cores=cores, walltime_s=walltime_s)

    @asynccontextmanager
    async def hosted(
        self, directory: Path, slots: int, requests: Sequence[AttemptRequest]
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the site in a process of its own, which submits the requests. The process is killed
        at the end of the block."""
        arguments = (inspect.getfile(type(self)), type(self).__name__, str(directory), str(slots))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "wfrun.testing.host", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(requests))
        process.stdin.close()
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def started_in_host(self, process: asyncio.subprocess.Process, key: str) -> None:
        """Read the events that the process of ``hosted`` prints, until this attempt has started."""
        assert process.stdout is not None
        while True:
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
            assert line, "the host ended"
            event = json.loads(line)
            if event["event"] == "attempt-started" and event["key"] == key:
                return

    # Ends of attempts

    async def test_a_success_is_measured(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            before_s = time.time()
            await site.submit([shell("k-1", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")])
            outcome = await probe.ended("k-1")
        assert outcome.cause == "done"
        assert outcome.exit_code == 0
        assert outcome.started_s is not None
        assert outcome.ended_s is not None
        assert before_s - 60 < outcome.started_s <= outcome.ended_s < time.time() + 60
        assert outcome.cpu_s is not None
        assert outcome.cpu_s > 0
        assert outcome.peak_memory_bytes is not None
        assert outcome.peak_memory_bytes > 100_000
        assert outcome.host
        assert probe.was_submitted("k-1")
        assert probe.was_started("k-1")

    async def test_exit_code_and_end_of_stderr(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([shell("k-1", "echo all is lost >&2; exit 3")])
            outcome = await probe.ended("k-1")
        assert (outcome.cause, outcome.exit_code) == ("exit", 3)
        assert "all is lost" in (outcome.message or "")

    async def test_signal(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([shell("k-1", "kill -SEGV $$")])
            outcome = await probe.ended("k-1")
        assert (outcome.cause, outcome.signal) == ("signal", int(signal.SIGSEGV))

    async def test_walltime_of_a_task_that_ignores_sigterm(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            stubborn = "trap '' TERM; while :; do sleep 600; done"
            await site.submit([shell("k-1", stubborn, walltime_s=0.2)])
            outcome = await probe.ended("k-1")
        assert outcome.cause == "walltime"

    async def test_missing_executable(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            missing = (request("k-1", "no-such-program"), request("k-2", "./no-such-file"))
            await site.submit(missing)
            for attempt in missing:
                outcome = await probe.ended(attempt.key)
                assert outcome.cause == "launch-failed"
                assert attempt.argv[0] in (outcome.message or "")

    async def test_cancelled_only_if_queued(self, tmp_path: Path) -> None:
        go, witness = tmp_path / "go", tmp_path / "witness"
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            waits = shell("k-1", WAIT, str(go))
            await site.submit([waits, shell("k-2", "touch $1", str(witness))])
            await probe.started("k-1")
            await site.cancel(["k-1", "k-2", "unknown-key"], queued_only=True)
            assert (await probe.ended("k-2")).cause == "cancelled"
            go.touch()
            assert (await probe.ended("k-1")).cause == "done"
            assert not probe.was_started("k-2")
            assert not witness.exists()
            assert not probe.outcomes("unknown-key")

    # Order and slots

    async def test_starts_are_in_order_of_submission(self, tmp_path: Path) -> None:
        order = tmp_path / "order"
        keys = [f"k-{n}" for n in range(self.crowd)]
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            for half in (keys[: self.crowd // 2], keys[self.crowd // 2 :]):
                await site.submit([shell(key, 'echo $1 >> "$2"', key, str(order)) for key in half])
            await probe.until(lambda: all(probe.outcomes(key) for key in keys))
            self.check_order(probe, dict.fromkeys(keys, 1))
        self.check_written(order, keys)

    async def test_a_wide_task_is_not_held_up(self, tmp_path: Path) -> None:
        order = tmp_path / "order"
        note = 'sleep "$3"; echo $1 >> "$2"'
        cores = {"narrow": 1, "wide": 2, "late": 1}
        async with self.opened(tmp_path / "site", slots=2) as (site, probe):
            await site.submit(
                [
                    shell("narrow", note, "narrow", str(order), "0.3"),
                    shell("wide", note, "wide", str(order), "0", cores=2),
                    shell("late", note, "late", str(order), "0"),
                ]
            )
            await probe.until(lambda: all(probe.outcomes(key) for key in cores))
            self.check_order(probe, cores)
        self.check_written(order, list(cores))

    def check_written(self, order: Path, keys: list[str]) -> None:
        """Check in the file ``order`` that each task ran once, and in this order if the site keeps
        the order."""
        written = order.read_text().split()
        assert (written if self.keeps_order else sorted(written)) == (
            keys if self.keeps_order else sorted(keys)
        )

    async def test_no_more_cores_in_use_than_slots(self, tmp_path: Path) -> None:
        tally = tmp_path / "tally"
        script = 'echo "$2" >> "$1"; sleep 0.1; echo "-$2" >> "$1"'
        cores = {f"k-{n}": (1, 1, 2, 3)[n % 4] for n in range(self.crowd)}
        async with self.opened(tmp_path / "site", slots=3) as (site, probe):
            await site.submit(
                [shell(key, script, str(tally), str(n), cores=n) for key, n in cores.items()]
            )
            await probe.until(lambda: all(probe.outcomes(key) for key in cores))
            assert most_in_use(probe, cores) == 3
        assert max(accumulate(map(int, tally.read_text().split()))) == 3

    # Files

    async def test_inputs_and_outputs(self, tmp_path: Path) -> None:
        directory = tmp_path / "site"
        async with self.opened(directory) as (site, probe):
            self.put(directory, "stored-in", b"content")
            script = "cat dir/in > out; cat dir/in dir/in > sub/twice"
            outputs = {"out": "stored-out", "sub/twice": "stored-twice", "absent": "stored-absent"}
            await site.submit(
                [
                    shell(
                        "k-1",
                        script,
                        inputs={"dir/in": "stored-in"},
                        outputs=outputs,
                        optional=["absent"],
                    )
                ]
            )
            outcome = await probe.ended("k-1")
            assert outcome.cause == "done", outcome
            assert outcome.sizes == (7, 14, None)
            assert self.get(directory, "stored-out") == b"content"
            assert self.get(directory, "stored-twice") == b"contentcontent"
            assert self.get(directory, "stored-absent") is None
            assert self.get(directory, "stored-in") == b"content"

    @pytest.mark.parametrize("size_bytes", [0, INLINE_BYTES])
    async def test_digests_of_outputs(self, tmp_path: Path, size_bytes: int) -> None:
        script = f"head -c {size_bytes} /dev/zero > file; mkdir d; echo x > d/x; ln -s x d/link"
        outputs = {"file": "f", "d": "d", "absent": "a"}
        async with self.opened(tmp_path / "site") as (site, probe):
            attempt = shell("k-1", script, outputs=outputs, optional=["absent"], checksums=True)
            await site.submit([attempt])
            outcome = await probe.ended("k-1")
        assert outcome.cause == "done", outcome
        same = tmp_path / "same"
        same.mkdir()
        (same / "x").write_text("x\n")
        (same / "link").symlink_to("x")
        digests = digest_of_bytes(bytes(size_bytes)), measure(str(same), True)[1], None
        assert outcome.digests == digests

    async def test_standard_streams_are_files(self, tmp_path: Path) -> None:
        directory = tmp_path / "site"
        async with self.opened(directory) as (site, probe):
            self.put(directory, "words", b"b\na\n")
            outputs = {"sorted": "s", "said": "e"}
            streams = {"stdin": "words", "stdout": "sorted", "stderr": "said"}
            attempt = shell(
                "k-1",
                "sort; echo done >&2",
                inputs={"words": "words"},
                outputs=outputs,
                stdin=streams["stdin"],
                stdout=streams["stdout"],
                stderr=streams["stderr"],
            )
            await site.submit([attempt])
            assert (await probe.ended("k-1")).cause == "done"
            assert self.get(directory, "s") == b"a\nb\n"
            assert self.get(directory, "e") == b"done\n"

    async def test_nothing_is_committed_by_a_failure(self, tmp_path: Path) -> None:
        directory = tmp_path / "site"
        async with self.opened(directory) as (site, probe):
            await site.submit(
                [
                    shell("k-1", "echo 1 > out; exit 1", outputs={"out": "k-1-out"}),
                    shell("k-2", "echo 2 > out", outputs={"out": "k-2-out", "more": "k-2-more"}),
                ]
            )
            assert (await probe.ended("k-1")).cause == "exit"
            outcome = await probe.ended("k-2")
            assert outcome.cause == "output"
            assert "'more'" in (outcome.message or "")
            for stored in ("k-1-out", "k-2-out", "k-2-more"):
                assert self.get(directory, stored) is None

    async def test_a_missing_input_is_named(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([request("k-1", "true", inputs={"wanted": "not-there"})])
            outcome = await probe.ended("k-1")
        assert outcome.cause == "staging"
        assert "wanted" in (outcome.message or "")

    async def test_an_input_that_vanishes_while_it_is_read_is_named(self, tmp_path: Path) -> None:
        """The input is a directory, because a hard link would preserve a file."""
        async with self.opened(tmp_path / "site") as (site, probe):
            make = shell("k-1", "mkdir d; echo 1 > d/x", outputs={"d": "k-1-d"})
            await site.submit([make])
            assert (await probe.ended("k-1")).cause == "done"
            use = shell("k-2", "rm -r ../../files/k-1-d; cat d/x", inputs={"d": "k-1-d"})
            await site.submit([use])
            outcome = await probe.ended("k-2")
        assert outcome.cause == "staging"
        assert "'d' has vanished" in (outcome.message or "")

    async def test_odd_file_names(self, tmp_path: Path) -> None:
        directory = tmp_path / "site"
        async with self.opened(directory) as (site, probe):
            attempts = []
            for number, name in enumerate(ODD_NAMES):
                self.put(directory, f"in-{number}", name.encode())
                copied = f"{name}.copy"
                attempts.append(
                    request(
                        f"k-{number}",
                        *("cp", "--", name, copied),
                        inputs={name: f"in-{number}"},
                        outputs={copied: f"out-{number}"},
                    )
                )
            await site.submit(attempts)
            for number, name in enumerate(ODD_NAMES):
                outcome = await probe.ended(f"k-{number}")
                assert outcome.cause == "done", (name, outcome)
                assert self.get(directory, f"out-{number}") == name.encode()

    async def test_sandboxes_are_separate_and_empty(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            keys = [f"k-{n}" for n in range(5)]
            await site.submit([shell(key, "ls -A; mkdir d; touch d/f g") for key in keys])
            for key in keys:
                assert (await probe.ended(key)).cause == "done"
                assert await site.log(key) == (b"", b"")

    # Environment and logs

    async def test_environment(self, tmp_path: Path) -> None:
        script = 'echo "$COLOUR,$OMP_NUM_THREADS,$WFRUN_ATTEMPT"'
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([shell("k-1", script, env={"COLOUR": "deep blue"}, cores=2)])
            await probe.ended("k-1")
            assert (await site.log("k-1"))[0] == b"deep blue,2,k-1\n"

    async def test_log_while_it_runs_and_of_nothing(self, tmp_path: Path) -> None:
        go = tmp_path / "go"
        script = 'echo out; echo err >&2; while [ ! -e "$1" ]; do sleep 0.02; done; echo more'
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([shell("k-1", script, str(go))])
            await probe.started("k-1")
            deadline_s = time.monotonic() + PATIENCE_S
            while await site.log("k-1") != (b"out\n", b"err\n"):
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.02)
            go.touch()
            await probe.ended("k-1")
            assert await site.log("k-1") == (b"out\nmore\n", b"err\n")
            assert await site.log("unknown-key") == (b"", b"")

    async def test_a_flood_of_output(self, tmp_path: Path) -> None:
        size_bytes = 50 * 1024 * 1024
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([request("k-1", "head", "-c", str(size_bytes), "/dev/zero")])
            assert (await probe.ended("k-1")).cause == "done"
            stdout, _ = await site.log("k-1")
        assert len(stdout) == size_bytes

    async def test_clean_keeps_logs(self, tmp_path: Path) -> None:
        directory = tmp_path / "site"
        async with self.opened(directory) as (site, probe):
            await site.submit([shell("k-1", "echo said; echo 1 > out", outputs={"out": "kept"})])
            await probe.ended("k-1")
            assert self.get(directory, "kept") == b"1\n"
            await site.clean()
            assert self.get(directory, "kept") is None
            assert (await site.log("k-1"))[0] == b"said\n"

    # Processes that tasks leave behind

    async def test_daemons_end_with_their_task(self, tmp_path: Path) -> None:
        pids = tmp_path / "pids"
        pids.touch()
        # One process in the group of the task, one that left it as daemons do, one that ignores
        # signals.
        script = (
            'sleep 600 & echo $! >> "$1";'
            'setsid sh -c \'echo $$ >> "$1"; exec sleep 600\' sh "$1" &'
            'sh -c \'trap "" TERM HUP; echo $$ >> "$1"; sleep 600; :\' sh "$1" &'
            'while [ $(wc -l < "$1") -lt 3 ]; do sleep 0.02; done'
        )
        async with self.opened(tmp_path / "site") as (site, probe):
            await site.submit([shell("k-1", script, str(pids))])
            assert (await probe.ended("k-1")).cause == "done"
            assert wait_for_death([int(pid) for pid in pids.read_text().split()])

    # Each key starts once, and is found again

    async def test_a_key_runs_once(self, tmp_path: Path) -> None:
        witness = tmp_path / "witness"
        attempt = shell("k-1", 'echo ran >> "$1"', str(witness))
        for _ in range(2):
            async with self.opened(tmp_path / "site") as (site, probe):
                await site.submit([attempt])
                await site.submit([attempt])
                assert (await probe.ended("k-1")).cause == "done"
                await site.submit([request("k-2", "true")])
                await probe.ended("k-2")
        assert witness.read_text() == "ran\n"

    async def test_found_absent_active_or_ended(self, tmp_path: Path) -> None:
        go = tmp_path / "go"
        keys = ["k-1", "k-2", "k-3", "k-4"]
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            await site.submit([request("k-1", "false")])
            await probe.ended("k-1")
            await site.submit([shell("k-2", WAIT, str(go)), request("k-3", "true")])
            await probe.started("k-2")
            for _ in range(2):  # Asking changes nothing.
                found = await site.find(keys)
                states = [found[key].state for key in keys]
                assert states == ["ended", "active", "active", "absent"]
                assert found["k-1"].outcome == probe.outcomes("k-1")[0]
            go.touch()
            assert (await probe.ended("k-3")).cause == "done"
            await probe.ended("k-2")  # Reports of two ends may come in any order.
            assert [len(probe.outcomes(key)) for key in keys] == [1, 1, 1, 0]
            assert [found.state for found in (await site.find(keys)).values()].count("ended") == 3

    async def test_find_after_the_site_was_let_go(self, tmp_path: Path) -> None:
        go = tmp_path / "go"
        script = 'while [ ! -e "$1" ]; do sleep 0.02; done; exit 4'
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            await site.submit([request("k-0", "true")])
            await probe.ended("k-0")
            await site.submit([shell("k-1", script, str(go)), request("k-2", "true")])
            await probe.started("k-1")
        async with self.opened(tmp_path / "site", slots=1) as (site, probe):
            found = await site.find(["k-0", "k-1", "k-2"])
            assert [found[f"k-{n}"].state for n in range(2)] == ["ended", "active"]
            assert found["k-2"].state in self.queued
            # The old attempt holds the slot until it ends.
            await site.submit([request("k-3", "true")])
            assert not probe.was_started("k-3")
            go.touch()
            outcome = await probe.ended("k-1")
            assert (outcome.cause, outcome.exit_code) == ("exit", 4)
            for key in ("k-2", "k-3") if found["k-2"].state == "active" else ("k-3",):
                assert (await probe.ended(key)).cause == "done"

    async def test_the_engine_is_killed(self, tmp_path: Path) -> None:
        """Check that running attempts continue to their end after the engine is killed. Queued
        attempts continue, too, or are absent. No attempt runs twice."""
        go, witness = tmp_path / "go", tmp_path / "witness"
        script = 'while [ ! -e "$1" ]; do sleep 0.02; done; echo $3 >> "$2"; echo 1 > out'
        attempts = [
            shell(key, script, str(go), str(witness), key, outputs={"out": f"{key}-out"})
            for key in ("k-1", "k-2", "k-3")
        ]
        directory = tmp_path / "site"
        async with self.hosted(directory, 2, attempts) as host:
            await self.started_in_host(host, "k-2")
            host.kill()
            await host.wait()
        async with self.opened(directory) as (site, probe):
            found = await site.find([attempt.key for attempt in attempts])
            assert [found[f"k-{n}"].state for n in (1, 2)] == ["active", "active"]
            assert found["k-3"].state in self.queued
            await site.submit(attempts)
            go.touch()
            for attempt in attempts:
                outcome = await probe.ended(attempt.key)
                assert outcome.cause == "done"
                assert self.get(directory, f"{attempt.key}-out") == b"1\n"
        assert sorted(witness.read_text().split()) == ["k-1", "k-2", "k-3"]

    async def test_the_engine_is_killed_and_nobody_comes_for_long(self, tmp_path: Path) -> None:
        async with self.hosted(tmp_path / "site", 2, [shell("k-1", "sleep 0.3; exit 5")]) as host:
            await self.started_in_host(host, "k-1")
            host.kill()
            await host.wait()
        await asyncio.sleep(0.6)
        async with self.opened(tmp_path / "site") as (site, probe):
            await probe.until(lambda: True)
            found = (await site.find(["k-1"]))["k-1"]
            if found.state == "active":  # The machine is slow.
                outcome = await probe.ended("k-1")
            else:
                assert found.outcome is not None
                outcome = found.outcome
            assert (outcome.cause, outcome.exit_code) == ("exit", 5)
