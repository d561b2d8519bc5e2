"""How much random tests try, so that ``make test`` takes minutes."""

from __future__ import annotations

import os


def examples(most: int) -> int:
    """The number of examples of a random test: a third of ``most``, which the Hypothesis profile
    ``explore`` tries."""
    return most if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else most // 3
