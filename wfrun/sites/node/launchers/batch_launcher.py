"""A launcher inside a batch job: runs attempts on a node, for an engine elsewhere.

It is copied beside ``channels.py`` into the run's directory at the site and needs only the standard
library of Python >= 3.6. ``job.py`` starts it like a task, as an attempt with the launcher's key;
so ``job.py`` claims it, and kills the processes that it leaves behind:

    sh ../../bin/batch_launcher.sh ../.. KEY '{"cores": 32, "walltime_s": 3600}'

Keys of the configuration, all but ``cores`` optional: ``memory_bytes``, ``gpus``, ``pin_cores``,
``pack_logs`` (as for ``launcher.py``, of one node), ``nodes`` (1), ``walltime_s`` (null: no end),
``channels`` (as in LauncherSpec; default ["tcp", "ssh", "spool"]) and ``patience_s`` (600).

On several nodes, the launcher of the first node starts one on each other node, by a command of the
batch system. Each has its own channel and journal. The others read the configuration from
``launchers/<key>.json``, and their last argument is the number of the node. The first launcher ends
last, and accepts no more attempts when all others have ended. If one command starts all others, as
in Slurm, it may end them all when one fails.

Messages are JSON lines. To the engine:
    {"hello": 1, "launcher": key, "pid", "host", "slots", "memory_bytes", "gpus", "left_s",
     "node", "nodes", "session"}        first on each connection; left_s null: no end is known
    {"started": [key, ...], "ended": [[key, outcome], ...]}
    {"returned": [key, ...]}            have not started here and will not
    {"contested": [key, ...]}           have been claimed by another process
    {"found": {key: {"state": "absent" | "active" | "ended", "outcome": ...}}, "id": n}
    {"failing": text}, {"recovered": true}, {"error": text}     as of ``launcher.py``
    {"ending": reason}                  this launcher accepts no more attempts
    {"remote": {"id", "launcher", "node", "attempt", "command", "inputs", "env"}}
                                        start a command on another node of the attempt's claim
    {"hangup": id}                      end that command, since nobody waits for it any more
    {"remote_ended": {"id", "status", "text"}}      a command started here has ended
    {"resized": {"attempt", "number", "nodes": [launcher, ...], "gone": bool, "failure": text}}
                                        a malleable program now has the nodes of these launchers
                                        besides this one; ``number`` is that of the last answered
                                        "resize", 0 if there was none
From the engine:
    {"run": [attempt, ...]}             queue these; they start in this order
    {"return": [key, ...]}              give back those that have not started; "returned" follows
    {"cancel": [key, ...], "queued_only": bool}
    {"find": [key, ...], "id": n}       report the states; absent: not here, no record here
    {"stop": true, "now": bool}         return the queue, let running tasks end, then end; with
                                        "now" the tasks are ended, with the cause ``reclaimed``
    {"start": command}                  start a command for another node, unless started before
    {"end": id}                         end that command; "remote_ended" follows
    {"remote_ended": {...}}             a command that this launcher asked for has ended
    {"resize": {"attempt", "number", "nodes": [ClaimedNode, ...], "shrink": n}}
                                        offer nodes to a malleable program, or reclaim n nodes;
                                        ignored unless the number is larger than the last one
The channel answers pings. After a hello the launcher reports again which attempts run. Other
messages may be lost with a connection: the engine asks for states, and sends absent attempts again.

An attempt is returned when its expected run time (expected_s, or else its walltime if that is less
than the launcher's) exceeds the time left. Some seconds before the end of its walltime the launcher
ends the running tasks with the cause ``expired``. After SIGTERM the cause of running and unsettled
tasks is ``expired`` if that end was near, else ``lost``, and the launcher exits within 5 s. A
launcher that has been idle and without an engine for ``patience_s`` ends. When its run is over (see
``channels.py``) it ends its tasks with the cause ``cancelled``, then itself.

    exits/<key>.jsonl           the journal of the first node, as of ``launcher.py``
    exits/<key>.<node>.jsonl    the journal of another node

An attempt that the journal has as ``queued``, and not as ``dropped``, ``started`` or ``ended``, may
have been started just before the launcher died: its claim decides.
"""

