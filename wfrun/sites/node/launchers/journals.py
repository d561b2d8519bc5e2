"""The journals in which launchers record their attempts. ``launcher.py`` describes the format."""

import contextlib
import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

    from wfrun.sites.node.tasks.limits import retried
    from wfrun.sites.node.tasks.processes import boot_clock, has_restarted, identity, is_running

    Outcome = Dict[str, Any]
else:
    from limits import retried
    from processes import boot_clock, has_restarted, identity, is_running

BEAT_S = 5.0
"""Interval in seconds at which a launcher touches its journal: its heartbeat."""
PATIENCE_S = 60.0
"""Time in seconds without a heartbeat after which a launcher counts as dead, if it has started on
another machine or before the last boot of this one."""
DEAD_PATIENCE_S = 4 * BEAT_S
"""``PATIENCE_S`` for a launcher whose host the user has declared dead."""
LOOK_S = 2.0
"""Maximum time in seconds that counts as silence between two looks at a heartbeat. A longer time
may mean that the file system did not answer."""


MAX_DIGITS = 19
"""Maximum number of characters of an integer in a journal; the engine refuses longer ones."""
MAX_SECONDS = 1e12
"""Maximum absolute value of a time in a journal, in seconds; the engine refuses larger ones."""
NOBODY = {"host": "", "beats": True}
"""Owner of a journal without a readable first line."""


def lock(fd: int, kind: int) -> bool:
    """Lock a file without waiting. Returns False if another process holds the lock or the file
    cannot be locked."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def parsed(line: bytes) -> "Optional[Dict[str, Any]]":
    """Decode a line of a journal; None if it is invalid: damaged by a full disk or a loss of power,
    or written by a task, since tasks can write to journals."""
    try:
        message = json.loads(
            line.decode(), parse_int=_whole, parse_float=_decimal, parse_constant=_decimal
        )
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and _is_message(message) else None


def _whole(text: str) -> int:
    """Parse an integer. Raises ValueError if it is too long for the engine."""
    if len(text) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(text)


def _decimal(text: str) -> float:
    """Parse a time in seconds. Raises ValueError for NaN and beyond MAX_SECONDS."""
    number = float(text)
    if not -MAX_SECONDS <= number <= MAX_SECONDS:
        raise ValueError("out of bounds")
    return number


def _is_message(message: "Dict[str, Any]") -> bool:
    """Whether all parts of a message that launchers read have the right types."""
    lists = [message.get(name, []) for name in ("queued", "dropped", "started", "ended")]
    if not all(isinstance(each, list) for each in lists):
        return False
    queued, dropped, started, ended = lists
    owner = message.get("launcher")
    return (
        (owner is None or _is_owner(owner))
        and all(isinstance(key, str) for key in queued + dropped)
        and all(isinstance(entry, list) and _is_start(*entry) for entry in started)
        and all(isinstance(entry, list) and _is_end(*entry) for entry in ended)
    )


def _is_owner(owner: "Any") -> bool:
    return (
        isinstance(owner, dict)
        and isinstance(owner.get("host"), str)
        and isinstance(owner.get("boot"), str)
        and isinstance(owner.get("machine", ""), str)
        and isinstance(owner.get("pid"), int)
        and isinstance(owner.get("start_s"), (int, float))
    )


def _is_start(*entry: "Any") -> bool:
    if len(entry) != 7:
        return False
    key, pid, start_s, cores, memory, gpus, pins = entry
    return (
        isinstance(key, str)
        and all(isinstance(n, int) and n >= 0 for n in (pid, cores, memory))
        and isinstance(start_s, (int, float))
        and all(isinstance(each, list) for each in (gpus, pins))
        and all(isinstance(each, (int, str)) for each in gpus)
        and all(isinstance(pin, int) for pin in pins)
    )


def _is_end(*entry: "Any") -> bool:
    if len(entry) != 2:
        return False
    key, outcome = entry
    is_outcome = isinstance(outcome, dict) and isinstance(outcome.get("cause"), str)
    return isinstance(key, str) and is_outcome


class Journal:
    """The journal that this launcher writes. Lines that cannot be written now are kept for the next
    ``write``."""

    def __init__(self, directory: str, name: str = "") -> None:
        """Create the journal. Raises OSError; FileExistsError if there is one of this name."""
        owner = identity()
        own_name = "%s-%d-%x.jsonl" % (owner["host"], owner["pid"], int(time.time() * 1e6))
        self.name = name or own_name
        self._path = directory + "/" + self.name
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._fd = os.open(self._path, flags, 0o644)
        # Held for the life of this process, and seen from every container of this machine, in
        # which our host name and pid mean nothing. Tasks do not inherit it.
        owner["locked"] = lock(self._fd, fcntl.LOCK_EX)
        owner["beats"] = not name  # launchers in batch jobs are found by their jobs
        self.unwritten = b""
        """Unwritten lines, of which the first may be incomplete."""
        self.error: "Optional[OSError]" = None
        """Why the last ``write`` failed; None: it did not."""
        self.add(json.dumps({"launcher": owner}))
        if not self.write() and self.error is not None:
            raise self.error
        # Without its first line nobody could tell whether its launcher is dead.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)

    def beat(self) -> bool:
        """Touch the journal. Returns whether that succeeded."""
        try:
            os.utime(self._fd)
        except OSError:
            return False
        return True

    def add(self, line: str) -> None:
        """Add a line, to be written by ``write``."""
        self.unwritten += line.encode() + b"\n"

    def write(self) -> bool:
        """Write all unwritten lines, in one system call if possible. Returns whether that
        succeeded."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self._fd, self.unwritten) :]
        except OSError as error:
            self.error = error
            return False
        self.error = None
        return True

    def ends(self, keys: "Set[str]") -> "Dict[str, Outcome]":
        """The recorded outcomes of the ended attempts among ``keys``. Reads the whole journal."""
        ends: "Dict[str, Outcome]" = {}
        for line in self._lines() if keys else ():
            if b'"ended": ' in line[:16]:
                for key, outcome in (parsed(line) or {}).get("ended", ()):
                    if key in keys:
                        ends[key] = outcome
        return ends

    def _lines(self) -> "Iterator[bytes]":
        rest = b""
        with retried(lambda: open(self._path, "rb")) as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
                else:
                    rest = line
        for line in (rest + self.unwritten).splitlines():
            yield line


