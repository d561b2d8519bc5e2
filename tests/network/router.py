"""The program that is the network of the tests: starts the hosts, and forwards IP packets between
their interfaces, each link with its rate and latency.

It needs TUN devices and namespaces of the kernel, but no module for traffic shaping: many kernels
lack ``sch_netem``. All that it makes ends with it, also when it is killed: interfaces are closed by
the kernel, and each host is a PID namespace whose first process dies with its parent.

Reads a line of JSON for each request from its standard input and answers with one; ends with it.
The first one describes the hosts: ``{"number": 0, "hosts": {"one": ["/bin/sh", "SCRIPT"]}}``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import json
import os
import selectors
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.network.link import Link

MTU = 9000
"""Bytes of a packet; few large ones cost less than many small ones."""
BATCH = 64
"""Packets read from one interface before the others get their turn."""
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
# From <linux/if_tun.h>.


def open_interface(name: str) -> int:
    """Make a TUN device; raises OSError where the name is taken. It vanishes when closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(descriptor, TUNSETIFF, request)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class Router:
    """The interfaces of the hosts and the packets on their way."""

    def __init__(self, number: int, hosts: dict[str, list[str]]) -> None:
        self.names = ["submit", *hosts]
        self.links = {(a, b): Link() for a in self.names for b in self.names if a != b}
        self.pids: dict[str, int] = {}
        self._number = number
        self._tuns: dict[str, int] = {}
        self._by_address: dict[bytes, str] = {}
        self._travelling: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        for last_byte, name in enumerate(self.names, 1):
            interface = f"wfnet{number}" if name == "submit" else f"wfnet{number}h{last_byte}"
            self._tuns[name] = open_interface(interface)
            self._by_address[bytes((198, 18, number, last_byte))] = name
            if name == "submit":
                self._set_up(interface, last_byte)
            else:
                self._start(name, hosts[name], interface, last_byte)

    def _start(self, name: str, argv: list[str], interface: str, last_byte: int) -> None:
        """Start a host, whose interface is up before its program begins."""
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--mount"]
        command += ["--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        command += ['read go && exec "$@" </dev/null', "sh", *argv]
        outer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr)
        pid = self.pids[name] = child_of(outer)
        run("ip", "link", "set", interface, "netns", str(pid))
        self._set_up(interface, last_byte, "nsenter", "--net", "--target", str(pid))
        assert outer.stdin is not None
        outer.stdin.write(b"go\n")
        outer.stdin.close()

    def _set_up(self, interface: str, last_byte: int, *inside: str) -> None:
        address = f"198.18.{self._number}.{last_byte}/24"
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", address, "dev", interface)
        run(*inside, "ip", "link", "set", interface, "mtu", str(MTU), "up")

    def forward(self) -> None:
        """Forward packets and answer requests, until there are no more."""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ, None)
            for name, tun in self._tuns.items():
                selector.register(tun, selectors.EVENT_READ, name)
            while True:
                due_s = self._travelling[0][0] - time.monotonic() if self._travelling else None
                for key, _ in selector.select(due_s):
                    if key.data is not None:
                        self._take(key.data, key.fd)
                    elif not answer(self):
                        return
                self._deliver()

    def _take(self, source: str, tun: int) -> None:
        now_s = time.monotonic()
        for _ in range(BATCH):
            try:
                packet = os.read(tun, MTU)
            except BlockingIOError:
                return
            # The target's address in the header of IPv4; other packets, such as IPv6's, match none.
            target = self._by_address.get(packet[16:20])
            if target is None or target == source:
                continue
            at_s = self.links[source, target].enter(len(packet), now_s)
            if at_s is None:
                continue
            if at_s <= now_s:
                write(self._tuns[target], packet)
            else:
                self._count += 1  # Packets of one moment keep their order.
                item = (at_s, self._count, self._tuns[target], packet)
                heapq.heappush(self._travelling, item)

    def _deliver(self) -> None:
        now_s = time.monotonic()
        while self._travelling and self._travelling[0][0] <= now_s:
            _, _, tun, packet = heapq.heappop(self._travelling)
            write(tun, packet)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Change a link, or tell how many bytes it has carried."""
        link = self.links[request["source"], request["target"]]
        if "up" in request:
            link.change(request["rate"], request["latency_s"], request["up"])
        return {"carried": link.carried}


def write(tun: int, packet: bytes) -> None:
    """Deliver a packet; a host that has died or cannot keep up loses it, as hosts do."""
    with contextlib.suppress(OSError):
        os.write(tun, packet)


def answer(router: Router) -> bool:
    """Answer one request; False: there will be none."""
    line = sys.stdin.readline()
    if line:
        print(json.dumps(router.answer(json.loads(line))), flush=True)
    return bool(line)


def run(*argv: str) -> None:
    """Run a command. Raises RuntimeError with what it said."""
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {result.stderr.strip()}")


def child_of(outer: subprocess.Popen[bytes]) -> int:
    """The process that ``unshare`` has forked, once it is in its own namespaces."""
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while True:
        if outer.poll() is not None:
            raise RuntimeError(f"unshare ended with {outer.returncode}")
        words = children.read_text().split()
        if words:
            return int(words[0])
        time.sleep(0.005)


def main() -> None:
    first = json.loads(sys.stdin.readline())
    try:
        router = Router(first["number"], first["hosts"])
    except (OSError, RuntimeError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EBUSY
        print(json.dumps({"error": str(error), "taken": taken}), flush=True)
        return
    print(json.dumps({"pids": router.pids}), flush=True)
    router.forward()


if __name__ == "__main__":
    main()
