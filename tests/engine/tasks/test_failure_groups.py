"""Failures in groups: what differs between them is left out, tasks and attempts are counted
apart."""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, SiteSpec, Task, Workflow
from wfrun.engine.tasks.failures import MAX_GROUPS, MAX_HOSTS, Failure, FailureGroups
from wfrun.testing.fake_world import FakeWorld


def add(groups: FailureGroups, message: str, *, final: bool = True, code: int = 1) -> None:
    outcome = Outcome("exit", exit_code=code, message=message)
    groups.add(Failure("t", "alpha", "r.0.0.1", "exit", message, final), outcome)


def said(line: str) -> str:
    return f"ended with exit code 1; the end of its stderr:\nreading\n{line}"


def test_names_paths_and_numbers_do_not_tell_failures_apart() -> None:
    groups = FailureGroups()
    for name in ("a1", "b2", "c3"):
        add(groups, said(f"Error: no such survey '{name}' in /data/{name}.db at byte {len(name)}"))
    add(groups, said("Error: no memory"))
    first, second = groups.largest_first()
    assert (first.head, first.tasks) == ("exit 1", 3)
    assert first.text == "Error: no such survey '…' in … at byte …"
    assert (second.text, second.tasks) == ("Error: no memory", 1)


def test_rules_around_a_message_are_not_shown_for_it() -> None:
    """mpirun prints its errors between two of them."""
    groups = FailureGroups()
    rule = "-" * 74
    add(groups, said(f"{rule}\nmpirun noticed that process rank 2 exited on signal 11.\n{rule}"))
    text = groups.largest_first()[0].text
    assert text == "mpirun noticed that process rank 2 exited on signal 11."


def test_equal_messages_are_shown_as_they_are() -> None:
    groups = FailureGroups()
    for _ in range(2):
        add(groups, said("Error: no such survey 'x'"))
    assert groups.largest_first()[0].text == "Error: no such survey 'x'"


def test_advice_is_not_shown_for_the_cause() -> None:
    groups = FailureGroups()
    add(groups, "input 'm' did not arrive at beta: no space\n  Make room there.")
    assert groups.largest_first()[0].text == "input 'm' did not arrive at beta: no space"


def test_exit_codes_tell_failures_apart() -> None:
    groups = FailureGroups()
    for code in (1, 2, 2):
        add(groups, "ended with exit code", code=code)
    assert [(g.head, g.attempts) for g in groups.largest_first()] == [("exit 2", 2), ("exit 1", 1)]


def test_the_number_of_groups_is_bounded() -> None:
    groups = FailureGroups()
    for number in range(2 * MAX_GROUPS):
        add(groups, "", code=number)
    found = groups.largest_first()
    assert len(found) == MAX_GROUPS + 1
    assert (found[0].head, found[0].tasks) == ("other causes", MAX_GROUPS)


def test_sites_and_hosts_are_counted_within_bounds() -> None:
    groups = FailureGroups()
    for number in range(MAX_HOSTS + 10):
        outcome = Outcome("exit", exit_code=1, host=f"n{number}", message="")
        groups.add(Failure("t", "alpha", "r.0.0.1", "exit", "", True), outcome)
    groups.add(Failure("t", "beta", "r.0.0.1", "exit", "", True), outcome)
    (group,) = groups.largest_first()
    assert group.sites == {"alpha": MAX_HOSTS + 10, "beta": 1}
    assert len(group.hosts) == MAX_HOSTS


def test_tasks_and_attempts_of_a_run_are_counted_apart() -> None:
    """Also after a resume, which retries the failed tasks."""
    workflow = Workflow("w", "w.dax", [Task(f"t{n}", "x", "x") for n in range(3)], [], [()] * 3)
    settings = ev.Settings("round-robin", retries=1)
    catalog = Catalog((SiteSpec("alpha", 2),))
    bad = Outcome("exit", exit_code=1, message=said("Error: 'x'"))
    world = FakeWorld([workflow], catalog, settings, result=lambda key, w, task: bad)
    assert world.run() == "failed"
    (group,) = world.core.state.failure_groups.largest_first()
    assert (group.tasks, group.attempts, group.first.task) == (3, 6, "t0")
    world.crash()
    assert world.run() == "failed"
    (group,) = world.core.state.failure_groups.largest_first()
    assert (group.tasks, group.attempts) == (3, 6)
