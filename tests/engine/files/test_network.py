"""What copies show of links, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.files.link_samples import WINDOW, LinkSamples, bandwidth_of, latency_of
from wfrun.engine.files.network import Network
from wfrun.engine.model import ORIGIN, File, LinkSpec, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement.file_aware import FileAware, FileAwareR

MB = 1_000_000
LATENCY_S = 0.5


def samples_of(*copies: tuple[float, float, int]) -> LinkSamples:
    """Of copies by their starts, durations and sizes; added in the order of their ends."""
    samples = LinkSamples()
    for begun_s, elapsed_s, size_bytes in sorted(copies, key=lambda c: c[0] + c[1]):
        samples.add(begun_s + elapsed_s, elapsed_s, size_bytes)
    return samples


def small_ones(count: int = 3) -> list[tuple[float, float, int]]:
    return [(number, LATENCY_S, 100) for number in range(count)]


def bandwidth(*copies: tuple[float, float, int]) -> float | None:
    return bandwidth_of(samples_of(*copies).bandwidths())


def test_small_files_show_the_latency_and_large_ones_the_bandwidth() -> None:
    large = [(10.0 * number, LATENCY_S + 2.0, 4 * MB) for number in range(3)]
    samples = samples_of(*small_ones(), *large)
    assert latency_of(samples.latencies()) == LATENCY_S
    assert bandwidth_of(samples.bandwidths()) == pytest.approx(2 * MB)


def test_a_few_copies_show_nothing() -> None:
    assert latency_of(samples_of(*small_ones(2)).latencies()) is None
    assert bandwidth((0, 1, MB), (2, 1, MB)) is None


def test_copies_that_stalled_do_not_count() -> None:
    steady = [(100.0 * number, 1.0, 2 * MB) for number in range(4)]
    stalled = [(1000.0 + 100 * number, 90.0, 2 * MB) for number in range(3)]
    assert bandwidth(*steady, *stalled) == pytest.approx(2 * MB)


@pytest.mark.parametrize("together", [2, 4, 8])
def test_copies_that_share_the_link_show_all_of_it(together: int) -> None:
    shared = [(100.0 * (n // together), 1.0 * together, 2 * MB) for n in range(2 * together)]
    assert bandwidth(*shared) == pytest.approx(2 * MB)


def test_copies_that_overlap_in_part_show_all_of_the_link() -> None:
    """One copy at 2 MB/s, in whose middle two more share the link with it."""
    copies = [(0.0, 6.0, 8 * MB), (2.0, 3.0, 2 * MB), (2.0, 3.0, 2 * MB)]
    shown = [sample.value for sample in samples_of(*copies).bandwidths()]
    assert all(1.5 * MB < value < 3 * MB for value in shown)


def test_short_copies_do_not_hide_the_bandwidth_of_long_ones() -> None:
    short = [(float(number), 0.5, 100_000) for number in range(10)]
    long = [(100.0 * number, 1.0, 50 * MB) for number in range(1, 4)]
    assert bandwidth(*short, *long) == pytest.approx(50 * MB)


def test_a_link_that_has_changed_is_known_after_half_a_window() -> None:
    before = [(10.0 * n, 1.0, 10 * MB) for n in range(WINDOW)]
    after = [(1000.0 + 20 * n, 10.0, 10 * MB) for n in range(WINDOW // 2 + 1)]
    assert bandwidth(*before, *after[:-2]) == pytest.approx(10 * MB)
    assert bandwidth(*before, *after) == pytest.approx(MB)


@pytest.mark.parametrize("elapsed_s", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_no_copy_takes_are_passed_over(elapsed_s: float) -> None:
    samples = samples_of(*[(1.0, elapsed_s, MB), (1.0, elapsed_s, 10)] * WINDOW)
    assert (samples.latencies(), samples.bandwidths()) == ([], [])


def test_files_that_were_not_sent_are_passed_over() -> None:
    assert samples_of(*[(1.0, 1.0, 0)] * WINDOW).latencies() == []


def test_a_copy_that_was_resumed_counts_with_what_it_has_sent() -> None:
    network = Network(["a"], ())
    for sent_bytes, elapsed_s in ((60 * MB, 6.0), (60 * MB, 6.0), (60 * MB, 6.0), (1 * MB, 5.0)):
        copied = ev.TransferEnded(
            100.0, 0, 0, ORIGIN, 0, 100 * MB, elapsed_s, sent_bytes=sent_bytes
        )
        network.observe(copied)
    found = network.samples[ORIGIN, 0].bandwidths()
    assert [sample.size_bytes for sample in found] == [60 * MB] * 3


def test_a_copy_too_short_for_the_clock_is_counted() -> None:
    now_s = 1.7e9
    found = samples_of(*[(now_s, 1e-9, MB)] * 3).bandwidths()
    assert [sample.value for sample in found] == pytest.approx([1e15] * 3)


# In a run


SITES = (SiteSpec("alpha", 4), SiteSpec("beta", 4))
HISTORY = ev.LinkHistory("origin", "alpha", 7e6, 0.25, 12)


def one_file(tasks: int) -> Workflow:
    """Tasks, each with a large and a small input."""
    files = [File(f"{n}-{size}", size_bytes=size) for n in range(tasks) for size in (10 * MB, 10)]
    made = [Task(f"t{n}", "x", "x", inputs=(2 * n, 2 * n + 1), runtime_s=1.0) for n in range(tasks)]
    return Workflow("w", "w.dax", made, files, [()] * tasks)


def begun(policy: str, links: tuple[LinkSpec, ...] = (), history: bool = False) -> list[ev.Event]:
    read = [ev.LinksRead(0.5, "history", (HISTORY,))] if history else []
    started = ev.RunStarted(0.0, "r", ev.Settings(policy), SITES, links, 1, own_outputs=True)
    return [started, *read, ev.WorkflowAdded(1.0, 0, "w", "w")]


def copied(tasks: int, bandwidth: float = MB, latency_s: float = 1.0) -> list[ev.Event]:
    """The inputs arrive at alpha, one after another."""
    found: list[ev.Event] = []
    for task in range(tasks):
        for part, size in ((0, 10 * MB), (1, 10)):
            at_s = 100.0 * (2 * task + part + 1)
            elapsed_s = latency_s + (size / bandwidth if part == 0 else 0.0)
            found.append(ev.TransferEnded(at_s, 0, 2 * task + part, ORIGIN, 0, size, elapsed_s))
    return found


def to_alpha(core: Core) -> tuple[float, float]:
    """Bandwidth and latency from this machine to alpha as decisions assume them."""
    _, seconds_per_byte, latency_s = core.state.network.best_source(1 << len(SITES), 0)
    return 1 / seconds_per_byte, latency_s


def after(events: Sequence[ev.Event]) -> Core:
    core = Core({"w": one_file(5)})
    for event in events:
        core.step(event)
    return core


CATALOG = (LinkSpec("origin", "alpha", 3e6, 0.125),)


def test_the_order_of_belief() -> None:
    runtime, known = FileAwareR.name, FileAware.name
    assert to_alpha(after(begun(runtime))) == (100e6, 0.0)
    assert to_alpha(after(begun(runtime, CATALOG))) == pytest.approx((3e6, 0.125))
    assert to_alpha(after(begun(runtime, CATALOG, history=True))) == pytest.approx((7e6, 0.25))
    few, enough = copied(2), copied(3)
    read = begun(runtime, CATALOG, history=True)
    assert to_alpha(after([*read, *few])) == pytest.approx((7e6, 0.25))
    assert to_alpha(after([*read, *enough])) == pytest.approx((MB, 1.0))
    read = begun(known, CATALOG, history=True)
    assert to_alpha(after([*read, *enough])) == pytest.approx((7e6, 0.25))


@pytest.mark.parametrize("policy", [FileAware.name, FileAwareR.name])
def test_a_replay_and_a_change_of_the_run_keep_what_was_learned(policy: str) -> None:
    events = [*begun(policy, CATALOG, history=True), *copied(3)]
    live = after(events)
    replayed = Core({"w": one_file(5)})
    replayed.replay(events)
    assert to_alpha(replayed) == to_alpha(live)
    before = to_alpha(live)
    more = (*SITES, SiteSpec("gamma", 4))
    live.step(ev.RunChanged(900.0, ev.Settings(policy), more, CATALOG))
    _, seconds_per_byte, latency_s = live.state.network.best_source(1 << len(more), 0)
    assert (1 / seconds_per_byte, latency_s) == pytest.approx(before)


def sites_of_tasks(policy: str, elapsed_s: float) -> list[int]:
    """Four tasks, one after another, whose inputs are as large; copies take this long. The sites
    are empty, so the cheapest transfer decides."""
    tasks = [Task(f"t{n}", "x", "x", inputs=(n,), runtime_s=1.0) for n in range(5)]
    files = [File(f"f{n}", size_bytes=10 * MB) for n in range(5)]
    core = Core({"w": Workflow("w", "w.dax", tasks, files, [(), (0,), (1,), (2,), (3,)])})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy), SITES, CATALOGUED, 1, own_outputs=True))
    decisions, _ = core.step(ev.WorkflowAdded(0, 0, "w", "w"))
    sites: list[int] = []
    for number in range(5):
        (placed,) = [event for event in decisions if isinstance(event, ev.AttemptPlaced)]
        sites.append(placed.site)
        at_s = 100.0 * (number + 1)
        core.step(ev.TransferEnded(at_s, 0, number, ORIGIN, placed.site, 10 * MB, elapsed_s))
        core.step(ev.AttemptsSubmitted(at_s, placed.site, (placed.key,)))
        core.step(ev.AttemptStarted(at_s, placed.key))
        outcome = Outcome("done", 0, started_s=at_s, ended_s=at_s + 1)
        decisions, _ = core.step(ev.AttemptEnded(at_s + 1, placed.key, outcome))
    return sites


CATALOGUED = (LinkSpec("origin", "alpha", 10e6), LinkSpec("origin", "beta", 5e6))


def test_tasks_leave_a_site_whose_link_proves_slow() -> None:
    assert sites_of_tasks(FileAwareR.name, elapsed_s=1.0) == [0] * 5
    assert sites_of_tasks(FileAwareR.name, elapsed_s=10.0) == [0, 0, 0, 1, 1]
    assert sites_of_tasks(FileAware.name, elapsed_s=10.0) == [0] * 5  # knows the catalog alone


def test_unknown_sites_of_a_history_are_passed_over() -> None:
    network = Network(["alpha"], [])
    network.believe([ev.LinkHistory("gone", "alpha", 1.0, 1.0, 9)])
    assert network.best_source(0b10, 0) == (ORIGIN, 1e-8, 0.0)
