"""The launcher's end of the channels, on a simulated clock."""

from __future__ import annotations

import contextlib
import json
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from wfrun.sites.node.channels import channels, connections
from wfrun.sites.node.channels.channels import Channel
from wfrun.sites.node.channels.signing import LineSigner, proof_of

SECRET = b"s" * 64


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        for module in (channels, connections):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now_s))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Engine:
    """Serves one launcher at a time, on a loopback port."""

    def __init__(self, directory: Path, secret: bytes = SECRET) -> None:
        self.directory = directory
        self.secret = secret
        (directory / "launchers").mkdir(exist_ok=True)
        (directory / "launchers/secret").write_bytes(SECRET + b"\n")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.calls = 0
        self.nodes: list[Node] = []
        self.lines: list[bytes] = []
        self._line: socket.socket | None = None
        self._rest = b""
        self._signers: tuple[LineSigner, LineSigner] | None = None
        self.listen(1)

    def listen(self, session: int, **others: object) -> None:
        address = {"session": session, "tcp": [["127.0.0.1", self.port]], **others}
        (self.directory / "launchers/address.json").write_text(json.dumps(address))

    def work(self) -> None:
        with contextlib.suppress(BlockingIOError):
            line, _ = self._listener.accept()
            self.hang_up()
            line.setblocking(False)
            self.calls += 1
            self._line, self._rest, self._signers = line, b"", None
        if self._line is None:
            return
        try:
            data = self._line.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.hang_up()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for said in lines:
            self._take(said)

    def _take(self, said: bytes) -> None:
        if self._signers is not None:
            self.lines.append(self._signers[0].verify(said))
            return
        found = json.loads(said)
        if "launcher" not in found:
            assert found["proof"] == self._proof("launcher")
            self._signers = (
                LineSigner(self._proof("to-engine")),
                LineSigner(self._proof("to-launcher")),
            )
            return
        self._named = [found[name] for name in ("launcher", "node", "session", "nonce")]
        assert found["proof"] == proof_of(SECRET, "hello", *self._named)
        answer = {"nonce": "b", "certificate": "", "proof": self._proof("engine")}
        self._put(json.dumps(answer).encode() + b"\n")

    def _proof(self, who: str) -> str:
        return proof_of(self.secret, who, *self._named, "b", "")

    def _put(self, data: bytes) -> None:
        assert self._line is not None
        self._line.sendall(data)

    def say(self, line: bytes) -> None:
        assert self._signers is not None
        self._put(self._signers[1].sign(line))

    def hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def close(self) -> None:
        self.hang_up()
        self._listener.close()
        for node in self.nodes:
            node.channel.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path)
    yield engine
    engine.close()


class Node:
    """The event loop of a launcher."""

    def __init__(self, engine: Engine, kinds: str = "tcp") -> None:
        self.engine = engine
        engine.nodes.append(self)
        self.poller = select.poll()
        self.channel = Channel(str(engine.directory), "L1", 0, kinds.split(), self.poller)
        self.received: list[bytes] = []

    def turn(self) -> None:
        self.engine.work()
        self.poller.poll(1)
        self.received += self.channel.turn()
        self.channel.send()
        self.engine.work()

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(5000):
            if condition():
                return
            self.turn()
        raise AssertionError("it never happens")

    def opened(self) -> Node:
        self.until(lambda: self.channel.is_open)
        before = len(self.engine.lines)
        self.channel.say("hello")
        self.until(lambda: len(self.engine.lines) > before)
        assert self.engine.lines[before:] == [b"hello"]
        return self


def test_a_suspension_of_the_machine_is_no_silence(engine: Engine, clock: Clock) -> None:
    node = Node(engine).opened()
    for _ in range(5):
        clock.now_s += 600
        node.turn()
    assert node.channel.is_open
    assert node.channel.session == 1


def test_a_silent_engine_is_disconnected(engine: Engine, clock: Clock) -> None:
    node = Node(engine).opened()
    passed_s = 0
    while node.channel.is_open:
        due_s = node.channel.due_s()
        assert due_s is not None
        assert clock.now_s < due_s <= clock.now_s + 5
        clock.now_s += 1
        passed_s += 1
        node.turn()
    assert 60 <= passed_s <= 62
    clock.now_s += 1
    node.opened()
    assert node.channel.session == 2


def test_pings_are_answered_and_keep_it_alive(engine: Engine, clock: Clock) -> None:
    node = Node(engine).opened()
    for number in range(10):
        clock.now_s += 15
        engine.say(b'{"ping": %d}' % number)
        node.until(lambda: engine.lines[-1] == b'{"pong": %d}' % number)  # noqa: B023
    engine.say(b"{}")
    node.until(lambda: bool(node.received))
    assert node.received == [b"{}"]
    assert node.channel.session == 1


def test_lines_without_a_connection_are_dropped(engine: Engine, clock: Clock) -> None:
    node = Node(engine)
    node.channel.say("to nobody")
    node.opened()
    engine.hang_up()
    node.until(lambda: not node.channel.is_open)
    node.channel.say("to nobody")
    clock.now_s += 1
    node.opened()
    assert engine.lines == [b"hello", b"hello"]


