"""Measures the link between two nodes of a claim, or tests whether they can connect. It is run as a
job by `wfrun sites links --nodes` and `wfrun sites check --nodes`.

    ping_pong.py OUTPUT [--try]                     on the first node, which starts the second
    ping_pong.py [--try] TOKEN PORTS ADDRESS...     on the second node; PORTS: separated by commas

OUTPUT is a JSON file: ``latency_s``, half the median round-trip time of 64 kB, and
``bandwidth_bytes_per_s``, from the median round-trip time of 4 MB (thesis section 2.3.3); or
``error``. With ``--try`` the second node tries to connect to two ports of the first: one like those
of Open MPI's "daemons", one like those of its "processes". OUTPUT then has ``reached``, the list of
the reached ports by these names. It needs only the standard library of Python >= 3.6.
"""

import contextlib
import json
import os
import secrets
import select
import shlex
import socket
import statistics
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Dict, List, Set

LATENCY_BYTES, LATENCY_ROUNDS = 64_000, 100
BANDWIDTH_BYTES, BANDWIDTH_ROUNDS = 4_000_000, 10
CONNECT_S = 5.0
"""Timeout in seconds of a connection to one address."""
WAIT_S = 60.0
"""Timeout in seconds until the second node has connected, and of each message."""
LAST_S = 2.0
"""Time in seconds in which connections may still arrive after the second node's program has
ended."""
FIRST_PORT = 1024
"""First port at which Open MPI 4 listens for messages between processes (btl_tcp_port_min_v4). Its
daemons listen at ports that the system chooses."""


def receive(peer: socket.socket, size: int) -> bytes:
    """Receive ``size`` bytes. Raises OSError if the connection ends before."""
    parts = []
    while size:
        part = peer.recv(min(size, 1 << 20))
        if not part:
            raise OSError("the connection has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def own_addresses() -> "List[str]":
    """Addresses at which other machines may reach this one, the likeliest first."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # Sends nothing.
        found.append(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    return list(dict.fromkeys(found))


def one_way_s(peer: socket.socket, size: int, rounds: int) -> float:
    """Half the median round-trip time of a message of ``size`` bytes, in seconds. The first round
    is not counted."""
    message, times_s = bytes(size), []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        peer.sendall(message)
        receive(peer, size)
        times_s.append(time.perf_counter() - begun_s)
    return statistics.median(times_s[1:]) / 2


def start_other(words: "List[str]") -> "subprocess.Popen[bytes]":
    """Start this program on the second node with the arguments ``words`` and the addresses of this
    node."""
    with open(os.environ["WFRUN_NODEFILE"]) as file:
        other = file.read().split()[-1]
    agent = shlex.split(os.environ["OMPI_MCA_plm_rsh_agent"])  # noqa: SIM112 - Open MPI
    command = " ".join(["python3", "ping_pong.py", *words, *own_addresses()])
    return subprocess.Popen([*agent, other, command], stderr=subprocess.PIPE)


def listen(first_port: int) -> socket.socket:
    """Listen at the first free port from ``first_port`` on; 0: at any port. Raises OSError."""
    for port in range(first_port, 65536):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind(("", port))
            listener.listen(8)
            return listener
        except OSError:
            listener.close()
            if not port:
                raise
    raise OSError("no port is free")


def measure() -> "Dict[str, object]":
    """Start the second node's program and measure the link. Raises OSError."""
    token = secrets.token_hex(16)
    with listen(0) as listener:
        listener.settimeout(WAIT_S)
        with start_other([token, str(listener.getsockname()[1])]) as end:
            try:
                while True:
                    peer, _ = listener.accept()
                    peer.settimeout(WAIT_S)
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if receive(peer, len(token)) == token.encode():
                        break
                latency_s = one_way_s(peer, LATENCY_BYTES, LATENCY_ROUNDS)
                large_s = one_way_s(peer, BANDWIDTH_BYTES, BANDWIDTH_ROUNDS)
                return {
                    "latency_s": latency_s,
                    "bandwidth_bytes_per_s": BANDWIDTH_BYTES / large_s,
                }
            except socket.timeout:
                raise OSError("its nodes do not reach each other by TCP") from None
            finally:
                end.kill()


def reached() -> "Dict[str, object]":
    """Start the second node's program, and find out to which ports of this node it can connect.
    Raises OSError."""
    token = secrets.token_hex(16)
    with listen(0) as daemons, listen(FIRST_PORT) as processes:
        listeners = {daemons: "daemons", processes: "processes"}
        found: "Set[str]" = set()
        end_s = time.monotonic() + WAIT_S
        ports = ",".join(str(each.getsockname()[1]) for each in listeners)
        with start_other(["--try", token, ports]) as end:
            try:
                while len(found) < len(listeners) and time.monotonic() < end_s:
                    if end.poll() is not None:
                        end_s = min(end_s, time.monotonic() + LAST_S)
                    for listener in select.select(list(listeners), [], [], 0.2)[0]:
                        peer, _ = listener.accept()
                        peer.settimeout(CONNECT_S)
                        with peer, contextlib.suppress(OSError):  # a stranger
                            if receive(peer, len(token)) == token.encode():
                                found.add(listeners[listener])
            finally:
                end.kill()
    return {"reached": sorted(found)}


def reach(token: str, ports: "List[int]", addresses: "List[str]") -> None:
    """Second node, ``--try``: connect to each port of the first node, at the first address that
    works, and send the token."""
    for port in ports:
        for address in addresses:
            with contextlib.suppress(OSError), socket.create_connection(
                (address, port), CONNECT_S
            ) as peer:  # fmt: skip
                peer.sendall(token.encode())
                break


def answer(token: str, port: int, addresses: "List[str]") -> None:
    """Second node: connect to the first one, and send each message of the measurement back."""
    for address in addresses:
        with contextlib.suppress(OSError):
            peer = socket.create_connection((address, port), CONNECT_S)
            peer.settimeout(WAIT_S)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(token.encode())
            for size, rounds in (
                (LATENCY_BYTES, LATENCY_ROUNDS),
                (BANDWIDTH_BYTES, BANDWIDTH_ROUNDS),
            ):
                for _ in range(rounds):
                    peer.sendall(receive(peer, size))
            return


def main() -> None:
    """Run as the first or as the second node."""
    words = [word for word in sys.argv[1:] if word != "--try"]
    tries = len(words) < len(sys.argv) - 1
    if len(words) > 1:
        ports = [int(port) for port in words[1].split(",")]
        if tries:
            reach(words[0], ports, words[2:])
        else:
            answer(words[0], ports[0], words[2:])
        return
    try:
        found = reached() if tries else measure()
    except (OSError, KeyError) as error:
        found = {"error": str(error)}
    with open(words[0], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
