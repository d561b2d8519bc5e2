"""The launcher: one process of a site that starts tasks, watches them and keeps their records.

It needs the standard library of Python >= 3.6 on Linux and the files beside it, so that it also
runs on a cluster. It is started as

    python launcher.py '{"directory": "/scratch/run-7", "slots": 32}'

with the optional keys ``memory_bytes``, ``gpus``, ``pin_cores`` and ``pack_logs``, and speaks
JSON lines.

Messages in, on stdin (an attempt is an AttemptRequest of ``wfrun.engine.exchange``):
    {"run": [attempt, ...]}             queue these; they start in this order (strict FCFS)
    {"cancel": [key, ...]}              end these; a queued one is just removed. With
                                        "queued_only": true those that run are left alone
    {"find": [key, ...], "id": n}       what became of these?
    {"clean": true}                     remove stored files and sandboxes; logs and records stay
    {"stop": true}                      drop the queue, let running tasks end, then end

Messages out, on stdout (an outcome is an Outcome of ``wfrun.engine.exchange``):
    {"hello": 1, "pid": ..., "host": ...}       first of all; the number is the protocol's version
    {"started": [key, ...], "ended": [[key, outcome], ...]}
    {"found": {key: {"state": "absent" | "active" | "ended", "outcome": ...}}, "id": n}
    {"cleaned": true}
    {"failing": text}, {"recovered": true}      exit records can't be written; they can be again
    {"error": text}                             a message was not understood

The end of stdin means that the engine is gone, and does what ``stop`` does. SIGTERM ends the
running tasks too (cause ``lost``: it was not their fault).

The directory of a site:
    attempts/<key>.out, .err   what a task printed. Creating <key>.out exclusively is the claim:
                               whoever succeeds may start the attempt, and nobody else ever will
    attempts/<key>/            sandbox and working directory of a task; kept after a failure. One of
                               several nodes finds their names in .wfrun-nodes
    attempts/.spare-...        an empty sandbox or log for the next task. While tasks are short they
                               run in these, which get their names when one fails or prints
    logs/<launcher>.log        with ``pack_logs``: what tasks printed that have ended, one after the
                               other, each after a line with its key and how much it is. Their logs
                               in attempts/ are then empty, and names of one file; only what is
                               longer than a megabyte stays there. The outcome says where it is:
                               "packed": [name of the file, offset, bytes of stdout, of stderr]
    files/<name>               the store; files in it are read-only
    exits/<launcher>.jsonl     the journal of one launcher: who it is, and then, in order, the keys
                               it queued, dropped, started (with pid) and saw end. The launcher
                               holds a lock on it (flock) as long as it lives

A journal is written before a claim is made (``queued``) and before an end is reported
(``ended``), so that another launcher finds out about every claim: its exit record, or a live
launcher that may still write one, or else it is lost.
"""

import collections
import contextlib
import gc
import heapq
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from wfrun.sites.node.journals import History, Journal, Trace
    from wfrun.sites.node.processes import close_inherited, is_running, kill_leftovers, signal_group
    from wfrun.sites.node.runner import GRACE_S, PROTOCOL, READ_BYTES, Worker
    from wfrun.sites.node.slots import Attempt
    from wfrun.sites.node.store import remove

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from journals import History, Journal, Trace
    from processes import close_inherited, is_running, kill_leftovers, signal_group
    from runner import GRACE_S, PROTOCOL, READ_BYTES, Worker
    from slots import Attempt
    from store import remove


class Channel:
    """JSON lines on stdin and stdout, neither of which is ever waited for."""

    def __init__(self, poller: "select.poll") -> None:
        self._poller = poller
        self._partial = b""
        self._unsent = b""
        self._waits = False
        self.is_open = True
        for fd in (0, 1):
            os.set_blocking(fd, False)
        poller.register(0, select.POLLIN)

    def receive(self) -> "List[bytes]":
        """The lines that have come. At the end of the stream ``is_open`` becomes false."""
        try:
            data = os.read(0, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            self._poller.unregister(0)
            return []
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()
        return lines

    def say(self, text: str) -> None:
        self._unsent += text.encode() + b"\n"

    def send(self) -> None:
        """Write as much as the engine takes. If it reads no more, the records are kept anyway."""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(1, self._unsent) :]
            except BlockingIOError:
                break
            except OSError:
                self._unsent = b""
        if self._waits != bool(self._unsent):
            self._waits = bool(self._unsent)
            if self._waits:
                self._poller.register(1, select.POLLOUT)
            else:
                self._poller.unregister(1)

    def drain(self) -> None:
        """Give a slow reader some time for the last words."""
        for _ in range(50):
            self.send()
            if not self._unsent:
                return
            self._poller.poll(100)


