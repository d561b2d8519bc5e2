"""Running attempts to their ends, whoever they are from."""

import collections
import contextlib
import heapq
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from wfrun.sites.node.journals import Journal
    from wfrun.sites.node.logs import FEW_BYTES
    from wfrun.sites.node.processes import attempt_of, become_subreaper, signal_group
    from wfrun.sites.node.slots import Attempt, Slots
    from wfrun.sites.node.starter import SHORT_S, SPARE_MARGIN, Starter
    from wfrun.sites.node.store import AttemptError, commit, failure_of, tail

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]
else:
    from journals import Journal
    from logs import FEW_BYTES
    from processes import attempt_of, become_subreaper, signal_group
    from slots import Attempt, Slots
    from starter import SHORT_S, SPARE_MARGIN, Starter
    from store import AttemptError, commit, failure_of, tail

PROTOCOL = 1
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""
FLUSH_S = 0.02
"""News is held back this long while there is queued work, to be written in one go."""
RETRY_S = 1.0
"""Between tries to write a journal on a full disk."""
READ_BYTES = 1 << 18


def describe(attempt: Attempt, code: "Optional[int]", number: "Optional[int]") -> str:
    """What happened to an attempt that failed, in words."""
    if attempt.reason == "walltime":
        return "ran longer than its walltime of %g s" % attempt.request["resources"]["walltime_s"]
    if attempt.reason == "lost":
        return "ended because its launcher was terminated"
    if attempt.reason == "expired":
        return "ended because the time of its launcher was over"
    if attempt.reason == "cancelled":
        return "was cancelled"
    if number is not None:
        try:
            return "killed by signal %d (%s)" % (number, signal.Signals(number).name)
        except ValueError:
            return "killed by signal %d" % number
    return "ended with exit code %d" % (code or 0)


