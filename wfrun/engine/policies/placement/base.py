"""Base class of the placement policies of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from wfrun.engine.fitting.information import Information
from wfrun.engine.policies.placement.scores import Scores
from wfrun.engine.protocols import View


class BasePlacement(ABC):
    """Base class of placement policies: the simplest `Placement`, without options, without an order
    of its own, and without memory."""

    name: ClassVar[str]
    information: ClassVar[Information]
    summary: ClassVar[str]
    options: ClassVar[Mapping[str, int | float | str]] = {}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By option: its possible values, if they are names."""
    binds_late: ClassVar[bool] = False
    replans: ClassVar[bool] = False
    replicas: ClassVar[int] = 0
    throttle: ClassVar[Literal["auto", "none"]] = "none"
    completes_earliest: ClassVar[bool] = False

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        self.view = view

    def order(self) -> Sequence[float] | None:
        return None

    @abstractmethod
    def place(self, task: int) -> int | None:
        """Implements `wfrun.engine.protocols.Placement.place`."""

    def placed(self, task: int, site: int) -> None:  # noqa: B027 - to be overridden at will
        """Called after every placement. Does nothing unless overridden."""

    def scores(self, task: int) -> Scores | None:
        """The scores that ``place`` would compare for this task now; None: the policy has none.
        Changes nothing. Called only to explain a decision, so it may cost more than ``place``."""
        return None


def least(sites: tuple[int, ...], *keys: Callable[[int], float]) -> int:
    """The site with the smallest key. Ties are broken by the next key, finally by the order of the
    catalog."""
    for key in keys:
        if len(sites) == 1:
            break
        values = [key(site) for site in sites]
        smallest = min(values)
        sites = tuple(s for s, v in zip(sites, values, strict=True) if v == smallest)
    return sites[0]
