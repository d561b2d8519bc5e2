"""Measures /bin/true per second: wfrun and other tools that run many tasks, in one session.

Every tool has two slots of this machine. The tools take turns, three rounds, and the median of the
rounds' ratios counts. wfrun, xargs, make, parallel and doit are measured as the whole command; of
tools with a server the time from submission to the end of the last task counts, without the
server's start. HyperQueue, Parsl, Dask and doit are installed from PyPI into
``bench/.venv-peers``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
PEERS_VENV = HERE / ".venv-peers"
PEERS = ("hyperqueue>=0.27", "parsl>=2024.1", "distributed>=2024.1", "doit>=0.36")
ROUNDS = 3
TIME_LIMIT_S = 240.0
TARGETS = (("xargs -P2", 1.0), ("HyperQueue", 3.0), ("Parsl HTEX", 4.0))
"""Target: wfrun's rate as a multiple of each tool's."""


class AbsentError(Exception):
    """The tool is not on this machine, or does not work here."""


@dataclass(slots=True)
class Tool:
    """``run(tasks, scratch)`` carries out so many tasks and returns the seconds it took."""

    name: str
    run: Callable[[int, Path], float]
    tasks: int = 20_000
    rates: list[float] = field(default_factory=list)
    absent: str | None = None

    def ratio(self, other: Tool) -> float | None:
        """How many times faster than another, the median of the rounds; None: not measured."""
        if not len(self.rates) == len(other.rates) == ROUNDS:
            return None
        return statistics.median(a / b for a, b in zip(self.rates, other.rates, strict=True))


def install_peers() -> None:
    """Make the environment of the peers, unless it is there."""
    stamp = PEERS_VENV / ".installed"
    if stamp.exists() and stamp.read_text() == "\n".join(PEERS):
        return
    print(f"installing {', '.join(PEERS)} …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", PEERS_VENV], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    pip += ["--python", str(PEERS_VENV / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, *PEERS], check=True)
    stamp.write_text("\n".join(PEERS))


def command(name: str, directory: Path | None = None) -> str:
    path = shutil.which(name, path=str(directory) if directory else None)
    if path is None:
        raise AbsentError(f"{name} is not found")
    return path


def run(*argv: str, cwd: Path, stdin: bytes = b"") -> tuple[float, str]:
    """Run a command to its end in a process group of its own: the seconds, and what it printed.

    What it leaves behind in its group is ended.
    """
    path = f"{PEERS_VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
    started = time.perf_counter()
    process = subprocess.Popen(
        argv, cwd=cwd, env={**os.environ, "PATH": path}, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(stdin, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise AbsentError(f"took more than {TIME_LIMIT_S:g} s") from None
    else:
        elapsed_s = time.perf_counter() - started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        raise AbsentError(f"exit status {process.returncode}: {' '.join(last)[:120]}")
    return elapsed_s, out.decode(errors="replace")


def numbers(tasks: int) -> bytes:
    return "".join(f"{i}\n" for i in range(tasks)).encode()


def wfrun_command(tasks: int, scratch: Path) -> list[str]:
    """The command that runs a bag of so many on this machine; its files are in ``scratch``."""
    jobs = "".join(f'<job id="t{i}" name="/bin/true"/>\n' for i in range(tasks))
    dax = scratch / "bag.dax"
    namespace = "http://pegasus.isi.edu/schema/DAX"
    dax.write_text(f'<adag xmlns="{namespace}" version="3.6" name="bag">\n{jobs}</adag>\n')
    sites = scratch / "sites.yaml"
    sites.write_text("sites:\n  here:\n    slots: 2\n")
    argv = [str(Path(sys.executable).with_name("wfrun")), str(dax), "--sites", str(sites)]
    return [*argv, "--run-dir", str(scratch / "run")]


def run_wfrun(tasks: int, scratch: Path) -> float:
    return run(*wfrun_command(tasks, scratch), cwd=scratch)[0]


def run_spawn_loop(tasks: int, scratch: Path) -> float:
    """The lower bound for all tools: posix_spawn and wait, two processes at a time."""
    started = time.perf_counter()
    in_flight = 0
    for _ in range(tasks):
        if in_flight == 2:
            os.wait()
            in_flight -= 1
        os.posix_spawn("/bin/true", ["/bin/true"], {})
        in_flight += 1
    for _ in range(in_flight):
        os.wait()
    return time.perf_counter() - started


def run_xargs(tasks: int, scratch: Path) -> float:
    return run(command("xargs"), "-P2", "-n1", "/bin/true", cwd=scratch, stdin=numbers(tasks))[0]


def run_make(tasks: int, scratch: Path) -> float:
    targets = " ".join(f"t{i}" for i in range(tasks))
    (scratch / "Makefile").write_text(f"all: {targets}\n{targets}:\n\t@/bin/true\n")
    return run(command("make"), "-j2", cwd=scratch)[0]


def run_parallel(tasks: int, scratch: Path) -> float:
    return run(command("parallel"), "-j2", "/bin/true", cwd=scratch, stdin=numbers(tasks))[0]


def run_doit(tasks: int, scratch: Path) -> float:
    (scratch / "dodo.py").write_text(
        "def task_true():\n"
        f"    for i in range({tasks}):\n"
        "        yield {'name': i, 'actions': [['/bin/true']]}\n"
    )
    doit = command("doit", PEERS_VENV / "bin")
    return run(doit, "-n", "2", "--reporter", "error-only", cwd=scratch)[0]


def run_script(name: str) -> Callable[[int, Path], float]:
    """A tool that is used through Python: a script that prints the seconds."""

    def run_it(tasks: int, scratch: Path) -> float:
        python, script = str(PEERS_VENV / "bin" / "python"), str(HERE / "peer_scripts" / name)
        found = re.search(r"seconds ([\d.]+)", run(python, script, str(tasks), cwd=scratch)[1])
        if found is None:
            raise AbsentError(f"{name} printed no time")
        return float(found[1])

    return run_it


def tools() -> list[Tool]:
    """Those that are slow get fewer tasks; tasks a second do not depend on it.

    Neighbours in this list are measured within seconds of each other.
    """
    return [
        Tool("posix_spawn loop", run_spawn_loop),
        Tool("make -j2", run_make, tasks=5000),
        Tool("xargs -P2", run_xargs),
        Tool("wfrun", run_wfrun),
        Tool("HyperQueue", run_script("hyperqueue_cluster.py")),
        Tool("doit -n 2", run_doit, tasks=5000),
        Tool("Dask distributed", run_script("dask_workers.py"), tasks=1000),
        Tool("Parsl HTEX", run_script("parsl_htex.py"), tasks=1000),
        Tool("GNU parallel", run_parallel, tasks=1000),
    ]


def measure(measured: list[Tool]) -> None:
    for number in range(1, ROUNDS + 1):
        for tool in measured:
            if tool.absent:
                continue
            print(f"round {number} of {ROUNDS}: {tool.name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="wfrun-peers-") as scratch:
                try:
                    tool.rates.append(tool.tasks / tool.run(tool.tasks, Path(scratch)))
                except AbsentError as reason:
                    tool.absent = str(reason)


def print_table(measured: list[Tool]) -> None:
    """One row a tool, and whether the targets are met."""
    by_name = {tool.name: tool for tool in measured}
    table = Table(title="/bin/true on two slots", caption=f"medians of {ROUNDS} rounds")
    for column in ("tool", "tasks", "tasks/s", "least–most", "of xargs"):
        table.add_column(column, justify="left" if column == "tool" else "right")
    for tool in measured:
        ratio = tool.ratio(by_name["xargs -P2"])
        if tool.absent or ratio is None:
            table.add_row(tool.name, "", "–", "", tool.absent)
            continue
        rate = statistics.median(tool.rates)
        spread = f"{min(tool.rates):,.0f}–{max(tool.rates):,.0f}"
        table.add_row(tool.name, f"{tool.tasks:,}", f"{rate:,.0f}", spread, f"{ratio:.2f}")
    console = Console()
    console.print(table)
    for name, target in TARGETS:
        ratio = by_name["wfrun"].ratio(by_name[name])
        if ratio is None:
            console.print(f"wfrun / {name}: not measured")
        else:
            verdict = "met" if ratio >= target else "MISSED"
            console.print(f"wfrun / {name}: {ratio:.2f} (target {target:g}, {verdict})")


def main() -> None:
    install_peers()
    measured = tools()
    measure(measured)
    print(f"Python {sys.version.split()[0]}, wfrun {metadata.version('wfrun')}")
    print_table(measured)


if __name__ == "__main__":
    main()
