"""Prints how many seconds Dask takes for N /bin/true on two worker processes: ``N`` as argument.

Runs in the environment of the peers. The start of the cluster is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import time

from distributed import Client, LocalCluster


def task(_: int) -> int:
    return subprocess.run(["/bin/true"], check=True).returncode


def main() -> None:
    count = int(sys.argv[1])
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.gather(client.map(task, range(-20, 0)))
        started = time.perf_counter()
        client.gather(client.map(task, range(count)))
        print(f"seconds {time.perf_counter() - started}")


if __name__ == "__main__":
    main()
