"""What has to hold when a run under faults is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from tests.integration.clusters import Grid, RecordedRun
from tests.runners.harness import lines_of, wait_until
from tests.runners.replicated import attempts_of, counted, first_done
from tests.soak.work import PATTERN_BYTES, Work
from wfrun.engine import events as ev

LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""

QUIET_PATIENCE_S = 150.0
"""A new daemon of Grid Engine sees the end of jobs that it did not start a minute late."""


def audit(grid: Grid, work: Work) -> None:
    """Raise AssertionError unless the run did each task once, and nothing is left of it."""
    check_recorded(grid, has_replicas=work.has_replicas)
    grid.check_quiet(QUIET_PATIENCE_S)
    assert wait_until(lambda: not listeners(grid)), f"ports are open: {listeners(grid)}"


def check_recorded(run: RecordedRun, *, has_replicas: bool = False) -> None:
    """Compare the log of a run with what its tasks recorded themselves, and with its outputs."""
    events = run.events()
    _check_log(run, events)
    check_record(run, events, has_replicas=has_replicas)
    _check_outputs(run)


def _check_log(run: RecordedRun, events: list[ev.Event]) -> None:
    """The log says that each task was done once, after those that it depends on."""
    state = run.state()
    assert state.ended == "done"
    assert state.done == len(run.jobs)
    first = first_done(run.run)  # Nothing is placed after it was done.
    numbers = list(range(len(run.jobs)))
    assert sorted(first) == numbers
    assert Counter(int(key.split(".")[2]) for key in counted(run.run)) == Counter(numbers)
    placed = [one.key for attempts in attempts_of(run.run).values() for one in attempts]
    assert len(set(placed)) == len(placed), "a key was placed twice"
    producers = {job.id: number for number, job in enumerate(run.jobs)}
    done: set[int] = set()
    for event in events:
        if isinstance(event, ev.AttemptPlaced):
            parents = {producers[Path(name).stem] for name in run.jobs[event.task].inputs}
            assert parents <= done, f"{event.key} was placed before {parents - done} were done"
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            done.add(int(event.key.split(".")[2]))


def check_record(run: RecordedRun, events: list[ev.Event], *, has_replicas: bool = False) -> None:
    """What the tasks wrote themselves: no attempt began twice, and no two ran at the same time
    unless they are replicas; what was committed ran to its end."""
    begun: defaultdict[str, list[str]] = defaultdict(list)
    done: Counter[str] = Counter()
    for line in lines_of(run.record):
        what, task, attempt = line.split(":")
        if what == "begin":
            begun[task].append(attempt)
        else:
            is_last = attempt == begun[task][-1]
            assert is_last or has_replicas, f"{attempt} ran beside {begun[task][-1]}"
            done[attempt] += 1
    for attempts in begun.values():
        assert len(set(attempts)) == len(attempts), f"an attempt began twice: {attempts}"
    assert set(begun) == {job.id for job in run.jobs}
    assert set(done.values()) == {1}
    committed = set(counted(run.run))
    assert committed <= set(done), f"committed and not done: {committed - set(done)}"
    if not has_replicas:
        assert committed == {attempts[-1] for attempts in begun.values()}
    known = {e.key for e in events if isinstance(e, ev.AttemptPlaced)}
    strangers = {one for attempts in begun.values() for one in attempts} - known
    assert not strangers, f"not in the log: {strangers}"


def _check_outputs(run: RecordedRun) -> None:
    names = {name for job in run.jobs for name in job.collect}
    found = {path.name: path for path in (run.run / "outputs").iterdir()}
    assert names <= set(found), f"outputs are missing: {names - set(found)}"
    for name, path in found.items():
        stem = path.stem
        if path.suffix == ".bin":
            line = f"{stem}\n".encode()
            expected = (line * (PATTERN_BYTES // len(line) + 1))[:PATTERN_BYTES]
            assert path.read_bytes() == expected, name
        else:
            assert path.read_text().split() == run.contents(stem), name


def listeners(grid: Grid) -> list[str]:
    """Local addresses on which processes of the sites' users listen."""
    users = {str(uid) for uid in map(grid.uid, grid.sites)}
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows = [row.split() for row in Path(table).read_text().splitlines()[1:]]
        found += [row[1] for row in rows if row[3] == LISTENING and row[7] in users]
    return found
