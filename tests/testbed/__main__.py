"""The command line of the testbed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.testbed import faults
from tests.testbed.layout import DEFAULT_BASE, Layout, MissingError, TestbedError
from tests.testbed.testbed import Testbed, registered

EXIT_DOWN = 1
EXIT_ERROR = 2
EXIT_MISSING = 3

EPILOG = """\
Servers are named as 'status' shows them: alpha.sshd, alpha.slurmctld, alpha.alpha1 (a node),
gamma.sge_execd. Exit codes: 0 done; 1 'status' found something not running; 2 an error;
3 this machine lacks something. docs/testbed.md has more.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m tests.testbed",
        description="Real clusters on loopback: Slurm twice (alpha, beta), Grid Engine (gamma), "
        "a plain SSH host (delta).",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--base", type=int, default=DEFAULT_BASE, help="the first of 40 ports (17000)")
    top.add_argument("--directory", type=Path, help="where all its files go (the system's "
                     "temporary directory, wfrun-testbed-BASE)")  # fmt: skip
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    up = verbs.add_parser("up", help="bring up what is not up")
    up.add_argument("--gridftp", action="store_true", help="with GridFTP servers at every site")
    verbs.add_parser("down", help="end it and remove everything")
    verbs.add_parser("status", help="show every server")
    for verb, words in (
        ("stop", "end a server in its own way"),
        ("kill", "end a server with SIGKILL"),
        ("start", "start a server again"),
        ("pause", "let a server hang"),
        ("resume", "let a paused server go on"),
    ):
        verbs.add_parser(verb, help=words).add_argument("server")
    verbs.add_parser("cut", help="cut the SSH connections to a site").add_argument("site")
    wrong = verbs.add_parser("misbehave", help="let a program fail for a site's user")
    wrong.add_argument("site")
    wrong.add_argument("program", help="squeue, sbatch, qstat, …")
    wrong.add_argument("how", choices=list(faults.MISBEHAVIOURS))
    wrong.add_argument("--times", type=int, help="so often, then right again")
    right = verbs.add_parser("behave", help="undo misbehave")
    right.add_argument("site")
    right.add_argument("program")
    small = verbs.add_parser("shrink", help="make a site's ~/scratch a small file system")
    small.add_argument("site")
    small.add_argument("size_bytes", type=int)
    verbs.add_parser("grow", help="undo shrink").add_argument("site")
    clock = verbs.add_parser("clock", help="shift the clock of a site's new sessions")
    clock.add_argument("site")
    clock.add_argument("offset_s", type=float)
    late = verbs.add_parser("late-records", help="let exit records be seen late")
    late.add_argument("site")
    late.add_argument("delay_s", type=float)
    spool = verbs.add_parser("late-spool", help="let files of channels be seen late, in any order")
    spool.add_argument("site")
    spool.add_argument("delay_s", type=float)
    return top


def show(testbed: Testbed) -> int:
    """Print every server; 1 where one does not run."""
    layout = testbed.layout
    rows = testbed.status()
    if all(pid is None for _, pid in rows):
        print(f"The testbed with base {layout.base} is down.")
    else:
        for server, pid in rows:
            port = "" if server.port is None else f"port {server.port}"
            print(f"{server.name:18} {'down' if pid is None else f'pid {pid}':12} {port}")
        print(f"catalog:    {layout.catalog}\nssh config: {layout.ssh_config}")
        print(f"logs:       {layout.logs}")
    for base, directory in registered().items():
        if base != layout.base:
            print(f"Another one, with base {base}, is in {directory}.")
    return EXIT_DOWN if any(pid is None for _, pid in rows) else 0


def act(testbed: Testbed, options: argparse.Namespace) -> int:
    """Do what was asked for; returns the exit code."""
    verb = options.verb
    if verb == "up":
        began = time.monotonic()
        testbed.up(with_gridftp=options.gridftp)
        print(f"Up in {time.monotonic() - began:.0f} s: alpha, beta, gamma, delta.")
        print(f"  ssh -F {testbed.layout.ssh_config} alpha sinfo")
        print(f"  wfrun WORKFLOW --sites {testbed.layout.catalog}")
    elif verb == "down":
        testbed.down()
    elif verb == "status":
        return show(testbed)
    elif verb in ("stop", "kill", "start", "pause", "resume"):
        getattr(faults, verb)(testbed, options.server)
    elif verb == "cut":
        print(f"{faults.cut(testbed, options.site)} processes of sshd ended")
    elif verb == "misbehave":
        faults.misbehave(testbed, options.site, options.program, options.how, options.times)
    elif verb == "behave":
        faults.behave(testbed, options.site, options.program)
    elif verb == "shrink":
        print(faults.shrink(testbed, options.site, options.size_bytes))
    elif verb == "grow":
        faults.grow(testbed, options.site)
    elif verb == "late-records":
        faults.delay_records(testbed, options.site, options.delay_s)
    elif verb == "late-spool":
        faults.delay_spool(testbed, options.site, options.delay_s)
    else:
        faults.shift_clock(testbed, options.site, options.offset_s)
    return 0


def main() -> int:
    options = parser().parse_args()
    try:
        return act(Testbed(Layout.of(options.base, options.directory)), options)
    except MissingError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return EXIT_MISSING
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return EXIT_ERROR


if __name__ == "__main__":
    sys.exit(main())
