"""The launcher of a site without a batch system: starts tasks, watches them and keeps their
records.

It needs Linux, the standard library of Python >= 3.6, and the files beside it. It is started as

    python launcher.py '{"directory": "/scratch/run-7", "slots": 32}'

with the optional keys ``memory_bytes``, ``gpus``, ``pin_cores``, ``pack_logs``, ``dead_hosts``
(names of hosts that the user has declared dead), ``patience_s`` (default ``PATIENCE_S`` of
journals.py) and ``variables`` (names of the environment variables that tasks inherit; default all).
Messages are JSON lines.

From the engine, on stdin (an attempt is an AttemptRequest of ``wfrun.engine.exchange``):
    {"run": [attempt, ...]}             queue these; they start in this order (strict FCFS)
    {"cancel": [key, ...]}              end these, or remove them from the queue. With
                                        "queued_only": true running ones are left alone
    {"find": [key, ...], "id": n}       report the state of these
    {"clean": true}                     remove stored files and sandboxes; logs and records stay
    {"stop": true}                      drop the queue, let running tasks end, then end

To the engine, on stdout (an outcome is an Outcome of ``wfrun.engine.exchange``):
    {"hello": 1, "pid": ..., "host": ...}       first message; the number is the protocol's version
    {"started": [key, ...], "ended": [[key, outcome], ...]}
    {"found": {key: {"state": "absent" | "active" | "ended", "outcome": ...}}, "id": n}
    {"cleaned": true}
    {"elsewhere": [host, ...]}                  launchers on these hosts may still run attempts
    {"failing": text}                           exit records cannot be written now
    {"recovered": true}                         exit records can be written again
    {"error": text}                             a message, or a line of a journal, is invalid

The end of stdin means that the engine is gone, and acts like ``stop``. SIGTERM also ends the
running tasks, with the cause ``lost``, which is no failure of the tasks.

The directory of a site:
    attempts/<key>.out, .err   stdout and stderr of a task. Creating <key>.out exclusively is the
                               claim: only the process that creates it may ever start the attempt
    attempts/<key>/            sandbox and working directory of a task; kept after a failure. For a
                               task on several nodes, .wfrun-nodes has their names
    attempts/.spare-...        an empty sandbox or log for the next task. Short tasks run in these,
                               which are renamed to the names above if the task fails or prints
    logs/<launcher>.log        the pack, with ``pack_logs``: the output of ended tasks, each after a
                               line with its key and the lengths. Their logs in attempts/ are then
                               links to one empty file; output of more than 1 MiB stays there. The
                               outcome has "packed": [file name, offset, stdout bytes, stderr bytes]
    files/<name>               the store; files in it are read-only
    exits/<launcher>.jsonl     the journal of one launcher: its identity, then, in order, the keys
                               of attempts that it has queued, dropped, started (with pid) and seen
                               end. A running launcher holds a lock on it (flock) and touches it
                               every few seconds

An entry ``queued`` is written before the attempt is claimed, an entry ``ended`` (the exit record)
before the end is reported. So another launcher can find out the state of each claimed attempt: it
has an exit record, or a live launcher may still write one, or it is lost.
"""

import collections
import contextlib
import gc
import heapq
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from wfrun.sites.node.launchers.journals import (
        BEAT_S,
        PATIENCE_S,
        AttemptTrace,
        Journal,
        JournalHistory,
    )
    from wfrun.sites.node.launchers.queue_runner import PROTOCOL, QueueRunner
    from wfrun.sites.node.launchers.stdio_channel import StdioChannel
    from wfrun.sites.node.tasks.limits import open_files, retried
    from wfrun.sites.node.tasks.processes import (
        boot_clock,
        close_inherited,
        is_running,
        kill_leftovers,
        signal_group,
    )
    from wfrun.sites.node.tasks.runner import GRACE_S
    from wfrun.sites.node.tasks.slots import RunningAttempt
    from wfrun.sites.node.tasks.store import mode_of, remove

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from journals import BEAT_S, PATIENCE_S, AttemptTrace, Journal, JournalHistory
    from limits import open_files, retried
    from processes import boot_clock, close_inherited, is_running, kill_leftovers, signal_group
    from queue_runner import PROTOCOL, QueueRunner
    from runner import GRACE_S
    from slots import RunningAttempt
    from stdio_channel import StdioChannel
    from store import mode_of, remove


