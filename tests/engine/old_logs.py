"""The recorded logs of ``tests/data/logs``, and a world in which their runs go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wfrun.engine import actions as act
from wfrun.engine import events as ev
from wfrun.engine.bag import expand
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.records import Outcome
from wfrun.testing.world import World

LOGS = Path(__file__).parents[1] / "data" / "logs"
KINDS = sorted(folder.name for folder in LOGS.iterdir() if folder.is_dir())


def read(kind: str, folder: str = "/data") -> tuple[list[ev.AnyEvent], dict[str, Workflow]]:
    """The events of a log and its documents by digest. ``folder`` stands in place of /data."""
    log = (LOGS / kind / "events.jsonl").read_text().replace("/data/", f"{folder}/")
    stored = (LOGS / kind / "documents.json").read_text().replace("/data/", f"{folder}/")
    documents = msgspec.json.decode(stored, type=dict[str, Workflow])
    return (
        msgspec.json.Decoder(ev.AnyEvent).decode_lines(log),
        {d: w if w.bag is None else expand(w.bag) for d, w in documents.items()},
    )


class Resumed(World):
    """The world after a crash: a new engine with the old one's log. Launchers are gone. Attempts
    that ran go on for a second, unless ``lost``; then they are known nowhere."""

    def __init__(
        self, events: Sequence[ev.Event], documents: Mapping[str, Workflow], *, lost: bool
    ) -> None:
        started = events[0]
        assert isinstance(started, ev.RunStarted)
        super().__init__([], Catalog(started.sites, started.links), started.settings)
        self._documents = dict(documents)
        self._future.clear()
        self.log = list(events)
        self._now_s = events[-1].at_s
        self.crash()
        if not lost:
            self._let_run(events)

    def _let_run(self, events: Sequence[ev.Event]) -> None:
        running = {e.key for e in events if isinstance(e, ev.AttemptStarted)}
        running -= {e.key for e in events if isinstance(e, ev.AttemptEnded)}
        end_s = self._now_s + 1.0
        for placed in events:
            if isinstance(placed, ev.AttemptPlaced) and placed.key in running:
                self._running[placed.key] = placed.site, 0
                outcome = self._documented(placed.key, placed.workflow, placed.task)
                self.post(end_s, ev.AttemptEnded(end_s, placed.key, outcome))

    def _carry_out(self, action: act.Action) -> None:
        now_s = self._now_s
        if isinstance(action, act.StartLaunchers):
            keys = tuple(request.key for request in action.launchers)
            self.post(now_s, ev.LaunchersSubmitted(now_s, action.site, keys))
            for request in action.launchers:
                slots = request.cores * request.nodes
                started = ev.LauncherStarted(
                    now_s + 1.0, action.site, request.key, "node-9", slots, None, "tcp", 0.01
                )
                self.post(now_s + 1.0, started)
        elif isinstance(action, (act.StopLaunchers, act.FindLaunchers)):
            for key in action.keys:
                ended = ev.LauncherEnded(now_s, action.site, key, "done", "it is not there")
                self.post(now_s, ended)
        else:
            super()._carry_out(action)


def outcome_of(events: Sequence[ev.Event]) -> dict[str, Outcome]:
    """How the attempts of a log ended, by key."""
    return {e.key: e.outcome for e in events if isinstance(e, ev.AttemptEnded)}