import collections
import contextlib
import gc
import heapq
import json
import os
import shutil
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from wfrun.sites.node.channels import channels
    from wfrun.sites.node.jobs import batch_job, cuts
    from wfrun.sites.node.launchers import (
        journals,
        malleable_programs,
        queue_runner,
        remote_commands,
    )
    from wfrun.sites.node.tasks import limits, processes, slots, starter, store

    Unsettled = Tuple[float, Tuple[slots.RunningAttempt, int, Any, float]]
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import batch_job
    import channels
    import cuts
    import journals
    import limits
    import malleable_programs
    import processes
    import queue_runner
    import remote_commands
    import slots
    import starter
    import store

NEAR_END_S = 90.0
"""Maximum time in seconds before ``end_s`` at which SIGTERM counts as the end of the walltime:
batch systems warn early and count in minutes."""
TERMINATED_GRACE_S = 2.5
"""Time in seconds between SIGTERM and SIGKILL of tasks after a SIGTERM to us. ``job.py`` kills us
after 5 s."""
EXIT_S = 4.5
"""Maximum time in seconds from a SIGTERM to our exit, even with unfinished work. ``job.py`` kills
us after 5 s."""
MAX_RECORD_RETRY_S = 600.0
"""Maximum time for which writing the last records is retried, in seconds, as in ``job.py``."""
SIGTERM_DOUBT_S = 1.0
"""Delay in seconds before the launcher settles a task that SIGTERM has ended. A batch system that
ends a job signals all its processes, so within this time a signal to us would show it."""
DOUBT_RATIO = 0.02
"""Delay before a successful end is settled, as a fraction of the task's run time; at most
``cuts.SIGNALS_S``. It is relative so that it does not slow down chains of short tasks."""
FIRST_CONTACT_S = 60.0
"""Minimum time in seconds to wait for the first connection of an engine."""
ANSWER_S = 60.0
"""Maximum time in seconds that a failed attempt waits for reports that its commands on other nodes
have ended. A node that does not report by then may be down, and have caused the failure."""
TURN_S = 1.0
"""Maximum time in seconds between turns of the event loop while no engine is connected."""


