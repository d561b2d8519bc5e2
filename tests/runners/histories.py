"""Histories of earlier runs, made for a test."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from wfrun.engine.capabilities.estimates.observations import Class, Observation
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import place_of
from wfrun.runners.run.history.runtime_history import Harvest, StoredClass, add_history

HERE = place_of(None)
NOW_S = time.time()


def harvest(
    runtimes_s: Iterable[float], application: str = "nap", first: int = 0, owner: str = "ann",
    site: str = "near",
) -> Harvest:  # fmt: skip
    """Tasks of one class at a local site that ended a second after each other."""
    kind = StoredClass(Class(owner, application, 1, site), HERE)
    return Harvest(
        {
            kind: [
                Observation(NOW_S - 1e6 + first + n, runtime_s, f"r1.0.{application}{first + n}.1")
                for n, runtime_s in enumerate(runtimes_s)
            ]
        },
        [],
    )


def remember(
    path: Path, runtimes_s: Iterable[float], application: str, owner: str = "", site: str = "near"
) -> None:
    """Let earlier runs have run these tasks."""
    add_history(HistoryFile(path), harvest(runtimes_s, application, owner=owner, site=site))