class AttemptTrace:
    """The records of one attempt in the journals."""

    __slots__ = ("outcome", "owner", "started", "candidates")

    def __init__(self) -> None:
        self.outcome: "Optional[Outcome]" = None
        self.owner: "Optional[str]" = None
        """Name of the journal of the launcher that started the attempt; None: not started."""
        self.started: "Optional[List[Any]]" = None
        """Entry of the start: key, pid, start time, number of cores, memory, GPUs, pinned cores."""
        self.candidates: "Set[str]" = set()
        """Journals of launchers that have queued the attempt and have not dropped it since."""


class JournalHistory:
    """The journals of all launchers that ever worked in this directory."""

    def __init__(
        self,
        directory: str,
        own: Journal,
        dead_hosts: "Iterable[str]" = (),
        patience_s: float = PATIENCE_S,
    ) -> None:
        """``dead_hosts``: names of hosts that the user has declared dead."""
        self._directory = directory
        self._own = own
        self._owners: "Dict[str, Dict[str, Any]]" = {}
        self._here = identity()
        self._dead_hosts = set(dead_hosts)
        self._patience_s = patience_s
        self._beats: "Dict[str, Tuple[Any, float, float]]" = {}
        """By journal: modification time and size, time of the last look, silence in seconds."""
        self.refused: "Set[str]" = set()
        """Journals with complete but invalid lines, which are skipped."""

    def living(self) -> "Set[str]":
        """The journals of other launchers that may be alive.

        A machine is identified by its boot ID, since containers have their own host names. A
        launcher with another boot ID is alive while it touches its journal.
        """
        names = set()
        for name in retried(os.listdir, self._directory):
            if name == self._own.name:
                continue
            if name not in self._owners:
                for message in self._read(name, {}):
                    if "launcher" in message:
                        self._owners[name] = message["launcher"]
                    break
            # Without its first line a journal is that of a launcher that starts, or was damaged
            # when its machine died.
            if self._is_alive(name, self._owners.get(name) or NOBODY):
                names.add(name)
        return names

    def is_here(self, name: str) -> bool:
        """Whether the pids in a journal are of this machine since its last boot."""
        owner = self._owners.get(name)
        return owner is not None and bool(owner["boot"] == self._here["boot"])

    def elsewhere(self, names: "Iterable[str]") -> "Set[str]":
        """The host names of the launchers that have another boot ID than this machine. ``names``
        are the names of the launchers' journals."""
        owners = [self._owners[name] for name in names if name in self._owners]
        return {owner["host"] for owner in owners if owner["boot"] != self._here["boot"]}

    def _is_alive(self, name: str, owner: "Dict[str, Any]") -> bool:
        here = self._here
        if owner is NOBODY:
            return self._is_locked(name) or self._is_beating(name, owner)
        if owner["boot"] != here["boot"]:
            return not has_restarted(owner, here) and self._is_beating(name, owner)
        if owner.get("locked"):
            return self._is_locked(name)
        if is_running(owner["pid"], owner["start_s"]):
            return True
        return bool(owner["host"] != here["host"]) and self._is_beating(name, owner)

    def _is_beating(self, name: str, owner: "Dict[str, Any]") -> bool:
        """Whether a launcher has touched its journal recently, by this machine's clock. Launchers
        of wfrun 0.1 and in batch jobs never do: they count as alive unless the user has declared
        their host dead."""
        is_called_dead = owner["host"] in self._dead_hosts
        if not owner.get("beats"):
            return not is_called_dead
        patience_s = self._patience_s
        if is_called_dead:
            patience_s = min(patience_s, DEAD_PATIENCE_S)
        try:
            # Opened, because network file systems show present attributes only then.
            with open(self._directory + "/" + name, "rb") as file:
                status = os.fstat(file.fileno())
        except FileNotFoundError:
            return False
        except OSError:
            return True
        now, change = boot_clock(), (status.st_mtime, status.st_size)
        known, looked, silent_s = self._beats.get(name, (None, now, 0.0))
        silent_s = silent_s + min(now - looked, LOOK_S) if change == known else 0.0
        self._beats[name] = change, now, silent_s
        return silent_s < patience_s

    def _is_locked(self, name: str) -> bool:
        try:
            fd = retried(os.open, self._directory + "/" + name, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _read(self, name: str, offsets: "Dict[str, int]") -> "Iterator[Dict[str, Any]]":
        """Yield the valid messages in the complete lines of a journal after its offset, and advance
        the offset."""
        path = self._directory + "/" + name
        with contextlib.suppress(FileNotFoundError), retried(lambda: open(path, "rb")) as file:
            file.seek(offsets.get(name, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written, or its launcher died in the middle of it
                offsets[name] = offsets.get(name, 0) + len(line)
                message = parsed(line)
                if message is not None:
                    yield message
                elif line.strip(b"\0\n"):
                    self.refused.add(name)

    def _messages(self, offsets: "Dict[str, int]") -> "Iterator[Tuple[str, Dict[str, Any]]]":
        for name in retried(os.listdir, self._directory):
            for message in self._read(name, offsets):
                yield name, message
        for line in self._own.unwritten.split(b"\n"):
            pending = parsed(line)
            if pending is not None:  # it may be the rest of a line whose first part is written
                yield self._own.name, pending

    def follow(self, traces: "Dict[str, AttemptTrace]", offsets: "Dict[str, int]") -> None:
        """Update traces from the lines of all journals after their offsets, which are advanced."""
        for name, message in self._messages(offsets):
            for key in message.get("queued", ()):
                if key in traces:
                    traces[key].candidates.add(name)
            for key in message.get("dropped", ()):
                if key in traces:
                    traces[key].candidates.discard(name)
            for started in message.get("started", ()):
                if started[0] in traces:
                    traces[started[0]].owner = name
                    traces[started[0]].started = started
            for key, outcome in message.get("ended", ()):
                if key in traces:
                    traces[key].outcome = outcome

    def unfinished(self) -> "Set[str]":
        """Attempts with a recorded start and no recorded end."""
        keys: "Set[str]" = set()
        ended: "Set[str]" = set()
        for _, message in self._messages({}):
            keys.update(started[0] for started in message.get("started", ()))
            ended.update(key for key, _ in message.get("ended", ()))
        return keys - ended
