"""The scores of placement policies explain their choices."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.engine.policies.test_policies import bag, places, sites
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.policies.placement import PLACEMENT, placement_options
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import rank
from wfrun.testing import FakeView
from wfrun.testing.fake_world import FakeWorld

EPOCH_S = 1.7e9
"""A time of a real run: sums with it are rounded to a quarter of a microsecond."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACEMENT)
@hypothesis_settings(max_examples=10, deadline=None)
@given(
    several=st.lists(workflows(max_tasks=12), min_size=1, max_size=3),
    catalog=catalogs(),
    settings=settings_of_runs(),
    seed=st.integers(0, 2**32),
)
def test_every_task_goes_to_the_site_with_the_best_scores(
    name: str, several: list[Workflow], catalog: Catalog, settings: ev.Settings, seed: int
) -> None:
    policy = PLACEMENT[name]
    assert issubclass(policy, BasePlacement)
    place, decisions = policy.place, 0

    def checked(self: BasePlacement, task: int) -> int | None:
        nonlocal decisions
        scores = self.scores(task)
        assert scores is not None
        assert tuple(row.site for row in scores.rows) == self.view.candidates(task)
        chosen = place(self, task)
        assert scores.best == chosen
        assert self.scores(task) == scores, "neither of the two changes anything"
        decisions += 1
        return chosen

    def result(key: str, workflow: int, task: int) -> Outcome:
        if Random(f"{seed}/{key}").random() < 0.1:
            return Outcome("exit", exit_code=1)
        w = several[workflow]
        sizes = tuple(w.files[file].size_bytes for file in w.tasks[task].outputs)
        return Outcome("done", exit_code=0, sizes=sizes)

    settings = msgspec.structs.replace(settings, policy=name, policy_options={})
    random = Random(seed)
    with patch.object(policy, "place", checked):
        world = FakeWorld(
            several, catalog, settings,
            result=result, runtime_s=lambda *_: random.choice([0.1, 0.7, 10.0, 60.3]),
            arrive_s=[EPOCH_S] * len(several),
        )  # fmt: skip
        world.run()
    assert decisions


@pytest.mark.parametrize("name", sorted(set(PLACEMENT) - {"random"}))
def test_the_best_row_has_the_smallest_rank_and_ties_go_to_the_first(name: str) -> None:
    policy = PLACEMENT[name](FakeView(site_count=3), placement_options(PLACEMENT[name], {}))
    assert isinstance(policy, BasePlacement)
    scores = policy.scores(0)
    assert scores is not None
    assert any(column.prefers for column in scores.columns)
    ranks = [rank(scores.columns, row) for row in scores.rows]
    assert scores.best == ranks.index(min(ranks)) == 0


def test_a_difference_that_a_date_would_round_away_decides_alike() -> None:
    """The run time at the second site is shorter by 10 ns."""
    world = FakeWorld([bag(1, 1.0)], sites((1, 1.0), (1, 1.00000001)), ev.Settings("ect"),
                      arrive_s=[EPOCH_S])  # fmt: skip
    assert world.run() == "done"
    assert list(places(world).values()) == [1]
