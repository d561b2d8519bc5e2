"""Runs attempts on this machine, from the claim to the outcome."""

import contextlib
import heapq
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

    from wfrun.sites.node.tasks.digests import OutputDigests, StillReadingError
    from wfrun.sites.node.tasks.limits import is_setback
    from wfrun.sites.node.tasks.log_limits import LOOK_S, LogLimits
    from wfrun.sites.node.tasks.logs import FEW_BYTES
    from wfrun.sites.node.tasks.outputs import commit
    from wfrun.sites.node.tasks.processes import (
        attempt_of,
        become_subreaper,
        kill_leftovers,
        signal_group,
    )
    from wfrun.sites.node.tasks.slots import RunningAttempt, Slots
    from wfrun.sites.node.tasks.starter import SHORT_S, SPARE_MARGIN, Starter
    from wfrun.sites.node.tasks.store import AttemptError, failure_of, tail

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]
else:
    from digests import OutputDigests, StillReadingError
    from limits import is_setback
    from log_limits import LOOK_S, LogLimits
    from logs import FEW_BYTES
    from outputs import commit
    from processes import attempt_of, become_subreaper, kill_leftovers, signal_group
    from slots import RunningAttempt, Slots
    from starter import SHORT_S, SPARE_MARGIN, Starter
    from store import AttemptError, failure_of, tail

GRACE_S = 5.0
"""Time in seconds between SIGTERM and SIGKILL of a task."""
FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 5.0
"""Delay in seconds before a retry of the start or the commit of an attempt: after the first
setback, and the maximum. It doubles with each setback (see ``limits.SETBACKS``)."""
MAX_SETBACKS = 60
"""Maximum number of retries after setbacks, over about five minutes. Then the attempt fails, so
that the engine tries elsewhere."""
READ_BYTES = 1 << 18
"""Size of a large read, in bytes."""


def describe(attempt: RunningAttempt, code: "Optional[int]", number: "Optional[int]") -> str:
    """Describe a failure for the user. ``code`` is the task's exit code, ``number`` the number of
    the signal that ended it; None: unknown."""
    if attempt.reason == "walltime":
        return "ran longer than its walltime of %g s" % attempt.request["resources"]["walltime_s"]
    if attempt.reason == "lost":
        return "ended because its launcher was terminated"
    if attempt.reason == "expired":
        return "ended because the time of its launcher was over"
    if attempt.reason == "cancelled":
        return "was cancelled"
    if attempt.reason == "memory":
        return "a process of it was killed for lack of memory"
    if attempt.reason == "reclaimed":
        return "ended because its processors were given back"
    if attempt.reason == "node":
        return "ended, and another node of its claim does not answer any more"
    if number is not None:
        try:
            return "killed by signal %d (%s)" % (number, signal.Signals(number).name)
        except ValueError:
            return "killed by signal %d" % number
    return "ended with exit code %d" % (code or 0)


