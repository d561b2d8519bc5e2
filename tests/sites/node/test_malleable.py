"""The protocol of malleable programs: both ends, hostile programs, and the examples."""

from __future__ import annotations

import cmath
import importlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from wfrun.malleable import Malleable
from wfrun.sites.node.launchers.malleable_end import LONGEST, ProtocolError, SocketEnd

EXAMPLES = ROOT / "examples" / "malleable"


@pytest.fixture
def end(tmp_path: Path) -> Iterator[SocketEnd]:
    one = SocketEnd(str(tmp_path / "socket"), ["n1", "n2"], least=2)
    yield one
    one.close()


def serve(end: SocketEnd) -> threading.Thread:
    """A well-behaved program: takes a node less than it is offered, gives back what is asked."""

    def program() -> None:
        with Malleable(end.path) as job:
            while True:
                message = job.poll(None)
                if message is None:
                    return
                if message.kind == "offer":
                    job.take(message.processors - 1)
                else:
                    job.give_back(job.nodes[-message.processors :])

    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    assert end.accept(10)
    return thread


def test_a_program_grows_and_shrinks(end: SocketEnd) -> None:
    thread = serve(end)
    assert end.offer(["n3", "n4", "n5"]) == ["n3", "n4"]
    assert end.nodes == ["n1", "n2", "n3", "n4"]
    assert end.shrink(1) == ["n4"]
    assert end.shrink(9) == ["n3"]
    assert end.shrink(1) == []
    assert end.nodes == ["n1", "n2"]
    end.close()
    thread.join(10)
    assert not thread.is_alive()
    assert not os.path.exists(end.path)


def test_a_program_releases_nodes_unasked(end: SocketEnd) -> None:
    end.least = 1
    with connected(end) as program:
        program.sendall(b"release 1 n2\ntake 0\n")
        assert end.offer(["n3"], timeout_s=5) == []
        assert end.nodes == ["n1"]
        assert end.released == ["n2"]


def connected(end: SocketEnd) -> socket.socket:
    program = socket.socket(socket.AF_UNIX)
    program.connect(end.path)
    assert end.accept(10)
    assert program.recv(100) == b"have 2 n1 n2\n"
    return program


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (b"take 4\n", "takes 4 of 3 nodes"),
        (b"take -1\n", "sends 'take -1'"),
        (b"take 1 n3\n", "takes 1 of 3 nodes"),
        (b"take 9999999999\n", "sends 'take 9999999999'"),
        (b"\n", "sends ''"),
        (b"done 1 n1\n", "answers 'done' instead of take"),
        (b"\xff\xfe 1\n", "sends"),
        (b"release 1 n1\ntake 1\n", "gives back 1 nodes and keeps 1"),
        (b"release 1 other\n", "a node that it does not have: 'other'"),
        (b"x" * (LONGEST + 10), "a line of more than 65536 bytes"),
        (b"", "has not answered within 0.3 s"),
    ],
)
def test_a_program_that_breaks_the_protocol_is_named(
    end: SocketEnd, says: bytes, message: str
) -> None:
    with connected(end) as program:
        writer = threading.Thread(target=program.sendall, args=(says,), daemon=True)
        writer.start()
        with pytest.raises(ProtocolError, match=re.escape(message)):
            end.offer(["n3", "n4", "n5"], timeout_s=0.3)
        with pytest.raises(ProtocolError, match=re.escape(message)):
            end.poll()
        assert end.nodes == ["n1", "n2"]


def test_a_program_that_sends_slowly_has_no_more_time(end: SocketEnd) -> None:
    with connected(end) as program:
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                program.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        since_s = time.monotonic()
        with pytest.raises(ProtocolError, match="not answered within"):
            end.offer(["n3"], timeout_s=0.5)
        stop.set()
        thread.join(10)
        assert time.monotonic() - since_s < 10


def test_a_program_that_ends_between_offer_and_answer(end: SocketEnd) -> None:
    connected(end).close()
    with pytest.raises(ProtocolError, match=r"the program (is gone|has closed its connection)"):
        end.offer(["n3"], timeout_s=5)


