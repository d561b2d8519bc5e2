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
import select
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
"""Maximum time without any worker. A job whose nodes are gone is ended before."""
TRIES = 4
"""Number of times that a part of the work is tried."""


class Worker:
    """A worker process on a node."""

    def __init__(self, node, number, process):
        self.node = node
        self.number = number
        self.process = process
        self.channel = None
        """Its connection; None: it has not connected yet."""

    def send(self, request):
        with contextlib.suppress(OSError):  # it is dead, which the read of its result shows
            write(self.channel, request)

    def receive(self):
        return read(self.channel)

    def end(self):
        self.process.kill()
        self.process.wait()
        if self.channel is not None:
            with contextlib.suppress(OSError):
                self.channel.close()


class Workers:
    """The workers of a program, and its connection to the manager.

    A worker is used as soon as it has connected; until then the program goes on with the others,
    and answers the manager. ``start`` begins the command of a worker, as ``ssh {node}``; by default
    that of ``WFRUN_RSH``, and without it workers run here. ``fits`` is the largest size that the
    program can use with so many processors.
    """

    def __init__(self, script, fits=lambda processors: processors, start=""):
        self.job = Malleable()
        if not start and "WFRUN_RSH" in os.environ:
            start = os.environ["WFRUN_RSH"] + " {node}"
        self._script, self._fits, self._start = script, fits, start
        self._token, self._count = secrets.token_hex(16), 0
        self._server = socket.create_server(("" if start else "127.0.0.1", 0), backlog=1024)
        self._first = list(self.job.nodes)
        self._all = [self._new(node) for node in self.job.nodes]
        self._await_one()

    def __len__(self):
        """The size that the program uses."""
        return self._fits(len(self._ready()))

    def _ready(self):
        return [worker for worker in self._all if worker.channel is not None]

    def adapt(self):
        """Grow and shrink as the manager says."""
        while (message := self.job.poll()) is not None:
            size = len(self._all)
            if message.kind == "offer":
                taken = self.job.take(max(0, self._fits(size + message.processors) - size))
                self._all += [self._new(node) for node in taken]
            else:
                self._shrink(size - max(1, self._fits(size - message.processors)))
        for worker in self._all:
            if worker.channel is None and worker.process.poll() is not None:
                self._replace(worker)
        while self._accept(0.0):
            pass

    def _shrink(self, count):
        """End workers, those that have not connected first, and give their nodes back. The nodes
        that the program has had from the beginning stay."""
        extra = self._all[len(self._first) :]
        order = sorted(extra, key=lambda worker: worker.channel is None)
        given = order[max(0, len(order) - count) :]
        for worker in given:
            worker.end()
            self._all.remove(worker)
        self.job.give_back([worker.node for worker in given])

    def run(self, function, common, parts):
        """The results of ``function(common, part)``, one part for each of ``len()`` workers, and
        the seconds of each. The part of a worker that dies is done by another."""
        results, seconds = [None] * len(parts), [0.0] * len(parts)
        requests = [[function.__name__, common, part] for part in parts]
        used = self._ready()[: len(parts)]
        for worker, request in zip(used, requests):
            worker.send(request)
        failed = []
        for n, worker in enumerate(used):
            try:
                results[n], seconds[n] = worker.receive()
            except (EOFError, OSError):
                failed.append(n)
                self._replace(worker)
        for n in failed:
            results[n], seconds[n] = self._again(requests[n])
        return results, seconds

    def _again(self, request):
        """Do a part whose worker has died."""
        for _ in range(TRIES):
            worker = self._await_one()
            try:
                worker.send(request)
                return worker.receive()
            except (EOFError, OSError):
                self._replace(worker)
        raise ChildProcessError("workers die again and again")

    def close(self):
        for worker in self._all:
            worker.end()
        self._server.close()
        self.job.close()

    def _replace(self, worker):
        """Start a worker again that has died."""
        worker.end()
        self._all[self._all.index(worker)] = self._new(worker.node)

    def _new(self, node):
        """Start a worker on a node."""
        self._count += 1
        port = self._server.getsockname()[1]
        address = [socket.gethostname() if self._start else "127.0.0.1", str(port)]
        script = os.path.basename(self._script) if self._start else self._script
        command = [sys.executable, script, "worker", *address, self._token, str(self._count)]
        prefix = shlex.split(self._start.format(node=node))
        process = subprocess.Popen([*prefix, *command], stdin=subprocess.DEVNULL)
        return Worker(node, self._count, process)

    def _await_one(self):
        """The first worker that is connected."""
        until_s = time.monotonic() + CONNECT_S
        while not (ready := self._ready()):
            if time.monotonic() > until_s:
                raise TimeoutError("no worker has connected")
            for worker in self._all:
                if worker.process.poll() is not None:
                    self._replace(worker)
            self._accept(0.2)
        return ready[0]

    def _accept(self, timeout_s):
        """Take the connection of a worker; returns whether there was one."""
        if not select.select([self._server], [], [], timeout_s)[0]:
            return False
        connection, _ = self._server.accept()
        connection.settimeout(10.0)
        channel = connection.makefile("rwb")
        with contextlib.suppress(EOFError, OSError, ValueError, TypeError):
            token, number = read(channel)
            for worker in self._all:
                if token == self._token and worker.number == number:
                    connection.settimeout(None)
                    worker.channel = channel
        return True


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
