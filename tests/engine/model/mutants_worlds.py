"""Explores worlds of each kind until one breaks a rule: the model's part of
`tests.engine.model.mutants`."""

from __future__ import annotations

import sys

from tests.engine.model.explore import explore
from tests.engine.model.test_model import FOUND
from tests.engine.model.world_of import (
    FIRST_CHANGED_SEED,
    FIRST_CLAIMED_SEED,
    FIRST_LIMITED_SEED,
    FIRST_STEERED_SEED,
    FIRST_VANISHING_SEED,
)


def main(worlds: int) -> int:
    """Returns 1 if a world broke a rule."""
    firsts = (
        0, FIRST_LIMITED_SEED, FIRST_VANISHING_SEED, FIRST_STEERED_SEED, FIRST_CHANGED_SEED,
        FIRST_CLAIMED_SEED,
    )  # fmt: skip
    seeds = [*FOUND, *(first + n for n in range(worlds // len(firsts)) for first in firsts)]
    return int(any(explore(seed).violations for seed in seeds))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
