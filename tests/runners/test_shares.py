"""``wfrun shares``: what each owner of a run holds and has got."""

from __future__ import annotations

import json
from math import isclose
from random import Random

import pytest

from tests.runners.harness import User, wait_until
from tests.runners.run.additions.test_additions import bag, begin
from tests.runners.run.resumes.test_interrupt import go
from wfrun.runners.metrics.shares import time_slices
from wfrun.runners.metrics.workflows import TaskTiming


def attempt(start_s: float, end_s: float, cores: int, done: bool) -> TaskTiming:
    return TaskTiming(0, 0, 0, cores, start_s, start_s, start_s, start_s, end_s, done)


@pytest.mark.parametrize("seed", range(5))
def test_slices_agree_with_a_count_of_moments(seed: int) -> None:
    """Whole seconds, so that each second has one value."""
    random = Random(seed)
    own: list[list[TaskTiming]] = []
    for _ in range(3):
        starts = [random.randrange(100, 180) for _ in range(20)]
        own.append(
            [
                attempt(
                    s, s + random.randrange(1, 30), random.randrange(1, 4), random.random() < 0.7
                )
                for s in starts
            ]
        )
    end_s = max(a.end_s for attempts in own for a in attempts)
    end_s = 100 + -(-(end_s - 100) // 7) * 7
    found = list(time_slices(own, 100.0, end_s, 7))
    width = int(end_s - 100) // 7
    for number, part in enumerate(found):
        seconds = range(100 + number * width, 100 + (number + 1) * width)
        for owner, attempts in enumerate(own):
            held = sum(a.cores for a in attempts for s in seconds if a.start_s <= s < a.end_s)
            assert isclose(part.mean_cores[owner], held / width, abs_tol=1e-9)
    for owner, attempts in enumerate(own):
        assert sum(part.done[owner] for part in found) == sum(a.done for a in attempts)


def test_a_run_that_goes_on_and_the_same_run_after_its_end(user: User) -> None:
    catalog = user.catalog("sites:\n  alpha: {slots: 1}\n  beta: {slots: 1}\n")
    ann, bea = bag(user, "a", 3, owner="ann"), bag(user, "b", 2, owner="bea")
    engine = begin(user, ann, bea, "--sites", catalog, "--selection", "s-u-rr")

    def held() -> int:
        shares = json.loads(user.ask("shares", "run", "--json").out)
        return sum(owner["cores"] for owner in shares["owners"])

    assert wait_until(lambda: held() == 2)
    shares = json.loads(user.ask("shares", "run", "--json").out)
    assert shares["state"] == "running"
    assert {site for owner in shares["owners"] for site in owner["cores_at"]} == {"alpha", "beta"}
    go(user)
    assert engine.done().status == 0
    shares = json.loads(user.ask("shares", "run", "--slices", "4", "--json").out)
    first, second = shares["owners"]
    assert (first["owner"], first["tasks"], first["done"], first["cores"]) == ("ann", 3, 3, 0)
    assert (second["owner"], second["tasks"], second["done"]) == ("bea", 2, 2)
    assert isclose(first["share"] + second["share"], 1.0)
    assert len(shares["slices"]) == 4
    assert sum(part["done"][0] for part in shares["slices"]) == 3
    text = user.ask("shares", "run").out
    assert "ann" in text
    assert "cores held (tasks done)" in text
