"""Measures the link between two nodes of a claim. A job of `wfrun sites links --nodes`.

    ping_pong.py OUTPUT                     on the first node, which starts
    ping_pong.py TOKEN PORT ADDRESS...      on the other one

OUTPUT is JSON: ``latency_s``, half the median round trip of 64 kB, and ``bandwidth_bytes_per_s``,
by that of 4 MB (thesis section 2.3.3); or ``error``. It needs the standard library of Python >= 3.6
alone.
"""

import contextlib
import json
import os
import secrets
import shlex
import socket
import statistics
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Dict, List, Union

LATENCY_BYTES, LATENCY_ROUNDS = 64_000, 100
BANDWIDTH_BYTES, BANDWIDTH_ROUNDS = 4_000_000, 10
CONNECT_S = 5.0
"""Timeout for each address."""
WAIT_S = 60.0
"""Timeout of the connection as a whole, and of each message."""


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
    """Half the median round trip of a message of this size."""
    message, times_s = bytes(size), []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        peer.sendall(message)
        receive(peer, size)
        times_s.append(time.perf_counter() - begun_s)
    return statistics.median(times_s[1:]) / 2


def measure() -> "Dict[str, Union[float, str]]":
    """Start the other end and measure. Raises OSError."""
    token = secrets.token_hex(16)
    with open(os.environ["WFRUN_NODEFILE"]) as file:
        other = file.read().split()[-1]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("", 0))
        listener.listen(8)
        listener.settimeout(WAIT_S)
        words = ["python3", "ping_pong.py", token, str(listener.getsockname()[1])]
        agent = shlex.split(os.environ["OMPI_MCA_plm_rsh_agent"])  # noqa: SIM112 - Open MPI
        command = [*agent, other, " ".join([*words, *own_addresses()])]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as end:
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


def answer(token: str, port: int, addresses: "List[str]") -> None:
    """Connect to the other end, and send back what it sends."""
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
    """Be one of both ends."""
    if len(sys.argv) > 2:
        answer(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
        return
    found: "Dict[str, Union[float, str]]"
    try:
        found = measure()
    except (OSError, KeyError) as error:
        found = {"error": str(error)}
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