class BatchLauncher(queue_runner.QueueRunner):
    """The event loop of a launcher: single-threaded, waits for events only in ``poll``."""

    def __init__(
        self,
        directory: str,
        key: str,
        config: "Dict[str, Any]",
        node: int,
        system: batch_job.JobSystem,
    ) -> None:
        name = "%s.jsonl" % key if node == 0 else "%s.%d.jsonl" % (key, node)
        journal = journals.Journal(directory + "/exits", name)
        queue_runner.QueueRunner.__init__(
            self, directory, dict(config, slots=config["cores"]), journal
        )
        self.system = system
        self.host = system.node() or self.host
        self.warnings = system.warnings
        self.key = key
        self.config = config
        self.node = node
        self.nodes = int(config.get("nodes") or 1)
        self.patience_s = float(config.get("patience_s", 600.0))
        kinds = config.get("channels") or ["tcp", "ssh", "spool"]
        self.channel = channels.Channel(directory, key, node, kinds, self.poller)
        self.session = self.channel.session
        now = time.monotonic()
        self.granted_s = system.time_granted_s(config.get("walltime_s"))
        """Walltime of the launcher in seconds; None: unlimited or unknown."""
        self.end_s: "Optional[float]" = None
        """Time at which to end running tasks, on time.monotonic; None: no end is known."""
        if self.granted_s is not None:
            begun_s = processes.start_time(os.getpid()) or processes.boot_clock()
            passed_s = processes.boot_clock() - begun_s
            self.end_s = now - passed_s + self.granted_s - batch_job.margin_of(self.granted_s)
        self.last_turn_s = now
        self.unattended_s = 0.0
        """Time in seconds that the launcher has been idle without an engine."""
        self.ending = ""
        """Why the launcher accepts no more attempts; empty: it accepts them."""
        self.reason = ""
        """Cause with which all running tasks are being ended; empty: they are not."""
        self.exit_s: "Optional[float]" = None
        """Time at which to exit even with unfinished work, on time.monotonic; None: not set."""
        self.start_deadlines: "List[Tuple[float, str]]" = []
        """A heap of queued attempts: the latest start time on time.monotonic, and the key."""
        self.unsettled: "collections.OrderedDict[str, Unsettled]" = collections.OrderedDict()
        """Ended attempts by key, each with the time at which to settle it."""
        self.memory_kills = cuts.MemoryKills()
        self.suspects: "Set[str]" = set()
        """Running attempts that may have lost a process to an out-of-memory kill."""
        self.warned_s = float("-inf")
        """Time of the last warning of the batch system, on time.monotonic; -inf: none yet."""
        self.contested: "List[str]" = []
        """Attempts that could not be started because their claims existed already."""
        self.node_starters: "Set[int]" = set()
        """Pids of the commands that run the launchers on the other nodes, a subset of ``helpers``.
        """
        self.problem = ""
        """An error to report after each hello; empty: none."""
        self.remote = remote_commands.RemoteCommands(
            directory, key, node, self.poller, self.helpers, self._say, self._request_of
        )
        self.programs = malleable_programs.MalleablePrograms(
            self.poller, self._say, self._reclaim, self.remote.forget_nodes
        )
        self.starter.reach = self._reach
        self.unanswered: "Set[str]" = set()
        """Failed attempts with commands on other nodes whose ends are not reported yet."""

    def run(self) -> None:
        """Run until the walltime is over, the engine or the batch system ends us, or no engine has
        connected for ``patience_s``."""
        remote_commands.remove_left_memory()
        while not self._is_done():
            has_input = False
            for fd, _ in self.poller.poll(self._timeout_ms()):
                if fd == self.wake:
                    self._on_signals()
                elif self.remote.owns(fd):
                    self.remote.turn(fd)
                elif self.programs.owns(fd):
                    self.programs.turn(fd)
                has_input = has_input or self.channel.owns(fd)
            due_s = self.channel.due_s()
            if has_input or (due_s is not None and time.monotonic() >= due_s):
                lines = self.channel.turn()
                if self.channel.session != self.session:
                    self._say_hello()
                self._handle_lines(lines)
            self._fire_timers()
            self._check_deadlines()
            # Free slots are filled before outputs are committed, so that slots do not wait for the
            # file system.
            self._start_queued()
            self._settle_ready()
            self._flush()
        self._write_all()
        self.remote.kill(others=True)
        self.programs.close()
        self.sweep(1.0)
        self.starter.close()
        self.channel.drain()
        self.channel.close()

    def _is_done(self) -> bool:
        if self.exit_s is not None and time.monotonic() >= self.exit_s:
            return True
        if not self.ending or self.running or self.unsettled or self.ended or self.node_starters:
            return False
        if self.remote.running:
            return False
        if self.failing and self.exit_s is None:
            self.exit_s = time.monotonic() + MAX_RECORD_RETRY_S
        return not self.failing

    def _timeout_ms(self) -> "Optional[int]":
        due = self._due() + self.programs.due_s()
        if self.queue and self.start_deadlines:
            due.append(self.start_deadlines[0][0])
        if self.unsettled:
            due.append(min(at_s for at_s, _ in self.unsettled.values()))
        if not self.channel.is_open:
            due.append(time.monotonic() + TURN_S)
        for at_s in (self.channel.due_s(), self.exit_s, None if self.reason else self.end_s):
            if at_s is not None:
                due.append(at_s)
        if not due:
            return None
        wait_s = min(due) - time.monotonic()
        return int(wait_s * 1000) + 1 if wait_s > 0 else 0

    # -- time

    def _left_s(self) -> "Optional[float]":
        """Time left for tasks in seconds; None: no end is known."""
        if self.end_s is None:
            return None
        return max(0.0, round(self.end_s - time.monotonic(), 3))

    def _check_deadlines(self) -> None:
        """End running tasks if the launcher's time or its run is over, return queued attempts that
        are past their latest start, and stop if no engine has connected for too long."""
        now = time.monotonic()
        if self.end_s is not None and now >= self.end_s and not self.reason:
            assert self.granted_s is not None
            margin_s = batch_job.margin_of(self.granted_s)
            self.grace_s = margin_s / 2
            self.exit_s = now + 0.9 * margin_s
            self._end_all("expired", "its time is over")
        if self.channel.is_over and not self.reason:
            self._end_all("cancelled", "its run is over")
        late = []
        while self.start_deadlines and self.start_deadlines[0][0] <= now:
            key = heapq.heappop(self.start_deadlines)[1]
            if key in self.queue:
                late.append(key)
        self._return(late)
        self.programs.check()
        busy = self.running or self.queue or self.unsettled
        # While this process was suspended no engine could connect, so that time does not count.
        passed_s = min(now - self.last_turn_s, 2 * TURN_S)
        self.last_turn_s = now
        self.unattended_s = 0.0 if busy or self.channel.is_open else self.unattended_s + passed_s
        patience_s = self.patience_s if self.session else max(self.patience_s, FIRST_CONTACT_S)
        if self.unattended_s >= patience_s and not self.ending:
            self._stop("no engine connected for %g s" % patience_s)

    def _needed_s(self, request: "Dict[str, Any]") -> "Optional[float]":
        """Time in seconds that an attempt needs, by which its latest start is computed; None:
        unknown, or the launcher has no known end."""
        if self.granted_s is None:
            return None
        expected_s = request.get("expected_s")
        if expected_s is not None:
            return float(expected_s)
        walltime_s = request["resources"]["walltime_s"]
        return walltime_s if walltime_s is not None and walltime_s < self.granted_s else None

    def _on_sigterm(self) -> None:
        """End all tasks and exit within EXIT_S, by order of the batch system or of ``job.py``."""
        self.grace_s = TERMINATED_GRACE_S
        now = time.monotonic()
        if self.exit_s is None:
            self.exit_s = now + EXIT_S
        for attempt in self.running.values():
            if attempt.reason is not None:  # it had its SIGTERM
                processes.signal_group(attempt.pid, signal.SIGKILL)
        for pid in self.node_starters:
            processes.signal_group(pid, signal.SIGTERM)
        near = self.end_s is not None and now >= self.end_s - NEAR_END_S
        self._end_all("expired" if near else "lost", "it was terminated")
        self._cut_ended(self.reason)

    def _on_warning(self) -> None:
        self.warned_s = time.monotonic()
        self._cut_ended("lost")

    def _cut_ended(self, cause: str) -> None:
        """Called after a signal of the batch system. Set the cause of attempts that have ended and
        are not due to be settled yet."""
        now = time.monotonic()
        for due_s, (attempt, _, _, _) in self.unsettled.values():
            if attempt.reason is None and due_s > now:
                attempt.reason = cause

    def _end_all(self, cause: str, why: str) -> None:
        """End all running tasks with this cause and accept no more attempts."""
        self.reason = self.reason or cause
        self._stop(why)
        for attempt in list(self.running.values()):
            self._end(attempt, self.reason)
        self.remote.end_all()
        self._limit_grace()

    def _limit_grace(self) -> None:
        """Set a timer for SIGKILL to commands that run here for other nodes and are being ended."""
        if self.remote.running:
            heapq.heappush(self.timers, (time.monotonic() + self.grace_s, 1, 0))

    def _on_grace_over(self) -> None:
        self.remote.kill()

    def _stop(self, why: str) -> None:
        """Accept no more attempts and return the queued ones; running tasks go on."""
        if not self.ending:
            self.ending = why
            self._say(json.dumps({"ending": why}))
            with contextlib.suppress(OSError):
                os.write(2, ("wfrun: launcher %s ends: %s\n" % (self.key, why)).encode())
        self._return(list(self.queue))

    # -- what comes in

    def _handle(self, message: "Dict[str, Any]") -> None:
        if "run" in message:
            self._queue(message["run"])
        elif "return" in message:
            self._return([key for key in message["return"] if key in self.queue])
        elif "cancel" in message:
            for key in message["cancel"]:
                self._cancel(key, bool(message.get("queued_only")))
        elif "find" in message:
            found = self._find(message["find"])
            self._say(json.dumps({"found": found, "id": message["id"]}))
        elif "stop" in message and message.get("now"):
            self._end_all("reclaimed", "the engine took its processors back")
        elif "stop" in message:
            self._stop("the engine asked it to stop")
        elif "start" in message:
            self.remote.start(message["start"])
        elif "end" in message:
            self.remote.end(message["end"])
            self._limit_grace()
        elif "remote_ended" in message:
            self.remote.on_answer(message["remote_ended"])
            self._settle_answered()
        elif "resize" in message:
            self.programs.resize(message["resize"])
        else:
            raise ValueError("unknown message")

    def _queue(self, requests: "List[Dict[str, Any]]") -> None:
        """Queue the attempts that are not here yet, or return them if this launcher is ending."""
        fresh = [request for request in requests if not self._is_here(request["key"])]
        if self.ending:
            self._report_returned([request["key"] for request in fresh])
            return
        self._enqueue(fresh)
        for request in fresh:
            needed_s = self._needed_s(request)
            if needed_s is not None and self.end_s is not None:
                heapq.heappush(self.start_deadlines, (self.end_s - needed_s, request["key"]))
        if len(self.start_deadlines) > 64 + 4 * len(self.queue):
            self.start_deadlines = [
                entry for entry in self.start_deadlines if entry[1] in self.queue
            ]
            heapq.heapify(self.start_deadlines)

    def _is_here(self, key: str) -> bool:
        return key in self.queue or key in self.keys or key in self.unsettled

    def _return(self, keys: "List[str]") -> None:
        """Return queued attempts to the engine. The drop is written to the journal first: the
        journal must not claim an attempt that the engine gives to another launcher."""
        if not keys:
            return
        for key in keys:
            del self.queue[key]
        self.journal.add(json.dumps({"dropped": keys}))
        self._write_journal()
        self._report_returned(keys)

    def _report_returned(self, keys: "List[str]") -> None:
        if keys:
            self._say(json.dumps({"returned": keys}))

    def _cancel(self, key: str, queued_only: bool) -> None:
        """Cancel an attempt; with ``queued_only`` not if it runs."""
        if key in self.queue:
            del self.queue[key]
            outcome = {"cause": "cancelled", "message": "was cancelled before it started"}
            self._on_outcome(key, outcome)
        elif key in self.keys and key not in self.unsettled and not queued_only:
            self._end(self.keys[key], "cancelled")

    def _find(self, keys: "List[str]") -> "Dict[str, Any]":
        """The states of attempts as known to this launcher and its journal."""
        self._write_all()
        found: "Dict[str, Any]" = {}
        for key in keys:
            found[key] = {"state": "active" if self._is_here(key) else "absent"}
        absent = {key for key, answer in found.items() if answer["state"] == "absent"}
        for key, outcome in self.journal.ends(absent).items():
            found[key] = {"state": "ended", "outcome": outcome}
        return found

    # -- starting and ending

    def _on_claimed_elsewhere(self, key: str) -> None:
        self.contested.append(key)

    def _request_of(self, key: str) -> "Optional[Dict[str, Any]]":
        return self.keys[key].request if key in self.keys else None

    def _reach(self, attempt: "slots.RunningAttempt", node_file: str) -> "Dict[str, str]":
        """Environment variables by which a task starts processes on other nodes of its claim and,
        if it is malleable, gets and gives back nodes."""
        variables = self.remote.variables(node_file)
        if attempt.request.get("malleable"):
            variables.update(self.programs.variables(attempt.request, attempt.sandbox))
        return variables

    def _reclaim(self, key: str) -> None:
        """End an attempt that does not give its processors back, with the cause ``reclaimed``."""
        if key in self.keys and key not in self.unsettled:
            self._end(self.keys[key], "reclaimed")

    def _on_helper_ended(self, pid: int, status: int) -> None:
        if pid in self.remote.running:
            if self.reaps_orphans:
                self._kill_orphans()
            self.remote.on_ended(pid, status)
            self._settle_answered()

    def _settle_answered(self) -> None:
        """Make each attempt in ``unanswered`` due if all its commands are reported as ended."""
        for key in [each for each in self.unanswered if not self.remote.hang_up(each)]:
            self.unanswered.discard(key)
            if key in self.unsettled:
                self.unsettled[key] = (time.monotonic(), self.unsettled[key][1])

    def _commit(self, attempt: "slots.RunningAttempt", sandbox: str) -> "List[Optional[int]]":
        store.refuse_revoked(self.starter.attempts, attempt.key)
        return queue_runner.QueueRunner._commit(self, attempt, sandbox)

    def _on_signals(self) -> None:
        """Handle the received signals. For each attempt whose process has ended, set the time at
        which to settle it."""
        had_others = bool(self.node_starters)
        ended = self._on_wakeup()
        self._blame_memory([end[0] for end in ended if processes.is_killed(end[1])])
        for end in ended:
            delay_s = self._doubt_s(end[0], end[1], end[3])
            if self.remote.hang_up(end[0].key) and end[1] != 0 and end[0].reason is None:
                self.unanswered.add(end[0].key)
                delay_s = ANSWER_S
            self.unsettled[end[0].key] = (time.monotonic() + delay_s, end)
        self.node_starters &= self.helpers
        if had_others and not self.node_starters:
            self._stop("the launchers on its other nodes have ended")

    def _doubt_s(self, attempt: "slots.RunningAttempt", status: int, ended_s: float) -> float:
        """Delay in seconds before an end is settled, in which a signal to us would show that the
        batch system has ended the task. Sets the attempt's cause if it is known already."""
        if attempt.reason is None and status == 0:
            if attempt.key in self.suspects:
                attempt.reason = "memory"
            elif time.monotonic() < self.warned_s + cuts.WARNING_S:
                attempt.reason = "lost"
        self.suspects.discard(attempt.key)
        if attempt.reason is not None or self.reason:
            return 0.0
        if processes.is_terminated(status):
            return SIGTERM_DOUBT_S
        ran_s = max(0.0, ended_s - attempt.started_s)
        return min(cuts.SIGNALS_S, DOUBT_RATIO * ran_s) if status == 0 else 0.0

    def _blame_memory(self, killed: "List[slots.RunningAttempt]") -> None:
        """Attribute new out-of-memory kills to attempts: first to those in ``killed``, which
        SIGKILL has ended. If there are more kills, all running attempts become suspects."""
        kills = self.memory_kills.news()
        if not kills:
            return
        for attempt in killed[:kills]:
            attempt.reason = attempt.reason or "memory"
        if kills > len(killed):
            self.suspects.update(key for key in self.keys if key not in self.unsettled)

    def _on_started(self, attempt: "slots.RunningAttempt") -> None:
        self._blame_memory([])
        self.suspects.discard(attempt.key)  # killed before it began
        queue_runner.QueueRunner._on_started(self, attempt)

    def _settle_ready(self) -> None:
        """Settle one due attempt, then further ones while more are due than this node has cores.
        Between calls the event loop starts queued attempts."""
        now = time.monotonic()
        ready = [key for key, (due_s, _) in self.unsettled.items() if due_s <= now or self.reason]
        for done, key in enumerate(ready, 1):
            attempt, status, usage, ended_s = self.unsettled.pop(key)[1]
            if self.reason and attempt.reason is None and status != 0:
                attempt.reason = self.reason
            if key in self.unanswered:
                self.unanswered.discard(key)
                attempt.reason = attempt.reason or "node"
            self.remote.forget(key)
            self.programs.forget(key)
            self._settle(attempt, status, usage, ended_s)
            if len(ready) - done <= self.slots.all_cores:
                break

    # -- what goes out

    def _say(self, text: str) -> None:
        self.channel.say(text)

    def _send(self) -> None:
        self.channel.send()

    def _say_hello(self) -> None:
        """Send the first messages of a new connection. Reports that were lost with the last
        connection are not repeated: the engine asks, and the answers are in the journal."""
        self.session = self.channel.session
        self._write_all()
        hello = {
            "hello": queue_runner.PROTOCOL,
            "launcher": self.key,
            "pid": os.getpid(),
            "host": self.host,
            "slots": self.slots.all_cores,
            "memory_bytes": self.slots.all_memory,
            "gpus": self.slots.all_gpus,
            "left_s": self._left_s(),
            "node": self.node,
            "nodes": self.nodes,
            "session": self.session,
        }
        self._say(json.dumps(hello))
        if self.keys:
            self._say(json.dumps({"started": list(self.keys), "ended": []}))
        if self.failing:
            text = "exit records cannot be written to %s/exits" % self.directory
            self._say(json.dumps({"failing": text}))
        if self.problem:
            self._say(json.dumps({"error": self.problem}))
        self.remote.say_again()
        self.programs.say_again()
        if self.ending:
            self._say(json.dumps({"ending": self.ending}))

    def _flush(self) -> None:
        if self.contested:
            self._settle_contested()
        queue_runner.QueueRunner._flush(self)

    def _settle_contested(self) -> None:
        """Report each attempt in ``contested``: its end if this launcher's journal has it, since
        the engine has missed that report; else that it is contested."""
        keys, self.contested = self.contested, []
        self._write_all()
        ends = self.journal.ends(set(keys))
        for key, outcome in ends.items():
            self._report_recorded_end(key, outcome)
        others = [key for key in keys if key not in ends and not self._is_here(key)]
        if others:
            self.journal.add(json.dumps({"dropped": others}))
            self._write_journal()
            self._say(json.dumps({"contested": others}))

    # -- further nodes

    def start_other_nodes(self) -> None:
        """Start launchers on the other nodes of the job. If that is impossible, use one node."""
        hosts = batch_job.hosts_here()
        program = ["/bin/sh", self.directory + "/bin/batch_launcher.sh", self.directory, self.key]
        starts = self.system.starts(program, hosts, self.slots.all_cores)
        if not starts:
            self.nodes = 1
            self.problem = "launcher %s uses the first of its nodes alone: %s" % (
                self.key,
                "the batch system does not name the others"
                if len(hosts) < 2
                else "there is no command of the batch system to start a process on another one",
            )
            os.write(2, ("wfrun: %s\n" % self.problem).encode())
            return
        path = "%s/launchers/%s.json" % (self.directory, self.key)
        store.make_parent(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(path + ".part", flags, 0o600), "w") as file:
            json.dump(self.config, file)
        os.rename(path + ".part", path)
        null = os.open(os.devnull, os.O_RDONLY)
        for command, variables in starts:
            found = shutil.which(command[0]) or command[0]
            environment = dict(os.environ, **variables)
            self.node_starters.add(starter.spawn(found, command, environment, [null, 2, 2]))
        self.helpers |= self.node_starters
        os.close(null)


def main() -> None:
    """Run a launcher, configured by the command line or by ``launchers/<key>.json``."""
    processes.close_inherited()
    limits.open_files.raise_limit()
    directory, key, last = sys.argv[1:]
    directory = os.path.abspath(directory)
    node = 0
    if last.startswith("{"):
        config = json.loads(last)
    else:
        node = batch_job.number_of_node(last)
        with open("%s/launchers/%s.json" % (directory, key)) as file:
            config = json.load(file)
    system = batch_job.JobSystem(directory)
    system.catch_warnings()
    launcher = BatchLauncher(directory, key, config, node, system)
    if node == 0:
        # If job.py dies nothing else would notify us, and its record would be missing.
        job = os.environ.pop("WFRUN_JOB_PID", "")
        processes.end_with_parent(int(job) if job else None)
        if launcher.nodes > 1:
            launcher.start_other_nodes()
    os.environ.pop("WFRUN_NODEFILE", None)  # tasks have their own
    gc.set_threshold(20000, 100, 100)  # as in launcher.py
    launcher.run()


if __name__ == "__main__":
    main()
