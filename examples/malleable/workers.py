"""Worker processes that come and go, one for each node that a malleable program has."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, arg-type"

import contextlib
import pickle
import shlex
import subprocess
import sys
import time

from wfrun.malleable import Malleable


class Workers:
    """The workers of a program, and its connection to the manager.

    ``start`` begins the command of a worker, as ``ssh {node}``; without it workers run here.
    ``fits`` is the largest size that the program can use with so many processors.
    """

    def __init__(self, script, fits=lambda processors: processors, start=""):
        self.job = Malleable()
        self._script, self._fits, self._start = script, fits, start
        spare = len(self.job.nodes) - fits(len(self.job.nodes))
        if spare:
            self.job.give_back(self.job.nodes[-spare:])
        self._workers = [self._new(node) for node in self.job.nodes]

    def __len__(self):
        return len(self._workers)

    def adapt(self):
        """Grow and shrink as the manager says."""
        while (message := self.job.poll()) is not None:
            size = len(self)
            if message.kind == "offer":
                taken = self.job.take(max(0, self._fits(size + message.processors) - size))
                self._workers += [self._new(node) for node in taken]
            else:
                keep = max(1, self._fits(size - message.processors))
                for worker in self._workers[keep:]:
                    self._end(worker)
                del self._workers[keep:]
                self.job.give_back(self.job.nodes[keep:])

    def run(self, function, common, parts):
        """The results of ``function(common, part)``, one part for each worker, and the seconds of
        each. The part of a worker that dies is done by another on the same node."""
        results = [None] * len(parts)
        begun = time.monotonic()
        seconds = [0.0] * len(parts)
        for n, part in enumerate(parts):
            _send(self._workers[n], (function.__name__, common, part))
        for n, part in enumerate(parts):
            for tries in range(4):
                try:
                    results[n], seconds[n] = pickle.load(self._workers[n].stdout)
                    break
                except (EOFError, OSError, pickle.UnpicklingError):
                    if tries == 3:
                        raise
                    self._end(self._workers[n])
                    self._workers[n] = self._new(self.job.nodes[n])
                    _send(self._workers[n], (function.__name__, common, part))
        self.last_s = time.monotonic() - begun
        return results, seconds

    def close(self):
        for worker in self._workers:
            self._end(worker)
        self.job.close()

    def _new(self, node):
        prefix = shlex.split(self._start.format(node=node))
        command = [*prefix, sys.executable, self._script, "worker"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _end(self, worker):
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            with contextlib.suppress(OSError):
                stream.close()


def _send(worker, request):
    with contextlib.suppress(OSError):  # it is dead, which the read of its result shows
        pickle.dump(request, worker.stdin)
        worker.stdin.flush()


def serve(functions):
    """Be a worker: do parts until the input ends."""
    while True:
        try:
            name, common, part = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        begun = time.perf_counter()
        result = functions[name](common, part)
        pickle.dump((result, time.perf_counter() - begun), sys.stdout.buffer)
        sys.stdout.buffer.flush()