class Runner:
    """Starts attempts in a site's directory and settles their ends. Subclasses implement the
    callbacks ``_on_started``, ``_on_outcome``, ``_on_claimed_elsewhere`` and ``_on_sigterm``.

    ``launcher.py`` describes ``config``. The subclass has the event loop. It polls ``poller``,
    calls ``_on_wakeup`` when ``poller`` reports ``wake``, and ``_fire_timers`` when a timer is due.
    """

    def __init__(self, directory: str, config: "Dict[str, Any]") -> None:
        self.directory = directory
        self.host = os.uname().nodename
        self.slots = Slots(config)
        self.starter = Starter(
            directory, self.slots, bool(config.get("pack_logs")), config.get("variables")
        )
        self.poller = select.poll()
        self.running: "Dict[int, RunningAttempt]" = {}
        """Running attempts by pid. An attempt that waits for a retry has a negative number here."""
        self.keys: "Dict[str, RunningAttempt]" = {}
        """Attempts by key, from their start until their outcome is reported."""
        self.timers: "List[Tuple[float, int, int]]" = []
        """A heap of timers: due time on time.monotonic, serial number of the attempt (0: a check of
        the logs), pid of the attempt (0: a timer of the subclass)."""
        self.serial = 0
        self.digests = OutputDigests()
        self.log_limits = LogLimits()
        self.watches_logs = False
        """Whether a timer for a check of the logs is set."""
        self.grace_s = GRACE_S
        self.helpers: "Set[int]" = set()
        """Pids of child processes that belong to no attempt, such as the warm interpreter."""
        self.reaps_orphans = become_subreaper()
        self.children = -1
        if self.reaps_orphans:
            self.children = os.open("/proc/thread-self/children", os.O_RDONLY)
        self.orphans_known = True
        """Whether orphans were searched for since the last end of a child process."""
        self.warnings: "FrozenSet[int]" = frozenset()
        """Numbers of the signals with which the batch system warns that it will end the job."""
        self.wake = self._catch_signals()

    def _on_started(self, attempt: RunningAttempt) -> None:
        """Called after an attempt has started."""
        raise NotImplementedError

    def _on_outcome(self, key: str, outcome: "Outcome") -> None:
        """Called with the outcome of an attempt that has ended or could not be started."""
        raise NotImplementedError

    def _on_claimed_elsewhere(self, key: str) -> None:
        """Called instead of starting an attempt if another process has claimed it."""
        raise NotImplementedError

    def _on_sigterm(self) -> None:
        """Called when SIGTERM has arrived."""
        raise NotImplementedError

    def _on_warning(self) -> None:
        """Called when a signal of ``warnings`` has arrived."""

    def _on_helper_ended(self, pid: int, status: int) -> None:
        """Called when a process of ``helpers`` has ended, with its wait status."""

    def _has_ended(self, key: str) -> bool:
        """Whether this process has seen the end of an attempt."""
        return False

    def _on_grace_over(self) -> None:
        """Called when a timer of the subclass fires."""

    def _commit(self, attempt: RunningAttempt, sandbox: str) -> "List[Optional[int]]":
        """Commit the outputs of a successful attempt; returns their sizes in bytes."""
        return commit(attempt.request, sandbox, self.starter.store, attempt.committed)

    def _digests(
        self, attempt: RunningAttempt, sizes: "List[Optional[int]]"
    ) -> "List[Optional[str]]":
        """The digests of the committed outputs of an attempt; None where the size is None. Raises
        StillReadingError, OSError."""
        paths = [
            None if size is None else self.starter.store + "/" + output["stored"]
            for output, size in zip(attempt.request["outputs"], sizes)
        ]
        return self.digests.of(attempt.key, paths, sum(size or 0 for size in sizes))

    def _catch_signals(self) -> int:
        """Let the interpreter write the number of each caught signal to a pipe; returns the pipe's
        reading end. The handlers do nothing: unlike SIG_IGN, tasks do not inherit them."""
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for name in ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), lambda number, frame: None)
        self.poller.register(wake, select.POLLIN)
        return wake

    def _start(self, request: "Request", grant: "Grant") -> None:
        """Claim an attempt and start it with the resources ``grant``. On failure, retry later or
        report its outcome."""
        self.serial += 1
        self._try_to_start(RunningAttempt(request, grant, self.serial))

    def _try_to_start(self, attempt: RunningAttempt) -> None:
        try:
            if attempt.out is None:
                self.starter.claim(attempt, lambda: self._has_ended(attempt.key))
            assert attempt.out is not None
            self.starter.start(attempt, attempt.out)
        except (AttemptError, OSError, ValueError) as error:
            if isinstance(error, FileExistsError) and attempt.out is None:
                self.slots.give_back(attempt.grant)
                self._on_claimed_elsewhere(attempt.key)
            elif self._can_be_retried(attempt, error):
                self.starter.undo(attempt)
                self._delay(attempt)
            else:
                self._give_up(attempt, failure_of(error))
            return
        attempt.setbacks = 0
        self.running[attempt.pid] = attempt
        self.keys[attempt.key] = attempt
        self._on_started(attempt)
        self._limit_logs(attempt)
        walltime_s = attempt.request["resources"]["walltime_s"]
        if walltime_s is not None:
            self._set_timer(attempt, walltime_s)

    def _limit_logs(self, attempt: RunningAttempt) -> None:
        limit = attempt.request.get("max_log_bytes")
        if limit:
            fds = [log.fd for log in (attempt.out, attempt.err) if log is not None]
            self.log_limits.add(attempt.key, fds, limit)
            if not self.watches_logs:
                self._look_at_logs(LOOK_S)

    def _look_at_logs(self, delay_s: float) -> None:
        """Set the timer for the next check of the logs; 0.0: none until another attempt starts."""
        self.watches_logs = delay_s > 0
        if delay_s:
            heapq.heappush(self.timers, (time.monotonic() + delay_s, 0, 0))

    def _give_up(self, attempt: RunningAttempt, failure: AttemptError) -> None:
        """Release the resources of an attempt that could not be started, and report its failure."""
        self.keys.pop(attempt.key, None)
        self.slots.give_back(attempt.grant)
        if attempt.out is not None:
            self.starter.retire(attempt, True)
        outcome = {"cause": failure.cause, "message": failure.message, "host": self.host}
        self._on_outcome(attempt.key, outcome)

    def _can_be_retried(self, attempt: RunningAttempt, error: Exception) -> bool:
        """Whether to retry the start or the commit of an attempt: after a setback, up to
        MAX_SETBACKS times."""
        # A sandbox that exists is what the last try could not remove.
        passes = is_setback(error) or (attempt.setbacks > 0 and isinstance(error, FileExistsError))
        return passes and attempt.setbacks < MAX_SETBACKS

    def _delay(self, attempt: RunningAttempt) -> None:
        """Set a timer to retry the start or the commit of an attempt after a setback. Until then
        the attempt counts as running, with a negative pid."""
        delay_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**attempt.setbacks)
        attempt.setbacks += 1
        attempt.pid = -attempt.serial
        self.running[attempt.pid] = self.keys[attempt.key] = attempt
        self._set_timer(attempt, delay_s)

    def _retry(self, attempt: RunningAttempt) -> None:
        """Retry the commit or the start of an attempt. If the attempt is being ended, do not start
        it, and report it as failed."""
        del self.running[attempt.pid]
        if attempt.end is not None:
            self._settle(attempt, *attempt.end)
        elif attempt.reason is None:
            self._try_to_start(attempt)
        else:
            self._give_up(attempt, AttemptError(attempt.reason, describe(attempt, None, None)))

    def _set_timer(self, attempt: RunningAttempt, delay_s: float) -> None:
        """Set a timer of an attempt. If there are many timers, those of ended attempts are
        removed."""
        if len(self.timers) > 64 + 4 * len(self.running):
            serials = {running.serial for running in self.running.values()}
            self.timers = [entry for entry in self.timers if entry[1] in serials or not entry[2]]
            heapq.heapify(self.timers)
        due = time.monotonic() + delay_s
        heapq.heappush(self.timers, (due, attempt.serial, attempt.pid))

    def _fire_timers(self) -> None:
        """Handle due timers: check logs, call ``_on_grace_over``, retry an attempt, end one at its
        walltime, or kill one that is being ended. Timers of ended attempts are ignored."""
        while self.timers and self.timers[0][0] <= time.monotonic():
            _, serial, pid = heapq.heappop(self.timers)
            attempt = self.running.get(pid)
            if not serial:
                self._look_at_logs(self.log_limits.look())
            elif not pid:
                self._on_grace_over()
            elif attempt is not None and attempt.serial == serial:
                if pid < 0:
                    self._retry(attempt)
                elif attempt.reason is None:
                    self._end(attempt, "walltime")
                else:
                    signal_group(pid, signal.SIGKILL)

    def _end(self, attempt: RunningAttempt, reason: str) -> None:
        """End an attempt with the cause ``reason``, unless it is being ended already. Send SIGTERM
        now, and SIGKILL after ``grace_s``. SIGCONT lets a stopped task react."""
        if attempt.reason is None and self.running.get(attempt.pid) is attempt:
            attempt.reason = reason
            if attempt.pid < 0:
                self._retry(attempt)
                return
            signal_group(attempt.pid, signal.SIGTERM)
            signal_group(attempt.pid, signal.SIGCONT)
            self._set_timer(attempt, self.grace_s)

    def _on_wakeup(self) -> "List[Tuple[RunningAttempt, int, Any, float]]":
        """Handle the signals that have arrived. Returns the attempts whose process has ended, with
        wait status, resource usage and time of the end."""
        numbers = os.read(self.wake, FEW_BYTES)
        if not self.warnings.isdisjoint(numbers):
            self._on_warning()
        if signal.SIGTERM in numbers:
            self._on_sigterm()
        return self._reap() if signal.SIGCHLD in numbers else []

    def _reap(self) -> "List[Tuple[RunningAttempt, int, Any, float]]":
        """Reap all child processes that have ended; returns what ``_on_wakeup`` returns.

        The process group of an attempt is killed while its leader is still a zombie, so that no
        other group can have its number yet.
        """
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
                self._on_helper_ended(pid, status)
            else:
                orphan = True
        self.orphans_known = False
        if orphan and self.reaps_orphans:
            self._kill_orphans()  # its children have become ours
        return ended

    def _kill_orphans(self) -> int:
        """Kill orphans of ended tasks: our child processes that had left the process group of their
        task. Returns the number of all orphans, including those of running tasks."""
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
        """Kill orphans until there are none, for up to ``patience_s`` seconds: when one dies, its
        own children become ours. Call it when no task runs any more."""
        deadline_s = time.monotonic() + patience_s
        while self.reaps_orphans and self._kill_orphans() and time.monotonic() < deadline_s:
            time.sleep(0.005)
            self._reap()

    def _outcome_of(self, attempt: RunningAttempt, usage: "Any", ended_s: float) -> "Outcome":
        """The outcome of an ended attempt, assuming that it has succeeded."""
        return {
            "cause": "done",
            "started_s": round(attempt.started_s, 6),
            "ended_s": round(ended_s, 6),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
            # At least the size of this process: it is charged to a child of vfork. One more reason
            # to keep it small.
            "peak_memory_bytes": usage.ru_maxrss * 1024,
            "host": self.host,
        }

    def _settle(self, attempt: RunningAttempt, status: int, usage: "Any", ended_s: float) -> None:
        """Commit the outputs of an ended attempt if it has succeeded, and report its outcome. After
        a setback, retry later."""
        if not self.orphans_known:
            self.orphans_known = True
            alone = self.reaps_orphans and not self._kill_orphans()
            # A process that a task left behind may write into its sandbox until it is dead.
            self.starter.spare_limit = self.slots.all_cores + SPARE_MARGIN if alone else 0
        self.log_limits.end(attempt.key)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if number is None else None
        sandbox = attempt.sandbox
        self.starter.has_short_tasks = ended_s - attempt.started_s < SHORT_S
        outcome = self._outcome_of(attempt, usage, ended_s)
        if code is not None:
            outcome["exit_code"] = code
        else:
            outcome["signal"] = number
        failure = self._environment_failure(attempt, status, code)
        if failure is not None:
            pass
        elif status != 0 or attempt.reason is not None:
            cause = attempt.reason or ("exit" if number is None else "signal")
            if cause == "exit" and self._is_full(but_for=sandbox):
                cause = "disk-full"
            failure = AttemptError(cause, describe(attempt, code, number))
            vanished = self.starter.vanished_input(attempt) if cause == "exit" else None
            if vanished is not None:
                text = ", and its input %r has vanished from the site's store" % vanished
                failure = AttemptError("staging", failure.message + text)
        elif attempt.request["outputs"]:
            try:
                outcome["sizes"] = self._commit(attempt, sandbox)
                if attempt.request.get("checksums"):
                    outcome["digests"] = self._digests(attempt, outcome["sizes"])
            except StillReadingError:
                attempt.end = status, usage, ended_s
                attempt.setbacks = 0
                self._delay(attempt)
                return
            except (AttemptError, OSError) as error:
                if self._can_be_retried(attempt, error):
                    attempt.end = status, usage, ended_s
                    self._delay(attempt)
                    return
                failure = failure_of(error)
                if failure.cause == "launch-failed":
                    failure = AttemptError("output", "its outputs cannot be committed: %s" % error)
        if failure is not None:
            self.digests.forget(attempt.key)  # It may have been ended while a thread computed them.
            outcome["cause"] = failure.cause
            outcome["message"] = failure.message + self._quote(attempt)
        empty = failure is None or failure.cause == "cancelled" or self._is_full()
        packed = self.starter.retire(attempt, empty)
        if packed is not None:
            outcome["packed"] = packed
        del self.keys[attempt.key]
        self._on_outcome(attempt.key, outcome)

    def _environment_failure(
        self, attempt: RunningAttempt, status: int, code: "Optional[int]"
    ) -> "Optional[AttemptError]":
        """The error in the setup of an attempt's environment. None if the setup has succeeded, if
        the launcher has ended the attempt, or if the disk is full."""
        if attempt.setup is None:
            return None
        if attempt.setup.is_detached and status != 0:
            kill_leftovers({attempt.key}, [])
        if attempt.reason is not None or self._is_full():
            return None
        return attempt.setup.failure(code, lambda: self._stderr_tail(attempt))

    def _stderr_tail(self, attempt: RunningAttempt) -> str:
        self.starter.show(attempt)
        stderr = attempt.request["stderr"]
        named = self.starter.attempts + attempt.key + ".err"
        return tail(attempt.sandbox + "/" + stderr if stderr else named)

    def _quote(self, attempt: RunningAttempt) -> str:
        """The last part of an attempt's stderr, as a suffix of the message of its outcome."""
        text = self._stderr_tail(attempt).strip()
        if text:
            return "; the end of its stderr:\n" + text
        if not os.path.exists(self.starter.attempts):
            return "; the site's directory is gone"
        return "; its stderr is empty" + (
            ", and the site's disk is full" if self._is_full() else ""
        )

    def _is_full(self, but_for: "Optional[str]" = None) -> bool:
        """Whether the disk is full. ``but_for`` is a task's sandbox: if it takes 1% of the disk or
        more, return False, since the task itself has filled the disk."""
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
