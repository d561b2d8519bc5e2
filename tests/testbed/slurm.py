"""Slurm clusters, several nodes each, on one machine. Tried with Slurm 22.05 of Debian 12.

They share the testbed's own munged. There are no cgroups: cores are counted, not bound; memory is
polled each second, and a step that uses more than its job asked for is killed."""

from __future__ import annotations

import os

from tests.testbed import processes
from tests.testbed.layout import Layout, Server, Site, Slurm, TestbedError

CONF = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={logs}/{name}.slurmctld.log
SlurmdLogFile={logs}/%n.slurmd.log

# No systemd, no cgroups, no accounting database, and nodes that have more CPUs than the machine.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=512
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=15
KillWait=5
{settings}

NodeName={name}[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] \
CPUs={cpus} RealMemory={memory}
{partitions}
"""


def prepare(layout: Layout) -> None:
    """Write the configurations and the key of munge."""
    key = layout.directory / "munge" / "key"
    key.parent.mkdir(mode=0o755, exist_ok=True)
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
    for site in layout.sites:
        if site.slurm is not None:
            _prepare_cluster(layout, site, site.slurm)


def _prepare_cluster(layout: Layout, site: Site, slurm: Slurm) -> None:
    conf = layout.slurm_conf(site)
    (conf.parent / "state").mkdir(parents=True, exist_ok=True)
    text = CONF.format(
        name=site.name,
        port=slurm.controller,
        socket=layout.munge_socket,
        directory=conf.parent,
        logs=layout.logs,
        settings="\n".join(slurm.settings),
        nodes=slurm.nodes,
        first=slurm.controller + 1,
        last=slurm.controller + slurm.nodes,
        cpus=slurm.cpus,
        memory=slurm.memory_mib,
        partitions="\n".join(f"PartitionName={words}" for words in slurm.partitions),
    )
    conf.write_text(text)


def munged(layout: Layout) -> Server:
    """The one that all clusters of this testbed use."""
    place = layout.munge_socket.parent
    argv = ["/usr/sbin/munged", "--foreground", "--force", f"--socket={layout.munge_socket}"]
    argv += [f"--key-file={place}/key", f"--pid-file={place}/pid", f"--seed-file={place}/seed"]
    argv += [f"--log-file={layout.logs}/munged.log", "--num-threads=4"]
    return Server("munged", tuple(argv))


def controllers(layout: Layout) -> list[Server]:
    return [
        Server(
            f"{site.name}.slurmctld",
            ("/usr/sbin/slurmctld", "-D", "-f", str(layout.slurm_conf(site))),
            layout.environment(site),
            site.slurm.controller,
        )
        for site in layout.sites
        if site.slurm is not None
    ]


def nodes(layout: Layout) -> list[Server]:
    return [
        Server(
            f"{site.name}.{site.name}{number}",
            (
                "/usr/sbin/slurmd",
                *("-D", "-f", str(layout.slurm_conf(site)), "-N", f"{site.name}{number}"),
            ),
            layout.environment(site),
            site.slurm.controller + number,
        )
        for site in layout.sites
        if site.slurm is not None
        for number in range(1, site.slurm.nodes + 1)
    ]


def cancel_jobs(layout: Layout) -> list[str]:
    """Cancel all jobs; returns the numbers of those in the queues, also of those that complete."""
    found = []
    for site in layout.sites:
        if site.slurm is not None:
            environment = layout.environment(site)
            jobs = processes.run(["squeue", "--noheader", "--format=%F"], environment).stdout
            if numbers := sorted(set(jobs.split())):
                processes.run(["scancel", *numbers], environment, check=False)  # Some have ended.
                found += numbers
    return found


def await_nodes(layout: Layout) -> None:
    """Return when jobs can start on every node. Nodes that Slurm has drained or taken down, as
    after a failed start of a job, are resumed, as administrators do."""
    for site in layout.sites:
        if site.slurm is not None:
            _await_nodes(site.name, layout.environment(site), site.slurm.nodes)


def _await_nodes(site: str, environment: dict[str, str], want: int) -> None:
    seen: dict[str, list[str]] = {}

    def ready() -> bool:
        argv = ["sinfo", "--noheader", "--Node", "--format=%N %t %E"]
        rows = processes.run(argv, environment, check=False).stdout.splitlines()
        seen.clear()
        seen.update((node, words) for node, *words in map(str.split, rows) if words)
        for node, (state, *_) in seen.items():
            if state.startswith(("down", "drain", "drng")):
                argv = ["scontrol", "update", f"NodeName={node}", "State=RESUME"]
                processes.run(argv, environment, check=False)
        good = ("idle", "mix", "alloc", "comp")
        return sum(state in good for state, *_ in seen.values()) == want

    try:
        processes.wait_until(ready, f"{want} idle nodes at {site} (sinfo)")
    except TestbedError as error:
        raise TestbedError(f"{error}: {seen}") from error