class Runner:
    """Starts attempts in a site's directory and sees them end. What becomes of that is said by
    whoever extends it: ``_begun``, ``_conclude`` and ``_claimed_elsewhere``."""

    def __init__(self, directory: str, config: "Dict[str, Any]") -> None:
        self.directory = directory
        self.host = os.uname().nodename
        self.slots = Slots(config)
        self.starter = Starter(directory, self.slots, bool(config.get("pack_logs")))
        self.poller = select.poll()
        self.running: "Dict[int, Attempt]" = {}
        self.keys: "Dict[str, Attempt]" = {}
        """What was started, until its end is concluded."""
        self.timers: "List[Tuple[float, int, int]]" = []
        self.serial = 0
        self.grace_s = GRACE_S
        self.helpers: "Set[int]" = set()
        """Processes of our own, which belong to no attempt."""
        self.reaps_orphans = become_subreaper()
        self.children = -1
        if self.reaps_orphans:
            self.children = os.open("/proc/thread-self/children", os.O_RDONLY)
        self.orphans_known = True
        """What tasks left behind was looked for since the last of them ended."""
        self.wake = self._catch_signals()

    def _begun(self, attempt: Attempt) -> None:
        """It runs."""
        raise NotImplementedError

    def _conclude(self, key: str, outcome: "Outcome") -> None:
        """It has ended, or could not be started."""
        raise NotImplementedError

    def _claimed_elsewhere(self, key: str) -> None:
        """Somebody else has claimed what was to be started here."""
        raise NotImplementedError

    def _terminate(self) -> None:
        """SIGTERM has come."""
        raise NotImplementedError

    def _grace_is_over(self) -> None:
        """A timer of no attempt in particular fired."""

    def _commit(self, attempt: Attempt, sandbox: str) -> "List[Optional[int]]":
        """Put the outputs of a success into the store; returns their sizes in bytes."""
        return commit(attempt.request, sandbox, self.starter.store)

    def _catch_signals(self) -> int:
        """Every signal only writes its number into a pipe. A handler, unlike SIG_IGN, is not
        inherited by tasks."""
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for name in ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), lambda number, frame: None)
        self.poller.register(wake, select.POLLIN)
        return wake

    def _start(self, request: "Request", grant: "Grant") -> None:
        self.serial += 1
        attempt = Attempt(request, grant, self.serial)
        try:
            self.starter.claim(attempt)
            assert attempt.out is not None
            self.starter.start(attempt, attempt.out)
        except (AttemptError, OSError, ValueError) as error:
            self.slots.give_back(grant)
            if isinstance(error, FileExistsError) and attempt.out is None:
                self._claimed_elsewhere(attempt.key)
                return
            if attempt.out is not None:
                self.starter.retire(attempt, True)
            failure = failure_of(error)
            outcome = {"cause": failure.cause, "message": failure.message, "host": self.host}
            self._conclude(attempt.key, outcome)
            return
        self.running[attempt.pid] = attempt
        self.keys[attempt.key] = attempt
        self._begun(attempt)
        walltime_s = request["resources"]["walltime_s"]
        if walltime_s is not None:
            self._set_timer(attempt, walltime_s)

    def _set_timer(self, attempt: Attempt, delay_s: float) -> None:
        if len(self.timers) > 64 + 4 * len(self.running):
            serials = {running.serial for running in self.running.values()}
            self.timers = [entry for entry in self.timers if entry[1] in serials or not entry[2]]
            heapq.heapify(self.timers)
        due = time.monotonic() + delay_s
        heapq.heappush(self.timers, (due, attempt.serial, attempt.pid))

    def _fire_timers(self) -> None:
        """A walltime or a grace that is over; those of ended attempts say nothing."""
        while self.timers and self.timers[0][0] <= time.monotonic():
            _, serial, pid = heapq.heappop(self.timers)
            attempt = self.running.get(pid)
            if not pid:
                self._grace_is_over()
            elif attempt is not None and attempt.serial == serial:
                if attempt.reason is None:
                    self._end(attempt, "walltime")
                else:
                    signal_group(pid, signal.SIGKILL)

    def _end(self, attempt: Attempt, reason: str) -> None:
        if attempt.reason is None and self.running.get(attempt.pid) is attempt:
            attempt.reason = reason
            signal_group(attempt.pid, signal.SIGTERM)
            signal_group(attempt.pid, signal.SIGCONT)
            self._set_timer(attempt, self.grace_s)

    def _wake(self) -> "List[Tuple[Attempt, int, Any, float]]":
        numbers = os.read(self.wake, FEW_BYTES)
        if signal.SIGTERM in numbers:
            self._terminate()
        return self._reap() if signal.SIGCHLD in numbers else []

    def _reap(self) -> "List[Tuple[Attempt, int, Any, float]]":
        """Wait for all that have ended. What a task has left behind ends with it: its process
        group is killed while the task is a zombie, so that its number can't be another's."""
        ended = []
        orphan = False
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, flags)
            except ChildProcessError:
                break
            if info is None:
                break
            pid = info.si_pid
            attempt = self.running.pop(pid, None)
            if attempt is not None:
                signal_group(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            if attempt is not None:
                self.slots.give_back(attempt.grant)
                ended.append((attempt, status, usage, time.time()))
            elif pid in self.helpers:
                self.helpers.discard(pid)
            else:
                orphan = True
        self.orphans_known = False
        if orphan and self.reaps_orphans:
            self._kill_orphans()  # its children are ours now
        return ended

    def _kill_orphans(self) -> int:
        """Daemons that left the process group of a task which has ended; returns how many
        processes there are that tasks have left behind."""
        orphans = 0
        found = os.pread(self.children, FEW_BYTES, 0)
        if len(found) > FEW_BYTES // 2:
            found = os.pread(self.children, READ_BYTES, 0)
        for pid in map(int, found.split()):
            if pid in self.running or pid in self.helpers:
                continue
            orphans += 1
            key = attempt_of(pid)
            running = [attempt.key for attempt in self.running.values()]
            if (key is None and not running) or (key is not None and key not in running):
                with contextlib.suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
        return orphans

    def sweep(self, patience_s: float) -> None:
        """When nothing runs any more: kill what tasks have left behind, and what these leave."""
        deadline_s = time.monotonic() + patience_s
        while self.reaps_orphans and self._kill_orphans() and time.monotonic() < deadline_s:
            time.sleep(0.005)
            self._reap()

    def _settle(self, attempt: Attempt, status: int, usage: "Any", ended_s: float) -> None:
        """Commit the outputs of an attempt that has ended, and make its exit record."""
        if not self.orphans_known:
            self.orphans_known = True
            alone = self.reaps_orphans and not self._kill_orphans()
            # What a task left behind may still write into its sandbox until it is dead.
            self.starter.spare_limit = self.slots.all_cores + SPARE_MARGIN if alone else 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if number is None else None
        sandbox = attempt.sandbox
        self.starter.are_short = ended_s - attempt.started_s < SHORT_S
        outcome = {
            "cause": "done",
            "started_s": round(attempt.started_s, 6),
            "ended_s": round(ended_s, 6),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
            # At least what this launcher itself occupies, for a child of vfork is charged with
            # it: one more reason to keep it small.
            "peak_memory_bytes": usage.ru_maxrss * 1024,
            "host": self.host,
        }
        if code is not None:
            outcome["exit_code"] = code
        else:
            outcome["signal"] = number
        failure = None
        if status != 0 or attempt.reason is not None:
            cause = attempt.reason or ("exit" if number is None else "signal")
            if cause == "exit" and self._is_full(but_for=sandbox):
                cause = "storage"
            failure = AttemptError(cause, describe(attempt, code, number))
        elif attempt.request["outputs"]:
            try:
                outcome["sizes"] = self._commit(attempt, sandbox)
            except (AttemptError, OSError) as error:
                failure = failure_of(error)
                if failure.cause == "start":
                    failure = AttemptError("output", "its outputs can't be committed: %s" % error)
        if failure is not None:
            self.starter.show(attempt)
            outcome["cause"] = failure.cause
            outcome["message"] = failure.message + self._quote(attempt)
        empty = failure is None or failure.cause == "cancelled" or self._is_full()
        packed = self.starter.retire(attempt, empty)
        if packed is not None:
            outcome["packed"] = packed
        del self.keys[attempt.key]
        self._conclude(attempt.key, outcome)

    def _quote(self, attempt: Attempt) -> str:
        stderr = attempt.request["stderr"]
        named = self.starter.attempts + attempt.key + ".err"
        text = tail(attempt.sandbox + "/" + stderr if stderr else named).strip()
        if text:
            return "; the end of its stderr:\n" + text
        if not os.path.exists(self.starter.attempts):
            return "; the site's directory is gone"
        return "; its stderr is empty" + (
            ", and the site's disk is full" if self._is_full() else ""
        )

    def _is_full(self, but_for: "Optional[str]" = None) -> bool:
        """Whether the disk is full; not so where a tree has a good part in it that it is."""
        try:
            disk = os.statvfs(self.starter.attempts)
            if disk.f_bavail or but_for is None:
                return disk.f_bavail == 0
            taken = sum(
                os.lstat(os.path.join(place, name)).st_blocks * 512
                for place, _, names in os.walk(but_for)
                for name in names
            )
            return taken < disk.f_blocks * disk.f_frsize / 100
        except OSError:
            return False


class Worker(Runner):
    """A Runner with a queue (strict FCFS) and a journal, which tells an engine what it does.

    An end is in the journal before it is told, and news is gathered while there is queued work.
    How it is sent (``_say``, ``_send``) and what comes (``_handle``) is for whoever extends it."""

    def __init__(self, directory: str, config: "Dict[str, Any]", journal: Journal) -> None:
        self.journal = journal
        Runner.__init__(self, directory, config)
        if self.reaps_orphans:
            self.starter.helpers = self.helpers
        self.queue: "collections.OrderedDict[str, Request]" = collections.OrderedDict()
        self.started: "List[Attempt]" = []
        self.ended: "List[Tuple[str, Outcome]]" = []
        self.announced: "List[str]" = []
        self.flush_due = 0.0
        self.retry_due = 0.0
        self.failing = False

    def _say(self, text: str) -> None:
        """Put a line on its way to the engine."""
        raise NotImplementedError

    def _send(self) -> None:
        """Write as much as the engine takes."""
        raise NotImplementedError

    def _handle(self, message: "Dict[str, Any]") -> None:
        """Raises ValueError, KeyError, TypeError or AttributeError for what is no message."""
        raise NotImplementedError

    def _due(self) -> "List[float]":
        """When there is something to do next."""
        due = []
        if self.timers:
            due.append(self.timers[0][0])
        if self.started or self.ended or self.announced:
            due.append(self.flush_due)
        if self.failing:
            due.append(self.retry_due)
        return due

    def _hear(self, lines: "List[bytes]") -> None:
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
        if not fresh:
            return
        self.journal.add(json.dumps({"queued": [request["key"] for request in fresh]}))
        written = self.journal.write()
        for request in fresh:
            refusal = self.slots.refusal(request["resources"])
            if not written:
                text = "exit records can't be written: %s" % self.journal.error
                self._conclude(request["key"], {"cause": "storage", "message": text})
            elif refusal is not None:
                text = "can't be started at this site: %s" % refusal
                self._conclude(request["key"], {"cause": "start", "message": text})
            else:
                self.queue[request["key"]] = request

    def _start_queued(self) -> None:
        while self.queue:
            key = next(iter(self.queue))
            request = self.queue[key]
            grant = self.slots.take(request["resources"])
            if grant is None:
                break
            del self.queue[key]
            self._start(request, grant)

    def _begun(self, attempt: Attempt) -> None:
        self._news()
        self.started.append(attempt)

    # -- what goes out

    def _news(self) -> None:
        if not (self.started or self.ended or self.announced):
            self.flush_due = time.monotonic() + FLUSH_S

    def _conclude(self, key: str, outcome: "Outcome") -> None:
        """The end of an attempt of ours: recorded, then reported."""
        self._news()
        self.ended.append((key, outcome))

    def _announce(self, key: str, outcome: "Outcome") -> None:
        """The end of an attempt that is recorded elsewhere."""
        self._say(json.dumps({"ended": [[key, outcome]]}))
        self._send()

    def _flush(self) -> None:
        """Nobody waits for news of tasks while others can be started, so it is gathered."""
        now = time.monotonic()
        waiting = self.started or self.ended or self.announced
        if waiting and (now >= self.flush_due or (self.ended and not self.queue)):
            self._write_all()
        elif self.failing and now >= self.retry_due:
            self._write_journal()
        self._send()

    def _write_all(self) -> None:
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
        """A record that can't be written is reported all the same, or the engine would wait for
        a disk that may never have room; it is tried again until it is written."""
        failed = not self.journal.write()
        self.retry_due = time.monotonic() + RETRY_S
        if failed and not self.failing:
            text = "exit records can't be written to %s/exits: %s; make room there"
            text = text % (self.directory, self.journal.error)
            self._say(json.dumps({"failing": text}))
        elif self.failing and not failed:
            self._say(json.dumps({"recovered": True}))
        self.failing = failed
