"""The kinds of simulation that each option applies to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wfrun.engine.errors import InvalidError
from wfrun.runners.experiments.subjects.subjects import NAMES, Kind

_DOCUMENTS: tuple[Kind, ...] = ("documents",)
_WORKLOADS: tuple[Kind, ...] = ("workloads",)
_BOTH: tuple[Kind, ...] = ("documents", "workloads")
_QUEUE: tuple[Kind, ...] = ("queue",)
_WITH_TIME_LIMITS: tuple[Kind, ...] = ("documents", "queue")
_ALL: tuple[Kind, ...] = ("documents", "workloads", "queue")

CONCERNS: Mapping[str, tuple[Kind, ...]] = {
    "--separately": _DOCUMENTS,
    "--runtime": _DOCUMENTS,
    "--runtimes": _DOCUMENTS,
    "--from-run": _DOCUMENTS,
    "--overheads": _DOCUMENTS,
    "--command": _DOCUMENTS,
    "--delimiter": _DOCUMENTS,
    "--input": _DOCUMENTS,
    "--estimate": _DOCUMENTS,
    "--background": _DOCUMENTS,
    "--serial-transfers": _DOCUMENTS,
    "--head-bandwidth": _DOCUMENTS,
    "--run-dir": _DOCUMENTS,
    "--scavenge": _DOCUMENTS,
    "--most-scavengers": _DOCUMENTS,
    "--architecture": _WORKLOADS,
    "--tasks": _WORKLOADS,
    "--processors": _QUEUE,
    "--no-kill-overruns": _WITH_TIME_LIMITS,
    "--lrm": _ALL,
    "--output": _ALL,
    "--skip-bad-lines": _ALL,
    "--quiet": _ALL,
}
"""The kinds of simulation that an option applies to, by option. An option that is not listed
applies to documents and workloads of bags."""


def check_concerns(kind: Kind, given: Iterable[str]) -> None:
    """Raise InvalidError for the first of the given options that does not apply to a simulation of
    this kind."""
    for name in given:
        kinds = CONCERNS.get(name, _BOTH)
        if kind not in kinds:
            meant = " and ".join(NAMES[other] for other in kinds)
            raise InvalidError(
                f"{name} does not apply to {NAMES[kind]}", hint=f"leave it out: it is for {meant}"
            )