def test_too_few_nodes_are_not_enough(end: SocketEnd) -> None:
    end.nodes, end.least = ["n1", "n2"], 1
    with connected(end) as program:
        program.sendall(b"done 0\n")
        with pytest.raises(ProtocolError, match="gives back 0 of 1 nodes"):
            end.shrink(1, timeout_s=5)


def test_without_a_manager_a_program_has_its_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WFRUN_MALLEABLE", raising=False)
    with Malleable() as job:
        assert job.nodes == ["localhost"]
        assert job.poll() is None


SHELL = """\
answer() { cp "$WFRUN_MALLEABLE_NODES" draft; mv draft "$WFRUN_MALLEABLE_NODES.taken"; }
trap answer USR1
sleep 0.3
answer
while [ ! -e end ]; do sleep 0.05; done
exit 7
"""


def run_by_file(
    end: SocketEnd, folder: Path, script: str = SHELL, **more: str
) -> subprocess.Popen[str]:
    (folder / "first").write_text("n1\nn2\n")
    program = ROOT / "wfrun" / "malleable.py"
    return subprocess.Popen(
        [sys.executable, str(program), "sh", "-c", script], cwd=folder, text=True,
        env={**os.environ, **end.environment, "WFRUN_NODEFILE": str(folder / "first"), **more},
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def test_a_shell_script_grows_and_shrinks_by_a_signal(tmp_path: Path, end: SocketEnd) -> None:
    with run_by_file(end, tmp_path) as program:
        assert end.accept(10)
        assert end.offer(["n3", "n4"]) == ["n3", "n4"]
        assert (tmp_path / ".wfrun-malleable-nodes").read_text() == "n1\nn2\nn3\nn4\n"
        assert end.shrink(1) == ["n4"]
        assert end.shrink(5) == ["n3"]
        assert end.nodes == ["n1", "n2"]
        (tmp_path / "end").touch()
        assert program.wait(10) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["end", "first", "socket"]


def test_a_script_that_takes_a_part_of_an_offer(tmp_path: Path, end: SocketEnd) -> None:
    part = SHELL.replace('cp "$WFRUN_MALLEABLE_NODES"', 'head -n 3 "$WFRUN_MALLEABLE_NODES" >')
    with run_by_file(end, tmp_path, part):
        assert end.accept(10)
        assert end.offer(["n3", "n4"]) == ["n3"]
        (tmp_path / "end").touch()


def test_a_script_that_names_other_nodes_is_ended(tmp_path: Path, end: SocketEnd) -> None:
    other = SHELL.replace("trap answer USR1", "trap 'echo n9 > draft; answer' USR1").replace(
        'cp "$WFRUN_MALLEABLE_NODES" draft', '[ -e draft ] || cp "$WFRUN_MALLEABLE_NODES" draft'
    )
    with run_by_file(end, tmp_path, other) as program:
        assert end.accept(10)
        with pytest.raises(ProtocolError):
            end.offer(["n3"])
        assert program.wait(10) == 1
        assert program.stderr is not None
        assert "uses other nodes than those in its file" in program.stderr.read()


def test_a_script_that_never_joins_is_rigid(tmp_path: Path, end: SocketEnd) -> None:
    with run_by_file(end, tmp_path, "cat $WFRUN_MALLEABLE_NODES > seen; exit 3") as program:
        assert program.wait(10) == 3
    assert not end.accept(0.0)
    assert (tmp_path / "seen").read_text() == "n1\nn2\n"


def test_signals_reach_a_script(tmp_path: Path, end: SocketEnd) -> None:
    script = SHELL.replace("sleep 0.3", "trap 'exit 5' TERM")
    with run_by_file(end, tmp_path, script) as program:
        assert end.accept(10)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 5


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "wfrun" / "malleable.py"), "./nosuch"]
    done = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 127
    assert done.stderr == "malleable.py: ./nosuch: No such file or directory\n"


