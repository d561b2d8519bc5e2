"""Worker processes that come and go, one for each processor that a malleable program has.

Workers connect to the program by TCP, and exchange lines of JSON with it, which keeps numbers to
the last bit. So they can be started by any means: here, by ``ssh {node}``, or on the nodes of a job
of ``wfrun jobs`` by the command in ``WFRUN_RSH``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, arg-type"

import contextlib
import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time

try:
    from wfrun.malleable import Malleable
except ImportError:  # the one file, copied beside this one
    from malleable import Malleable  # type: ignore[import-not-found, no-redef]

CONNECT_S = 120.0
"""Time in which a worker has to connect. A job whose node is gone is ended before."""
TRIES = 4
"""Number of times that a part of the work is tried."""


class Worker:
    """A worker process on a node."""

    def __init__(self, node, process):
        self.node = node
        self.process = process
        self.channel = None
        """Its connection; None: it has not connected yet."""

    def send(self, request):
        with contextlib.suppress(OSError):  # it is dead, which the read of its result shows
            write(self.channel, request)

    def receive(self):
        if self.channel is None:
            raise EOFError
        return read(self.channel)

    def end(self):
        self.process.kill()
        self.process.wait()
        if self.channel is not None:
            with contextlib.suppress(OSError):
                self.channel.close()


class Workers:
    """The workers of a program, and its connection to the manager.

    ``start`` begins the command of a worker, as ``ssh {node}``; by default that of ``WFRUN_RSH``,
    and without it workers run here. ``fits`` is the largest size that the program can use with so
    many processors.
    """

    def __init__(self, script, fits=lambda processors: processors, start=""):
        self.job = Malleable()
        if not start and "WFRUN_RSH" in os.environ:
            start = os.environ["WFRUN_RSH"] + " {node}"
        self._script, self._fits, self._start = script, fits, start
        self._token, self._count, self._awaited = secrets.token_hex(16), 0, {}
        self._server = socket.create_server(("" if start else "127.0.0.1", 0), backlog=1024)
        self._server.settimeout(1.0)
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
                    worker.end()
                del self._workers[keep:]
                self.job.give_back(self.job.nodes[keep:])

    def run(self, function, common, parts):
        """The results of ``function(common, part)``, one part for each worker, and the seconds of
        each. The part of a worker that dies is done by another on the same node."""
        results = [None] * len(parts)
        seconds = [0.0] * len(parts)
        requests = [[function.__name__, common, part] for part in parts]
        for worker, request in zip(self._workers, requests):
            with contextlib.suppress(OSError):  # it is tried again below
                self._connect(worker)
                worker.send(request)
        for n, request in enumerate(requests):
            for tries in range(TRIES):
                try:
                    if tries:
                        self._connect(self._workers[n])
                        self._workers[n].send(request)
                    results[n], seconds[n] = self._workers[n].receive()
                    break
                except (EOFError, OSError):
                    if tries == TRIES - 1:
                        raise
                    self._workers[n].end()
                    self._workers[n] = self._new(self.job.nodes[n])
        return results, seconds

    def close(self):
        for worker in self._workers:
            worker.end()
        self._server.close()
        self.job.close()

    def _new(self, node):
        """Start a worker on a node."""
        self._count += 1
        port = self._server.getsockname()[1]
        address = [socket.gethostname() if self._start else "127.0.0.1", str(port)]
        script = os.path.basename(self._script) if self._start else self._script
        command = [sys.executable, script, "worker", *address, self._token, str(self._count)]
        prefix = shlex.split(self._start.format(node=node))
        process = subprocess.Popen([*prefix, *command], stdin=subprocess.DEVNULL)
        worker = self._awaited[self._count] = Worker(node, process)
        return worker

    def _connect(self, worker):
        """Wait until a worker has connected; one that has ended instead is started again."""
        until_s = time.monotonic() + CONNECT_S
        while worker.channel is None:
            if time.monotonic() > until_s:
                raise TimeoutError(f"no worker has connected from {worker.node}")
            with contextlib.suppress(TimeoutError):
                self._accept()
            if worker.channel is None and worker.process.poll() is not None:
                raise ChildProcessError(f"the worker at {worker.node} has not started")

    def _accept(self):
        connection, _ = self._server.accept()
        connection.settimeout(10.0)
        channel = connection.makefile("rwb")
        try:
            token, number = read(channel)
        except (EOFError, OSError, ValueError, TypeError):
            return
        worker = self._awaited.pop(number, None) if token == self._token else None
        if worker is not None:
            connection.settimeout(None)
            worker.channel = channel


def write(channel, value):
    channel.write(json.dumps(value).encode() + b"\n")
    channel.flush()


def read(channel):
    line = channel.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return json.loads(line.decode())


def serve(functions, arguments):
    """Be a worker: do parts until the connection ends."""
    host, port, token, number = arguments
    channel = socket.create_connection((host, int(port)), timeout=30.0)
    channel.settimeout(None)
    with channel.makefile("rwb") as stream:
        write(stream, [token, int(number)])
        while True:
            try:
                name, common, part = read(stream)
            except (EOFError, OSError):
                return
            begun = time.perf_counter()
            result = functions[name](common, part)
            write(stream, [result, time.perf_counter() - begun])
