"""Grids of simulated runs: policies × throttles × loads × seeds, in parallel processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import product
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.state import RunState
from wfrun.parsers.workload import LoggedJob
from wfrun.runners.background import WARM_UP_S, background_of, read_log
from wfrun.runners.metrics.workflows import critical_path_s
from wfrun.runners.plugins import load_policies
from wfrun.runners.results import Cell, Results, Row
from wfrun.runners.simulation import Sharing, World, simulate
from wfrun.sites.lrm import BatchJob
from wfrun.sites.simulated import SiteModel


class Grid(msgspec.Struct, frozen=True):
    """What is simulated: every combination of the tuples."""

    workflows: list[Workflow]
    catalog: Catalog
    policies: tuple[str, ...]
    throttles: tuple[int | None, ...] = (None,)
    loads: tuple[float | None, ...] = (None,)
    """Of the background; None: none, or the log's own."""
    seeds: tuple[int, ...] = (0,)
    background: str | None = None
    """Path of a workload log."""
    model: SiteModel = SiteModel()
    sharing: Sharing = "max-min"
    head_bytes_per_s: float | None = None

    def cells(self) -> list[Cell]:
        """In the order in which they are shown."""
        combined = product(self.policies, self.throttles, self.loads, self.seeds)
        return [Cell(*values) for values in combined]

    def identity(self) -> dict[str, str]:
        """What all cells have in common, as the columns of that name in a file of results: words
        for a reader, and a digest of the whole, so that results of different grids are never
        taken for one another."""
        jobs = _log(self.background) if self.background else ()
        names = [workflow.name for workflow in self.workflows]
        shown = names if len(names) <= SHOWN else [*names[:SHOWN], f"{len(names) - SHOWN} more"]
        sites = [(s.name, s.slots, s.speed_ratio, s.memory_bytes, s.gpus, s.walltime_s)
                 for s in self.catalog.sites]  # fmt: skip
        described = [_described(workflow) for workflow in self.workflows]
        log = Path(self.background).name if self.background else "no"
        world = [self.model, self.sharing, self.head_bytes_per_s]
        return {
            "workflows": _label(", ".join(shown), described),
            "sites": _label(", ".join(s.name for s in self.catalog.sites),
                            [sites, self.catalog.links]),
            "background": _label(log, jobs),
            "world": _label(f"{self.model.lrm} {self.sharing}", world),
        }  # fmt: skip


SHOWN = 3
"""So many workflows are named in a file of results."""


def _described(workflow: Workflow) -> Workflow:
    """Without where its document was found."""
    return msgspec.structs.replace(workflow, source="", warnings=type(workflow.warnings)())


def _label(words: str, content: object) -> str:
    digest = hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:10]
    return f"{' '.join(words.split())} #{digest}"


def run_cell(grid: Grid, cell: Cell) -> Row:
    """Simulate one combination."""
    return row_of(cell, simulate(grid.workflows, world_of(grid, cell), settings_of(cell)))


def settings_of(cell: Cell) -> Settings:
    """How the run of the cell is to be carried out."""
    return Settings(policy=cell.policy, throttle=cell.throttle, seed=cell.seed)


def world_of(grid: Grid, cell: Cell) -> World:
    """What the cell takes place in."""
    start_s = 0.0
    background: Mapping[str, Sequence[BatchJob]] = {}
    if grid.background is not None:
        jobs = _log(grid.background)
        background = background_of(jobs, grid.catalog.sites, cell.load, cell.seed)
        start_s = WARM_UP_S
    return World(
        catalog=grid.catalog,
        model=grid.model,
        sharing=grid.sharing,
        head_bytes_per_s=grid.head_bytes_per_s,
        background=background,
        start_s=start_s,
    )


@lru_cache(maxsize=2)
def _log(path: str) -> tuple[LoggedJob, ...]:
    return read_log(Path(path))[0]


def row_of(cell: Cell, state: RunState) -> Row:
    """The metrics of a run that has ended."""
    attempts = max(1, state.done + sum(site.failed for site in state.sites))
    makespans_s = [
        (state.now_s if w.ended_s is None else w.ended_s) - w.added_s for w in state.workflows
    ]
    paths_s = [critical_path_s(w.workflow, _runtimes_s(w.workflow)) for w in state.workflows]
    lengths = [m / path for m, path in zip(makespans_s, paths_s, strict=True) if path > 0]
    return Row(
        policy=cell.policy,
        throttle=cell.throttle,
        load=cell.load,
        seed=cell.seed,
        makespan_s=max(makespans_s, default=0.0),
        nsl=sum(lengths) / max(1, len(lengths)),
        qwt_s=sum(w.waiting_s for w in state.workflows) / attempts,
        ftd_s=sum(w.staging_s for w in state.workflows) / attempts,
        transfers=state.transfers,
        moved_bytes=state.moved_bytes,
        core_s=sum(site.used_core_s for site in state.sites),
        failed=state.failed + state.blocked,
        makespans_s=tuple(makespans_s),
    )


def _runtimes_s(workflow: Workflow) -> list[float]:
    return [task.runtime_s or 0.0 for task in workflow.tasks]


def run_grid(
    grid: Grid, results: Results, *, processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, cells: None,
) -> None:  # fmt: skip
    """Simulate the cells that ``results`` does not have, in ``processes`` processes, by default
    one for each core. ``progress`` is told (done, all). What goes wrong in one cell ends the grid;
    rows of cells that were done before are kept, and so they are when it is interrupted.

    Raises InfeasibleError when a process is ended from outside.
    """
    cells = grid.cells()
    missing = results.missing(cells)
    done = len(cells) - len(missing)
    progress(done, len(cells))
    count = min(processes or len(os.sched_getaffinity(0)), len(missing))
    if count <= 1:
        for cell in missing:
            results.add(run_cell(grid, cell))
            done += 1
            progress(done, len(cells))
        return
    with ProcessPoolExecutor(count, initializer=_begin, initargs=(grid,)) as pool:
        try:
            for future in as_completed([pool.submit(_work, cell) for cell in missing]):
                results.add(future.result())
                done += 1
                progress(done, len(cells))
        except BrokenProcessPool as error:
            raise InfeasibleError(
                "a process of the simulation was ended from outside, perhaps for want of memory",
                hint="try fewer at a time with --jobs; with --output, the same command goes on "
                "from the runs that are done",
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # cells in flight are lost; nobody waits for them
            raise


_GRID: list[Grid] = []


def _begin(grid: Grid) -> None:
    """In a worker: the grid is sent once, not with every cell."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_policies()
    _GRID.append(grid)


def _end_with_parent() -> None:
    """A parent that was killed can't end its workers, and they would wait for it forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(cell: Cell) -> Row:
    return run_cell(_GRID[0], cell)
