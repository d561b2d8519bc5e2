"""One world from its beginning to its end, under the auditor."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

import msgspec

from tests.engine.model.audit import peek
from tests.engine.model.audit.auditor import Auditor, files_at_sites
from tests.engine.model.audit.rules import RULES as LOG_RULES
from tests.engine.model.audit.rules import Violation
from tests.engine.model.random_world import make_world
from tests.engine.model.twins import Twins
from tests.engine.model.world_of import Crash, WorldSpec, world_of
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog
from wfrun.runners.run.changes import changed_run
from wfrun.testing.fake_world import FakeWorld

RULES: dict[str, str] = {
    **LOG_RULES,
    "no-end": "every run ends, within a bounded number of steps",
    "slow": "a world takes no more than some CPU seconds",
    "not-done": "a run whose failures are retriable, and whose retries are many, ends done",
    "usage": "the usage of an owner is what the log says",
    "waiting-tasks": "a run has no fewer than no waiting tasks",
    "replay": "a core that is replayed, from the log or a frozen state, decides as the one that "
    "lived",
    "same-log": "the same seed gives the same log",
    "error": "the core raises nothing",
}


MAX_STEPS = 6000
LIMIT_S = 3.0
"""Maximum CPU seconds of one world; a normal one takes a tenth of a second."""
TAIL = 12
"""Number of events shown of a run that does not end."""


@contextmanager
def cpu_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError in the block after this many CPU seconds. Uses the timer of CPU time,
    because pytest-timeout uses that of real time."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"more than {limit_s:g} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


class Outcome(NamedTuple):
    """The result of exploring a world."""

    seed: int
    steps: int
    ended: str | None
    violations: tuple[Violation, ...]
    """The first of each rule."""
    trace: tuple[str, ...]
    """All events and actions in order, one per line; empty unless requested."""
    log: bytes


class Explorer:
    """Explores one world; see ``explore``."""

    def __init__(self, spec: WorldSpec, *, traces: bool) -> None:
        self._spec = spec
        self._random = Random(f"explore {spec.seed}")
        self._documents = {str(i): w for i, w in enumerate(spec.workflows)}
        self.world: FakeWorld = make_world(spec)
        self.auditor = Auditor(self._documents)
        self.steps = 0
        self.trace: list[str] = []
        self._traces = traces
        self._found: list[Violation] = []
        self._pending: list[tuple[ev.Event, Sequence[ev.Event]]] = []
        """Steps that are not durable yet."""
        self._crashes = list(spec.crashes)
        self._changes = list(spec.changes)
        self._failures = spec.resumes
        self._random.randint(1, 2 * self._random.randint(1, 60))  # keeps the worlds of old seeds
        self._twins = Twins(spec.seed, self._documents, self.world, spec.settings)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The first of each rule, in order."""
        first: dict[str, Violation] = {}
        for one in sorted([*self.auditor.violations, *self._found], key=lambda v: v.position):
            first.setdefault(one.rule, one)
        return tuple(first.values())

    def run(self) -> None:
        """Run until the end of the last resumed run."""
        try:
            with cpu_limit(LIMIT_S):
                while self._live():
                    pass
        except TimeoutError:
            self._note("slow", traceback.format_exc(limit=-5))
            return
        except Exception:
            self._note("error", traceback.format_exc(limit=-4))
            return
        self._flush(())
        self._check_end()

    def _note(self, rule: str, message: str) -> None:
        self._found.append(Violation(rule, message, len(self.world.log)))

    def _live(self) -> bool:
        """Run one engine until it crashes or the run ends. Returns whether another engine
        follows."""
        world = self.world
        crash = self._crashes.pop(0) if self._crashes else None
        self._twins.begin()
        seen, given = len(world.log), len(world.actions)
        for lived, event in enumerate(world.steps(), start=1):
            decided, actions = world.log[seen + 1 :], world.actions[given:]
            seen, given = len(world.log), len(world.actions)
            self.steps += 1
            self._take(event, decided, actions)
            if self.steps >= MAX_STEPS:
                last = "\n".join(map(str, world.log[-TAIL:]))
                self._note("no-end", f"the run does not end: after {self.steps} steps\n{last}")
                return False
            self._twins.stepped(lived)
            if crash is not None and lived >= crash.after_steps and world.core.state.ended is None:
                self._crash(crash)
                return True
        ended = world.core.state.ended
        if ended is None:
            last = "\n".join(map(str, world.log[-TAIL:]))
            self._note("no-end", f"the run does not end: nothing is going to happen after\n{last}")
            return False
        if ended == "failed" and not self._spec.is_mild:
            self._failures -= 1
        if ended == "done" or (ended == "failed" and (self._spec.is_mild or self._failures < 0)):
            return False
        self._crash(crash or Crash(0, 1.0, 0.0, False))
        return True

    def _take(
        self, event: ev.Event, decided: Sequence[ev.Event], actions: Sequence[act.Action]
    ) -> None:
        if self._traces:
            self.trace.append(f"{self.steps:5} {event}")
            self.trace += [f"      → {one}" for one in decided]
            self.trace += [f"        {one}" for one in actions]
        difference = self._twins.difference(event, decided, actions)
        if difference:
            self._note("replay", difference)
        if peek.waiting_tasks(self.world.core) < 0:
            self._note("waiting-tasks", f"after {event}")
        self._pending.append((event, decided))
        if actions:
            self._flush(actions)

    def _flush(self, actions: Sequence[act.Action]) -> None:
        """Pass durable steps to the auditor; ``actions`` are those of the last step."""
        pending, self._pending = self._pending, []
        for number, (event, decided) in enumerate(pending, start=1):
            self.auditor.step(event, decided, actions if number == len(pending) else ())

    def _crash(self, crash: Crash) -> None:
        forgets = crash.forgets and bool(self.world.actions)
        if forgets:
            self._pending.clear()
        self._flush(())
        lost = tuple(
            place
            for place in files_at_sites(
                self.auditor, self._documents, with_inputs=self._spec.loses_inputs
            )
            if self._random.random() < crash.lost_share
        )
        if self._traces:
            self.trace.append(f"      the engine dies: {crash}")
        self.world.crash(lost, away_s=crash.away_s, forgets=forgets)
        self._twins.crashed()
        self._change()

    def _change(self) -> None:
        """Change the run as its user does when it is resumed, unless a real resume refuses it."""
        change = self._changes.pop(0) if self._changes else None
        state = self.world.core.state
        if change is None or not state.is_complete or state.ended == "done":
            return
        catalog = None if change.sites is None else Catalog(change.sites, change.links)
        try:
            event = changed_run(state, change.options, catalog)
        except InvalidError:
            return
        if event is None:
            return
        event = msgspec.structs.replace(event, at_s=self.world.now_s)
        unreachable = set(event.left) - set(state.left_sites) if change.is_cut_off else ()
        events = self.world.change(event, sorted(unreachable))
        if self._traces:
            self.trace += [f"      the user changes the run: {one}" for one in events]
        if change.is_interrupted:
            self.world.core = Core(self._documents)
            self.world.core.replay(self.world.log)
        self._pending += [(one, ()) for one in events]
        self._flush(())

    def _check_end(self) -> None:
        core = self.world.core
        ended = core.state.ended
        if self._spec.is_mild and ended != "done":
            self._note("not-done", f"it ended {ended}: {core.state.end_reason}")
        if not peek.keeps_usage(core) or ended != "done":
            return
        now_s = core.state.now_s + 1000.0
        for owner in sorted({w.owner for w in self._spec.workflows}):
            counted_s = peek.usage_s(core, owner, now_s)
            least_s = self.auditor.used_s[owner]
            most_s = least_s + self.auditor.absent_s[owner]
            self._check_usage(owner, counted_s, least_s, most_s)

    def _check_usage(self, owner: str, counted_s: float, least_s: float, most_s: float) -> None:
        """Check the usage of an owner, unless attempts still run: superseded ones may outlast a
        run."""
        if self.auditor.is_anything_running:
            return
        if not least_s - 1e-6 <= counted_s <= most_s + 1e-6:
            message = f"{owner!r} counts {counted_s:g} core s, the log {least_s:g} to {most_s:g}"
            self._note("usage", message)


def explore(seed: int | WorldSpec, *, traces: bool = False, twice: bool = False) -> Outcome:
    """Explore the world of a seed, or a world that was shrunk by hand. ``twice``: run it again and
    compare the logs."""
    spec = world_of(seed) if isinstance(seed, int) else seed
    explorer = Explorer(spec, traces=traces)
    explorer.run()
    log = msgspec.json.encode(explorer.world.log)
    violations = explorer.violations
    # The CPU limit cuts the log of a slow world off at a random event.
    if twice and not any(v.rule == "slow" for v in violations):
        again = Explorer(spec, traces=False)
        again.run()
        if msgspec.json.encode(again.world.log) != log:
            message = "the second log differs from the first"
            violations = (*violations, Violation("same-log", message, 0))
    return Outcome(
        spec.seed, explorer.steps, explorer.world.core.state.ended, violations,
        tuple(explorer.trace), log,
    )  # fmt: skip
