"""Shaped links between nodes of clusters at hosts of their own, measured, and used by `--place ca`.

The hosts are those of the test network, each a Slurm cluster of one node. Its router shapes the
links, since not every kernel has what `tc` needs for latency.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.jobs.coallocated import ENV, POINTS, STEPS, WFRUN, serial_result
from tests.network.network import Network
from tests.places import ROOT
from tests.testbed import processes
from tests.testbed.slurm import CONF
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.catalog import read_catalog

FAR_S = 0.02
"""Latency between the host ``three`` and the others, one way."""
PLACE = Path("/run/host/slurm")
"""The files of a host's cluster, as the host sees them."""
START = """\
mkdir -p {place}/munge {place}/state
head -c 128 /dev/urandom > {place}/munge/key
chown munge {place}/munge {place}/munge/key
chmod 600 {place}/munge/key
setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --force \
    --socket={place}/munge/socket --key-file={place}/munge/key --pid-file={place}/munge/pid \
    --seed-file={place}/munge/seed --log-file={place}/munge/log
export SLURM_CONF={place}/slurm.conf
/usr/sbin/slurmctld -f {place}/slurm.conf
/usr/sbin/slurmd -f {place}/slurm.conf -N {name}1
"""
END = "pkill -KILL '^(slurmctld|slurmd|slurmstepd|munged)$'"


@pytest.fixture
def clusters(network: Network) -> Iterator[Network]:
    """The hosts with a cluster each, of one node with four processors."""
    needed = ("slurmctld", "slurmd", "munged", "sbatch", "mpicc", "mpirun")
    missing = [each for each in needed if shutil.which(each, path=processes.PATH) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}")
    for name, host in network.hosts.items():
        place = host.directory / "slurm"
        place.mkdir()
        text = CONF.format(
            name=name, port=6817, socket=PLACE / "munge" / "socket", directory=PLACE, logs=PLACE,
            settings="", nodes=1, first=6818, last=6818, cpus=4, memory=4000,
            partitions=f"PartitionName=main Nodes={name}1 Default=YES State=UP",
        )  # fmt: skip
        (place / "slurm.conf").write_text(text)
        (host.home / ".profile").write_text(f"export SLURM_CONF={PLACE}/slurm.conf\n")
        start = START.format(place=PLACE, name=name)
        processes.run(network.enter(name, "sh", "-ec", start))
    try:
        for name in network.hosts:
            sinfo = ["env", f"SLURM_CONF={PLACE}/slurm.conf", "sinfo", "-h", "-o", "%t"]
            processes.wait_until(
                lambda: processes.run(network.enter(name, *sinfo), check=False).stdout == "idle\n",  # noqa: B023
                f"the cluster at {name}",
            )
        yield network
    finally:
        for name, host in network.hosts.items():
            processes.run(network.enter(name, "sh", "-c", END), check=False)
            shutil.rmtree(host.directory / "slurm")


def wfrun(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WFRUN, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def claimed(run: Path) -> set[int]:
    """The sites of the claims of a run."""
    store = Store(run)
    try:
        asked = [event for event in store.load() if isinstance(event, ev.ClaimsAsked)]
    finally:
        store.close()
    return {part.site for event in asked for part in event.parts}


@pytest.mark.testbed
def test_a_job_gets_the_clusters_that_are_near_each_other(
    clusters: Network, tmp_path: Path
) -> None:
    for near in ("one", "two"):
        clusters.shape("three", near, rate=5e6, latency_s=FAR_S)
    names = ["three", "one", "two"]  # FCM would take the first two.
    sites = {
        name: {
            "kind": "slurm", "host": name, "ssh_config": str(clusters.ssh_config),
            "slots": 4, "node_cores": 4, "directory": "/home/user/wfrun",
            "poll_min": 0.5, "poll_max": 5,
        }
        for name in names
    }  # fmt: skip
    (tmp_path / "sites.yaml").write_text(yaml.safe_dump({"sites": sites}, sort_keys=False))
    wfrun(tmp_path, "sites", "links", "--nodes", "--write")
    links = {site.name: {link.site: link for link in site.node_links}
             for site in read_catalog(tmp_path / "sites.yaml").sites}  # fmt: skip
    for near in ("one", "two"):
        assert (links["three"][near].latency_s or 0) >= FAR_S
        assert (links["three"][near].bandwidth_bytes_per_s or 0) < 6e6
    assert (links["one"]["two"].latency_s or 1) < FAR_S / 2

    source = ROOT / "examples" / "wave" / "wave.c"
    subprocess.run(["mpicc", "-O2", "-o", tmp_path / "wave", source, "-lm"], check=True)
    document = {
        "walltime": "5 min",
        "command": f"mpirun ./wave {POINTS} {STEPS} field.txt",
        "env": ENV,
        "inputs": [{"name": "wave", "executable": True}],
        "outputs": ["field.txt"],
        "stdout": "said.txt",
        "jobs": [{"job": "wave", "size": 6, "components": {}}],
    }
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(document))
    for policy, expected in (("ca", {"one", "two"}), ("fcm", {"three", "one"})):
        wfrun(tmp_path, "jobs", "jobs.yaml", "--sites", "sites.yaml", "--place", policy,
              "--run-dir", policy, "-q")  # fmt: skip
        assert {names[site] for site in claimed(tmp_path / policy)} == expected
        folder = tmp_path / policy / "outputs" / "wave"
        assert re.search(r"^6 processes", (folder / "said.txt").read_text(), re.M)
        field = [float(line) for line in (folder / "field.txt").read_text().split()]
        assert field == serial_result()
