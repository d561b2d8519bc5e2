"""Runs one attempt as a batch job, on the compute node.

It is copied beside ``runner.py`` into the run's directory at the site, needs only the standard
library of Python >= 3.6, and is started as

    sh job.sh DIRECTORY BATCH ELEMENT

where line ELEMENT (from 1) of ``DIRECTORY/batches/BATCH.jsonl`` is the request of an attempt (an
AttemptRequest of ``wfrun.engine.exchange``). It claims the attempt as a launcher does, runs it, and
writes its exit record:

    exits/<key>.json       {"key": ..., "outcome": ...}, an Outcome of ``wfrun.engine.exchange``,
                           renamed into place. If the batch system may have cut the attempt, it also
                           has "doubt": the reason for that suspicion
    exits/<key>.<id>.part  space for the record, allocated before the task starts, so that a task
                           that fills the disk does not prevent its record

A job whose attempt is already claimed does nothing. So the batch system may safely start a job
twice, or after the engine has given it up. An attempt with a file ``attempts/<key>.revoked`` was
given up after its start, and commits no outputs.

The command of a task on several nodes runs on the first node of its job. For such tasks and for
parallel jobs ``WFRUN_NODEFILE`` names a file with a line for each core: the host of that core.
"""

import contextlib
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Tuple

    from wfrun.sites.node.jobs import batch_job, cuts
    from wfrun.sites.node.tasks import processes, runner, slots, store
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import batch_job
    import cuts
    import processes
    import runner
    import slots
    import store

RESERVED_BYTES = 8192
"""Space allocated for a record, in bytes. If a longer record does not fit on the disk, its message
is cut."""
SWEEP_S = 10.0
"""Timeout for killing leftover processes, in seconds. A process that survives it hangs in the
kernel and is left to the batch system."""
MAX_RECORD_RETRY_S = 600.0
"""Maximum time for which writing the record is retried, in seconds."""


