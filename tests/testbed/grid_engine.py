"""A Grid Engine cell with a root of its own: configuration, spool and accounting are in the
testbed's directory, and the machine's own cell is not touched. Tried with 8.1.9 of Debian 12."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from tests.testbed import processes
from tests.testbed.layout import FEW_SLOTS, Layout, Server, Site

SHARE = Path("/usr/share/gridengine")
LIBRARY = Path("/usr/lib/gridengine")
INSTALLED = Path("/var/lib/gridengine")
ADMIN = "sgeadmin"
SLOTS = 8
MEMORY = "8G"
DEFAULT_MEMORY = "512M"
"""Of a slot, for jobs that ask for none. 0 would leave them too little to start anything."""

BOOTSTRAP = f"""\
Version: 6.2
admin_user              {ADMIN}
default_domain          none
ignore_fqdn             false
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         {{cell}}/spool/db
binary_path             /usr/sbin
qmaster_spool_dir       {{cell}}/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""
SETTINGS = {
    "shell_start_mode": "unix_behavior",
    "min_uid": "100",
    "min_gid": "100",
    "load_report_time": "00:00:02",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false "
    "sharelog=00:00:00",
    "administrator_mail": "none",
}
SCHEDULER = {
    "schedule_interval": "0:0:1",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "schedd_job_info": "true",
}
QUEUE = {
    "qname": "all.q",
    "hostlist": "localhost",
    "slots": str(SLOTS),
    "shell": "/bin/sh",
    "shell_start_mode": "unix_behavior",
    "pe_list": "smp",
    # The load of a laptop that plays four clusters says nothing.
    "load_thresholds": "NONE",
    "notify": "00:00:05",
}
PARALLEL_ENVIRONMENT = """\
pe_name            smp
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
"""


def servers(layout: Layout) -> tuple[Server, Server]:
    """The master and the execution daemon."""
    environment = {**layout.environment(_site(layout)), "SGE_ND": "1"}
    return (
        Server("gamma.sge_qmaster", ("/usr/sbin/sge_qmaster",), environment, layout.base + 30),
        Server("gamma.sge_execd", ("/usr/sbin/sge_execd",), environment, layout.base + 31),
    )


def prepare(layout: Layout) -> None:
    """Make the cell, unless it is complete."""
    cell = layout.cell
    common = cell / "default" / "common"
    done = cell / "complete"
    if done.exists():
        return
    shutil.rmtree(cell, ignore_errors=True)
    common.mkdir(parents=True)
    for name in ("qmaster/job_scripts", "db", "execd"):
        (cell / "spool" / name).mkdir(parents=True)
    for name in ("bin", "lib", "util", "utilbin"):
        (cell / name).symlink_to(INSTALLED / name)
    (common / "bootstrap").write_text(BOOTSTRAP.format(cell=cell))
    (common / "act_qmaster").write_text("localhost\n")
    names = dict.fromkeys(["localhost", socket.gethostname(), socket.getfqdn()])
    (common / "host_aliases").write_text(" ".join(names) + "\n")
    jobs = cell / "tmp"  # A daemon that is killed leaves the temporary directories of its jobs.
    jobs.mkdir()
    jobs.chmod(0o1777)
    environment = layout.environment(_site(layout))
    exports = "".join(f"{name}={value}; export {name}\n" for name, value in environment.items())
    (common / "settings.sh").write_text(exports)
    _fill_spool(layout, environment)
    done.touch()


def _fill_spool(layout: Layout, environment: dict[str, str]) -> None:
    cell = layout.cell
    changes = {
        **SETTINGS,
        "execd_spool_dir": f"{cell}/spool/execd",
        # Jobs are told apart by a group each; no two daemons of a machine may use the same.
        "gid_range": f"{100_000 + layout.base}-{100_000 + layout.base + 39}",
    }
    configuration = cell / "configuration"
    text = (SHARE / "default-configuration").read_text()
    configuration.write_text(_changed(text, changes))
    resources = cell / "centry"
    shutil.copytree(SHARE / "util/resources/centry", resources)
    memory = resources / "h_vmem"
    memory.write_text(
        _changed(memory.read_text(), {"consumable": "YES", "default": DEFAULT_MEMORY})
    )
    for path in [cell, *cell.rglob("*")]:
        if not path.is_symlink():
            shutil.chown(path, ADMIN, ADMIN)
    environment = {**environment, "LD_LIBRARY_PATH": str(LIBRARY)}
    as_admin = ["setpriv", f"--reuid={ADMIN}", f"--regid={ADMIN}", "--clear-groups"]
    defaults = str(LIBRARY / "spooldefaults")
    spool = [str(LIBRARY / "spoolinit"), "berkeleydb", "libspoolb", f"{cell}/spool/db", "init"]
    for argv in (
        spool,
        [defaults, "configuration", str(configuration)],
        [defaults, "complexes", str(resources)],
        [defaults, "usersets", str(SHARE / "util/resources/usersets")],
        [defaults, "managers", ADMIN],
        [defaults, "managers", "root"],
    ):
        processes.run([*as_admin, *argv], environment)


