"""A launcher inside a batch job: runs attempts in the slots of a node, for an engine far away.

A file of the standard library for Python >= 3.6 that stands beside ``launcher.py``,
``batch_job.py`` and ``channels.py`` in the run's directory at the site. It is started by ``job.py``
like a task, as the attempt whose key is the launcher's own (so it is claimed, and what it leaves
behind is killed):

    sh ../../bin/batch_launcher.sh ../.. KEY '{"cores": 32, "walltime_s": 3600}'

Keys of the configuration, all but ``cores`` optional: ``memory_bytes``, ``gpus``, ``pin_cores``,
``pack_logs`` (as of ``launcher.py``, for one node), ``nodes`` (1), ``walltime_s`` (null: no end),
``channels`` (as in LauncherSpec) and ``patience_s`` (600). Where there are several nodes, this one
starts a launcher on each of the others by the batch system's own means, each with a channel and a
journal of its own; the configuration is then in ``launchers/<key>.json``, and the last argument is
the number of the node. This one is the last to end; it takes no more when all the others have
ended, and where Slurm sees one of them fail it ends all of them.

Messages are JSON lines. To the engine:
    {"hello": 1, "launcher": key, "pid", "host", "slots", "memory_bytes", "gpus", "left_s",
     "node", "nodes", "session"}        first on each connection; left_s null: no end is known
    {"started": [key, ...], "ended": [[key, outcome], ...]}
    {"returned": [key, ...]}            not started, and not going to be
    {"contested": [key, ...]}           somebody else has their claims
    {"found": {key: {"state": "absent" | "active" | "ended", "outcome": ...}}, "id": n}
    {"failing": text}, {"recovered": true}, {"error": text}     as of ``launcher.py``
    {"ending": reason}                  it takes no more
and from it:
    {"run": [attempt, ...]}             queue these; they start in this order
    {"return": [key, ...]}              those that have not started; "returned" follows
    {"cancel": [key, ...], "queued_only": bool}
    {"find": [key, ...], "id": n}       absent: not here, and no record of it here
    {"stop": true}                      return what is queued, let running tasks end, then end
(a ping is answered by the channel). After a hello it tells again which attempts run; for what else
may have got lost with a connection the engine asks, and sends again what is absent.

An attempt is returned when it is too late to start it: when it is expected to take (expected_s, or
else its walltime, where that is less than the launcher's) longer than is left. At the end of its
time, some seconds before the batch system's, the launcher ends what runs: cause ``expired``. After
SIGTERM the cause is that too if its end was near, else ``lost``; all is over within 5 s. A
launcher that no engine has talked to for ``patience_s`` and that has nothing to run ends.

    exits/<key>.jsonl           the journal, as of ``launcher.py``
    exits/<key>.<node>.jsonl    that of a further node

What is in the journal as ``queued`` and neither ``dropped``, ``started`` nor ``ended`` may have
been started too, a moment before the launcher died: its claim tells.
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

    from wfrun.sites.node import (
        batch_job,
        channels,
        journals,
        processes,
        runner,
        slots,
        starter,
        store,
    )

    Unsettled = Tuple[float, Tuple[slots.Attempt, int, Any, float]]
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import batch_job
    import channels
    import journals
    import processes
    import runner
    import slots
    import starter
    import store

MARGIN_S = 10.0
SHORT_S = 2.0
"""Running tasks are ended so long before the end of the time: the first, or a tenth of it if that
is less, but not less than the second."""
NEAR_S = 90.0
"""SIGTERM within so long of the end means that the time is over: batch systems warn early, and
count by minutes."""
TERMINATED_GRACE_S = 2.5
"""Between SIGTERM and SIGKILL when we have been told to end: job.py gives us 5 s."""
LAST_WORDS_S = 4.5
"""After SIGTERM, with whatever is left undone."""
RECORD_PATIENCE_S = 600.0
"""As in job.py."""
DOUBT_S = 1.0
"""A batch system that ends a job signals all its processes at once. The end of a task by SIGTERM
is looked at only when it is clear whether we were meant too."""
FIRST_S = 60.0
"""An engine that has not been heard yet is waited for at least so long."""
TURN_S = 1.0
"""The longest wait while no engine is connected."""


class BatchLauncher(runner.Worker):
    """The loop. One thread; nothing in it blocks but the wait for news."""

    def __init__(self, directory: str, key: str, config: "Dict[str, Any]", node: int) -> None:
        name = "%s.jsonl" % key if node == 0 else "%s.%d.jsonl" % (key, node)
        journal = journals.Journal(directory + "/exits", name)
        runner.Worker.__init__(self, directory, dict(config, slots=config["cores"]), journal)
        self.host = os.environ.get("SLURMD_NODENAME") or self.host
        self.key = key
        self.config = config
        self.node = node
        self.nodes = int(config.get("nodes") or 1)
        self.patience_s = float(config.get("patience_s", 600.0))
        kinds = config.get("channels") or ["tcp", "ssh", "spool"]
        self.channel = channels.Channel(directory, key, node, kinds, self.poller)
        self.session = self.channel.session
        now = time.monotonic()
        self.whole_s = batch_job.time_granted_s(config.get("walltime_s"))
        self.end_s: "Optional[float]" = None
        if self.whole_s is not None:
            begun_s = processes.start_time(os.getpid()) or processes.boot_clock()
            passed_s = processes.boot_clock() - begun_s
            self.end_s = now - passed_s + self.whole_s - margin_of(self.whole_s)
        self.last_turn_s = now
        self.quiet_s = 0.0
        self.ending = ""
        """Why no more is taken."""
        self.reason = ""
        """The cause of what is being ended with the launcher."""
        self.gone_s: "Optional[float]" = None
        """When we end, whatever is left undone."""
        self.latest: "List[Tuple[float, str]]" = []
        """When each queued attempt has to start at the latest."""
        self.unsettled: "collections.OrderedDict[str, Unsettled]" = collections.OrderedDict()
        """Have ended, and are to be looked at then or later."""
        self.contested: "List[str]" = []
        self.remote: "Set[int]" = set()
        """What holds the launchers on the other nodes: helpers too."""
        self.problem = ""
        """What is said to each engine."""

    def run(self) -> None:
        """Until the time is over, we are told to end, or nobody wants us."""
        while not self._is_done():
            heard = False
            for fd, _ in self.poller.poll(self._timeout_ms()):
                if fd == self.wake:
                    self._take_in()
                heard = heard or self.channel.owns(fd)
            due_s = self.channel.due_s()
            if heard or (due_s is not None and time.monotonic() >= due_s):
                lines = self.channel.turn()
                if self.channel.session != self.session:
                    self._greet()
                self._hear(lines)
            self._fire_timers()
            self._look_at_the_clock()
            # Slots are filled before the outputs of the last tasks are looked at.
            self._start_queued()
            self._settle_some()
            self._flush()
        self._write_all()
        self.sweep(1.0)
        self.starter.close()
        self.channel.drain()
        self.channel.close()

    def _is_done(self) -> bool:
        if self.gone_s is not None and time.monotonic() >= self.gone_s:
            return True
        if not self.ending or self.running or self.unsettled or self.ended or self.remote:
            return False
        if self.failing and self.gone_s is None:
            self.gone_s = time.monotonic() + RECORD_PATIENCE_S
        return not self.failing

    def _timeout_ms(self) -> "Optional[int]":
        due = self._due()
        if self.queue and self.latest:
            due.append(self.latest[0][0])
        if self.unsettled:
            due.append(min(at_s for at_s, _ in self.unsettled.values()))
        if not self.channel.is_open:
            due.append(time.monotonic() + TURN_S)
        for at_s in (self.channel.due_s(), self.gone_s, None if self.reason else self.end_s):
            if at_s is not None:
                due.append(at_s)
        if not due:
            return None
        wait_s = min(due) - time.monotonic()
        return int(wait_s * 1000) + 1 if wait_s > 0 else 0

    # -- time

    def _left_s(self) -> "Optional[float]":
        if self.end_s is None:
            return None
        return max(0.0, round(self.end_s - time.monotonic(), 3))

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self.end_s is not None and now >= self.end_s and not self.reason:
            assert self.whole_s is not None
            margin_s = margin_of(self.whole_s)
            self.grace_s = margin_s / 2
            self.gone_s = now + 0.9 * margin_s
            self._end_all("expired", "its time is over")
        late = []
        while self.latest and self.latest[0][0] <= now:
            key = heapq.heappop(self.latest)[1]
            if key in self.queue:
                late.append(key)
        self._return(late)
        busy = self.running or self.queue or self.unsettled
        # While it is paused nobody can talk to it.
        passed_s = min(now - self.last_turn_s, 2 * TURN_S)
        self.last_turn_s = now
        self.quiet_s = 0.0 if busy or self.channel.is_open else self.quiet_s + passed_s
        patience_s = self.patience_s if self.session else max(self.patience_s, FIRST_S)
        if self.quiet_s >= patience_s and not self.ending:
            self._stop("no engine came for %g s" % patience_s)

    def _needed_s(self, request: "Dict[str, Any]") -> "Optional[float]":
        """How long it is expected to take, where that matters."""
        if self.whole_s is None:
            return None
        expected_s = request.get("expected_s")
        if expected_s is not None:
            return float(expected_s)
        walltime_s = request["resources"]["walltime_s"]
        return walltime_s if walltime_s is not None and walltime_s < self.whole_s else None

    def _terminate(self) -> None:
        """SIGTERM: the batch system's or, through job.py, that of whoever ends the job."""
        self.grace_s = TERMINATED_GRACE_S
        now = time.monotonic()
        if self.gone_s is None:
            self.gone_s = now + LAST_WORDS_S
        for attempt in self.running.values():
            if attempt.reason is not None:  # they were told before
                processes.signal_group(attempt.pid, signal.SIGKILL)
        for pid in self.remote:
            processes.signal_group(pid, signal.SIGTERM)
        near = self.end_s is not None and now >= self.end_s - NEAR_S
        self._end_all("expired" if near else "lost", "it was terminated")

    def _end_all(self, cause: str, why: str) -> None:
        self.reason = self.reason or cause
        self._stop(why)
        for attempt in list(self.running.values()):
            self._end(attempt, self.reason)

    def _stop(self, why: str) -> None:
        """Take no more; running tasks go on."""
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
        elif "stop" in message:
            self._stop("it was told to stop")
        else:
            raise ValueError("unknown message")

    def _queue(self, requests: "List[Dict[str, Any]]") -> None:
        fresh = [request for request in requests if not self._is_here(request["key"])]
        if self.ending:
            self._tell_returned([request["key"] for request in fresh])
            return
        self._enqueue(fresh)
        for request in fresh:
            needed_s = self._needed_s(request)
            if needed_s is not None and self.end_s is not None:
                heapq.heappush(self.latest, (self.end_s - needed_s, request["key"]))
        if len(self.latest) > 64 + 4 * len(self.queue):
            self.latest = [entry for entry in self.latest if entry[1] in self.queue]
            heapq.heapify(self.latest)

    def _is_here(self, key: str) -> bool:
        return key in self.queue or key in self.keys or key in self.unsettled

    def _return(self, keys: "List[str]") -> None:
        """Give back what is queued."""
        if not keys:
            return
        for key in keys:
            del self.queue[key]
        self.journal.add(json.dumps({"dropped": keys}))
        self._write_journal()
        self._tell_returned(keys)

    def _tell_returned(self, keys: "List[str]") -> None:
        if keys:
            self._say(json.dumps({"returned": keys}))

    def _cancel(self, key: str, queued_only: bool) -> None:
        if key in self.queue:
            del self.queue[key]
            outcome = {"cause": "cancelled", "message": "was cancelled before it started"}
            self._conclude(key, outcome)
        elif key in self.keys and key not in self.unsettled and not queued_only:
            self._end(self.keys[key], "cancelled")

    def _find(self, keys: "List[str]") -> "Dict[str, Any]":
        self._write_all()
        found: "Dict[str, Any]" = {}
        for key in keys:
            found[key] = {"state": "active" if self._is_here(key) else "absent"}
        absent = {key for key, answer in found.items() if answer["state"] == "absent"}
        for key, outcome in self.journal.ends(absent).items():
            found[key] = {"state": "ended", "outcome": outcome}
        return found

    # -- starting and ending

    def _claimed_elsewhere(self, key: str) -> None:
        self.contested.append(key)

    def _commit(self, attempt: "slots.Attempt", sandbox: str) -> "List[Optional[int]]":
        store.refuse_revoked(self.starter.attempts, attempt.key)
        return runner.Worker._commit(self, attempt, sandbox)

    def _take_in(self) -> None:
        """Signals have come: of processes that have ended, or to ourselves."""
        had_others = bool(self.remote)
        ended = self._wake()
        now = time.monotonic()
        for end in ended:
            doubtful = end[0].reason is None and not self.reason and is_terminated(end[1])
            self.unsettled[end[0].key] = (now + DOUBT_S if doubtful else now, end)
        self.remote &= self.helpers
        if had_others and not self.remote:
            self._stop("the launchers on its other nodes have ended")

    def _settle_some(self) -> None:
        """Not one while another slot is free, unless they come faster than they are done."""
        now = time.monotonic()
        ready = [key for key, (due_s, _) in self.unsettled.items() if due_s <= now or self.reason]
        for done, key in enumerate(ready, 1):
            attempt, status, usage, ended_s = self.unsettled.pop(key)[1]
            if self.reason and attempt.reason is None and status != 0:
                attempt.reason = self.reason
            self._settle(attempt, status, usage, ended_s)
            if len(ready) - done <= self.slots.all_cores:
                break

    # -- what goes out

    def _say(self, text: str) -> None:
        self.channel.say(text)

    def _send(self) -> None:
        self.channel.send()

    def _greet(self) -> None:
        """First on a new connection. What was not said to the last one is in the journal."""
        self.session = self.channel.session
        self._write_all()
        hello = {
            "hello": runner.PROTOCOL,
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
            text = "exit records can't be written to %s/exits" % self.directory
            self._say(json.dumps({"failing": text}))
        if self.problem:
            self._say(json.dumps({"error": self.problem}))
        if self.ending:
            self._say(json.dumps({"ending": self.ending}))

    def _flush(self) -> None:
        if self.contested:
            self._contest()
        runner.Worker._flush(self)

    def _contest(self) -> None:
        """Claimed before: by us, and then it has ended and the engine missed it, or by others."""
        keys, self.contested = self.contested, []
        self._write_all()
        ends = self.journal.ends(set(keys))
        for key, outcome in ends.items():
            self._announce(key, outcome)
        others = [key for key in keys if key not in ends and not self._is_here(key)]
        if others:
            self.journal.add(json.dumps({"dropped": others}))
            self._write_journal()
            self._say(json.dumps({"contested": others}))

    # -- further nodes

    def lead(self) -> None:
        """Start launchers on the other nodes of the job."""
        hosts = batch_job.hosts_here()
        program = ["/bin/sh", self.directory + "/bin/batch_launcher.sh", self.directory, self.key]
        commands = batch_job.remote_commands(program, hosts, self.slots.all_cores)
        if not commands:
            self.nodes = 1
            self.problem = "launcher %s uses the first of its nodes alone: %s" % (
                self.key,
                "the batch system does not tell the others"
                if len(hosts) < 2
                else "there is no command of the batch system to start a process on another one",
            )
            os.write(2, ("wfrun: %s\n" % self.problem).encode())
            return
        path = "%s/launchers/%s.json" % (self.directory, self.key)
        store.make_parent(path)
        with open(path + ".part", "w") as file:
            json.dump(self.config, file)
        os.rename(path + ".part", path)
        environment = dict(os.environ, SLURM_OVERLAP="1", SLURM_CPU_BIND="none")
        null = os.open(os.devnull, os.O_RDONLY)
        for command in commands:
            found = shutil.which(command[0]) or command[0]
            self.remote.add(starter.spawn(found, command, environment, [null, 2, 2]))
        self.helpers |= self.remote
        os.close(null)


def margin_of(whole_s: float) -> float:
    return min(MARGIN_S, max(whole_s / 10, min(SHORT_S, whole_s / 2)))


def is_terminated(status: int) -> bool:
    """Whether a process, or what a shell waited for, was ended by SIGTERM or SIGKILL."""
    numbers = (signal.SIGTERM, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) in numbers
    return os.WEXITSTATUS(status) - 128 in numbers


def end_with_parent() -> None:
    """SIGTERM when job.py dies: nobody else would tell. Source: prctl(2), PR_SET_PDEATHSIG."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)


def main() -> None:
    processes.close_inherited()
    directory, key, last = sys.argv[1:]
    directory = os.path.abspath(directory)
    node = 0
    if last.startswith("{"):
        config = json.loads(last)
    else:
        node = int(os.environ["SLURM_PROCID"]) + 1 if last == "srun" else int(last)
        with open("%s/launchers/%s.json" % (directory, key)) as file:
            config = json.load(file)
    for name in ("SIGUSR1", "SIGUSR2", "SIGXCPU"):  # warnings of batch systems
        signal.signal(getattr(signal, name), lambda number, frame: None)
    launcher = BatchLauncher(directory, key, config, node)
    if node == 0:
        end_with_parent()
        if launcher.nodes > 1:
            launcher.lead()
    os.environ.pop("WFRUN_NODEFILE", None)  # tasks have their own
    gc.set_threshold(20000, 100, 100)  # as in launcher.py
    launcher.run()


if __name__ == "__main__":
    main()
