"""Tasks that need no file are dispatched while the files of others move."""

from __future__ import annotations

from tests.runners.harness import Job, User, lines_of, wait_until

CATALOG = """\
sites:
  alpha: {slots: 2, max_transfers: 1}
links:
  - {from: origin, to: alpha, bandwidth: 1 kB/s}
"""


def test_tasks_without_inputs_end_while_a_copy_runs_and_others_wait(user: User) -> None:
    """They are placed at the site whose only place for a copy is taken, which takes minutes."""
    record = user.folder / "record"
    jobs = []
    for number in range(3):
        (user.folder / f"big{number}").write_bytes(bytes(1_000_000))
        jobs.append(Job(f"waits{number}", f"cat big{number}", [f"big{number}"]))
    names = [f"ready{number}" for number in range(6)]
    jobs += [Job(name, f"echo {name} >> {record}") for name in names]
    catalog = user.catalog(CATALOG)
    engine = user.start(user.write(jobs), "--sites", catalog, "--run-dir", "run")
    assert wait_until(lambda: len(lines_of(record)) == len(names) or engine.ended)
    assert sorted(lines_of(record)) == names
    assert wait_until(lambda: "6/9 tasks done" in user.ask("status", "run").out)
    assert "3 staging" in user.ask("status", "run").out
