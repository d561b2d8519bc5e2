"""Selection policies on cases that were worked out by hand from thesis section 5.1.3."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.selection import SELECTION, selection_class
from wfrun.testing.fake_world import FakeWorld


def bag(owner: str, *runtimes_s: float, priority: int = 0, memory_bytes: int = 0) -> Workflow:
    asked = Resources(memory_bytes=memory_bytes)
    tasks = [
        Task(f"t{i}", "app", "x", runtime_s=s, resources=asked) for i, s in enumerate(runtimes_s)
    ]
    return Workflow(owner, "b", tasks, [], [()] * len(tasks), owner=owner, priority=priority)


ONE = Catalog((SiteSpec("one", slots=1),))


def order(
    selection: str, bags: Sequence[Workflow], policy: str = "fpf", catalog: Catalog = ONE
) -> str:
    """The bags in the order of the placements of their tasks, as letters."""
    world = FakeWorld(list(bags), catalog, ev.Settings(policy=policy, selection=selection))
    assert world.run() == "done"
    placed = [e for e in world.log if isinstance(e, ev.AttemptPlaced)]
    return "".join("abcdefg"[e.workflow] for e in placed)


def test_s_t_makes_one_set_of_all_bags() -> None:
    bags = [bag("u", 1, 9), bag("v", 5), bag("u", 7, 2)]
    # fpf keeps the initial order, fplt sorts the whole set: 9, 7, 5, 2, 1
    assert order("s-t", bags) == "aabcc"
    assert order("s-t", bags, "fplt") == "acbca"


def test_s_bot_takes_bags_as_they_arrive() -> None:
    bags = [bag("u", 1, 9), bag("v", 5), bag("u", 7, 2)]
    assert order("s-bot", bags, "fplt") == "aabcc"


def test_s_u_prio_takes_all_of_the_owner_with_the_highest_priority() -> None:
    bags = [bag("u", 1), bag("v", 1, 1, priority=2), bag("w", 1, priority=1), bag("v", 1)]
    # the first placement is decided when the first bag is there alone
    assert order("s-u-prio", bags) == "abbdc"


def test_s_u_t_takes_all_of_the_owner_who_used_least() -> None:
    bags = [bag("u", 4, 1), bag("v", 1), bag("u", 1), bag("v", 1)]
    # u (a) begins; after its two tasks v has used nothing: both of its bags; then u again
    assert order("s-u-t", bags) == "aabdc"


def test_s_u_bot_takes_the_first_bag_of_the_owner_who_used_least() -> None:
    bags = [bag("u", 3), bag("v", 2), bag("u", 1), bag("v", 2)]
    # a: u has used 3; b: v 2; again v (d): 4; then u (c)
    assert order("s-u-bot", bags) == "abdc"


def test_s_u_grr_gives_owners_turns_with_all_their_tasks() -> None:
    bags = [bag("u", 1, 1), bag("v", 1), bag("w", 1, 1), bag("u", 1), bag("v", 1)]
    # bags that come during a turn wait for the next: d is not in the turn of a
    assert order("s-u-grr", bags) == "aabeccd"


def test_s_u_rr_gives_owners_turns_of_one_task() -> None:
    bags = [bag("u", 1, 1, 1), bag("v", 1, 1), bag("w", 1)]
    assert order("s-u-rr", bags) == "abcaba"


def test_what_fits_no_open_site_holds_up_nobody() -> None:
    """Large tasks of the first bag wait for the only site that is large enough."""
    catalog = Catalog(
        (SiteSpec("small", slots=1, memory_bytes=1), SiteSpec("large", slots=1, memory_bytes=9))
    )
    bags = [bag("u", 8, 8, 8, memory_bytes=5), bag("v", 1, 1, 1)]
    world = FakeWorld(bags, catalog, ev.Settings(policy="rr", selection="s-bot", replicas=0))
    assert world.run() == "done"
    ends = {e.key: e.at_s for e in world.log if isinstance(e, ev.AttemptEnded)}
    assert max(s for key, s in ends.items() if key.startswith("w.1.")) <= 3


def test_each_resource_manager_has_a_queue_of_its_own() -> None:
    """A bag stays at the sites of the manager that it was submitted to."""
    catalog = Catalog((SiteSpec("one", slots=1), SiteSpec("two", slots=1)))
    core = Core({"a": bag("u", 1, 1, 1), "b": bag("v", 1)})
    settings = ev.Settings(policy="fpf", selection="s-t")
    core.step(ev.RunStarted(0, "r", settings, catalog.sites, (), -1, ((0,), (1,))))
    first, _ = core.step(ev.WorkflowAdded(0, 0, "a", "a", queue=0))
    second, _ = core.step(ev.WorkflowAdded(0, 1, "b", "b", queue=1))
    assert [(e.workflow, e.site) for e in first if isinstance(e, ev.AttemptPlaced)] == [(0, 0)]
    assert [(e.workflow, e.site) for e in second if isinstance(e, ev.AttemptPlaced)] == [(1, 1)]


def test_a_run_whose_bags_are_still_arriving_does_not_end() -> None:
    core = Core({"a": bag("u")})
    settings = ev.Settings(policy="fpf", selection="s-t")
    core.step(ev.RunStarted(0, "r", settings, ONE.sites, (), -1))
    core.step(ev.WorkflowAdded(0, 0, "a", "a"))
    assert core.state.ended is None
    core.step(ev.SubmissionEnded(5))
    assert core.state.ended == "done"


def test_usage_of_earlier_runs_counts_where_it_was_read() -> None:
    bags = [bag("u", 1), bag("v", 1), bag("w", 1)]
    core = Core({str(i): b for i, b in enumerate(bags)})
    settings = ev.Settings(policy="fpf", selection="s-u-t")
    core.step(ev.RunStarted(0, "r", settings, (SiteSpec("one", 1),), (), 3))
    core.step(ev.SitePaused(0, 0, "closed by the test"))
    core.step(ev.HistoryRead(0, "h", (), {"u": 50.0, "v": 3.0}))
    for number in range(3):
        core.step(ev.WorkflowAdded(0, number, "b", str(number)))
    decided, _ = core.step(ev.SiteReopened(1, 0))
    assert [e.workflow for e in decided if isinstance(e, ev.AttemptPlaced)] == [2]


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InvalidError, match=r"(?s)'s-bots'.*did you mean 's-bot'"):
        selection_class("s-bots")
    assert list(SELECTION) == [
        "s-t", "s-bot", "s-u-prio", "s-u-t", "s-u-bot", "s-u-grr", "s-u-rr", "ethic",
    ]  # fmt: skip
