"""Prints how many seconds HyperQueue takes for N /bin/true on two cores: ``N`` as argument.

Runs in the environment of the peers, in a directory that it may write to. The PyPI package holds
the server and the worker, but not the command ``hq``. Their start is not counted, output is not
kept, and there is no journal: the quickest way to use it. Its client asks once a second for the
end, so that up to a second too much is seen.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hyperqueue import Client, Job
from hyperqueue.cluster import LocalCluster, WorkerConfig


def run(client: Client, count: int) -> float:
    job = Job()
    for _ in range(count):
        job.program(["/bin/true"], stdout=None, stderr=None)
    started = time.perf_counter()
    client.wait_for_jobs([client.submit(job)])
    return time.perf_counter() - started


def main() -> None:
    server_dir = Path("server").resolve()
    server_dir.mkdir()
    with LocalCluster(str(server_dir), WorkerConfig(cores=2)) as cluster:
        client = cluster.client()
        run(client, 20)
        print(f"seconds {run(client, int(sys.argv[1]))}")


if __name__ == "__main__":
    main()
