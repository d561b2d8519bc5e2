"""``wfrun files``: where the files of a run are, since when, and why they are still there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec
from rich import filesize
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine import events as ev
from wfrun.engine.capabilities.storing.cleanup import Cleanup
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import ORIGIN
from wfrun.runners.display.console import name_cell
from wfrun.runners.run.directory.run_directory import START_WAIT_S, RunDir, await_start
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.log_errors import replay

MAX_READERS = 3
"""Maximum number of tasks that are named as the readers of a file."""
_DAY_S = 86400.0

Place = tuple[int, int, int]
"""Workflow, file, and the site that has it."""


class PlaceRecord(msgspec.Struct, frozen=True):
    """A place of a file."""

    place: str
    """Name of a site, or ``origin`` for this machine: ``outputs/``, or the place of an input of the
    user."""
    since_s: float | None
    """Seconds since the epoch; None for an input of the user."""


class FileRecord(msgspec.Struct, frozen=True):
    """A logical file of a run."""

    workflow: str
    name: str
    size_bytes: int | None
    """None: unknown."""
    digest: str | None
    """Digest of the content (see ``wfrun.sites.node.tasks.digests``). None: unknown, such as
    without ``checksums``."""
    places: tuple[PlaceRecord, ...]
    """Places of the file. Empty: the file is not written yet, was removed, or is lost."""
    readers: tuple[str, ...]
    """Ids of tasks that read the file and are not done, at most `MAX_READERS`."""
    reader_count: int
    why: str
    """Why the file is still at its places, or why it is at no place."""


class FilesDocument(msgspec.Struct, frozen=True):
    """The files of a run."""

    run: str
    files: tuple[FileRecord, ...]
    more: int
    """Number of further files, beyond the limit."""


class _Arrivals:
    """Times at which files came to their places, collected while a log is interpreted. There is an
    entry for each file that a task wrote or a copy moved, and that is still at its place."""

    def __init__(self, state: RunState) -> None:
        self.since_s: dict[Place, float] = {}
        self._state = state

    def watched(self, events: Iterable[ev.AnyEvent]) -> Iterator[ev.AnyEvent]:
        """Yield the events of a log. An event is examined when the caller requests the next event,
        because the caller has then applied it."""
        attempts = self._state.attempts
        for event in events:
            attempt = attempts.get(event.key) if isinstance(event, ev.AttemptEnded) else None
            yield event
            if attempt is not None and isinstance(event, ev.AttemptEnded):
                if event.outcome.cause == "done":
                    w = self._state.workflows[attempt.workflow]
                    for file in w.workflow.tasks[attempt.task].outputs:
                        self._arrive(w.index, file, attempt.site, event.at_s)
            elif isinstance(event, ev.TransferEnded):
                self._arrive(event.workflow, event.file, event.destination, event.at_s)
            elif isinstance(event, ev.FilesDiscarded | ev.FilesLost):
                for workflow, file in event.files:
                    self.since_s.pop((workflow, file, event.site), None)
            elif isinstance(event, ev.RunResumed):
                for place in event.lost:
                    self.since_s.pop(place, None)
            elif isinstance(event, ev.WorkflowAdded):
                for part in event.reused:
                    for file, _, site in part.files:
                        self._arrive(event.workflow, file, site, event.at_s)

    def _arrive(self, workflow: int, file: int, site: int, at_s: float) -> None:
        if self._state.workflows[workflow].present[file] & self._state.network.bit(site):
            self.since_s.setdefault((workflow, file, site), at_s)


def read_files(run: RunDir) -> tuple[RunState, Mapping[Place, float]]:
    """Read the log of a run, which an engine may drive. Returns the state of the run, and the time
    at which each file came to each of its places. Raises the errors of ``await_start`` and
    ``Store``."""
    await_start(run, START_WAIT_S)
    store = Store(run.path)
    try:
        core = Core(store.workflows())
        arrivals = _Arrivals(core.state)
        replay(core, arrivals.watched(store.load()), store.path)
        return core.state, arrivals.since_s
    finally:
        store.close()


def file_records(
    state: RunState,
    since_s: Mapping[Place, float],
    *,
    patterns: Sequence[str] = (),
    site: str | None = None,
    everything: bool = False,
    limit: int | None = None,
) -> tuple[list[FileRecord], int]:
    """Return records of at most ``limit`` files, and the number of further files. ``patterns``:
    include only files whose names match one of them; empty: all names. ``site``: include only files
    at this site; None: files at any site. ``everything``: if ``site`` is None, include files at no
    site, too."""
    names = [each.spec.name for each in state.sites]
    sites = (1 << len(names)) - 1 & ~state.removed
    wanted = sites if site is None else sites & 1 << names.index(site)
    chosen: list[tuple[WorkflowState, int]] = []
    more = 0
    for w in state.workflows:
        files = w.workflow.files
        for file, present in enumerate(w.present):
            if not (present & wanted or (everything and site is None)):
                continue
            if patterns and not any(fnmatchcase(files[file].name, p) for p in patterns):
                continue
            if limit is not None and len(chosen) >= limit:
                more += 1
            else:
                chosen.append((w, file))
    readers = _readers(chosen)
    return [_record(state, since_s, w, file, sites, readers) for w, file in chosen], more


def _readers(chosen: Sequence[tuple[WorkflowState, int]]) -> dict[tuple[int, int], list[int]]:
    """The tasks that read these files and are not done, by (workflow, file)."""
    readers: dict[tuple[int, int], list[int]] = {(w.index, file): [] for w, file in chosen}
    for w in {w.index: w for w, _ in chosen}.values():
        for task, status in enumerate(w.status):
            if status != TaskStatus.DONE:
                for file in w.workflow.tasks[task].inputs:
                    if (w.index, file) in readers:
                        readers[w.index, file].append(task)
    return readers


def _record(
    state: RunState,
    since_s: Mapping[Place, float],
    w: WorkflowState,
    file: int,
    sites: int,
    readers: Mapping[tuple[int, int], list[int]],
) -> FileRecord:
    present = w.present[file]
    held = [n for n in range(len(state.sites)) if present & sites & 1 << n]
    places = [PlaceRecord(state.sites[n].spec.name, since_s.get((w.index, file, n))) for n in held]
    if present & state.network.bit(ORIGIN):
        places.append(PlaceRecord("origin", since_s.get((w.index, file, ORIGIN))))
    tasks = readers[w.index, file]
    named = tuple(w.workflow.tasks[task].id for task in tasks[:MAX_READERS])
    return FileRecord(
        workflow=w.workflow.name,
        name=w.workflow.files[file].name,
        size_bytes=w.sizes[file] if w.sizes[file] >= 0 else None,
        digest=w.digests.get(file),
        places=tuple(places),
        readers=named,
        reader_count=len(tasks),
        why=_why(state, w, file, held, tasks),
    )


def _why(state: RunState, w: WorkflowState, file: int, held: list[int], readers: list[int]) -> str:
    """Why a file is still at its places, or why it is at no place."""
    record = w.workflow.files[file]
    if not w.present[file] or not (held or w.present[file] & state.network.bit(ORIGIN)):
        return _why_nowhere(state, w, file)
    if readers:
        ids = ", ".join(name_line(w.workflow.tasks[t].id) for t in readers[:MAX_READERS])
        more = len(readers) - MAX_READERS
        return f"read by {ids}" + (f" and {more} more" if more > 0 else "")
    if not held:
        return "input" if record.producer is None else "final output"
    if record.collect and not w.present[file] & state.network.bit(ORIGIN):
        return "final output, not collected yet"
    if state.settings.keep == "all":
        return "kept by --keep all"
    cleanup = state.find(Cleanup)
    if cleanup is not None and any(cleanup.is_kept(w.index, file, site) for site in held):
        return "input of a failed attempt, kept by --keep failed"
    if all(state.left >> site & 1 for site in held):
        return "its site has left the catalog"
    return "not needed; " + ("left when the run ended" if state.ended else "leaves soon")


def _why_nowhere(state: RunState, w: WorkflowState, file: int) -> str:
    producer = w.workflow.files[file].producer
    if producer is None:
        return "input"
    status = w.status[producer]
    if w.present[file] or file in w.lost:
        done = status == TaskStatus.DONE
        return "removed: nothing needs it" if done else "removed or lost, to be made again"
    if status == TaskStatus.DONE:
        return "optional, not written"
    return f"not written yet by {name_line(w.workflow.tasks[producer].id)}"


def show(
    console: Console,
    state: RunState,
    records: Sequence[FileRecord],
    more: int,
    *,
    driven: bool,
    simulated: bool,
) -> None:
    """Print a row for each file and place, and the number and total size of the files at each
    site."""
    now_s = time.time() if driven and not simulated else state.now_s
    if records:
        console.print(_table(records, now_s))
    else:
        console.print("no file to show; --all also shows files that are at no site")
    if more:
        console.print(f"{more} more; --limit N shows N, --name PATTERN selects by name")
    removed = [s.spec.name for n, s in enumerate(state.sites) if state.removed >> n & 1]
    if removed:
        console.print(Text(f"all files were removed from {', '.join(map(name_line, removed))}"))
    for index, site in enumerate(state.sites):
        count, size_bytes = _held(state, index)
        if count:
            text = f"{name_line(site.spec.name)}: {count} files, {filesize.decimal(size_bytes)}"
            console.print(Text(text))


def _held(state: RunState, site: int) -> tuple[int, int]:
    """Number and total size in bytes of the files at a site."""
    if state.removed >> site & 1:
        return 0, 0
    count = size_bytes = 0
    for w in state.workflows:
        for file, present in enumerate(w.present):
            if present >> site & 1:
                count += 1
                size_bytes += max(0, w.sizes[file])
    return count, size_bytes


def _table(records: Sequence[FileRecord], now_s: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("size", justify="right", no_wrap=True)
    with_digests = any(record.digest for record in records)
    if with_digests:
        table.add_column("checksum", no_wrap=True)
    table.add_column("where", overflow="fold")
    table.add_column("since", no_wrap=True)
    table.add_column("why", overflow="fold")
    for record in records:
        size = "" if record.size_bytes is None else filesize.decimal(record.size_bytes)
        digest = [(record.digest or "")[:8]] if with_digests else []
        first, *rest = record.places or (PlaceRecord("-", None),)
        row = (Text(name_line(first.place)), _clock(first.since_s, now_s))
        table.add_row(name_cell(record.name), size, *digest, *row, Text(record.why))
        for place in rest:
            blank = [""] * (2 + len(digest))
            table.add_row(*blank, Text(name_line(place.place)), _clock(place.since_s, now_s), "")
    return table


def _clock(at_s: float | None, now_s: float) -> str:
    """The local time of day, with the date if it is more than a day ago."""
    if at_s is None:
        return ""
    form = "%H:%M:%S" if now_s - at_s < _DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at_s))
