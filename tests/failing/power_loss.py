"""Crash states of the disk: what a power loss may leave of the changes that programs recorded.

Changes of data that were not followed by a sync of their file are lost, torn or kept, each by
itself. Changes of names and sizes are kept up to some moment after the last sync of any file, as in
the one journal of ext4 or XFS.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

from tests.failing.failing_calls import END_S, compile_library
from tests.integration.clusters import RecordedRun
from tests.runners.harness import User, attempts_alive, lines_of, wait_until
from wfrun.engine import events as ev
from wfrun.engine.model import ORIGIN

SOURCE = Path(__file__).with_name("recording.c")
LOST, TORN = 0.4, 0.1
"""Probabilities that an unsynced write is lost, or half of it."""


class Change(NamedTuple):
    """One change of the disk, as ``recording.c`` describes it."""

    op: str
    inode: int
    offset: int
    size: int
    path: str
    other: str
    data: bytes


def read_trace(path: Path) -> list[Change]:
    text, at, changes = path.read_bytes(), 0, []
    while at < len(text):
        end = text.index(b"\n", at)
        op, *numbers = text[at:end].decode().split()
        inode, offset, size, first, second = map(int, numbers)
        one, two = text[end + 1 :][:first], text[end + 1 + first :][:second]
        at = end + 1 + first + second
        data = text[at : at + size] if op == "w" else b""
        at += len(data)
        changes.append(Change(op, inode, offset, size, one.decode(), two.decode(), data))
    return changes


@dataclass
class Disk:
    """Names and contents of files below a directory."""

    top: str
    modes: dict[str, int] = field(default_factory=dict)
    """Directories."""
    files: dict[str, int] = field(default_factory=dict)
    """Inodes by path."""
    links: dict[str, str] = field(default_factory=dict)
    contents: dict[int, bytearray] = field(default_factory=dict)

    @property
    def _names(self) -> tuple[dict[str, Any], ...]:
        return self.files, self.links, self.modes

    def apply(self, change: Change, share: float = 1.0) -> None:
        """Make a change; of a write only this share."""
        content = self.contents.setdefault(change.inode, bytearray())
        if change.op == "w":
            data = change.data[: round(len(change.data) * share)]
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset : change.offset + len(data)] = data
        elif change.op == "t":
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        elif change.op == "c":
            if self.files.get(change.path) != change.inode:
                self.contents[change.inode] = bytearray()  # The number may be one used before.
            self.files[change.path] = change.inode
        elif change.op == "m":
            self.modes[change.path] = change.offset
        elif change.op == "s":
            self.links[change.path] = change.other
        elif change.op == "l" and change.path in self.files:
            self.files[change.other] = self.files[change.path]
        elif change.op == "r":
            self._rename(change.path, change.other)
        elif change.op in ("u", "d"):
            for names in self._names:
                names.pop(change.path, None)

    def _rename(self, old: str, new: str) -> None:
        for names in self._names:
            moved = [name for name in names if name == old or name.startswith(f"{old}/")]
            for name in moved:
                names[new + name[len(old) :]] = names.pop(name)

    def write(self) -> None:
        """Replace the directory by this one."""
        shutil.rmtree(self.top, ignore_errors=True)
        os.mkdir(self.top)
        for path in sorted(self.modes):
            if path.startswith(f"{self.top}/"):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, self.modes[path] & 0o755)
        written: dict[int, str] = {}
        for path, inode in sorted(self.files.items()):
            if not path.startswith(f"{self.top}/") or not os.path.isdir(os.path.dirname(path)):
                continue
            if inode in written:
                os.link(written[inode], path)
                continue
            Path(path).write_bytes(self.contents.get(inode, b""))
            os.chmod(path, 0o700)
            written[inode] = path
        for path, target in self.links.items():
            if os.path.isdir(os.path.dirname(path)):
                os.symlink(target, path)


def crash(changes: list[Change], top: str, random: Random | None) -> Disk:
    """The disk after these changes and a power loss; None: after them, with all of them."""
    synced: dict[int, int] = {c.inode: n for n, c in enumerate(changes) if c.op == "f"}
    last_sync = max(synced.values(), default=0)
    names_end = len(changes) if random is None else random.randint(last_sync, len(changes))
    disk = Disk(top)
    for number, change in enumerate(changes):
        if change.op != "w":
            if number <= names_end:
                disk.apply(change)
            continue
        is_safe = random is None or synced.get(change.inode, -1) > number
        fate = 1.0 if is_safe or random is None else random.random()
        if fate >= LOST:
            disk.apply(change, 0.5 if fate < LOST + TORN else 1.0)
    return disk


class PowerLoss:
    """A run that was recorded, and can be continued from any crash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._top = folder / "w"
        self._top.mkdir()
        trace = folder / "trace"
        trace.touch()
        library = compile_library(SOURCE, folder)
        self._user = User(folder)
        self._run = RecordedRun(self._user, folder / "record")
        self._run.run = self._top / "run"
        self._run.layers(2, 3, 0.05)
        site = {"slots": 2, "directory": str(self._top / "here")}
        sites = self._user.catalog(yaml.safe_dump({"sites": {"here": site}}))
        os.environ.update(LD_PRELOAD=str(library), TRACE=str(trace), TRACE_UNDER=str(self._top))
        try:
            done = self._user.wfrun(
                *(self._user.write(self._run.jobs), "--sites", sites, "--run-dir", self._run.run),
                *("--history", "none", "--retry-delay", "0.05"),
                patience_s=END_S,
            )
        finally:
            for name in ("LD_PRELOAD", "TRACE", "TRACE_UNDER"):
                del os.environ[name]
        assert done.status == 0, done.text
        assert self._user.is_alone()
        self.changes = read_trace(trace)

    def _events(self) -> list[ev.Event]:
        """Events of the log on the disk; none before there is a log."""
        path = self._run.run / "events.sqlite"
        return self._run.events() if path.exists() and path.stat().st_size else []

    def _durable(self, end: int) -> int:
        """Number of events in the log when a commit last returned before this change."""
        log = str(self._run.run / "events.sqlite-journal")
        ends = [
            n for n, change in enumerate(self.changes[:end])
            if change.op == "f" and change.path == log and self.changes[n - 1].op == "t"
        ]  # fmt: skip
        if not ends:
            return 0
        crash(self.changes[: ends[-1] + 1], str(self._top), None).write()
        return len(self._events())

    def check_log(self, end: int, random: Random) -> list[ev.Event]:
        """Lose the power after the first ``end`` changes; returns the events in the log. Raises
        AssertionError where one is lost that was committed, or a collected output is not whole."""
        durable = self._durable(end)
        crash(self.changes[:end], str(self._top), random).write()
        before = self._events()
        assert len(before) >= durable, f"{len(before)} of {durable} durable events are left"
        for number in _collected(before):
            id = self._run.jobs[number].id
            path = self._run.run / "outputs" / f"{id}.txt"
            assert path.read_text().split() == self._run.contents(id), id
        return before

    def check(self, end: int, random: Random) -> None:
        """Lose the power after the first ``end`` changes, and continue the run. Raises
        AssertionError where ``check_log`` does, something is done again, or an output is wrong."""
        before = self.check_log(end, random)
        self._run.record.unlink(missing_ok=True)
        if not any(isinstance(event, ev.RunStarted) for event in before):
            return  # It was never started, as `wfrun resume` says.
        done = self._run.resume().done(END_S)
        assert "Traceback" not in done.text, done.text
        assert done.status == 0, done.text
        after = self._run.events()
        assert after[: len(before)] == before, "the log was changed"
        for job in self._run.jobs:
            path = self._run.run / "outputs" / f"{job.id}.txt"
            assert path.read_text().split() == self._run.contents(job.id), job.id
        begun = [line for line in lines_of(self._run.record) if line.startswith("begin:")]
        assert len(set(begun)) == len(begun), begun
        again = {line.split(":")[1] for line in begun}
        collected = _collected(before)
        names = [f"{job.id}.txt" for job in self._run.jobs]
        kept = {names[number].removesuffix(".txt") for number in collected}
        width = len(self._run.jobs) // 2
        last = {job.id for job in self._run.jobs[width:]}
        assert not again & kept & last, f"{again & kept & last} are done again"
        assert self._user.is_alone()
        assert wait_until(lambda: not attempts_alive(self._run.state().run_id))

    def close(self) -> None:
        self._user.close()


def _collected(events: list[ev.Event]) -> list[int]:
    """Files that the log says are in ``outputs/``. Each task writes one, of its own number."""
    return [
        event.file
        for event in events
        if isinstance(event, ev.TransferEnded) and event.destination == ORIGIN
    ]
