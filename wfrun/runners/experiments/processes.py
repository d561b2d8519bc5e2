"""Simulated runs in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any

from wfrun.engine.errors import InfeasibleError
from wfrun.runners.experiments.results import CellT, Results, RowT
from wfrun.runners.run.plugins import load_policies

Progress = Callable[[int, int], None]
"""Called with the number of done cells and of all cells."""


def no_progress(done: int, cells: int) -> None:
    """Do nothing."""


def run_missing(
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    processes: int | None = None,
    progress: Progress = no_progress,
) -> None:
    """Simulate the cells that ``results`` does not have, in ``processes`` processes, by default one
    for each core. ``simulate`` is sent to each process once, and must be picklable.

    An error in one cell ends all; rows of earlier cells are kept, also after an interrupt. Raises
    InfeasibleError when a process is ended from outside.
    """
    missing = results.missing(cells)
    done = len(cells) - len(missing)
    progress(done, len(cells))
    count = min(processes or len(os.sched_getaffinity(0)), len(missing))
    if count <= 1:
        for cell in missing:
            results.add(simulate(cell))
            done += 1
            progress(done, len(cells))
        return
    with ProcessPoolExecutor(count, initializer=_begin, initargs=(simulate,)) as pool:
        try:
            for future in as_completed([pool.submit(_work, cell) for cell in missing]):
                results.add(future.result())
                done += 1
                progress(done, len(cells))
        except BrokenProcessPool as error:
            raise InfeasibleError(
                "a process of the simulation was ended from outside; memory may have run out",
                hint="use fewer processes with --jobs; with --output, the same command continues "
                "after the runs that are done",
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # cells in flight are lost
            raise


_SIMULATE: list[Callable[[Any], Any]] = []


def _begin(simulate: Callable[[Any], Any]) -> None:
    """Set up a worker. ``simulate``, which may be large, is sent once, not with every cell."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_policies()
    _SIMULATE.append(simulate)


def _end_with_parent() -> None:
    """Exit with the parent: one that was killed cannot end its workers, which would wait
    forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(cell: object) -> Any:
    return _SIMULATE[0](cell)
