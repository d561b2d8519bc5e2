"""Simulated runs in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, cast

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.experiments.tables.results import CellT, Results, RowT
from wfrun.runners.run.prepare.plugins import load_policies

Progress = Callable[[int, int], None]
"""Callback with the number of finished cells and the number of all cells."""


class SimulationError(Exception):
    """Traceback, as text, of an error that a simulation raised in another process. It is the cause
    (``__cause__``) of that error when it is raised again in this process."""


def no_progress(done: int, cells: int) -> None:
    """Do nothing."""


def run_missing(
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    processes: int | None = None,
    progress: Progress = no_progress,
) -> None:
    """Simulate the cells that have no rows in ``results``, in ``processes`` processes; None: one
    for each core. ``simulate`` is sent to each process once, and must be picklable.

    A cell whose policy raises gets no row, and its error is added to ``results.broken``. Any other
    error in a cell ends all simulations and is raised; rows of earlier cells are kept, also after
    an interrupt. All processes have ended when this returns or raises. Raises InfeasibleError if a
    process is killed by another program.
    """
    missing = results.missing(cells)
    done = len(cells) - len(missing)
    progress(done, len(cells))

    def add(row: RowT) -> None:
        nonlocal done
        results.add(row)
        done += 1
        progress(done, len(cells))

    count = min(processes or len(os.sched_getaffinity(0)), len(missing))
    if count > 1:
        _in_parallel(missing, simulate, count, add, results.leave_out)
    else:
        for cell in missing:
            try:
                row = simulate(cell)
            except PolicyError as error:
                results.leave_out(error)
            else:
                add(row)


@dataclass(frozen=True)
class Timed(Generic[RowT]):
    """A simulated run, and the elapsed time of its simulation on this machine, in seconds."""

    row: RowT
    elapsed_s: float


def timed(cell: CellT, simulate: Callable[[CellT], RowT], limit_s: float) -> Timed[RowT] | None:
    """Simulate a cell in a process of its own; None if the simulation takes longer than ``limit_s``
    seconds. Raises the errors of ``simulate``, and InfeasibleError if the process is killed by
    another program."""
    begun_s = time.monotonic()
    with _workers(simulate, 1) as (connection,), _lost_worker():
        connection.send(cell)
        if not connection.poll(limit_s):
            return None
        row, trace = connection.recv()
    if isinstance(row, Exception):
        raise row from SimulationError(trace)
    return Timed(row, time.monotonic() - begun_s)


def _in_parallel(
    cells: Sequence[CellT],
    simulate: Callable[[CellT], RowT],
    count: int,
    add: Callable[[RowT], None],
    leave_out: Callable[[PolicyError], None],
) -> None:
    """Simulate the cells in ``count`` processes. Calls ``add`` with each row as soon as it arrives,
    and ``leave_out`` with the errors of policies.

    A ProcessPoolExecutor would not do: its thread may outlive an interrupt and then race with the
    exit of the interpreter. It would also wait forever for a row whose process was killed while it
    wrote the row.
    """
    remaining = iter(cells)
    with _workers(simulate, count) as busy:
        for connection in busy:
            with _lost_worker():
                connection.send(next(remaining))
        while busy:
            for connection in cast("list[Connection]", wait(busy)):
                with _lost_worker():
                    row, trace = connection.recv()
                    if (cell := next(remaining, None)) is not None:
                        connection.send(cell)
                    else:
                        busy.remove(connection)
                if isinstance(row, PolicyError):
                    leave_out(row)
                elif isinstance(row, Exception):
                    raise row from SimulationError(trace)
                else:
                    add(row)


@contextmanager
def _lost_worker() -> Iterator[None]:
    """Raise InfeasibleError if a worker process dies during the block and its connection breaks."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise InfeasibleError(
            "a process of the simulation was ended from outside; memory may have run out",
            hint="use fewer processes with --jobs; with --output, the same command continues "
            "after the runs that are done",
        ) from error


@contextmanager
def _workers(simulate: Callable[[CellT], RowT], count: int) -> Iterator[list[Connection]]:
    """Start worker processes, and kill them at the end of the block. A worker receives cells on its
    connection, and sends a row or an exception for each."""
    processes: list[multiprocessing.Process] = []
    connections: list[Connection] = []
    try:
        # Ctrl-C reaches all processes of a terminal. It waits until the workers can ignore it, and
        # until all of them are in the list.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(count):
                ours, theirs = multiprocessing.Pipe()
                connections.append(ours)
                with theirs:  # no copy here, so that the end of the worker can be seen
                    process = multiprocessing.Process(
                        target=_work, args=(theirs, simulate), daemon=True
                    )
                    process.start()
                processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        yield connections.copy()
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()


def _work(connection: Connection, simulate: Callable[[CellT], RowT]) -> None:
    """Run a worker. ``simulate``, which may be large, is sent once, not with every cell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_policies()
    while True:
        cell = connection.recv()
        try:
            connection.send((simulate(cell), ""))
        except Exception as error:
            connection.send((error, traceback.format_exc()))


def _end_with_parent() -> None:
    """Exit when the parent exits. A parent that was killed cannot end its workers, which would wait
    forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
