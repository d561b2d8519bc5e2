"""Checkpoints of a run: its state after some events, in its log file. A reader of a long log begins
with one and replays the events after it.

They are a cache. The events alone are the truth: a checkpoint that is absent, damaged, of another
version of wfrun, or in a file of another user is passed over.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

import wfrun.engine
from wfrun.engine.core import Core
from wfrun.engine.errors import WfrunError
from wfrun.engine.model import Workflow
from wfrun.parsers.read import paused_gc
from wfrun.runners.run.frozen import freeze, thaw
from wfrun.runners.run.log_errors import replay
from wfrun.runners.run.store import Store

MIN_EVENTS = 20_000
"""Minimum number of events between two checkpoints; to replay them takes a fifth of a second."""
TASKS_PER_EVENT = 5
"""Number of tasks of the run for each event between two checkpoints, so that the checkpoints of a
run of any size take less time and room than its events."""
MIN_LAST_EVENTS = 1000
"""Minimum number of events before the checkpoint that an engine makes at its end."""
MAX_BYTES = 1 << 30
"""Maximum size of a state that is read, in bytes; that of a million tasks takes 25 MB."""


class CheckpointWriter:
    """Writes the checkpoints of a run that this process drives. It stops where the state cannot be
    frozen, such as with a policy of the user, or when one cannot be written."""

    def __init__(self, store: Store, core: Core) -> None:
        self._store, self._core = store, core
        self._last = store.next_seq
        self._is_tried = False
        """Whether a frozen state has been thawed."""
        self._works = True

    def after_commit(self, *, last: bool = False) -> None:
        """Write a checkpoint if one is due. The log holds all events that the core has applied.
        ``last``: the engine ends."""
        least = max(MIN_EVENTS, self._core.state.tasks // TASKS_PER_EVENT)
        if self._store.next_seq - self._last < (MIN_LAST_EVENTS if last else least):
            return
        self._last = self._store.next_seq
        self._works = self._works and self._write()

    def _write(self) -> bool:
        try:
            frozen = freeze(self._core)
            if not self._is_tried:
                thaw(frozen, self._core.state.documents)
                self._is_tried = True
        except Exception:  # pickle raises anything for objects that it cannot write
            return False
        body = zlib.compress(frozen, 1)
        try:
            self._store.put_checkpoint(_stamp(), body)
        except WfrunError:  # such as a full disk, which the next commit of events reports
            return False
        return True


def read_core(
    store: Store, before: int | None = None, documents: Mapping[str, Workflow] | None = None
) -> Core:
    """The core of a run after all events of its log, or as it was ``before`` the event of this
    number. ``documents``: the workflows, if they were read already. Raises what ``Store.load`` and
    ``replay`` raise."""
    with paused_gc():
        if documents is None:
            documents = store.workflows()
        core = _latest(store, documents, before) or Core(documents)
        first = store.next_seq
        events = store.load_more() if before is None else islice(store.load_more(), before - first)
        replay(core, events, store.path, first)
    return core


def _latest(
    store: Store, documents: Mapping[str, Workflow], before: int | None = None
) -> Core | None:
    """The core at the latest usable checkpoint (of those ``before`` an event), after which the
    store reads on. None: there is none, and the store reads from the start."""
    store.next_seq = 0
    for seq, body in store.checkpoints(_stamp(), before):
        try:
            inflater = zlib.decompressobj()
            frozen = inflater.decompress(body, MAX_BYTES)
            if not inflater.eof:
                continue
            core = thaw(frozen, documents)
        except Exception:  # pickle raises anything for damaged bytes
            continue
        store.next_seq = seq
        return core
    return None


@lru_cache(maxsize=1)
def _stamp() -> str:
    """Identity of the code that interprets events: while it is developed, the version stays."""
    folder = Path(wfrun.engine.__file__).parent
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        status = path.stat()
        found.update(f"{path.relative_to(folder)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()[:16]