class JobAttempt(runner.Runner):
    """Runs one attempt to its end."""

    def __init__(
        self,
        directory: str,
        request: "Dict[str, Any]",
        system: batch_job.JobSystem,
        walltime_s: "Optional[float]" = None,
    ) -> None:
        resources = request["resources"]
        config = {"slots": resources["cores"], "gpus": resources["gpus"]}
        runner.Runner.__init__(self, directory, config)
        # The batch system's name of the node: with it a later job can avoid the node.
        self.host = system.node() or self.host
        self.warnings = system.warnings
        self.request = request
        if resources.get("nodes", 1) > 1 or resources.get("parallel"):
            request["hosts"] = system.hosts() or [self.host]
        self.record = directory + "/exits/" + request["key"] + ".json"
        """Path of the exit record."""
        self.part = "%s/exits/%s.%s-%d.part" % (directory, request["key"], self.host, os.getpid())
        """Path of the space allocated for the record."""
        self.walltime_s = walltime_s
        """Walltime of the job in seconds; None: unknown."""
        self.memory_kills = cuts.MemoryKills()
        self.end: "Optional[Tuple[slots.RunningAttempt, int, Any, float]]" = None
        """Unsettled end of the attempt: attempt, wait status, resource usage, time. None: the
        attempt has not ended, or its end is settled."""
        self.settle_s = 0.0
        """Time at which to settle the end, on time.monotonic."""
        self.warned_s: "Optional[float]" = None
        """Time of the last warning of the batch system, on time.monotonic."""
        self.doubt = ""
        """Why the batch system may have cut the attempt; empty: no doubt."""
        self.outcome: "Optional[Dict[str, Any]]" = None
        self.is_ours = True
        """Whether no other process has claimed the attempt."""

    def run(self) -> None:
        """Run the attempt and write its record. Returns without a record if another process has
        claimed it."""
        grant = self.slots.take(self.request["resources"])
        assert grant is not None
        self._reserve()
        self._start(self.request, grant)
        while self.outcome is None and self.is_ours:
            for fd, _ in self.poller.poll(self._timeout_ms()):
                if fd == self.wake:
                    for end in self._on_wakeup():
                        self._on_end(end)
            self._fire_timers()
            if self.end is not None and time.monotonic() >= self.settle_s:
                end, self.end = self.end, None
                self._settle(*end)
        # The record means that nothing of the attempt runs any more. If it was a launcher, the
        # engine relies on that when it declares the launcher's attempts lost.
        self.sweep(SWEEP_S)
        self.starter.close()
        if self.outcome is not None:
            self._record(self.outcome)
        else:
            store.remove(self.part)

    def _timeout_ms(self) -> "Optional[int]":
        due = [self.timers[0][0]] if self.timers else []
        if self.end is not None:
            due.append(self.settle_s)
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1) if due else None

    def _on_end(self, end: "Tuple[slots.RunningAttempt, int, Any, float]") -> None:
        """Handle the end of the attempt. It is settled only after a delay, in which a signal to us
        would show that the batch system ends the whole job."""
        attempt = end[0]
        self.end = end
        self.settle_s = now = time.monotonic()
        if attempt.reason is None and self.memory_kills.news():
            attempt.reason = "memory"
        elif attempt.reason is None:
            self.settle_s += cuts.SIGNALS_S
            if self.warned_s is not None and now < self.warned_s + cuts.WARNING_S:
                attempt.reason = "lost"

    def _on_warning(self) -> None:
        self.warned_s = time.monotonic()
        self._cut_ended()

    def _cut_ended(self) -> None:
        """Called after a signal of the batch system. If the attempt has ended and is not settled,
        set its cause to "lost"."""
        if self.end is not None and self.end[0].reason is None:
            self.end[0].reason = "lost"

    def _on_started(self, attempt: slots.RunningAttempt) -> None:
        """Do nothing: the engine learns of the start from the queue."""

    def _on_outcome(self, key: str, outcome: "Dict[str, Any]") -> None:
        if was_killed(outcome) and self.walltime_s and job_age_s() >= self.walltime_s:
            # The batch system may keep no history that says so.
            text = "ran longer than the walltime of its job, %g s; " % self.walltime_s
            message = text + (outcome.get("message") or "")
            outcome = dict(outcome, cause="walltime", message=message)
        elif outcome["cause"] in ("done", "exit", "signal", "output"):
            self.doubt = self._doubt()
        self.outcome = outcome

    def _doubt(self) -> str:
        """Reason why the batch system may have cut the attempt; empty if there is no sign."""
        age_s = job_age_s()
        if self.walltime_s and age_s >= self.walltime_s - cuts.near_of(self.walltime_s):
            text = "it ended when its job had run for %.0f s of its walltime of %g s"
            return text % (age_s, self.walltime_s)
        return "its job had received a signal" if self.warned_s is not None else ""

    def _on_claimed_elsewhere(self, key: str) -> None:
        self.is_ours = False

    def _on_sigterm(self) -> None:
        """End the attempt with the cause ``lost``; the engine asks the batch system why."""
        for attempt in list(self.running.values()):
            self._end(attempt, "lost")
        self._cut_ended()

    def _commit(self, attempt: slots.RunningAttempt, sandbox: str) -> "List[Optional[int]]":
        store.refuse_revoked(self.starter.attempts, attempt.key)
        return runner.Runner._commit(self, attempt, sandbox)

    # -- the record

    def _reserve(self) -> None:
        """Allocate space for the record."""
        try:
            with open(self.part, "wb") as file:
                file.write(b" " * RESERVED_BYTES)
        except OSError:
            store.remove(self.part)

    def _record(self, outcome: "Dict[str, Any]") -> None:
        """Write the record. Retries after errors for MAX_RECORD_RETRY_S, then exits."""
        deadline_s = time.monotonic() + MAX_RECORD_RETRY_S
        while not self._write(outcome):
            if time.monotonic() > deadline_s:
                sys.exit("wfrun: the exit record of %s cannot be written" % self.request["key"])
            time.sleep(1.0)
            outcome = dict(outcome, message=(outcome.get("message") or "")[:1000])

    def _write(self, outcome: "Dict[str, Any]") -> bool:
        record = {"key": self.request["key"], "outcome": outcome}
        if self.doubt:
            record["doubt"] = self.doubt
        text = json.dumps(record).encode()
        try:
            # Over the allocated space, so that no more is needed.
            fd = os.open(self.part, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                store.write_all(fd, text.ljust(RESERVED_BYTES) + b"\n")
                os.ftruncate(fd, len(text))
                os.fsync(fd)  # or the name may outlive the content
            finally:
                os.close(fd)
            os.rename(self.part, self.record)
        except OSError as error:
            # stderr may be on the same full disk.
            with contextlib.suppress(OSError):
                os.write(2, b"wfrun: %s\n" % str(error).encode())
            return False
        return True


def was_killed(outcome: "Dict[str, Any]") -> bool:
    """Whether the batch system may have ended the task, by its cause or by the signal that ended
    it. A shell exits with 128 plus the number of its command's signal."""
    number = outcome.get("signal") or (outcome.get("exit_code") or 0) - 128
    killed = number in (signal.SIGTERM, signal.SIGKILL, signal.SIGXCPU)
    return outcome["cause"] == "lost" or (outcome["cause"] in ("signal", "exit") and killed)


def job_age_s() -> float:
    """Age of the job in seconds, from the start of the leader of our session, its first process. So
    a slow login profile counts, as it does for the batch system. If that process has ended or is
    hidden, as in Slurm, the age counts from our own start. 0.0: unknown."""
    for pid in (os.getsid(0), os.getpid()):
        started_s = processes.start_time(pid)
        if started_s is not None:
            return processes.boot_clock() - started_s
    return 0.0


def read_request(directory: str, batch: str, element: int) -> "Dict[str, Any]":
    """The request of element ``element`` (from 1) of a batch. Raises ValueError if there is no such
    line."""
    path = "%s/batches/%s.jsonl" % (directory, batch)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if number == element:
                request = json.loads(line.decode())
                assert isinstance(request, dict)
                return request
    raise ValueError("%s has no line %d" % (path, element))


def main() -> None:
    """Run the attempt of the command line."""
    directory, batch, element = sys.argv[1:]
    os.chdir("/")  # where the job was submitted may be unmounted
    os.environ["WFRUN_JOB_PID"] = str(os.getpid())  # so that a launcher notices our death
    system = batch_job.JobSystem(directory)
    system.catch_warnings()
    walltime_s = system.walltime_s(job_age_s())
    os.environ.pop("WFRUN_JOB_WALLTIME_S", None)  # not for the task
    JobAttempt(directory, read_request(directory, batch, int(element)), system, walltime_s).run()


if __name__ == "__main__":
    main()
