"""The recorded logs of ``tests/data/logs``, and a world that continues their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tests.places import DATA
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.testing.fake_sites import FakeAttempt, FakeSite, SubmittedAttempt
from wfrun.testing.fake_world import FakeWorld

LOGS = DATA / "logs"
KINDS = sorted(folder.name for folder in LOGS.iterdir() if folder.is_dir())


def read(kind: str, folder: str = "/data") -> tuple[list[ev.AnyEvent], dict[str, Workflow]]:
    """The events of a log, and its documents by digest. ``folder`` replaces /data."""
    log = (LOGS / kind / "events.jsonl").read_text().replace("/data/", f"{folder}/")
    stored = (LOGS / kind / "documents.json").read_text().replace("/data/", f"{folder}/")
    documents = msgspec.json.decode(stored, type=dict[str, Workflow])
    return (
        msgspec.json.Decoder(ev.AnyEvent).decode_lines(log),
        {d: w if w.bag is None else expand(w.bag) for d, w in documents.items()},
    )


class Resumed(FakeWorld):
    """The world after a crash: a new engine with the log of the old one. Launchers are lost.
    Running attempts run for one more second, or with ``lost`` no site knows them."""

    def __init__(
        self, events: Sequence[ev.Event], documents: Mapping[str, Workflow], *, lost: bool
    ) -> None:
        started = events[0]
        assert isinstance(started, ev.RunStarted)
        super().__init__([], Catalog(started.sites, started.links), started.settings)
        self.documents = dict(documents)
        self._workflows = [documents[e.digest] for e in events if isinstance(e, ev.WorkflowAdded)]
        self._future.clear()
        self.log = list(events)
        self.now_s = events[-1].at_s
        self.crash()
        if not lost:
            self._let_run(events)

    def _let_run(self, events: Sequence[ev.Event]) -> None:
        running = {e.key for e in events if isinstance(e, ev.AttemptStarted)}
        running -= {e.key for e in events if isinstance(e, ev.AttemptEnded)}
        for placed in events:
            if isinstance(placed, ev.AttemptPlaced) and placed.key in running:
                self._adopt(self._sites[placed.site], placed)

    def _adopt(self, site: FakeSite, placed: ev.AttemptPlaced) -> None:
        """Let an attempt of the log run at its site, outside all launchers."""
        key, workflow, task = placed.key, placed.workflow, placed.task
        cores = self.core.state.attempts[key].cores
        running = FakeAttempt(SubmittedAttempt(key, workflow, task), cores, self.now_s, "")
        site.running[key] = running
        site._present.add(key)
        site._free -= cores
        outcome = self._documented(key, workflow, task)
        self.at(self.now_s + 1.0, lambda: site._end(running, outcome))


def outcome_of(events: Sequence[ev.Event]) -> dict[str, Outcome]:
    """Outcomes of the attempts of a log, by key."""
    return {e.key: e.outcome for e in events if isinstance(e, ev.AttemptEnded)}
