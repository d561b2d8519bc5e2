"""Faults of a file server, chosen by a test for each path and request."""

from __future__ import annotations

import fnmatch
import threading
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal[
    "stall",
    "reset",
    "wrong-size",
    "short-read",
    "slow",
    "disk-full",
    "no-space",
    "lost-write",
    "wrong-bytes",
    "cut-short",
    "denied",
    "vanish",
    "no-channel",
    "no-sftp",
]
Operation = Literal[
    "open",
    "read",
    "write",
    "stat",
    "list",
    "remove",
    "rename",
    "mkdir",
    "rmdir",
    "setstat",
    "link",
    "readlink",
    "exec",
    "sftp",
    "channel",
]

STRIKES: dict[Kind, frozenset[Operation]] = {
    "stall": frozenset({"read", "write"}),
    "reset": frozenset({"read", "write"}),
    "wrong-size": frozenset({"stat"}),
    "short-read": frozenset({"read"}),
    "slow": frozenset({"read", "write"}),
    "disk-full": frozenset({"write"}),
    "no-space": frozenset({"write"}),
    "lost-write": frozenset({"write"}),
    "wrong-bytes": frozenset({"read", "write"}),
    "cut-short": frozenset({"read"}),
    "denied": frozenset({"open", "list", "remove", "rename", "mkdir", "rmdir", "setstat", "link"}),
    "vanish": frozenset({"read"}),
    "no-channel": frozenset({"channel"}),
    "no-sftp": frozenset({"sftp"}),
}
"""Operations that a fault affects where the test names none."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the server received; of ``exec``, the path is the command line."""

    operation: Operation
    path: str
    offset: int = 0
    size: int = 0
    """Bytes asked for or sent, of reads and writes."""


@dataclass(slots=True)
class Fault:
    """A fault and what it affects."""

    kind: Kind
    path: str
    operations: frozenset[Operation]
    at_byte: int
    amount: int
    remaining: int | None

    def affects(self, request: Request) -> bool:
        if request.operation not in self.operations or self.remaining == 0:
            return False
        if self.at_byte and request.offset + request.size <= self.at_byte:
            return False
        names = (request.path, PurePosixPath(request.path).name)
        return any(fnmatch.fnmatchcase(name, self.path) for name in names)


class Faults:
    """The faults of a server and the log of its requests. Safe to use from several threads."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._active: list[Fault] = []
        self._changed = threading.Condition()
        self._stalled = 0

    def inject(
        self,
        kind: Kind,
        path: str = "*",
        *,
        operation: Operation | None = None,
        at_byte: int = 0,
        amount: int = 0,
        times: int | None = None,
    ) -> None:
        """Let requests fail from now on.

        ``path`` is a shell pattern of the whole path or of its last component (of ``exec``: of the
        command line). Reads and writes are affected from ``at_byte`` of the file on. ``amount`` is
        the difference of a wrong size, the maximum of a short read (bytes), or the rate of a slow
        request (bytes/s). ``times``: number of requests affected, all by default.
        """
        if kind == "slow" and amount <= 0:
            raise ValueError("a slow request needs an amount: its bytes per second")
        operations = STRIKES[kind] if operation is None else frozenset({operation})
        with self._changed:
            self._active.append(Fault(kind, path, operations, at_byte, amount, times))

    def heal(self) -> None:
        """Remove all faults; stalled requests go on."""
        with self._changed:
            self._active.clear()
            self._changed.notify_all()

    @property
    def stalled(self) -> int:
        """Number of requests that stall now."""
        with self._changed:
            return self._stalled

    def strike(self, request: Request) -> dict[Kind, Fault]:
        """Log a request and return the faults that affect it."""
        with self._changed:
            self.requests.append(request)
            found: dict[Kind, Fault] = {}
            for fault in self._active:
                if fault.kind not in found and fault.affects(request):
                    found[fault.kind] = fault
                    if fault.remaining is not None:
                        fault.remaining -= 1
            return found

    def stall(self, fault: Fault) -> None:
        """Return when the fault is removed."""
        with self._changed:
            self._stalled += 1
            # By identity: an equal fault may have been injected since.
            self._changed.wait_for(lambda: all(fault is not one for one in self._active))
            self._stalled -= 1


def changed(data: bytes) -> bytes:
    """As many bytes, of which the last is another."""
    return data[:-1] + bytes([data[-1] ^ 1])
