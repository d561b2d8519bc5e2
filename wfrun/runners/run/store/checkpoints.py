"""Checkpoints of a run: its state after some events, stored in its log file. To get the state of a
run, in order to show or resume it, a reader loads a checkpoint and replays the events after it.

Checkpoints are a cache; only the events are authoritative. A checkpoint is ignored if it is absent,
damaged, made by another version of wfrun, or in a file of another user. A checkpoint that this
user's wfrun did not make is also ignored, because loading a state can change classes of the engine,
and the log may be a copy of another user's log. For this purpose each checkpoint has a MAC with a
key of the user (file `KEY_NAME` in the user's state directory).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import wfrun.engine
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import WfrunError
from wfrun.engine.model import Workflow
from wfrun.parsers.atomic import write_file
from wfrun.parsers.read import paused_gc
from wfrun.runners.run.directory.run_directory import START_WAIT_S, RunDir, await_start
from wfrun.runners.run.history.history_file import state_directory
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.frozen import freeze, thaw
from wfrun.runners.run.store.log_errors import replay

MIN_EVENTS = 20_000
"""Minimum number of events between two checkpoints; to replay them takes a quarter of a second."""
SHARE = 0.04
"""Maximum share of a run's time that the engine spends on writing checkpoints. Writing a checkpoint
of a million tasks takes 0.07 s (a bag) to 0.3 s. At 0.3 s this share, and not MIN_EVENTS,
determines the interval if the run has more than 2,700 events per second."""
BYTES_PER_EVENT = 5
"""Maximum total size of all checkpoints except the last, in bytes per event of the log: a quarter
of the size of the events."""
MIN_LAST_EVENTS = 1000
"""Minimum number of events since the previous checkpoint for which an engine writes a checkpoint at
its end."""
KEY_NAME = "checkpoint-key"
_KEY_BYTES = 32
_MAC_BYTES = 32
MAX_BYTES = 1 << 30
"""Maximum size of a state that is read, in bytes. The state of a million tasks takes 25 MB."""


class CheckpointWriter:
    """Writes the checkpoints of a run that this process drives. Stops for good if a state cannot be
    serialized, for example because of a user's policy, or if a checkpoint cannot be written."""

    def __init__(
        self, store: Store, core: Core, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._core, self._now_s = store, core, now_s
        self._last, self._last_s = store.next_seq, now_s()
        """Number of events in the log, and clock time in seconds, at the last checkpoint."""
        self._interval = MIN_EVENTS
        """Minimum number of events from the last checkpoint to the next."""
        self._works: bool | None = None
        """Whether states can be frozen, thawed and written; None: not tried yet."""

    def after_commit(self, *, last: bool = False) -> None:
        """Write a checkpoint if it is due. The core must have applied exactly the events in the
        log. ``last``: the engine ends."""
        events = self._store.next_seq - self._last
        if events < (MIN_LAST_EVENTS if last else self._interval) or self._works is False:
            return
        of_event_s = (self._now_s() - self._last_s) / events
        began_s = self._now_s()
        self._works = self._write()
        ended_s = self._now_s()
        if of_event_s > 0:
            self._interval = max(MIN_EVENTS, round((ended_s - began_s) / SHARE / of_event_s))
        self._last, self._last_s = self._store.next_seq, ended_s

    def _write(self) -> bool:
        store = self._store
        try:
            frozen = freeze(self._core)
            if self._works is None:
                thaw(frozen, self._core.state.documents)
            body = sealed(store.next_seq, zlib.compress(frozen, 1))
            if body is None:
                return False
            store.put_checkpoint(
                _stamp(), body, surplus_of(store.checkpoint_sizes(), store.next_seq)
            )
        except WfrunError:  # such as a full disk, which the next commit of events reports
            return False
        except Exception:  # pickle raises anything for objects that it cannot write or read
            return False
        return True


def surplus_of(stored: Sequence[tuple[int, int]], events: int) -> list[int]:
    """Choose the checkpoints to remove before a further checkpoint is written after ``events``
    events, so that the remaining ones take at most `BYTES_PER_EVENT`. ``stored`` has (number of
    events before it, size in bytes) of each checkpoint, in ascending order. Removes the checkpoint
    with the closest neighbours first, so that the others stay spread over the log."""
    kept, surplus = list(stored), []
    while sum(size for _, size in kept) > BYTES_PER_EVENT * events:
        places = [0, *(seq for seq, _ in kept), events]
        gaps = [after - before for before, after in zip(places, places[2:], strict=False)]
        surplus.append(kept.pop(gaps.index(min(gaps)))[0])
    return surplus


def read_core(
    store: Store, before: int | None = None, documents: Mapping[str, Workflow] | None = None
) -> Core:
    """The core of a run after all events of its log, or after its first ``before`` events.

    ``documents`` are the workflows, if the caller has read them. If it is None and there is a
    checkpoint, workflows are read lazily, for readers that need few of their tasks. Raises what
    ``Store.load`` and ``replay`` raise.
    """
    with paused_gc():
        known = store.workflows(lazily=True) if documents is None else documents
        core = _latest(store, known, before)
        if core is None:
            core = Core(store.workflows() if documents is None else documents)
        first = store.next_seq
        events = store.load_more() if before is None else islice(store.load_more(), before - first)
        replay(core, events, store.path, first)
    return core


def read_state(run: RunDir, timeout_s: float = START_WAIT_S) -> RunState:
    """Read the state of a run from its log, which an engine may be writing. Raises the errors of
    ``await_start`` and ``Store``."""
    await_start(run, timeout_s)
    store = Store(run.path, judge=run.judge)
    try:
        return read_core(store).state
    finally:
        store.close()


def _latest(
    store: Store, documents: Mapping[str, Workflow], before: int | None = None
) -> Core | None:
    """The core at the latest usable checkpoint; with ``before``, at the latest one after at most
    ``before`` events. The store then continues with the events after the checkpoint. None: there is
    no such checkpoint, and the store reads from the start."""
    store.next_seq = 0
    for seq, body in store.checkpoints(_stamp(), before):
        try:
            content = _opened(seq, body)
            if content is None:
                continue
            inflater = zlib.decompressobj()
            frozen = inflater.decompress(content, MAX_BYTES)
            if not inflater.eof:
                continue
            core = thaw(frozen, documents)
        except Exception:  # pickle raises anything for damaged bytes
            continue
        store.next_seq = seq
        return core
    return None


def sealed(seq: int, content: bytes) -> bytes | None:
    """Prefix the content of a checkpoint with its MAC. None: the user has no key, and none can be
    made."""
    key = _key(make=True)
    return None if key is None else _mac(key, seq, content) + content


def _opened(seq: int, body: bytes) -> bytes | None:
    """The content of a checkpoint if its MAC was made with the key of this user; otherwise None."""
    key, content = _key(make=False), body[_MAC_BYTES:]
    if key is None or not hmac.compare_digest(_mac(key, seq, content), body[:_MAC_BYTES]):
        return None
    return content


def _mac(key: bytes, seq: int, content: bytes) -> bytes:
    return hmac.digest(key, b"%d %s " % (seq, _stamp().encode()) + content, "sha256")


def _key(*, make: bool) -> bytes | None:
    """The key of this user; None if there is none, or if others may read it. ``make``: make a key
    if it is absent."""
    path = state_directory() / KEY_NAME
    with contextlib.suppress(OSError):
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, secrets.token_bytes(_KEY_BYTES), 0o600)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            found, key = os.fstat(fd), file.read(_KEY_BYTES)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if is_own and not found.st_mode & 0o077 and len(key) == _KEY_BYTES:
            return key
    return None


@lru_cache(maxsize=1)
def _stamp() -> str:
    """Identity of the code that interprets events. The version does not suffice: it stays the same
    during development."""
    folder = Path(wfrun.engine.__file__).parent
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        status = path.stat()
        found.update(f"{path.relative_to(folder)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()[:16]