def test_an_engine_of_another_run_is_refused(
    tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = Engine(tmp_path, secret=b"another")
    node = Node(engine)
    said = ""
    while "does not know the secret of the run" not in said:
        node.turn()
        said += capfd.readouterr().err
    assert not node.channel.is_open
    assert node.channel.session == 0
    for _ in range(100):
        node.turn()
    assert engine.calls == 1  # The next try comes later.
    clock.now_s += 10
    node.until(lambda: engine.calls == 2)
    engine.close()


def test_a_line_that_is_not_signed_ends_it(engine: Engine, clock: Clock) -> None:
    node = Node(engine).opened()
    engine.say(b"first")
    engine._put(b"0" * 32 + b" second\n")
    node.until(lambda: not node.channel.is_open)
    assert node.received == [b"first"]


def test_kinds_are_tried_in_their_order(engine: Engine, clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    works = [["127.0.0.1", engine.port]]
    engine.listen(1, tcp=[["not a number", 1], ["127.0.0.1", closed]], ssh=works)
    node = Node(engine, "tcp ssh spool").opened()
    assert node.channel.kind == "ssh"


def test_an_unreachable_address_is_tried_by_one_kind_alone(engine: Engine, clock: Clock) -> None:
    with contextlib.ExitStack() as stack:
        # Connections that wait to be accepted, until the kernel drops what comes.
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        engine.listen(1, tcp=[full.getsockname()], ssh=[full.getsockname()])
        node = Node(engine, "tcp ssh spool")
        kinds = []
        for _ in range(5):
            node.turn()
            kinds.append(node.channel.kind)
            clock.now_s += 1
        assert kinds == ["tcp", "tcp", "tcp", "spool", "spool"]


def test_it_retries_until_the_engine_listens(
    engine: Engine, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    address = engine.directory / "launchers/address.json"
    node = Node(engine)
    for content in ("", "[]", '{"session": 1, "tcp": [7]}', '{"session": "x"}', "null"):
        address.write_text(content)
        for _ in range(5):
            clock.now_s += 20
            node.turn()
    address.unlink()
    node.turn()
    assert not node.channel.is_open
    engine.listen(2)
    clock.now_s += 20
    node.opened()
    assert capfd.readouterr().err.count("\n") < 20


def test_a_new_session_is_noticed(engine: Engine, clock: Clock) -> None:
    node = Node(engine).opened()
    other = Engine(engine.directory)
    other.listen(2)
    clock.now_s += 5
    node.turn()
    assert not node.channel.is_open
    clock.now_s += 1
    node.engine = other
    node.opened()
    assert other.calls == 1
    other.close()


def test_a_late_engine_is_tried_at_once(engine: Engine, clock: Clock) -> None:
    """The back-off of earlier failures does not apply to it."""
    node = Node(engine).opened()
    engine.nodes.clear()
    engine.close()
    for _ in range(60):
        clock.now_s += 1
        node.channel.turn()
    other = Engine(engine.directory)
    other.listen(2)
    due_s = node.channel.due_s()
    assert due_s is not None
    assert due_s <= clock.now_s + 1
    clock.now_s = due_s
    node.engine = other
    other.nodes.append(node)
    node.turn()
    other.work()
    assert other.calls == 1
    other.close()


def test_spool_files_are_read_in_order(engine: Engine, clock: Clock) -> None:
    node = Node(engine, "spool")
    node.turn()
    launchers = engine.directory / "launchers"
    there = launchers / "in" / "L1.0"
    written = launchers / "out" / "L1.0.1.1.1"
    name = json.loads(written.read_text())
    written.unlink()

    def proof(who: str) -> str:
        return proof_of(SECRET, who, "L1", 0, 1, name["nonce"], "b", "")

    seal = LineSigner(proof("to-launcher"))
    lines = [seal.sign(b"line %d" % number) for number in range(4)]
    (there / "1.1.4").write_bytes(lines[3])
    (there / "1.1.2").write_bytes(lines[0] + lines[1][:9])
    answer = {"nonce": "b", "certificate": "", "proof": proof("engine")}
    (there / "1.1.1").write_text(json.dumps(answer) + "\n")
    (there / ".1.1.3").write_bytes(lines[1][9:20])
    clock.now_s += 1
    node.turn()
    assert node.channel.is_open
    assert node.received == [b"line 0"]
    (there / "1.1.3").write_bytes(lines[1][9:] + lines[2])
    (there / ".1.1.3").unlink()
    clock.now_s += 1
    node.turn()
    assert node.received == [b"line 0", b"line 1", b"line 2", b"line 3"]
    assert list(there.iterdir()) == []
    (there / "1.1.5").write_bytes(b"")
    clock.now_s += 2
    node.turn()
    clock.now_s += 2
    node.turn()
    assert not node.channel.is_open


def test_unread_spool_files_stay_few(engine: Engine, clock: Clock) -> None:
    test_spool_files_are_read_in_order(engine, clock)
    node = Node(engine, "spool")
    node.turn()
    out = engine.directory / "launchers" / "out"
    name = json.loads((out / "L1.0.1.1.1").read_text())
    proof = proof_of(SECRET, "engine", "L1", 0, 1, name["nonce"], "b", "")
    answer = json.dumps({"nonce": "b", "certificate": "", "proof": proof}) + "\n"
    (out.parent / "in" / "L1.0" / "1.1.1").write_text(answer)
    clock.now_s += 1
    node.turn()
    assert node.channel.is_open
    for number in range(100):
        node.channel.say("x" * number)
        node.channel.send()
    assert len(list(out.iterdir())) == 8
    node.channel.drain()
    node.channel.close()
    names = sorted(out.iterdir(), key=lambda path: int(path.suffix[1:]))
    assert len(names) == 10
    content = b"".join(path.read_bytes() for path in names)
    assert len(content.split(b"\n")) == 1 + 1 + 100 + 1  # Name, proof, lines.
    assert names[-1].read_bytes() == b""
