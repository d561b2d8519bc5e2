"""Prints how many seconds Parsl's HTEX takes for N /bin/true on two workers: ``N`` as argument.

Runs in the environment of the peers, in a directory that it may write to. The start of the
workers is not counted.
"""

from __future__ import annotations

import sys
import time

import parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider


@bash_app
def task() -> str:
    return "/bin/true"


def main() -> None:
    count = int(sys.argv[1])
    executor = HighThroughputExecutor(
        address="127.0.0.1",
        loopback_address="127.0.0.1",
        max_workers_per_node=2,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )
    with parsl.load(Config(executors=[executor], usage_tracking=0)):
        for future in [task() for _ in range(20)]:
            future.result()
        started = time.perf_counter()
        for future in [task() for _ in range(count)]:
            future.result()
        print(f"seconds {time.perf_counter() - started}")


if __name__ == "__main__":
    main()
