"""One attempt as a batch job: what runs on the compute node.

A single file of the standard library for Python >= 3.6 that stands beside ``runner.py`` in the
run's directory at the site, and is started there as

    sh job.sh DIRECTORY BATCH ELEMENT

where line ELEMENT (from 1) of ``DIRECTORY/batches/BATCH.jsonl`` is the request of an attempt (an
AttemptRequest of ``wfrun.engine.exchange``). It claims the attempt as a launcher does, runs it, and
leaves its exit record:

    exits/<key>.json       {"key": ..., "outcome": ...}, an Outcome of ``wfrun.engine.exchange``;
                           it comes to be there by a rename
    exits/<key>.<id>.part  room for it, taken before the task starts, so that a disk that the task
                           fills still has room for its record

Who finds the attempt claimed leaves it alone: a job that the batch system started twice, or that
was given up and comes late, does no harm. An attempt with a ``attempts/<key>.revoked`` was given
up after it had started, and commits nothing.

A task of several nodes runs on the first one of its job, where ``WFRUN_NODEFILE`` names a file with
a line for each of its cores, on which there is the core's host.
"""

import collections
import contextlib
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Mapping, Optional

    from wfrun.sites.node import runner, slots, store
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import runner
    import slots
    import store

ROOM_BYTES = 8192
"""Kept for a record; one that does not fit is shortened where the disk is full."""
HOSTS_S = 60.0
"""The names of the nodes come within this time."""
SWEEP_S = 10.0
"""What can't be killed within this time, since it hangs in the kernel, is left to the batch system.
"""
RECORD_PATIENCE_S = 600.0
"""A record that can't be written is tried again for so long."""


class Job(runner.Runner):
    """Runs one attempt to its end."""

    def __init__(self, directory: str, request: "Dict[str, Any]") -> None:
        resources = request["resources"]
        config = {"slots": resources["cores"], "gpus": resources["gpus"]}
        runner.Runner.__init__(self, directory, config)
        # The batch system's name of the node, with which it can be told to avoid it.
        self.host = os.environ.get("SLURMD_NODENAME") or self.host
        self.request = request
        if resources.get("nodes", 1) > 1:
            request["hosts"] = hosts_of_job(os.environ) or [self.host]
        self.record = directory + "/exits/" + request["key"] + ".json"
        self.part = "%s/exits/%s.%s-%d.part" % (directory, request["key"], self.host, os.getpid())
        self.outcome: "Optional[Dict[str, Any]]" = None
        self.is_ours = True

    def run(self) -> None:
        """Returns when the record is written, or the attempt turns out to be somebody else's."""
        grant = self.slots.take(self.request["resources"])
        assert grant is not None
        self._reserve()
        self._start(self.request, grant)
        while self.outcome is None and self.is_ours:
            for fd, _ in self.poller.poll(self._timeout_ms()):
                if fd == self.wake:
                    for end in self._wake():
                        self._settle(*end)
            self._fire_timers()
        # The record says that nothing of it runs any more: with a launcher ends what it ran.
        self.sweep(SWEEP_S)
        self.starter.close()
        if self.outcome is not None:
            self._record(self.outcome)
        else:
            store.remove(self.part)

    def _timeout_ms(self) -> "Optional[int]":
        if not self.timers:
            return None
        return max(0, int((self.timers[0][0] - time.monotonic()) * 1000) + 1)

    def _begun(self, attempt: slots.Attempt) -> None:
        """The queue shows it."""

    def _conclude(self, key: str, outcome: "Dict[str, Any]") -> None:
        self.outcome = outcome

    def _claimed_elsewhere(self, key: str) -> None:
        self.is_ours = False

    def _terminate(self) -> None:
        """The batch system ends the job; it knows why, and is asked."""
        for attempt in list(self.running.values()):
            self._end(attempt, "lost")

    def _commit(self, attempt: slots.Attempt, sandbox: str) -> "List[Optional[int]]":
        store.refuse_revoked(self.starter.attempts, attempt.key)
        return runner.Runner._commit(self, attempt, sandbox)

    # -- the record

    def _reserve(self) -> None:
        try:
            with open(self.part, "wb") as file:
                file.write(b" " * ROOM_BYTES)
        except OSError:
            store.remove(self.part)

    def _record(self, outcome: "Dict[str, Any]") -> None:
        """Write it, however long it takes until there is room."""
        deadline_s = time.monotonic() + RECORD_PATIENCE_S
        while not self._write(outcome):
            if time.monotonic() > deadline_s:
                sys.exit("wfrun: the exit record of %s can't be written" % self.request["key"])
            time.sleep(1.0)
            outcome = dict(outcome, message=(outcome.get("message") or "")[:1000])

    def _write(self, outcome: "Dict[str, Any]") -> bool:
        text = json.dumps({"key": self.request["key"], "outcome": outcome}).encode()
        try:
            # Over what was kept for it, so that no more room is needed.
            fd = os.open(self.part, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                store.write_all(fd, text.ljust(ROOM_BYTES) + b"\n")
                os.ftruncate(fd, len(text))
            finally:
                os.close(fd)
            os.rename(self.part, self.record)
        except OSError as error:
            # Where this goes to may be on the same disk.
            with contextlib.suppress(OSError):
                os.write(2, b"wfrun: %s\n" % str(error).encode())
            return False
        return True


def hosts_of_job(environ: "Mapping[str, str]") -> "List[str]":
    """The nodes of the batch job that we are in, in the batch system's order; empty where it does
    not say. Source: sbatch(1), SLURM_JOB_NODELIST; qsub(1B), PBS_NODEFILE; sge_pe(5), PE_HOSTFILE.
    """
    import subprocess

    try:
        if "SLURM_JOB_NODELIST" in environ:
            command = ["scontrol", "show", "hostnames", environ["SLURM_JOB_NODELIST"]]
            text = subprocess.check_output(command, universal_newlines=True, timeout=HOSTS_S)
        else:
            path = environ.get("PBS_NODEFILE") or environ.get("PE_HOSTFILE") or os.devnull
            with open(path) as file:
                text = file.read()
    except (OSError, subprocess.SubprocessError) as error:
        os.write(2, b"wfrun: the job's nodes are not known: %s\n" % str(error).encode())
        return []
    names = [line.split()[0] for line in text.splitlines() if line.strip()]
    return list(collections.OrderedDict.fromkeys(names))


def read_request(directory: str, batch: str, element: int) -> "Dict[str, Any]":
    """The request of this element. Raises ValueError where there is none."""
    path = "%s/batches/%s.jsonl" % (directory, batch)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if number == element:
                request = json.loads(line.decode())
                assert isinstance(request, dict)
                return request
    raise ValueError("%s has no line %d" % (path, element))


def main() -> None:
    directory, batch, element = sys.argv[1:]
    os.chdir("/")  # where the job was submitted may be unmounted
    for name in ("SIGUSR1", "SIGUSR2", "SIGXCPU"):  # warnings of batch systems
        signal.signal(getattr(signal, name), lambda number, frame: None)
    Job(directory, read_request(directory, batch, int(element))).run()


if __name__ == "__main__":
    main()