def run_example(
    script: str, sizes: tuple[str, ...], end: SocketEnd | None
) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if k != "WFRUN_MALLEABLE"}
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), *sizes],
        env={**clean, "PYTHONPATH": str(ROOT), **(end.environment if end else {})},
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def workers_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def mischief(end: SocketEnd, pid: int, chance: random.Random, times: int, powers: bool) -> int:
    """Offers, shrinks and kills of workers at random. Returns how many were done."""
    free = [f"n{n}" for n in range(10, 16)]
    done = 0
    for _ in range(times):
        what = chance.choice(("offer", "shrink", "kill"))
        try:
            if what == "offer" and free:
                offered = free[: chance.randint(1, len(free))]
                taken = end.offer(offered)
                free = [node for node in free if node not in taken]
            elif what == "shrink":
                free += end.shrink(chance.randint(1, 4))
            elif what == "kill" and (workers := workers_of(pid)):
                os.kill(chance.choice(workers), signal.SIGKILL)
            end.poll()
        except (ProtocolError, ProcessLookupError, FileNotFoundError):
            return done
        assert not powers or len(end.nodes) & (len(end.nodes) - 1) == 0
        done += 1
    return done


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("script", "sizes"), [("nbody.py", ("60", "60")), ("fft.py", ("32", "40"))]
)
def test_examples_give_the_serial_result_after_any_sizes(
    tmp_path: Path, script: str, sizes: tuple[str, ...], seed: int
) -> None:
    serial = run_example(script, sizes, None)
    expected, _ = serial.communicate(timeout=60)
    assert serial.returncode == 0
    assert expected
    end = SocketEnd(str(tmp_path / "socket"), ["n1", "n2"], least=2, fixed=["n1", "n2"])
    program = run_example(script, sizes, end)
    try:
        assert end.accept(30)
        chance = random.Random(seed)
        assert mischief(end, program.pid, chance, 12, script == "fft.py") >= 3
        found, _ = program.communicate(timeout=90)
        assert program.returncode == 0
        assert found == expected
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        end.close()


def test_the_fourier_transform_is_one() -> None:
    """Against the definition."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        example: Any = importlib.import_module("fft")
    finally:
        sys.path.remove(str(EXAMPLES))
    side = 4
    chance = random.Random(1)
    values = [complex(chance.random(), chance.random()) for _ in range(side * side)]

    def run(rows: list[Any], twiddle: bool) -> Any:
        return example.lines(side, (0 if twiddle else None, rows))

    count = side * side
    expected = [
        sum(values[n] * cmath.exp(-2j * cmath.pi * n * k / count) for n in range(count))
        for k in range(count)
    ]
    assert example.transform(values, side, run) == pytest.approx(expected)


C_PROGRAM = """
#include "malleable.h"
int main(void) {
    static char line[MALLEABLE_LINE];
    int n, fd = malleable_join(line);
    if (fd < 0) return 3;
    for (;;) {
        switch (malleable_poll(fd, line, &n)) {
        case 'o': malleable_take(fd, n / 2); break;
        case 's': malleable_done(fd, 1, "n3"); return 0;
        case -1: return 4;
        default: usleep(10000);
        }
    }
}
"""


def test_a_program_in_c(tmp_path: Path, end: SocketEnd) -> None:
    header = ROOT / "wfrun" / "malleable.h"
    assert len(header.read_text().splitlines()) <= 100
    (tmp_path / "program.c").write_text(C_PROGRAM)
    subprocess.run(
        ["cc", "-std=gnu99", "-Wall", "-Werror", "-I", header.parent, "program.c", "-o", "program"],
        cwd=tmp_path, check=True, timeout=60,
    )  # fmt: skip
    with subprocess.Popen(
        [str(tmp_path / "program")], env={**os.environ, **end.environment}
    ) as program:
        try:
            assert end.accept(10)
            assert end.offer(["n3", "n4"]) == ["n3"]
            assert end.shrink(1) == ["n3"]
            assert program.wait(10) == 0
        finally:
            program.kill()
