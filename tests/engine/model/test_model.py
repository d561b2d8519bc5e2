"""The rules hold in random worlds. The soak is ``python -m tests.engine.model --seeds 0-9999``."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.draw import commit
from tests.engine.model.explore import RULES, explore
from tests.engine.model.mutants import ENGINE, MUTANTS, Mutant
from tests.engine.model.world_of import (
    FIRST_CHANGED_SEED,
    FIRST_CLAIMED_SEED,
    FIRST_LIMITED_SEED,
    FIRST_STEERED_SEED,
    FIRST_VANISHING_SEED,
    world_of,
)

pytestmark = pytest.mark.always
CHUNK = 25
FRESH = 300
"""Number of worlds whose seeds are drawn from the commit."""

FOUND = (
    1, 8, 76, 86, 104, 115, 137, 187, 357, 541, 600, 692, 723, 828, 1845, 2143, 2334, 2658, 3338,
    3835, 9732, 30080, 30265, 40205, 40332, 700082, 703279, 704858, 705783, 708954, 709405, 51408,
    51627, 703578, 709692, 702766, 703938, 700392, 700084, 700651, 700887, 701667, 704684, 704948,
    709182, 50199, 50587, 50676, 51044, 40121, 50899, 703923, 704028, 712203, 40281, 721631, 702786,
    709082, 54343, 1000025, 1000041, 1000053, 1000097, 1000116, 1000236, 1000268, 1000297, 1000590,
    1001384, 1001509, 1002041, 1003587, 1008063, 1011978, 1012067, 1014784, 1016841, 1019197,
    18312106, 18312344, 18313172, 18314515, 149200757, 2000000000, 2000000012, 2000000019,
    2000000036, 2000000056, 2000000113, 2000000251, 2000000504, 2222577639,
    2913343525,
)  # fmt: skip
"""Seeds of worlds that have shown a defect of the core."""


def first_quick(numbers: range) -> list[Any]:
    """The first two of the numbers, and the rest as parameters of slow tests."""
    return [*numbers[:2], *(pytest.param(n, marks=pytest.mark.slow) for n in numbers[2:])]


@pytest.mark.parametrize("first", first_quick(range(0, 300, CHUNK)))
def test_every_rule_holds_in_random_worlds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
def test_every_rule_holds_in_worlds_with_storage_limits() -> None:
    for seed in range(FIRST_LIMITED_SEED, FIRST_LIMITED_SEED + CHUNK):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
def test_every_rule_holds_in_worlds_with_requests_of_the_user() -> None:
    for seed in range(FIRST_STEERED_SEED, FIRST_STEERED_SEED + CHUNK):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
def test_every_rule_holds_in_worlds_where_files_vanish() -> None:
    for seed in range(FIRST_VANISHING_SEED, FIRST_VANISHING_SEED + 15):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
def test_every_rule_holds_in_worlds_that_their_user_changes() -> None:
    """And in those with parallel jobs, reused tasks, several sources and each cause of failed
    copies."""
    for seed in range(FIRST_CHANGED_SEED, FIRST_CHANGED_SEED + CHUNK):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", first_quick(range(6)))
def test_every_rule_holds_in_worlds_with_claims(part: int) -> None:
    first = FIRST_CLAIMED_SEED + part * CHUNK
    for seed in range(first, first + CHUNK):
        _check(seed, twice=seed % 10 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FOUND)
def test_every_rule_holds_where_one_was_broken(seed: int) -> None:
    _check(seed)


def fresh_seeds() -> list[int]:
    """Seeds that are others for each commit: each looks at worlds which nobody has seen.
    Without git they are always the same."""
    return Random(f"fresh {commit()}").sample(range(1_000_000, 1_000_000_000), FRESH)


@pytest.mark.slow
@pytest.mark.parametrize("part", first_quick(range(FRESH // CHUNK)))
def test_every_rule_holds_in_fresh_worlds(part: int) -> None:
    """A world that breaks is mended, and its seed is kept in ``FOUND``."""
    seeds = fresh_seeds()[part * CHUNK : (part + 1) * CHUNK]
    for seed in (*seeds, *(FIRST_CLAIMED_SEED + seed for seed in seeds[:5])):
        _check(seed)


def _check(seed: int, *, twice: bool = False) -> None:
    broken = explore(seed, twice=twice).violations
    if broken:
        lines = [f"{v.rule} ({RULES[v.rule]})\n  {v.message}" for v in broken]
        command = f"python -m tests.engine.model --seed {seed} --trace"
        pytest.fail("\n".join([*lines, command, world_of(seed).describe()]))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_applies(mutant: Mutant) -> None:
    """The code that it changes is still there."""
    assert (ENGINE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
