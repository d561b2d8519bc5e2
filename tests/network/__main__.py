"""Holds a test network up for a user: ``python -m tests.network [HOST ...]``, as root."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.network.network import Network
from tests.testbed.layout import TestbedError

HELP = """\
shape A B [RATE [LATENCY]]   bytes per second (0: as fast as it can be), seconds
cut A B                      let all packets between them vanish
carried A B                  show the bytes that went from A to B
The end of the input ends the network. 'submit' is this machine."""


def obey(network: Network, words: list[str]) -> None:
    """Do what a line says. Raises ValueError, KeyError for what cannot be."""
    match words:
        case ["shape", one, other, *numbers] if len(numbers) <= 2:
            rate, latency_s = (*map(float, numbers), 0.0, 0.0)[:2]
            network.shape(one, other, rate=rate or None, latency_s=latency_s)
        case ["cut", one, other]:
            network.cut(one, other)
        case ["carried", one, other]:
            print(network.carried(one, other))
        case _:
            print(HELP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.network", description=__doc__)
    parser.add_argument("hosts", nargs="*", default=["one", "two"])
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="wfrun-network-") as directory:
            network = Network(options.hosts, Path(directory) / "network")
            with contextlib.closing(network), contextlib.suppress(KeyboardInterrupt):
                for name, host in network.hosts.items():
                    print(f"ssh -F {network.ssh_config} {name}   # {host.address}")
                print(HELP, flush=True)
                for line in sys.stdin:
                    try:
                        obey(network, line.split())
                    except ValueError as error:
                        print(error)
    except TestbedError as error:
        print(f"network: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
