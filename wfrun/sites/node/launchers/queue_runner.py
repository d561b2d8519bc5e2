"""A runner with a queue and a journal, the base of all launchers."""

import collections
import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Tuple

    from wfrun.sites.node.launchers.journals import Journal
    from wfrun.sites.node.tasks.runner import Runner
    from wfrun.sites.node.tasks.slots import RunningAttempt

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
else:
    from journals import Journal
    from runner import Runner
    from slots import RunningAttempt

PROTOCOL = 1
"""Version of the messages between launcher and engine."""
FLUSH_S = 0.02
"""Maximum delay of reports in seconds while attempts are queued, so that many share a write."""
RETRY_S = 1.0
"""Interval in seconds between retries of writing the journal, for instance on a full disk."""


class QueueRunner(Runner):
    """A Runner with a queue (strict first come, first served) and a journal, which reports to an
    engine.

    An end is written to the journal, then reported. While attempts are queued, reports are
    collected. Subclasses exchange messages with the engine: ``_say``, ``_send``, ``_handle``.
    """

    def __init__(self, directory: str, config: "Dict[str, Any]", journal: Journal) -> None:
        self.journal = journal
        Runner.__init__(self, directory, config)
        if self.reaps_orphans:
            self.starter.helpers = self.helpers
        self.queue: "collections.OrderedDict[str, Request]" = collections.OrderedDict()
        """Requests that wait for free resources, by key in the order of arrival."""
        self.started: "List[RunningAttempt]" = []
        """Started attempts whose start is not reported yet."""
        self.ended: "List[Tuple[str, Outcome]]" = []
        """Keys and outcomes that are not reported yet."""
        self.announced: "List[str]" = []
        """Attempts of other launchers whose start is not reported yet."""
        self.flush_due = 0.0
        self.retry_due = 0.0
        self.failing = False
        """Whether the last write of the journal failed."""

    def _say(self, text: str) -> None:
        """Add a line for the engine."""
        raise NotImplementedError

    def _send(self) -> None:
        """Send as much as the engine accepts, without waiting."""
        raise NotImplementedError

    def _handle(self, message: "Dict[str, Any]") -> None:
        """Handle a message of the engine. Raises ValueError, KeyError, TypeError or AttributeError
        for an invalid one."""
        raise NotImplementedError

    def _due(self) -> "List[float]":
        """The due times of timers, of the next flush and of the next retry, on time.monotonic."""
        due = []
        if self.timers:
            due.append(self.timers[0][0])
        if self.started or self.ended or self.announced:
            due.append(self.flush_due)
        if self.failing:
            due.append(self.retry_due)
        return due

    def _handle_lines(self, lines: "List[bytes]") -> None:
        """Handle lines from the engine. Invalid ones are reported to it as errors."""
        for line in lines:
            try:
                self._handle(json.loads(line.decode()))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                text = "launcher: message not understood: %r: %s" % (
                    error,
                    line[:200].decode("utf-8", "replace"),
                )
                self._say(json.dumps({"error": text}))

    def _enqueue(self, fresh: "List[Request]") -> None:
        """Record attempts in the journal, then queue them. From the record other launchers learn
        which launchers may hold a claim. If it cannot be written, the attempts end as "disk-full".
        Attempts that never fit on this node end as "launch-failed"."""
        if not fresh:
            return
        self.journal.add(json.dumps({"queued": [request["key"] for request in fresh]}))
        written = self.journal.write()
        for request in fresh:
            refusal = self.slots.refusal(request["resources"])
            if not written:
                text = "exit records cannot be written: %s" % self.journal.error
                self._on_outcome(request["key"], {"cause": "disk-full", "message": text})
            elif refusal is not None:
                text = "cannot be started at this site: %s" % refusal
                self._on_outcome(request["key"], {"cause": "launch-failed", "message": text})
            else:
                self.queue[request["key"]] = request

    def _start_queued(self) -> None:
        """Start queued attempts in order, until one does not fit now or ``max_running`` is
        reached."""
        while self.queue and len(self.keys) < self.starter.max_running:
            key = next(iter(self.queue))
            request = self.queue[key]
            grant = self.slots.take(request["resources"])
            if grant is None:
                break
            del self.queue[key]
            self._start(request, grant)

    def _has_ended(self, key: str) -> bool:
        return any(key == ended for ended, _ in self.ended) or bool(self.journal.ends({key}))

    def _on_started(self, attempt: RunningAttempt) -> None:
        self._schedule_flush()
        self.started.append(attempt)

    # -- what goes out

    def _schedule_flush(self) -> None:
        """Set the time of the next flush, unless reports are pending. Call it before adding a
        report."""
        if not (self.started or self.ended or self.announced):
            self.flush_due = time.monotonic() + FLUSH_S

    def _on_outcome(self, key: str, outcome: "Outcome") -> None:
        """Keep an outcome until ``_flush`` records and reports it."""
        self._schedule_flush()
        self.ended.append((key, outcome))

    def _report_recorded_end(self, key: str, outcome: "Outcome") -> None:
        """Report an end that a journal has already."""
        self._say(json.dumps({"ended": [[key, outcome]]}))
        self._send()

    def _flush(self) -> None:
        """Record and report the pending starts and ends if they are due, and send queued lines. All
        are due FLUSH_S after the first was added. If an end is pending and no attempt is queued,
        all are due at once, since slots may be idle until the engine sends more attempts."""
        now = time.monotonic()
        waiting = self.started or self.ended or self.announced
        if waiting and (now >= self.flush_due or (self.ended and not self.queue)):
            self._write_all()
        elif self.failing and now >= self.retry_due:
            self._write_journal()
        self._send()

    def _write_all(self) -> None:
        """Record and report all pending starts and ends."""
        if not (self.started or self.ended or self.announced):
            self._write_journal()
            return
        ends = json.dumps(self.ended)
        if self.ended:
            self.journal.add('{"ended": %s}' % ends)
        starts = []
        for attempt in self.started:
            if self.running.get(attempt.pid) is attempt:
                self.starter.show(attempt)
                starts.append([attempt.key, attempt.pid, attempt.boot_s, *attempt.grant])
        if starts:
            self.journal.add(json.dumps({"started": starts}))
        self._write_journal()
        keys = json.dumps([attempt.key for attempt in self.started] + self.announced)
        self._say('{"started": %s, "ended": %s}' % (keys, ends))
        self.started, self.ended, self.announced = [], [], []

    def _write_journal(self) -> None:
        """Write the journal; report its failure and its recovery. Callers report ends even after a
        failure: otherwise the engine might wait forever for space on a disk."""
        failed = not self.journal.write()
        self.retry_due = time.monotonic() + RETRY_S
        if failed and not self.failing:
            text = "exit records cannot be written to %s/exits: %s; make room there"
            text = text % (self.directory, self.journal.error)
            self._say(json.dumps({"failing": text}))
        elif self.failing and not failed:
            self._say(json.dumps({"recovered": True}))
        self.failing = failed