def configure(layout: Layout) -> None:
    """Tell the running master about the host, the queue and the scheduler, unless it knows."""
    environment = layout.environment(_site(layout))

    def qconf(*arguments: str, check: bool = True) -> str:
        return processes.run(["qconf", *arguments], environment, check=check).stdout

    # Its first answers may be "Connection reset by peer".
    processes.wait_until(
        lambda: "localhost" in qconf("-ah", "localhost", check=False) + qconf("-sh", check=False),
        "an answer of sge_qmaster",
    )
    qconf("-as", "localhost", check=False)
    if "smp" not in qconf("-spl", check=False).split():
        qconf("-Ap", _file(layout, "smp", PARALLEL_ENVIRONMENT))
    scheduler = _changed(qconf("-ssconf"), SCHEDULER)
    qconf("-Msconf", _file(layout, "scheduler", scheduler))


def configure_host(layout: Layout) -> None:
    """When the execution daemon runs: its memory, and the queue. Returns when jobs can start."""
    environment = layout.environment(_site(layout))

    def qconf(*arguments: str, check: bool = True) -> str:
        return processes.run(["qconf", *arguments], environment, check=check).stdout

    def host_known() -> bool:
        return "localhost" in qconf("-sel", check=False).split()

    processes.wait_until(host_known, "the registration of sge_execd")
    limits = f"slots={SLOTS},h_vmem={MEMORY}"
    qconf("-rattr", "exechost", "complex_values", limits, "localhost")
    names = {QUEUE["qname"]: SLOTS, **{f"slots{n}.q": n for n in FEW_SLOTS}}
    there = qconf("-sql", check=False).split()
    for name, slots in names.items():
        if name not in there:
            changes = {"qname": name, "slots": str(slots), "tmpdir": f"{layout.cell}/tmp"}
            queue = _changed(qconf("-sq"), {**QUEUE, **changes})
            qconf("-Aq", _file(layout, "queue", queue))

    def ready() -> bool:
        lines = processes.run(["qstat", "-f"], environment, check=False).stdout.splitlines()
        # Name, type, slots, load, architecture, and states, if any, of which none is good.
        rows = [line.split() for line in lines if line.startswith(QUEUE["qname"])]
        return bool(rows) and all(len(row) == 5 and row[3] != "-NA-" for row in rows)

    processes.wait_until(ready, "a queue of gamma without an alarm (qstat -f)")


def hold_queues(layout: Layout) -> None:
    """Keep jobs from starting, until ``reopen_queues``. Returns when none is on its way to the
    execution daemon: if that ended then, the job would hold its slot for five minutes. Raises
    TestbedError where the master does not answer."""
    environment = layout.environment(_site(layout))
    processes.run(["qmod", "-d", "*"], environment, timeout_s=30)

    def none_starts() -> bool:
        lines = processes.run(["qstat", "-u", "*"], environment).stdout.splitlines()
        return not any("t" in line.split()[4] for line in lines[2:])

    processes.wait_until(none_starts, "the start of jobs on their way", 30)


def cancel_jobs(layout: Layout) -> list[str]:
    """Cancel all jobs; returns the lines of those in the queue."""
    environment = layout.environment(_site(layout))
    jobs = processes.run(["qstat", "-u", "*"], environment).stdout.splitlines()[2:]
    if jobs:
        # By force: an execution daemon that was killed may never confirm the end of a job.
        processes.run(["qdel", "-f", "-u", "*"], environment, check=False)
    return jobs


def reopen_queues(layout: Layout, patience_s: float = processes.WAIT_S) -> None:
    """Take queues out of error states and enable them, as administrators do. A failed start or end
    of a job leaves its queue in error. Raises TestbedError where the master does not answer."""
    environment = layout.environment(_site(layout))

    def done() -> bool:
        answers = [
            processes.run(["qmod", what, "*"], environment, check=False) for what in ("-c", "-e")
        ]
        return not any(answer.returncode for answer in answers)

    processes.wait_until(done, "an answer of sge_qmaster (qmod)", patience_s)


def _site(layout: Layout) -> Site:
    return next(site for site in layout.sites if site.kind == "grid-engine")


def _changed(text: str, changes: dict[str, str]) -> str:
    """Lines ``key value`` with other values for these keys."""
    lines = []
    for line in text.replace("\\\n", " ").splitlines():
        key = line.split(maxsplit=1)[0] if line.strip() else ""
        lines.append(f"{key} {changes[key]}" if key in changes else line)
    return "\n".join(lines) + "\n"


def _file(layout: Layout, name: str, text: str) -> str:
    path = layout.cell / name
    path.write_text(text)
    os.chmod(path, 0o644)
    return str(path)
