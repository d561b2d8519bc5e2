"""What owners have used of the sites."""

from __future__ import annotations


class Usage:
    """The resource consumption of one owner: CPU seconds of attempts that have ended, and of those
    that run up to now (thesis section 5.1.3)."""

    __slots__ = ("_began_core_s", "_running_cores", "earlier_s", "past_s")

    def __init__(self, earlier_s: float = 0.0) -> None:
        self.earlier_s = earlier_s
        """In earlier runs."""
        self.past_s = 0.0
        """Of attempts of this run that have ended."""
        self._running_cores = 0
        self._began_core_s = 0.0
        """Sum of cores times start over what runs."""

    def started(self, cores: int, now_s: float) -> None:
        self._running_cores += cores
        self._began_core_s += cores * now_s

    def ended(self, cores: int, started_s: float, now_s: float) -> None:
        self._running_cores -= cores
        self._began_core_s -= cores * started_s
        self.past_s += cores * (now_s - started_s)

    def until(self, now_s: float) -> float:
        return self.earlier_s + self.past_s + self._running_cores * now_s - self._began_core_s


def usage_of(usages: dict[str, Usage], owner: str) -> Usage:
    """That of this owner, from now on one of them."""
    usage = usages.get(owner)
    if usage is None:
        usage = usages[owner] = Usage()
    return usage
