"""An engine for real launchers of batch jobs, over TCP, and batch jobs without a batch system."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.sites.node.jobs.facts import put_facts
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.sites.node import BATCH_LAUNCHER_PROGRAMS, FOLDER, JOB_PROGRAMS
from wfrun.sites.node.channels import signing

PATIENCE_S = 100.0


def launcher_request(key: str, config: Mapping[str, Any]) -> AttemptRequest:
    """The attempt whose task is the launcher."""
    nodes = config.get("nodes", 1)
    argv = ("/bin/sh", "../../bin/batch_launcher.sh", "../..", key, json.dumps(config))
    resources = Resources(
        cores=config["cores"] * nodes,
        gpus=config.get("gpus", 0),
        walltime_s=config.get("walltime_s"),
        nodes=nodes,
    )
    return AttemptRequest(key, argv, {}, (), (), None, None, None, resources)


class Link:
    """One authenticated connection of a launcher."""

    def __init__(self, connection: socket.socket, secret: bytes) -> None:
        self._socket = connection
        self._socket.settimeout(PATIENCE_S)
        self._splitter = signing.LineSplitter()
        self._lines: list[bytes] = []
        first = json.loads(self._line())
        names = [first[name] for name in ("launcher", "node", "session", "nonce")]
        assert first["proof"] == signing.proof_of(secret, "hello", *names)

        def proof(who: str) -> str:
            return signing.proof_of(secret, who, *names, "b", "")

        answer = {"nonce": "b", "certificate": "", "proof": proof("engine")}
        self._socket.sendall(json.dumps(answer).encode() + b"\n")
        assert json.loads(self._line()) == {"proof": proof("launcher")}
        self._signer, self._verifier = (
            signing.LineSigner(proof(to)) for to in ("to-launcher", "to-engine")
        )

    def _line(self) -> bytes:
        while not self._lines:
            data = self._socket.recv(1 << 18)
            if not data:
                self._socket.close()
                raise EOFError
            self._lines += self._splitter.feed(data)
        return self._lines.pop(0)

    def say(self, message: object) -> None:
        self._socket.sendall(self._signer.sign(msgspec.json.encode(message)))

    def receive(self) -> dict[str, Any]:
        """Raises EOFError at the end of the connection."""
        message: dict[str, Any] = json.loads(self._verifier.verify(self._line()))
        return message

    def close(self) -> None:
        self._socket.close()


class Engine:
    """Listens, and records the messages of one launcher."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("attempts", "files", "exits", "bin", "batches", "launchers"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        for name in (*JOB_PROGRAMS, *BATCH_LAUNCHER_PROGRAMS):
            shutil.copy(FOLDER / name, directory / "bin")
        put_facts(directory)
        self.secret = secrets.token_hex(32).encode()
        (directory / "launchers" / "secret").write_bytes(self.secret)
        self.sessions = 0
        self.processes: list[subprocess.Popen[bytes]] = []
        self.links: list[Link] = []
        self.received: list[dict[str, Any]] = []
        self.listener: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        """Listen again, as another engine would."""
        self.sessions += 1
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        address = {"session": self.sessions, "tcp": [self.listener.getsockname()[:2]]}
        path = self.directory / "launchers" / "address.json"
        path.with_name(".new").write_text(json.dumps(address))
        path.with_name(".new").rename(path)

    def disconnect(self) -> None:
        while self.links:
            self.links.pop().close()
        if self.listener is not None:
            self.listener.close()
        self.listener = None

    def job(self, key: str = "run-s.1", **config: Any) -> list[str]:
        """Write the batch of a launcher's job; returns the command of the job."""
        request = launcher_request(key, {"cores": 2, "channels": ["tcp"], **config})
        (self.directory / "batches" / f"{key}.jsonl").write_bytes(msgspec.json.encode(request))
        return self.command(key)

    def command(self, key: str) -> list[str]:
        """The command of the batch job of this key."""
        return ["/bin/sh", str(self.directory / "bin" / "job.sh"), str(self.directory), key, "1"]

    def start(
        self,
        key: str = "run-s.1",
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        **config: Any,
    ) -> subprocess.Popen[bytes]:
        """Run a batch job with a launcher; ``prefix`` is put before its command."""
        self.job(key, **config)
        return self.start_job(key, env, prefix)

    def start_job(
        self, key: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Run the job of a batch that was written."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, **(env or {})}
        words = [*prefix, *self.command(key)]
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def accept(self) -> dict[str, Any]:
        """The hello of the next launcher that connects; messages go to that one from now on."""
        assert self.listener is not None
        connection, _ = self.listener.accept()
        self.links.append(Link(connection, self.secret))
        hello = self.receive()
        assert hello["hello"] == 1
        return hello

    def say(self, message: object) -> None:
        self.links[-1].say(message)

    def run(self, *requests: AttemptRequest) -> None:
        self.say({"run": requests})

    def receive(self) -> dict[str, Any]:
        message = self.links[-1].receive()
        self.received.append(message)
        return message

    def ask(self, *keys: str) -> dict[str, Any]:
        self.say({"find": keys, "id": 7})
        self.until(lambda: "found" in self.received[-1])
        found: dict[str, Any] = self.received[-1]["found"]
        return found

    def until(self, what: Callable[[], Any]) -> None:
        while not what():
            self.receive()

    def all_of(self, kind: str) -> list[Any]:
        return [each for message in self.received for each in message.get(kind, ())]

    def until_started(self, *keys: str) -> None:
        self.until(lambda: set(keys) <= set(self.all_of("started")))

    def until_ended(self, *keys: str) -> list[dict[str, Any]]:
        self.until(lambda: set(keys) <= {key for key, _ in self.all_of("ended")})
        return [self.outcomes()[key] for key in keys]

    def outcomes(self) -> dict[str, Any]:
        return dict(self.all_of("ended"))

    def journal(self, name: str = "run-s.1.jsonl") -> list[dict[str, Any]]:
        text = (self.directory / "exits" / name).read_text()
        lines = text.split("\n")[:-1]  # the last one may not be complete yet
        return [json.loads(line) for line in lines]

    def starts(self, name: str = "run-s.1.jsonl") -> list[str]:
        """The keys of the attempts that a journal says were started."""
        return [start[0] for line in self.journal(name) for start in line.get("started", ())]

    def ends(self, name: str = "run-s.1.jsonl") -> dict[str, Any]:
        """The exit records in a journal."""
        return {key: end for line in self.journal(name) for key, end in line.get("ended", ())}

    def record(self, key: str = "run-s.1") -> dict[str, Any]:
        """The outcome of the launcher's own job, when that has ended."""
        for link in self.links:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    link.receive()
        path = self.directory / "exits" / f"{key}.json"
        wait_for(path.exists)
        outcome: dict[str, Any] = json.loads(path.read_text())["outcome"]
        return outcome

    def close(self) -> None:
        self.disconnect()
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()


def wait_for(what: Callable[[], Any], limit_s: float = PATIENCE_S) -> None:
    """Poll until it is true."""
    end_s = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end_s, "it does not come"
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or at least dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
