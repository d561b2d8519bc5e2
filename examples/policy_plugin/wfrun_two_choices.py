"""Two choices: a placement policy of a third party for wfrun."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import ClassVar

from wfrun.engine.fitting.information import Information, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.protocols import View


class TwoChoices(BasePlacement):
    """Draws a few sites for each task and takes the least loaded of them.

    Source: M. Mitzenmacher, "The power of two choices in randomized load balancing", IEEE
    Transactions on Parallel and Distributed Systems 12(10), 2001: two choices balance almost as
    well as asking everybody. Ties go to the first in the catalog.
    """

    name = "two-choices"
    information = Information(status=R)
    summary = "each task to the least loaded of a few sites drawn at random"
    options: ClassVar[Mapping[str, int | float | str]] = {"choices": 2}

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._choices = max(1, int(options["choices"]))
        self._seed = view.random().getrandbits(64)

    def place(self, task: int) -> int | None:
        # A generator for each task: a resumed run draws what the first one would have drawn.
        draw = Random(f"{self._seed}/{task}")
        sites = self.view.candidates(task)
        drawn = draw.sample(sites, min(self._choices, len(sites)))
        return least(tuple(sorted(drawn)), self.view.load)
