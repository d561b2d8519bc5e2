"""What launchers have written down of their attempts."""

import contextlib
import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

    from wfrun.sites.node.processes import identity, is_running

    Outcome = Dict[str, Any]
else:
    from processes import identity, is_running


def lock(fd: int, kind: int) -> bool:
    """Lock a file without waiting; False: somebody else has locked it, or it can't be locked."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Journal:
    """The records of this launcher. What can't be written now is kept and tried again."""

    def __init__(self, directory: str, name: str = "") -> None:
        """Raises OSError, FileExistsError where there is one of this name."""
        owner = identity()
        own_name = "%s-%d-%x.jsonl" % (owner["host"], owner["pid"], int(time.time() * 1e6))
        self.name = name or own_name
        self._path = directory + "/" + self.name
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._fd = os.open(self._path, flags, 0o644)
        # Held while we live, and seen from any container of this machine, where our host name and
        # pid say nothing. Tasks do not inherit it.
        owner["locked"] = lock(self._fd, fcntl.LOCK_EX)
        self.unwritten = b""
        self.error: "Optional[OSError]" = None
        self.add(json.dumps({"launcher": owner}))
        if not self.write() and self.error is not None:
            raise self.error

    def add(self, line: str) -> None:
        self.unwritten += line.encode() + b"\n"

    def write(self) -> bool:
        """One write for all that was added, in the common case."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self._fd, self.unwritten) :]
        except OSError as error:
            self.error = error
            return False
        self.error = None
        return True

    def ends(self, keys: "Set[str]") -> "Dict[str, Outcome]":
        """The outcomes of those of these attempts whose end is recorded here. Reads all of it."""
        ends: "Dict[str, Outcome]" = {}
        for line in self._lines() if keys else ():
            if b'"ended": ' in line[:16]:
                for key, outcome in json.loads(line.decode())["ended"]:
                    if key in keys:
                        ends[key] = outcome
        return ends

    def _lines(self) -> "Iterator[bytes]":
        rest = b""
        with open(self._path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
                else:
                    rest = line
        for line in (rest + self.unwritten).splitlines():
            yield line


class Trace:
    """What the journals say of one attempt."""

    __slots__ = ("outcome", "owner", "started", "candidates")

    def __init__(self) -> None:
        self.outcome: "Optional[Outcome]" = None
        self.owner: "Optional[str]" = None
        self.started: "Optional[List[Any]]" = None
        self.candidates: "Set[str]" = set()


class History:
    """The journals of all launchers that ever worked in this directory."""

    def __init__(self, directory: str, own: Journal) -> None:
        self._directory = directory
        self._own = own
        self._owners: "Dict[str, Dict[str, Any]]" = {}
        self._host = os.uname().nodename
        self._boot = identity()["boot"]

    def living(self) -> "Set[str]":
        """The other journals whose launchers may still write into them.

        Of a launcher on another machine nothing is known here, so it counts as living. A machine
        is known by its boot, since a container has a host name of its own.
        """
        names = set()
        for name in os.listdir(self._directory):
            if name == self._own.name:
                continue
            if name not in self._owners:
                for message in self._read(name, {}):
                    if "launcher" in message:
                        self._owners[name] = message["launcher"]
                    break
            owner = self._owners.get(name)
            if owner is None or self._lives(name, owner):
                names.add(name)
        return names

    def _lives(self, name: str, owner: "Dict[str, Any]") -> bool:
        if owner["boot"] != self._boot:
            return bool(owner["host"] != self._host)
        if owner.get("locked"):
            return self._is_locked(name)
        return owner["host"] != self._host or is_running(owner["pid"], owner["start_s"])

    def _is_locked(self, name: str) -> bool:
        try:
            fd = os.open(self._directory + "/" + name, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _read(self, name: str, offsets: "Dict[str, int]") -> "Iterator[Dict[str, Any]]":
        """The whole lines of a journal after the offset, which moves on."""
        path = self._directory + "/" + name
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            file.seek(offsets.get(name, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    break  # is being written, or its launcher died while it wrote
                offsets[name] = offsets.get(name, 0) + len(line)
                try:
                    yield json.loads(line.decode())
                except ValueError:
                    continue  # torn by a full disk

    def _messages(self, offsets: "Dict[str, int]") -> "Iterator[Tuple[str, Dict[str, Any]]]":
        for name in os.listdir(self._directory):
            for message in self._read(name, offsets):
                yield name, message
        for line in self._own.unwritten.split(b"\n"):
            try:
                yield self._own.name, json.loads(line.decode())
            except ValueError:
                continue  # the rest of a line of which the first part is written

    def follow(self, traces: "Dict[str, Trace]", offsets: "Dict[str, int]") -> None:
        """Bring these traces up to date by all that is beyond the offsets."""
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
        """Attempts that were started and have no exit record."""
        keys: "Set[str]" = set()
        ended: "Set[str]" = set()
        for _, message in self._messages({}):
            keys.update(started[0] for started in message.get("started", ()))
            ended.update(key for key, _ in message.get("ended", ()))
        return keys - ended
