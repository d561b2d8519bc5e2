"""Clusters in site catalogs: how they are reached, and what each mistake gets."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.parsers.catalog.test_catalog import written
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import RunStarted, Settings
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.catalog import read_catalog

CLUSTERS = """\
sites:
  alpha:
    kind: grid-engine
    hosts: [fs1.alpha.org, fs2.alpha.org]
    user: me
    port: 2222
    transport: openssh
    ssh_config: ssh/config
    known_hosts: ~/.ssh/hosts
    directory: /scratch/$USER//grid
    slots: 64
    queue: all.q
    account: 1234
    options: [-pri, -5, -l, "arch=*64"]
    dispatch: jobs
    poll_min: 1 s
    poll_max: 5 min
    parallel_environment: smp
    memory_resource: h_vmem
    max_array: 75
    max_jobs: 400
    patience: 2 min
  beta: {kind: slurm, host: beta, slots: 8}
  gamma: {kind: ssh, host: gamma, slots: 8, pin_cores: true}
  delta: {kind: pbs, transport: local, slots: 8, directory: "${SCRATCH}/grid"}
"""


def test_clusters_say_how_they_are_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    alpha, beta, gamma, delta = read_catalog(written(tmp_path, CLUSTERS)).sites
    assert alpha.access == Access(
        hosts=("fs1.alpha.org", "fs2.alpha.org"),
        user="me",
        port=2222,
        transport="openssh",
        ssh_config=str(tmp_path / "ssh/config"),
        known_hosts="/home/me/.ssh/hosts",
        queue="all.q",
        account="1234",
        options=("-pri", "-5", "-l", "arch=*64"),
        dispatch="jobs",
        poll_min_s=1.0,
        poll_max_s=300.0,
        batch_settings={"parallel_environment": "smp", "memory_resource": "h_vmem"},
        max_array=75,
        max_jobs=400,
        patience_s=120.0,
    )
    assert (alpha.kind, alpha.directory) == ("grid-engine", "/scratch/$USER//grid")
    assert (beta.kind, beta.access) == ("slurm", Access(hosts=("beta",)))
    assert beta.directory == gamma.directory == "~/wfrun-scratch"
    assert (gamma.kind, gamma.pin_cores) == ("ssh", True)
    assert delta.directory == "${SCRATCH}/grid"
    assert delta.access == Access(transport="local")


def test_how_a_cluster_is_reached_is_in_the_log(tmp_path: Path) -> None:
    sites = read_catalog(written(tmp_path, CLUSTERS)).sites
    event = RunStarted(0.0, "r", Settings(policy="heft"), sites, (), 1)
    assert msgspec.json.decode(msgspec.json.encode(event), type=RunStarted) == event


def test_logs_from_before_there_were_clusters_are_read() -> None:
    old = b'{"name": "a", "slots": 2, "directory": "/x", "pin_cores": true}'
    site = msgspec.json.decode(old, type=SiteSpec)
    assert site == SiteSpec("a", 2, directory="/x", pin_cores=True)
    assert site.access is None


def cluster(line: str, kind: str = "slurm", host: str = "host: h") -> str:
    """A catalog with one cluster, and this line in its fifth line."""
    return f"sites:\n  a:\n    kind: {kind}\n    slots: 1\n    {line}\n    {host}\n"


MISTAKES = {
    "no host": (
        cluster("queue: x", host=""),
        2,
        ["no login host", "host: login", "transport: local"],
    ),
    "host and hosts": (cluster("hosts: [a]"), 5, ["both 'host' and 'hosts'"]),
    "no hosts": (cluster("hosts: []", host=""), 5, ["list of hosts"]),
    "a host twice": (cluster("hosts: [a, a]", host=""), 5, ["'a' is listed twice"]),
    "a user in the host": (cluster("host: me@h", host=""), 5, ["'user: me'"]),
    "a port in the host": (cluster("host: h:22", host=""), 5, ["'port: 22'"]),
    "an option as host": (cluster("host: -oProxyCommand=x", host=""), 5, ["is not a host"]),
    "an option as user": (cluster("user: -x"), 5, ["is not a user name"]),
    "a large port": (cluster("port: 70000"), 5, ["port", "65535"]),
    "an unknown transport": (cluster("transport: telnet"), 5, ["'telnet'", "asyncssh, openssh"]),
    "an unknown dispatch": (cluster("dispatch: pilots"), 5, ["'pilots'", "jobs or launchers"]),
    "a user here": (
        cluster("user: me", host="transport: local"),
        5,
        ["connects to no host", "'user'"],
    ),
    "options as text": (cluster("options: --qos=low"), 5, ["list of arguments", "[--qos=low"]),
    "a queue that is an option": (cluster("queue: -x"), 5, ["queue", "is not a name"]),
    "a queue on a local site": (
        cluster("queue: x", kind="local", host=""),
        5,
        ["kind local, which has no 'queue'", "Sites of kind slurm, grid-engine, pbs"],
    ),
    "a queue without a batch system": (cluster("queue: x", kind="ssh"), 5, ["no 'queue'"]),
    "a key of Grid Engine": (
        cluster("parallel_environment: smp"),
        5,
        ["no 'parallel_environment'", "kind grid-engine"],
    ),
    "bound cores of a cluster": (
        cluster("pin_cores: true"),
        5,
        ["only inside launchers", "'dispatch: launchers'"],
    ),
    "a wrong key of a cluster": (cluster("acount: x"), 5, ["Did you mean 'account'?"]),
    "a relative directory there": (
        cluster("directory: scratch/x"),
        5,
        ["path of the cluster", "'$SCRATCH/'"],
    ),
    "a home of another": (cluster("directory: ~bob/x"), 5, ["path of the cluster"]),
    "a negative patience": (cluster("patience: -1 s"), 5, ["patience", "above 0"]),
    "bounds the wrong way round": (cluster("poll_max: 1 s"), 5, ["shorter than its poll_min"]),
    "one directory on a shared host": (
        "sites:\n  a: {kind: slurm, slots: 1, hosts: [h, i]}\n"
        "  b: {kind: slurm, slots: 1, hosts: [i, k]}\n",
        3,
        ["same directory as site a"],
    ),
}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [pytest.param(*case, id=name) for name, case in MISTAKES.items()],
)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidError) as caught:
        read_catalog(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    for word in words:
        assert word in message
