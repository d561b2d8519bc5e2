"""Logs recorded by earlier versions, in the store of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.model import Workflow
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.packing import unpacked


def store_log(run: Path, events: Sequence[ev.AnyEvent], documents: Mapping[str, Workflow]) -> None:
    """Make a run directory with a log and its documents."""
    run.mkdir()
    store = Store(run, create=True)
    # A digest is that of the document as this version stores it.
    digests = dict(zip(documents, store.put_workflows(documents.values()), strict=True))
    store.append(
        [
            msgspec.structs.replace(e, digest=digests[e.digest])
            if isinstance(e, ev.WorkflowAdded)
            else e
            for e in events
        ]
    )
    store.commit()
    store.close()


def lines_of(body: bytes) -> bytes:
    """The events of a row of a log, as JSON lines. A row may have them as they are, too."""
    return unpacked(body, 1 << 30)
