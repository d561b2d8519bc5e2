"""The programs of malleable jobs in a ``FakeWorld``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.core.actions import ResizeAttempt


class ProgramPlan(NamedTuple):
    """Behaviour of the program of one attempt."""

    joins_s: float | None = None
    """Seconds from the start of the attempt until the program joins; None if it never joins, like
    the program of a rigid job."""
    answer_s: float = 0.1
    """Seconds from a request to resize the program until its answer."""
    most: int = 1 << 30
    """Maximum number of placeholders that the program accepts from an offer."""
    breaks: int = 0
    """Number of the request at which the program breaks the protocol; 0 if it never does."""
    leaves: int = 0
    """Number of the request at which the program closes its connection instead of answering; 0 if
    it never does."""


class _FakeProgram:
    """The program of a running attempt."""

    __slots__ = ("answered", "is_gone", "nodes", "number", "plan")

    def __init__(self, plan: ProgramPlan) -> None:
        self.plan = plan
        self.number = self.answered = 0
        self.nodes: tuple[str, ...] = ()
        self.is_gone = False


class FakePrograms:
    """The programs at one site.

    ``at`` calls a function after a number of seconds. ``report`` delivers an event about an
    attempt. ``reclaim`` ends an attempt whose program breaks the protocol.
    """

    def __init__(
        self,
        at: Callable[[float, Callable[[], None]], None],
        report: Callable[[ev.JobResized], None],
        reclaim: Callable[[str], None],
        now_s: Callable[[], float],
    ) -> None:
        self._at = at
        self._report = report
        self._reclaim = reclaim
        self._now_s = now_s
        self._programs: dict[str, _FakeProgram] = {}

    def start(self, key: str, plan: ProgramPlan) -> None:
        """Start the program of an attempt. It joins after ``plan.joins_s`` seconds, or never."""
        if plan.joins_s is not None:
            self._at(plan.joins_s, lambda: self._join(key, plan))

    def _join(self, key: str, plan: ProgramPlan) -> None:
        self._programs[key] = _FakeProgram(plan)
        self.report(key)

    def end(self, key: str) -> None:
        """Forget the program of an attempt that has ended."""
        self._programs.pop(key, None)

    def report(self, key: str, failure: str = "") -> None:
        """Report the nodes that the program of an attempt has. ``failure`` says why the attempt
        will be ended; empty: it goes on."""
        program = self._programs.get(key)
        if program is not None:
            self._report(
                ev.JobResized(self._now_s(), key, program.answered, program.nodes, program.is_gone,
                              failure)
            )  # fmt: skip

    def resize(self, action: ResizeAttempt) -> None:
        """Ask the program of an attempt to change its size. A request that was answered before is
        answered again."""
        program = self._programs.get(action.key)
        if program is None:
            return
        if action.number > program.number:
            program.number = action.number
            self._at(program.plan.answer_s, lambda: self._answer(action, program))
        elif program.answered == program.number:
            self.report(action.key)

    def _answer(self, action: ResizeAttempt, program: _FakeProgram) -> None:
        key, number, plan = action.key, action.number, program.plan
        if self._programs.get(key) is not program:
            return
        program.is_gone = program.is_gone or number == plan.leaves
        if number == plan.breaks or (program.is_gone and action.shrink):
            self.report(key, "the program broke the protocol")
            self._reclaim(key)
            return
        if not program.is_gone and action.nodes:
            offered = tuple(node.launcher for node in action.nodes)
            program.nodes += offered[: plan.most]
        elif action.shrink:
            program.nodes = program.nodes[: max(0, len(program.nodes) - action.shrink)]
        program.answered = number
        self.report(key)