class Watch:
    """An attempt of another launcher."""

    __slots__ = ("trace", "asked", "grant", "cancelled", "told")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.asked = False
        self.grant: "Optional[Grant]" = None
        self.cancelled = False
        self.told = False


class Launcher(Worker):
    """The loop. One thread; nothing in it blocks but the wait for news."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        directory = os.path.realpath(config["directory"])
        for name in ("attempts", "files", "exits"):
            os.makedirs(directory + "/" + name, exist_ok=True)
        Worker.__init__(self, directory, config, Journal(directory + "/exits"))
        self.history = History(directory + "/exits", self.journal)
        self.offsets: "Dict[str, int]" = {}
        self.channel = Channel(self.poller)
        self.contested: "List[str]" = []
        self.watched: "Dict[str, Watch]" = {}
        self.watch_due = 0.0
        self.watch_interval_s = 0.01
        self.stopping = False

    def run(self) -> None:
        self.channel.say(json.dumps({"hello": PROTOCOL, "pid": os.getpid(), "host": self.host}))
        self.channel.send()
        self._adopt()
        ended: "collections.deque[Tuple[Attempt, int, Any, float]]" = collections.deque()
        while ended or not self._is_done():
            for fd, _ in self.poller.poll(0 if ended else self._timeout_ms()):
                if fd == self.wake:
                    ended.extend(self._wake())
                elif fd == 0:
                    self._receive()
            self._fire_timers()
            # Slots are filled before the outputs of the last tasks are looked at.
            self._start_queued()
            # Nor at one while another slot is free, unless they come faster than they are done.
            while ended:
                self._settle(*ended.popleft())
                if len(ended) <= self.slots.all_cores:
                    break
            if self.contested:
                self._contest()
            if self.watched and time.monotonic() >= self.watch_due:
                self._look_around()
            self._flush()
        self._write_all()
        self.starter.close()
        self.channel.drain()

    def _is_done(self) -> bool:
        if self.running or self.failing:
            return False
        return self.stopping and not self.queue and not self.ended

    def _timeout_ms(self) -> "Optional[int]":
        due = self._due()
        if self.watched:
            due.append(self.watch_due)
        if not due:
            return None
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1)

    # -- what comes in

    def _receive(self) -> None:
        self._hear(self.channel.receive())
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
        fresh = []
        for request in requests:
            key = request["key"]
            if key in self.watched:
                self.watched[key].asked = True
            elif key not in self.queue and key not in self.keys and not self.stopping:
                fresh.append(request)
        self._enqueue(fresh)

    def _cancel(self, key: str, queued_only: bool) -> None:
        if key in self.queue:
            del self.queue[key]
            outcome = {"cause": "cancelled", "message": "was cancelled before it started"}
            self._conclude(key, outcome)
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

    def _signal_watched(self, watch: Watch, number: int) -> None:
        started = watch.trace.started
        if started is not None and is_running(started[1], started[2]):
            signal_group(started[1], number)
            signal_group(started[1], signal.SIGCONT)

    def _stop(self) -> None:
        """Drop what is queued, as if it had never been here; running tasks go on."""
        self.stopping = True
        if self.queue:
            self.journal.add(json.dumps({"dropped": list(self.queue)}))
            self._write_journal()
            self.queue.clear()

    def _terminate(self) -> None:
        self._stop()
        for attempt in list(self.running.values()):
            if attempt.reason == "lost":
                signal_group(attempt.pid, signal.SIGKILL)
            self._end(attempt, "lost")

    def _clean(self) -> None:
        self.starter.close()
        used: "Set[str]" = set()
        for attempt in self.keys.values():
            names = [attempt.sandbox] + [log.spare for log in (attempt.out, attempt.err) if log]
            used.update(map(os.path.basename, names))
        doomed = []
        with contextlib.suppress(FileNotFoundError):  # Somebody was quicker.
            for name in os.listdir(self.starter.store):
                remove(self.starter.store + "/" + name)
            for entry in os.scandir(self.starter.attempts):
                spare = entry.name.startswith(".spare-")
                # Those that are watched may be using any.
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

    # -- attempts of other launchers

    def _claimed_elsewhere(self, key: str) -> None:
        self.contested.append(key)

    def _grace_is_over(self) -> None:
        for watch in self.watched.values():
            if watch.cancelled:
                self._signal_watched(watch, signal.SIGKILL)

    def _adopt(self) -> None:
        """What launchers before this one have started and not ended: it occupies slots while it
        runs, and is lost if its launcher is dead."""
        keys = sorted(self.history.unfinished())
        for key, answer in self._trace(keys).items():
            if answer["state"] == "active":
                self.watched[key].asked = False

    def _contest(self) -> None:
        """Somebody else has claimed what was to be started here: tell what became of it."""
        keys, self.contested = self.contested, []
        # At once: another launcher may wait for us to start them, as we might for it.
        self.journal.add(json.dumps({"dropped": keys}))
        self._write_journal()
        for key, answer in self._trace(keys).items():
            if answer["state"] == "ended":
                self._announce(key, answer["outcome"])
            elif answer["state"] == "absent":  # Somebody removed the claim by hand.
                self._conclude(key, {"cause": "lost", "message": "its claim has disappeared"})

    def _find(self, keys: "List[str]") -> "Dict[str, Any]":
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
        found.update(self._trace(others))
        return found

    def _trace(self, keys: "List[str]") -> "Dict[str, Any]":
        """Find out about attempts that are not here, and watch those that are elsewhere."""
        if not keys:
            return {}
        # First who lives, then what they wrote: the other way round one that writes its last
        # record and ends in between would be taken for dead without a record.
        living = self.history.living()
        traces = {key: Trace() for key in keys}
        offsets: "Dict[str, int]" = {}
        self.history.follow(traces, offsets)
        if not self.watched:
            self.offsets = offsets
        answers: "Dict[str, Any]" = {}
        lost = {}
        for key, trace in traces.items():
            state = self._judge(key, trace, living)
            answers[key] = {"state": state}
            if state == "ended":
                answers[key]["outcome"] = trace.outcome
            elif state == "active":
                watch = self.watched[key] = Watch(trace)
                watch.asked = True
                self._charge(watch)
                self.watch_interval_s = 0.01
                self.watch_due = 0.0
            elif state == "lost":
                lost[key] = trace
        for key, outcome in self._bury(lost).items():
            answers[key] = {"state": "ended", "outcome": outcome}
        return answers

    def _judge(self, key: str, trace: Trace, living: "Set[str]") -> str:
        if trace.outcome is not None:
            return "ended"
        if trace.owner is not None:
            return "active" if trace.owner in living else "lost"
        if not os.path.exists(self.starter.attempts + key + ".out"):
            return "absent"
        return "active" if trace.candidates & living else "lost"

    def _bury(self, lost: "Dict[str, Trace]") -> "Dict[str, Outcome]":
        """Kill what is left of attempts whose launcher died, and record that they are lost."""
        if not lost:
            return {}
        pids = [(trace.started[1], trace.started[2]) for trace in lost.values() if trace.started]
        kill_leftovers(set(lost), pids)
        text = "its launcher died before it could record the end"
        outcome = {"cause": "lost", "message": text, "host": self.host}
        for key in lost:
            self.journal.add(json.dumps({"ended": [[key, outcome]]}))
        self._write_journal()
        return dict.fromkeys(lost, outcome)

    def _charge(self, watch: Watch) -> None:
        if watch.grant is None and watch.trace.started is not None:
            _, _, _, cores, memory, gpus, pins = watch.trace.started
            watch.grant = (cores, memory, gpus, pins)
            self.slots.charge(watch.grant)

    def _look_around(self) -> None:
        """Whether attempts of other launchers have ended; less and less often while none has."""
        living = self.history.living()
        self.history.follow({key: watch.trace for key, watch in self.watched.items()}, self.offsets)
        ends: "Dict[str, Outcome]" = {}
        lost = {}
        for key, watch in self.watched.items():
            self._charge(watch)
            if watch.asked and not watch.told and watch.trace.started is not None:
                watch.told = True
                self._news()
                self.announced.append(key)
            state = self._judge(key, watch.trace, living)
            if state == "ended" and watch.trace.outcome is not None:
                ends[key] = watch.trace.outcome
            elif state != "active":
                lost[key] = watch.trace
        ends.update(self._bury(lost))
        for key, outcome in ends.items():
            watch = self.watched.pop(key)
            if watch.grant is not None:
                self.slots.give_back(watch.grant)
            if watch.cancelled and outcome["cause"] != "done":
                outcome = dict(outcome, cause="cancelled")
            if watch.asked:
                self._announce(key, outcome)
        self.watch_interval_s = 0.01 if ends else min(1.0, self.watch_interval_s * 1.5)
        self.watch_due = time.monotonic() + self.watch_interval_s
        if ends:
            self._start_queued()


def main() -> None:
    close_inherited()
    with contextlib.suppress(OSError):  # it leads a session already
        os.setsid()
    try:
        launcher = Launcher(json.loads(sys.argv[1]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        sys.exit('usage: launcher.py \'{"directory": DIRECTORY, "slots": CORES}\': %r' % error)
    except OSError as error:
        sys.exit("launcher: its directory can't be used: %s" % error)
    # A long queue is a million objects without a cycle: looking through all of them again and
    # again would cost a tenth of the speed.
    gc.set_threshold(20000, 100, 100)
    launcher.run()


if __name__ == "__main__":
    main()
