"""``FakeView`` answers every question of ``View``."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.places import ROOT
from wfrun.engine.policies.placement import PLACEMENT, placement_options
from wfrun.engine.protocols import Placement, View
from wfrun.testing import FakeView

DIAMOND = [(), (0,), (0,), (1, 2)]


def diamond() -> FakeView:
    """Task 0 writes file 0 for tasks 1 and 2, which write files 1 and 2 for task 3."""
    return FakeView(
        site_count=3,
        parents=DIAMOND,
        task_inputs={1: (0,), 2: (0,), 3: (1, 2)},
        producers={0: 0, 1: 1, 2: 2},
        sizes_bytes={0: 10**8, 1: 10**8, 2: 2 * 10**8},
    )


def policy_of(name: str, view: View) -> Placement:
    kind = PLACEMENT[name]
    return kind(view, placement_options(kind, {}))


@pytest.mark.parametrize("name", PLACEMENT)
def test_every_placement_policy_can_be_asked_on_it(name: str) -> None:
    view = diamond()
    policy = policy_of(name, view)
    order = policy.order()
    assert order is None or len(order) == view.task_count
    for task in range(view.task_count):
        site = policy.place(task)
        assert site in view.candidates(task)
        policy.placed(task, site)


def test_the_policy_of_the_guide_can_be_asked_on_it() -> None:
    page = (ROOT / "docs/writing-a-policy.md").read_text()
    first = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert first is not None
    names: dict[str, type[Placement]] = {}
    exec(first[1], names)
    policy = names["MostIdle"](FakeView(idle_cores={0: 2, 1: 5}), {})
    assert policy.place(0) == 1


def test_a_policy_sees_facts_that_change_between_two_questions() -> None:
    view = FakeView(speed_ratios={1: 2.0}, idle_cores={0: 4, 1: 1})
    policy = policy_of("cluster-min", view)
    assert policy.place(0) == 1
    view.idle_cores[1] = 0
    assert policy.place(0) == 0


def test_a_full_site_is_no_candidate_and_lacks_room() -> None:
    view = FakeView(site_count=3, allowed_sites={0: (0, 1)}, full_sites={1, 2})
    assert view.candidates(0) == (0,)
    assert view.lacks_room(0, 1)
    assert not view.lacks_room(0, 0)
    assert not view.lacks_room(0, 2)  # it may not go there at all
    assert view.fits_all(0)
    assert not view.fits_all(2)


def test_inputs_come_over_the_fastest_link_one_after_another() -> None:
    view = diamond()
    view.places = {1: (0, 1), 2: (1,)}
    view.link_seconds_per_byte = {(0, 2): 5e-9, (1, 0): 2e-8}
    assert view.transfer_s(3, 2) == pytest.approx(0.5 + 2.0)
    assert view.transfer_s(3, 0) == pytest.approx(4.0)
    assert view.transfer_s(3, 1) == 0.0
    assert view.transfer_s(1, 0) == 0.0  # no place of file 0 is given


def test_the_earliest_completion_counts_wait_and_speed() -> None:
    view = FakeView(task_runtimes_s={0: 10.0}, speed_ratios={1: 2.0}, waits_s={1: 4.0})
    assert view.estimate_completion_s(0, 0, 1.0) == 11.0
    assert view.estimate_completion_s(1, 0, 1.0) == 10.0
    assert view.earliest_completion(0, (0, 1)) == 1
    view.predictions_s[0, 1] = 7.0
    assert view.earliest_completion(0, (0, 1)) == 0
    found = view.predict(0, 1)
    assert found is not None
    assert found.value_s == 7.0
    view.unpredicted.add(0)
    assert view.predict(0, 1) is None


def test_children_follow_from_parents() -> None:
    assert diamond().children == [(1, 2), (3,), (3,), ()]


def test_it_needs_no_pytest() -> None:
    code = "import sys; from wfrun.testing import FakeView; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
