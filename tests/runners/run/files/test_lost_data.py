"""The power goes at a site: what an exit record says of outputs need not be true afterwards."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import pbs
from tests.runners.harness import Done, Job, User, lines_of, wait_until

QUICK = {"transport": "local", "poll_min": 0.2, "poll_max": 1, "patience": 3}
SITES: dict[str, dict[str, Any]] = {
    "local": {},
    "ssh": {"kind": "ssh", "transport": "local"},
    "jobs": {"kind": "pbs", **QUICK},
    "launchers": {"kind": "pbs", **QUICK, "dispatch": "launchers",
                  "launchers": {"cores": 2, "walltime": "10 min", "channels": ["spool"]}},
}  # fmt: skip
"""What the catalog says of a site of each kind."""


@pytest.fixture
def home(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of a user of the fake PBS."""
    monkeypatch.setenv("HOME", str(user.folder))
    (user.folder / ".profile").write_text(f"export PATH={user.folder}/pbs/bin:$PATH\n")
    pbs.install(user.folder / "pbs", slots=2)
    yield user.folder
    pbs.end(user.folder / "pbs")


QUICK_CASES = [("local", "a"), ("launchers", "a")]
SLOW_CASES = [
    *(("local", "d/member"), ("ssh", "a"), ("ssh", "d/member")),
    *(("jobs", "a"), ("jobs", "d/member"), ("launchers", "d/member")),
    *((kind, "") for kind in SITES),
]
"""A kind of site, and the output that it loses; empty: none."""


class LossyRun:
    """A run of two tasks at a site that loses the power."""

    def __init__(self, user: User, home: Path, kind: str, *more: str) -> None:
        self._user = user
        self.record, self.run = home / "record", home / "run"
        self._go, self._site = home / "go", home / "scratch"
        wait = f"while ! [ -e {self._go} ]; do sleep 0.05; done"
        make = "echo from a > a; mkdir d; echo of d > d/member"
        jobs = [
            Job("a", f"echo a >> {self.record}; {wait}; {make}", [], ["a", "d"], ["d"]),
            Job("b", f"echo b >> {self.record}; cat a > b", ["a"], ["b"], ["b"]),
        ]
        site = {"slots": 2, "directory": str(self._site), **SITES[kind]}
        sites = user.catalog(yaml.safe_dump({"sites": {"here": site}}))
        options = ("--retries", "0", "--retry-delay", "0.05", "--history", "none", *more)
        self.engine = user.start(
            user.write(jobs), "--sites", sites, "--run-dir", self.run, *options
        )

    def record_an_end(self, number: int) -> None:
        """Signal the engine while the first task runs, and wait until its end is recorded."""
        engine = self.engine
        assert wait_until(lambda: lines_of(self.record) == ["a"] or engine.ended), engine.told
        assert not engine.ended, engine.told
        engine.signal(number)
        self._go.touch()
        assert wait_until(self._has_record)

    def _has_record(self) -> bool:
        exits = [*self._site.glob("*/exits/*.json"), *self._site.glob("*/exits/*.jsonl")]
        return any('"done"' in path.read_text() for path in exits)

    def lose(self, output: str, *, size: bool = True) -> None:
        """Lose the content of an output, and its size, or keep that."""
        (stored,) = self._site.glob(f"*/files/*-{output}")
        stored.chmod(0o600)
        stored.write_bytes(b"" if size else bytes(stored.stat().st_size))

    def check(self, done: Done, begun: list[str]) -> None:
        assert done.status == 0, done.text
        assert (self.run / "outputs" / "b").read_text() == "from a\n"
        assert (self.run / "outputs" / "d" / "member").read_text() == "of d\n"
        assert lines_of(self.record) == begun


@pytest.mark.parametrize(
    ("kind", "output"),
    [*QUICK_CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_CASES)],
)
def test_outputs_of_a_record_are_lost(user: User, home: Path, kind: str, output: str) -> None:
    lossy = LossyRun(user, home, kind)
    lossy.record_an_end(signal.SIGKILL)
    user.cut_power()
    if output:
        lossy.lose(output)
    done = user.wfrun("resume", lossy.run)
    lossy.check(done, ["a", "a", "b"] if output else ["a", "b"])


@pytest.mark.slow
def test_outputs_are_lost_before_the_engine_sees_the_end(user: User, home: Path) -> None:
    """The cluster loses the power, and the submit host does not."""
    lossy = LossyRun(user, home, "jobs")
    lossy.record_an_end(signal.SIGSTOP)
    lossy.lose("a")
    lossy.engine.signal(signal.SIGCONT)
    lossy.check(lossy.engine.done(), ["a", "a", "b"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "jobs"])
def test_a_lost_output_of_the_same_size(user: User, home: Path, kind: str) -> None:
    """Only digests find it."""
    lossy = LossyRun(user, home, kind, "--checksums", "all")
    lossy.record_an_end(signal.SIGKILL)
    user.cut_power()
    lossy.lose("d/member", size=False)
    lossy.check(user.wfrun("resume", lossy.run), ["a", "a", "b"])
