"""Outcomes in a CSV file, and the processes that make them."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.runners.study.workflows import Case, Outcome, run_case

_FIELDS = Outcome.__struct_fields__


class Outcomes:
    """A line for each case as soon as it is done, so that a study that was interrupted goes on
    where it was.

    Raises InvalidError for a file that holds something else, InfeasibleError where it can't be
    written. A last line that was cut off is made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Outcome] = []
        try:
            text = path.read_text() if path.exists() else ""
            whole = text[: text.rfind("\n") + 1]
            self.rows = _parse(whole, path)
            if whole != text or not whole:
                path.write_text(whole or ",".join(_FIELDS) + "\n")
        except OSError as error:
            raise _unwritable(path, error) from error

    def missing(self, cases: Iterable[Case]) -> list[Case]:
        """Those that no line is of."""
        have = {row.case for row in self.rows}
        return [case for case in cases if case not in have]

    def of(self, cases: Iterable[Case]) -> list[Outcome]:
        """The lines of these cases."""
        wanted = set(cases)
        return [row for row in self.rows if row.case in wanted]

    def add(self, row: Outcome) -> None:
        self.rows.append(row)
        try:
            with self._path.open("a", newline="") as stream:
                values = msgspec.structs.asdict(row).values()
                csv.writer(stream, lineterminator="\n").writerow(values)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def _unwritable(path: Path, error: OSError) -> InfeasibleError:
    return InfeasibleError(
        f"the results can't be kept: {error.strerror}",
        source=str(path),
        hint="name a folder that can be written with --output",
    )


def _parse(text: str, path: Path) -> list[Outcome]:
    rows = []
    for number, record in enumerate(csv.DictReader(text.splitlines()), start=2):
        values = {k: (v or None) for k, v in record.items() if k is not None}
        try:
            rows.append(msgspec.convert(values, Outcome, strict=False))
        except msgspec.ValidationError as error:
            raise InvalidError(
                f"not a line of this study's results: {error}",
                source=str(path),
                line=number,
                hint="name another folder with --output, or remove this file",
            ) from error
    return rows


def run_cases(
    cases: Sequence[Case],
    outcomes: Outcomes,
    corpus: Path | None,
    processes: int | None,
    progress: Callable[[int, int], None],
) -> None:
    """Simulate the cases that ``outcomes`` does not have, in so many processes (by default one for
    each core). ``progress`` is told (done, all)."""
    missing = outcomes.missing(cases)
    done = len(cases) - len(missing)
    progress(done, len(cases))
    count = min(processes or len(os.sched_getaffinity(0)), len(missing))
    if count <= 1:
        for case in missing:
            outcomes.add(run_case(case, corpus))
            done += 1
            progress(done, len(cases))
        return
    with ProcessPoolExecutor(count, initializer=_leave_interrupts) as pool:
        try:
            futures = [pool.submit(run_case, case, corpus) for case in missing]
            for future in as_completed(futures):
                outcomes.add(future.result())
                done += 1
                progress(done, len(cases))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts() -> None:
    """In a worker: Ctrl-C is the parent's business."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
