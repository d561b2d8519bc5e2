"""Twins of the core of a world: cores that begin at some step, from the log, from a checkpoint, or
from a checkpoint and the log after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.model import Workflow
from wfrun.runners.run.store.frozen import freeze, thaw
from wfrun.testing.fake_world import FakeWorld

FIRST_STEPS = 60
"""Maximum number of steps of an engine before its first twin. The distances grow with the number of
steps, so that the cost of all twins is proportional to that of the run."""


class Twins:
    """Makes a twin of the core at random steps of each engine, and compares its decisions until the
    next one takes its place."""

    def __init__(
        self, seed: int, documents: Mapping[str, Workflow], world: FakeWorld, settings: ev.Settings
    ) -> None:
        self._random = Random(f"twins {seed}")
        self._documents, self._world = documents, world
        # An engine remembers the offers for which it moves jobs; a later one chooses their sizes
        # anew.
        self._is_made = settings.sizing is None or settings.reallocate is None
        self._twin: Core | None = None
        self._frozen: tuple[bytes, int] | None = None
        """A frozen core, and the number of events before it."""
        self._twin_after = self._freeze_after = 0
        """Number of steps of the engine before the next twin, and before the checkpoint that it may
        begin with."""

    def crashed(self) -> None:
        """The engine has died. A checkpoint of what was not durable is of no use."""
        if self._frozen is not None and self._frozen[1] > len(self._world.log):
            self._frozen = None

    def begin(self) -> None:
        """An engine begins. It has a twin from its first step on if there is a checkpoint of the
        engine before it."""
        has_twin = self._frozen is not None and self._is_made
        self._twin = self._from_checkpoint() if has_twin else None
        self._draw(0)

    def _draw(self, lived: int) -> None:
        """Choose the step of the next twin."""
        self._twin_after = lived + self._random.randint(1, FIRST_STEPS + 2 * lived)
        at = self._random.random() * 1.5  # a third are made by a replay of the whole log
        self._freeze_after = lived + int(at * (self._twin_after - lived))

    def stepped(self, lived: int) -> None:
        """Make a twin if one is due. ``lived`` is the number of steps of the engine."""
        if not self._is_made:
            return
        if lived == self._freeze_after:
            self._frozen = freeze(self._world.core), len(self._world.log)
        if lived == self._twin_after:
            if self._frozen is None:
                self._twin = Core(self._documents)
                self._twin.replay(self._world.log)
            else:
                self._twin = self._from_checkpoint()
            self._draw(lived)

    def _from_checkpoint(self) -> Core:
        assert self._frozen is not None
        frozen, seen = self._frozen
        self._frozen = None
        twin = thaw(frozen, self._documents)
        twin.replay(self._world.log[seen:])
        return twin

    def difference(
        self, event: ev.Event, decided: Sequence[ev.Event], actions: Sequence[act.Action]
    ) -> str:
        """Let the twin take a step that its world took. Returns what it does otherwise; empty:
        nothing."""
        if self._twin is None:
            return ""
        expected = list(decided), _but_reminders(actions)
        took, wanted = self._twin.step(event)
        if (took, _but_reminders(wanted)) == expected:
            return ""
        self._twin = None
        return f"after {event}:\nlived    {expected}\nreplayed {took, wanted}"


def _but_reminders(actions: Sequence[act.Action]) -> list[act.Action]:
    """The actions without wake-ups for decisions on launchers and withdrawals, which each engine
    sets for itself."""
    return [
        action
        for action in actions
        if not (
            isinstance(action, act.SetTimer)
            and action.timer.startswith(("launchers:", "withdrawals", "late-copies"))
        )
    ]
