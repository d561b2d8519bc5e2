"""Inputs that sites have already: sources of copies that are neither changed nor removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action, CopyFile, RemoveFiles
from wfrun.engine.core.core import Core
from wfrun.engine.model import (
    ORIGIN,
    Catalog,
    File,
    InputSource,
    LinkSpec,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.testing.fake_world import Fails, FakeWorld

ALPHA, BETA = SiteSpec("alpha", 1), SiteSpec("beta", 1)
LARGE = 1 << 30
AT_ALPHA = File("data", LARGE, sources=(InputSource("/data/f", "alpha"),))


def run(
    file: File, *sites: SiteSpec, links: tuple[LinkSpec, ...] = (), tasks: int = 1,
    policy: str = "file-aware", keep: str = "outputs", fails: Fails | None = None,
) -> FakeWorld:  # fmt: skip
    """Tasks that read one file, run to their end."""
    made = [Task(f"t{n}", "x", "x", inputs=(0,), runtime_s=5.0) for n in range(tasks)]
    workflow = Workflow("w", "w.dax", made, [file], [()] * tasks)
    settings = ev.Settings(policy, keep=keep, retries=1)  # type: ignore[arg-type]
    world = FakeWorld([workflow], Catalog(sites, links), settings, fails=fails)
    world.run()
    return world


def copies(world: FakeWorld) -> list[tuple[int, int]]:
    return [(a.source, a.destination) for a in world.actions if isinstance(a, CopyFile)]


def test_the_task_goes_to_the_file_and_reads_a_copy() -> None:
    for sites, site in (((ALPHA, BETA), 0), ((BETA, ALPHA), 1)):
        world = run(AT_ALPHA, *sites)
        assert world.core.state.ended == "done"
        assert copies(world) == [(site, site)]


def test_a_file_of_unknown_size_attracts_its_task() -> None:
    world = run(replace(AT_ALPHA, size_bytes=None, url="/here/data"), BETA, ALPHA)
    assert copies(world) == [(1, 1)]


def test_all_tasks_at_its_site_share_the_copy() -> None:
    world = run(AT_ALPHA, replace(ALPHA, slots=4), tasks=4)
    assert world.core.state.ended == "done"
    assert copies(world) == [(0, 0)]
    assert world.core.state.network.samples == {}


@pytest.mark.parametrize(("bandwidth", "source"), [(1e6, 1), (1e12, ORIGIN)])
def test_another_site_takes_the_nearest(bandwidth: float, source: int) -> None:
    links = (LinkSpec("origin", "beta", bandwidth),)
    file = replace(AT_ALPHA, url="/here/data")
    world = run(file, BETA, ALPHA, links=links, tasks=2, policy="round-robin")
    assert sorted(copies(world)) == sorted([(source, 0), (1, 1)])


def test_what_is_at_sites_alone_is_not_at_this_machine() -> None:
    world = run(AT_ALPHA, BETA, ALPHA, tasks=2, policy="round-robin")
    assert sorted(copies(world)) == [(1, 0), (1, 1)]


def test_sites_of_other_names_do_not_have_it() -> None:
    world = run(replace(AT_ALPHA, url="/here/data"), BETA)
    assert copies(world) == [(ORIGIN, 0)]


def test_cleanup_removes_copies_and_counts_on_the_original() -> None:
    world = run(AT_ALPHA, ALPHA, BETA, tasks=2, policy="round-robin")
    w = world.core.state.workflows[0]
    removed = [a.files for a in world.actions if isinstance(a, RemoveFiles)]
    assert removed == [((0, 0, 0),), ((0, 0, 0),)]
    assert w.present == [0b01]
    assert w.originals == {0: 0b01}
    assert not w.is_stored(0, 0)
    assert not w.lost


@pytest.mark.parametrize("how", ["absent", "infeasible"])
def test_an_original_that_fails_is_left_for_another_place(how: str) -> None:
    def fails(copy: CopyFile) -> str | None:
        return how if copy.source == 0 else None

    world = run(replace(AT_ALPHA, url="/here/data"), ALPHA, fails=fails)  # type: ignore[arg-type]
    assert world.core.state.ended == "done"
    assert copies(world)[-1] == (ORIGIN, 0)
    (said,) = world.core.state.fallbacks
    assert said.startswith("alpha: inputs are copied from elsewhere, because 'data' is not")
    assert not world.core.state.vanished


def test_a_url_that_fails_is_left_for_the_original() -> None:
    def fails(copy: CopyFile) -> str | None:
        return "infeasible" if copy.source == ORIGIN else None

    links = (LinkSpec("origin", "beta", 1e12),)
    world = run(
        replace(AT_ALPHA, url="http://h/f"), BETA, ALPHA, links=links, tasks=2,
        policy="round-robin", fails=fails,  # type: ignore[arg-type]
    )  # fmt: skip
    assert world.core.state.ended == "done"
    assert set(copies(world)) == {(ORIGIN, 0), (1, 0), (1, 1)}


def test_an_original_that_is_the_only_one_is_not_given_up() -> None:
    """It may come back: each attempt asks for it."""
    world = run(AT_ALPHA, ALPHA, fails=lambda copy: "absent")
    w = world.core.state.workflows[0]
    assert world.core.state.ended == "failed"
    assert w.present == [0b01]
    assert len(set(copies(world))) == 1


def with_two_places() -> tuple[Core, Callable[[ev.Event], list[Action]]]:
    """A run at alpha and beta whose task t1 reads a copy of the original at alpha; t2 waits at beta
    for a copy of it."""
    file = replace(AT_ALPHA, url="/here/data")
    tasks = [Task(f"t{n}", "x", "x", inputs=(0,)) for n in range(2)]
    core = Core({"w": Workflow("w", "w.dax", tasks, [file], [(), ()])})

    def step(event: ev.Event) -> list[Action]:
        return core.step(event)[1]

    settings = ev.Settings("round-robin")
    step(ev.RunStarted(0.0, "r", settings, (ALPHA, BETA), (), 1, own_outputs=True))
    step(ev.WorkflowAdded(0.0, 0, "w", "w"))
    step(ev.TransferEnded(1.0, 0, 0, 0, 0, 1, 0.1))
    assert core.state.workflows[0].is_stored(0, 0)
    return core, step


def test_a_copy_in_a_store_stays_when_a_copy_of_it_fails() -> None:
    core, step = with_two_places()
    w = core.state.workflows[0]
    (source,) = {begun[0] for begun in core.state.copy_queue.under_way.values()}
    again = step(ev.TransferFailed(2.0, 0, 0, source, 1, "broken", transient=False))
    assert {a.source for a in again if isinstance(a, CopyFile)} == {ORIGIN if source == 0 else 0}
    assert w.is_stored(0, 0)


def test_an_original_counts_again_when_the_file_is_at_no_other_place() -> None:
    core, _ = with_two_places()
    w = core.state.workflows[0]
    w.present[0], w.originals[0] = 0b01, 0  # Only the copy in the store is left.
    core.step(ev.FilesLost(4.0, 0, ((0, 0),)))
    assert w.present[0] == w.originals[0] == 0b01


@pytest.mark.parametrize(
    "event", [ev.FilesLost(2.0, 0, ((0, 0),)), ev.FilesDiscarded(2.0, 0, ((0, 0),))]
)
def test_an_original_counts_again_beside_other_places_when_its_copy_is_gone(
    event: ev.Event,
) -> None:
    core, _ = with_two_places()
    w = core.state.workflows[0]
    places = w.present[0]
    assert places & core.state.network.bit(ORIGIN)
    assert w.originals == {0: 0}
    core.step(event)
    assert w.present[0] == places
    assert w.originals == {0: 0b01}
    assert not w.is_stored(0, 0)


def test_a_copy_that_vanished_is_made_again_from_the_original() -> None:
    task = Task("t", "x", "x", inputs=(0,))
    core = Core({"w": Workflow("w", "w.dax", [task], [AT_ALPHA], [()])})
    begun = (ev.RunStarted(0.0, "r", ev.Settings(), (ALPHA,), (), 1, own_outputs=True),
             ev.WorkflowAdded(0.0, 0, "w", "w"))  # fmt: skip
    for event in begun:
        core.step(event)
    core.step(ev.TransferEnded(1.0, 0, 0, 0, 0, LARGE, 1.0))
    w = core.state.workflows[0]
    assert w.is_stored(0, 0)
    core.step(ev.FilesLost(2.0, 0, ((0, 0),)))
    assert (w.present, w.originals, w.lost) == ([1], {0: 1}, set())


def test_storage_counts_the_copy() -> None:
    full = replace(ALPHA, storage_bytes=LARGE // 2)
    world = run(AT_ALPHA, full, BETA)
    assert world.core.state.ended == "done"
    assert copies(world) == [(0, 1)]


def test_a_replay_of_the_log_gives_the_same_state() -> None:
    world = run(AT_ALPHA, ALPHA, BETA, tasks=2, policy="round-robin")
    state = world.core.state.workflows[0]
    before = (list(state.present), dict(state.originals), dict(state.digests))
    world.crash()
    state = world.core.state.workflows[0]
    assert (list(state.present), dict(state.originals), dict(state.digests)) == before


def test_stated_checksums_are_those_of_the_content() -> None:
    world = run(replace(AT_ALPHA, url="/here/data", sha256="a" * 64), ALPHA)
    content = world.core.state.workflows[0].content(0)
    assert content.digest == "a" * 64
    assert content.is_stated
    assert content.size_bytes is None
