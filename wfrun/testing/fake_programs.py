"""The programs of malleable jobs in a ``FakeWorld``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.core.actions import ResizeAttempt


class ProgramPlan(NamedTuple):
    """How the program of one attempt behaves."""

    joins_s: float | None = None
    """Seconds from its start until it has joined; None if it never joins, like a rigid job."""
    answer_s: float = 0.1
    """Seconds from a question to its answer."""
    most: int = 1 << 30
    """Maximum number of placeholders that it accepts from an offer."""
    breaks: int = 0
    """Number of the question at which it breaks the protocol; 0 if it never does."""
    leaves: int = 0
    """Number of the question at which it closes its connection instead of answering; 0 if it never
    does."""


class _FakeProgram:
    """The program of an attempt that runs."""

    __slots__ = ("answered", "is_gone", "nodes", "number", "plan")

    def __init__(self, plan: ProgramPlan) -> None:
        self.plan = plan
        self.number = self.answered = 0
        self.nodes: tuple[str, ...] = ()
        self.is_gone = False


class FakePrograms:
    """The programs at one site.

    ``at`` calls a function after some seconds, ``report`` delivers an event about an attempt, and
    ``reclaim`` ends an attempt that breaks the protocol.
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
        """Start the program of an attempt."""
        if plan.joins_s is not None:
            self._at(plan.joins_s, lambda: self._join(key, plan))

    def _join(self, key: str, plan: ProgramPlan) -> None:
        self._programs[key] = _FakeProgram(plan)
        self.report(key)

    def end(self, key: str) -> None:
        """Forget the program of an attempt that has ended."""
        self._programs.pop(key, None)

    def report(self, key: str, failure: str = "") -> None:
        """Report the nodes of the program of an attempt."""
        program = self._programs.get(key)
        if program is not None:
            self._report(
                ev.JobResized(self._now_s(), key, program.answered, program.nodes, program.is_gone,
                              failure)
            )  # fmt: skip

    def resize(self, action: ResizeAttempt) -> None:
        """Ask the program of an attempt to change its size."""
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
