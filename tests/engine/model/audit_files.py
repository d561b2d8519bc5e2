"""Rules about files: copies and transfers."""

from __future__ import annotations

from tests.engine.model.known_run import (
    KnownRun,
)
from tests.engine.model.rules import COPY_FAILURES
from wfrun.engine import events as ev
from wfrun.engine.model import ORIGIN


class FileRules(KnownRun):
    """Rules about files: copies and transfers."""

    def on_transfer_ended(self, event: ev.TransferEnded) -> None:
        self.present.setdefault((event.workflow, event.file), set()).add(event.destination)
        del self._copy_failures[event.workflow, event.file, event.destination]

    def on_transfer_failed(self, event: ev.TransferFailed) -> None:
        copy = event.workflow, event.file, event.destination
        self._copy_failures[copy] += 1
        if event.transient and self._copy_failures[copy] <= COPY_FAILURES:
            return
        if event.destination == ORIGIN:
            self._had_uncollected = True
            return
        for one in [t for t in self._open.values() if not t.submitted]:
            workflow, _ = one.task
            waits = (
                workflow == event.workflow
                and one.placed.site == event.destination
                and event.file in self._task(one.task).inputs
            )
            if not waits:
                continue
            self._specials.add(one.task)
            if event.transient:
                one.doubtful = True
            else:
                del self._open[one.key]
        self._doubt_if_stopping()