class WatchedAttempt:
    """An attempt that another launcher has claimed."""

    __slots__ = ("trace", "asked", "grant", "cancelled", "reported")

    def __init__(self, trace: AttemptTrace) -> None:
        self.trace = trace
        self.asked = False
        """Whether to report its start and its end to the engine."""
        self.grant: "Optional[Grant]" = None
        """Resources that this launcher counts as used by it; None: no start is recorded yet."""
        self.cancelled = False
        self.reported = False
        """Whether its start was reported."""


class DirectLauncher(QueueRunner):
    """The event loop of a launcher: single-threaded, waits for events only in ``poll``."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        directory = os.path.realpath(config["directory"])
        for name in ("attempts", "files", "exits"):
            os.makedirs(directory + "/" + name, exist_ok=True)
        QueueRunner.__init__(self, directory, config, Journal(directory + "/exits"))
        patience_s = config.get("patience_s", PATIENCE_S)
        self.history = JournalHistory(
            directory + "/exits", self.journal, config.get("dead_hosts", ()), patience_s
        )
        self.beat_s = min(BEAT_S, patience_s / 4)
        self.lapse_s = patience_s / 2
        """Time in seconds without a heartbeat of our own after which other launchers may have
        declared this one dead."""
        self.beaten = boot_clock()
        self.waits_for: "Set[str]" = set()
        """Hosts reported to the engine as ``elsewhere``."""
        self.refused: "Set[str]" = set()
        """Journals with skipped lines that were reported to the engine."""
        self.offsets: "Dict[str, int]" = {}
        """Offset up to which each journal has been read for the watched attempts."""
        self.channel = StdioChannel(self.poller)
        self.contested: "List[str]" = []
        """Attempts that could not be started because their claims existed already."""
        self.watched: "Dict[str, WatchedAttempt]" = {}
        self.watch_due = 0.0
        self.watch_interval_s = 0.01
        self.stopping = False

    def run(self) -> None:
        """Run until the engine has gone or sent ``stop``, and the last task has ended."""
        self.channel.say(json.dumps({"hello": PROTOCOL, "pid": os.getpid(), "host": self.host}))
        self.channel.send()
        self._adopt_unfinished()
        ended: "collections.deque[Tuple[RunningAttempt, int, Any, float]]" = collections.deque()
        while ended or not self._is_done():
            for fd, _ in self.poller.poll(0 if ended else self._timeout_ms()):
                if fd == self.wake:
                    ended.extend(self._on_wakeup())
                elif fd == 0:
                    self._receive()
            self._beat()
            self._fire_timers()
            # Free slots are filled before outputs are committed, so that slots do not wait for the
            # file system. One ended task is settled per turn, or more where they end faster.
            self._start_queued()
            while ended:
                self._settle(*ended.popleft())
                if len(ended) <= self.slots.all_cores:
                    break
            if self.contested:
                self._settle_contested()
            if self.watched and time.monotonic() >= self.watch_due:
                self._check_watched()
            self._flush()
        self._write_all()
        self.starter.close()
        self.channel.drain()

    def _is_done(self) -> bool:
        if self.running or self.failing:
            return False
        return self.stopping and not self.queue and not self.ended

    def _timeout_ms(self) -> int:
        due = self._due()
        if self.watched:
            due.append(self.watch_due)
        wait_s = min([self.beat_s, *(at - time.monotonic() for at in due)])
        return max(0, int(wait_s * 1000) + 1)

    # -- what comes in

    def _receive(self) -> None:
        self._handle_lines(self.channel.receive())
        if not self.channel.is_open:
            self._stop()

    def _handle(self, message: "Dict[str, Any]") -> None:
        if "run" in message:
            self._queue(message["run"])
        elif "cancel" in message:
            for key in message["cancel"]:
                self._cancel(key, bool(message.get("queued_only")))
        elif "find" in message:
            found = self._find(message["find"])
            self.channel.say(json.dumps({"found": found, "id": message["id"]}))
            self.channel.send()
        elif "clean" in message:
            self._clean()
            self.channel.say(json.dumps({"cleaned": True}))
            self.channel.send()
        elif "stop" in message:
            self._stop()
        else:
            raise ValueError("unknown message")

    def _queue(self, requests: "List[Request]") -> None:
        """Queue the attempts that are new, unless the launcher is stopping. Attempts that other
        launchers run are watched already: report them to the engine from now on."""
        fresh = []
        for request in requests:
            key = request["key"]
            if key in self.watched:
                self.watched[key].asked = True
            elif key not in self.queue and key not in self.keys and not self.stopping:
                fresh.append(request)
        self._enqueue(fresh)

    def _cancel(self, key: str, queued_only: bool) -> None:
        """Cancel an attempt, whichever launcher runs it."""
        if key in self.queue:
            del self.queue[key]
            outcome = {"cause": "cancelled", "message": "was cancelled before it started"}
            self._on_outcome(key, outcome)
        elif queued_only:
            return
        elif key in self.keys:
            self._end(self.keys[key], "cancelled")
        elif key in self.watched and not self.watched[key].cancelled:
            watch = self.watched[key]
            watch.cancelled = True
            self.serial += 1
            heapq.heappush(self.timers, (time.monotonic() + GRACE_S, self.serial, 0))
            self._signal_watched(watch, signal.SIGTERM)

    def _signal_watched(self, watch: WatchedAttempt, number: int) -> None:
        started = watch.trace.started
        if started is None or not self._is_here(watch.trace):
            return
        if is_running(started[1], started[2]):
            signal_group(started[1], number)
            signal_group(started[1], signal.SIGCONT)

    def _stop(self) -> None:
        """Drop the queued attempts, which are unclaimed, so that the next launcher can start them.
        Running tasks go on."""
        self.stopping = True
        if self.queue:
            self.journal.add(json.dumps({"dropped": list(self.queue)}))
            self._write_journal()
            self.queue.clear()

    def _on_sigterm(self) -> None:
        """Drop the queue and end the running tasks; a second SIGTERM kills them."""
        self._stop()
        for attempt in list(self.running.values()):
            if attempt.reason == "lost":
                signal_group(attempt.pid, signal.SIGKILL)
            self._end(attempt, "lost")

    def _clean(self) -> None:
        """Delete all stored files, and the sandboxes except those in use by running tasks."""
        self.starter.close()
        used: "Set[str]" = set()
        for attempt in self.keys.values():
            names = [attempt.sandbox] + [log.spare for log in (attempt.out, attempt.err) if log]
            used.update(map(os.path.basename, names))
        doomed = []
        with contextlib.suppress(FileNotFoundError):  # somebody else removed it
            for name in os.listdir(self.starter.store):
                remove(self.starter.store + "/" + name)
            for entry in os.scandir(self.starter.attempts):
                spare = entry.name.startswith(".spare-")
                # Attempts of other launchers may use any spare sandbox or log.
                elsewhere = bool(self.watched) if spare else entry.name in self.watched
                if elsewhere or entry.name in used:
                    continue
                if spare or entry.is_dir(follow_symlinks=False):
                    doomed.append(entry.path)
        for path in doomed:
            remove(path)

    def _say(self, text: str) -> None:
        self.channel.say(text)

    def _send(self) -> None:
        self.channel.send()

    # -- the heartbeat

    def _beat(self) -> None:
        """Touch the journal every ``beat_s``. After a pause of ``lapse_s``, as when this machine
        was suspended, another launcher may have recorded attempts of this one as lost. These are
        ended, and their outputs are not committed."""
        lapse_s = boot_clock() - self.beaten
        if lapse_s < self.beat_s or not self.journal.beat():
            return
        self.beaten = boot_clock()
        if lapse_s < self.lapse_s or not self.keys:
            return
        traces = {key: AttemptTrace() for key in self.keys}
        self.history.follow(traces, {})
        for key, trace in traces.items():
            attempt = self.keys[key]
            if trace.outcome is not None:
                self._end(attempt, "lost")
                attempt.reason = "lost"  # also of one that has ended, and is not settled

    # -- attempts of other launchers

    def _on_claimed_elsewhere(self, key: str) -> None:
        self.contested.append(key)

    def _on_grace_over(self) -> None:
        for watch in self.watched.values():
            if watch.cancelled:
                self._signal_watched(watch, signal.SIGKILL)

    def _adopt_unfinished(self) -> None:
        """Watch the attempts of earlier launchers that have a recorded start and no recorded end.
        Count the resources of those that may still run, and record the others as lost."""
        keys = sorted(self.history.unfinished())
        self._name_refused()
        for key, answer in self._examine(keys).items():
            if answer["state"] == "active":
                self.watched[key].asked = False

    def _settle_contested(self) -> None:
        """Examine the attempts in ``contested``, which another process has claimed. Report the ends
        of those that have ended or are lost, and watch the others."""
        keys, self.contested = self.contested, []
        # Written at once: two launchers that each have the other's entry as ``queued`` would
        # otherwise take these attempts for active and wait for each other.
        self.journal.add(json.dumps({"dropped": keys}))
        self._write_journal()
        for key, answer in self._examine(keys).items():
            if answer["state"] == "ended":
                self._report_recorded_end(key, answer["outcome"])
            elif answer["state"] == "absent":  # somebody removed the claim by hand
                self._on_outcome(key, {"cause": "lost", "message": "its claim has disappeared"})

    def _find(self, keys: "List[str]") -> "Dict[str, Any]":
        """The states of attempts. Active ones of other launchers are watched from now on."""
        found: "Dict[str, Any]" = {}
        self._write_all()
        others = []
        for key in keys:
            if key in self.queue or key in self.keys or key in self.contested:
                found[key] = {"state": "active"}
            elif key in self.watched:
                self.watched[key].asked = True
                found[key] = {"state": "active"}
            else:
                others.append(key)
        found.update(self._examine(others))
        return found

    def _examine(self, keys: "List[str]") -> "Dict[str, Any]":
        """Find the states of other launchers' attempts in the journals. Watch the active ones from
        now on, and record the ends of lost ones."""
        if not keys:
            return {}
        # Which launchers are alive is found out before their journals are read: in the other order
        # one that writes its last record and ends in between would seem to have died without it.
        living = self.history.living()
        traces = {key: AttemptTrace() for key in keys}
        offsets: "Dict[str, int]" = {}
        self.history.follow(traces, offsets)
        self._name_refused()
        if not self.watched:
            self.offsets = offsets
        answers: "Dict[str, Any]" = {}
        lost = {}
        for key, trace in traces.items():
            state = self._state_of(key, trace, living)
            answers[key] = {"state": state}
            if state == "ended":
                answers[key]["outcome"] = trace.outcome
            elif state == "active":
                watch = self.watched[key] = WatchedAttempt(trace)
                watch.asked = True
                self._charge(watch)
                self.watch_interval_s = 0.01
                self.watch_due = 0.0
            elif state == "lost":
                lost[key] = trace
        for key, outcome in self._record_lost(lost).items():
            answers[key] = {"state": "ended", "outcome": outcome}
        self._report_elsewhere()
        return answers

    def _name_refused(self) -> None:
        """Report the journals with skipped lines, each once."""
        for name in sorted(self.history.refused - self.refused):
            self.refused.add(name)
            text = "exits/%s has lines that no launcher writes, which are skipped" % name
            self.channel.say(json.dumps({"error": text}))

    def _report_elsewhere(self) -> None:
        """Report the other hosts whose launchers may still run watched attempts, each once."""
        owners = {watch.trace.owner for watch in self.watched.values() if watch.trace.owner}
        hosts = self.history.elsewhere(owners) - self.waits_for
        if hosts:
            self.waits_for |= hosts
            self.channel.say(json.dumps({"elsewhere": sorted(hosts)}))

    def _state_of(self, key: str, trace: AttemptTrace, living: "Set[str]") -> str:
        """The state of an attempt from its trace and its claim. With a recorded end: "ended". With
        a recorded start: "active" if its launcher is alive, else "lost". Without start and claim:
        "absent". Else: "active" if a launcher that has queued it is alive, else "lost"."""
        if trace.outcome is not None:
            return "ended"
        if trace.owner is not None:
            return "active" if trace.owner in living else "lost"
        if not retried(mode_of, self.starter.attempts + key + ".out"):
            return "absent"
        return "active" if trace.candidates & living else "lost"

    def _record_lost(self, lost: "Dict[str, AttemptTrace]") -> "Dict[str, Outcome]":
        """Kill the processes of attempts whose launcher has died, and record the attempts as lost.
        Returns their outcomes."""
        if not lost:
            return {}
        pids = [
            (t.started[1], t.started[2]) for t in lost.values() if t.started and self._is_here(t)
        ]
        kill_leftovers(set(lost), pids)
        text = "its launcher died before it could record the end"
        outcome = {"cause": "lost", "message": text, "host": self.host}
        for key in lost:
            self.journal.add(json.dumps({"ended": [[key, outcome]]}))
        self._write_journal()
        return dict.fromkeys(lost, outcome)

    def _is_here(self, trace: AttemptTrace) -> bool:
        """Whether the recorded pid of an attempt is of this machine since its last boot."""
        return trace.owner is not None and self.history.is_here(trace.owner)

    def _charge(self, watch: WatchedAttempt) -> None:
        """Count the resources of a started attempt of another launcher as used, once."""
        if watch.grant is None and watch.trace.started is not None:
            _, _, _, cores, memory, gpus, pins = watch.trace.started
            watch.grant = (cores, memory, gpus, pins)
            self.slots.charge(watch.grant)

    def _check_watched(self) -> None:
        """Report the starts and ends of watched attempts, and record lost ones. The interval
        between checks grows while none ends."""
        living = self.history.living()
        self.history.follow({key: watch.trace for key, watch in self.watched.items()}, self.offsets)
        self._name_refused()
        ends: "Dict[str, Outcome]" = {}
        lost = {}
        for key, watch in self.watched.items():
            self._charge(watch)
            if watch.asked and not watch.reported and watch.trace.started is not None:
                watch.reported = True
                self._schedule_flush()
                self.announced.append(key)
            state = self._state_of(key, watch.trace, living)
            if state == "ended" and watch.trace.outcome is not None:
                ends[key] = watch.trace.outcome
            elif state != "active":
                lost[key] = watch.trace
        ends.update(self._record_lost(lost))
        for key, outcome in ends.items():
            watch = self.watched.pop(key)
            if watch.grant is not None:
                self.slots.give_back(watch.grant)
            if watch.cancelled and outcome["cause"] != "done":
                outcome = dict(outcome, cause="cancelled")
            if watch.asked:
                self._report_recorded_end(key, outcome)
        self.watch_interval_s = 0.01 if ends else min(1.0, self.watch_interval_s * 1.5)
        self.watch_due = time.monotonic() + self.watch_interval_s
        if ends:
            self._start_queued()


def main() -> None:
    """Run a launcher with the configuration of the command line."""
    close_inherited()
    open_files.raise_limit()
    with contextlib.suppress(OSError):  # it leads a session already
        os.setsid()
    try:
        launcher = DirectLauncher(json.loads(sys.argv[1]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        sys.exit('usage: launcher.py \'{"directory": DIRECTORY, "slots": CORES}\': %r' % error)
    except OSError as error:
        sys.exit("launcher: its directory cannot be used: %s" % error)
    # A long queue is a million objects without a cycle. Frequent collections would cost a tenth of
    # the throughput.
    gc.set_threshold(20000, 100, 100)
    launcher.run()


if __name__ == "__main__":
    main()
