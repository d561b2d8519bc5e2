"""Measures how exact plans are: `wfrun plan`, then the run, over all sites of the testbed.

    python bench/plan.py [--base 17000] [--case montage,bag,cybershake]
                         [--dispatch jobs,launchers] [--scale 1] [--folder DIR]

Each case is planned twice and run twice with the same options: the first plan knows the sites only
by their queues, the second one has what the first run has measured. Neither has seen the run that
it is compared with. Reported are the makespans, the ratios of plan to run, and how busy the
processors of this machine were. The tasks sleep, so that their run times do not depend on that.

`bag` has tasks of 2 to 10 s by `--estimate`. `montage` and `cybershake` are emulated at the sites,
with small files. CyberShake_1000 of the WorkflowSim collection is used where WFRUN_CORPUS names a
folder that has it in ``dax/synthetic``, else one that is generated. Needs the testbed
(`make testbed-up`; without it this says so and ends). ``--folder`` keeps documents and runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.shared.real_contents import document_of  # noqa: E402
from tests.testbed.layout import DEFAULT_BASE, Layout  # noqa: E402
from wfrun.parsers.generate import generate  # noqa: E402
from wfrun.parsers.workflows.writers.write_dax import write_dax  # noqa: E402

GOAL = 0.15
"""Maximum difference between the planned and the real makespan, as a share of the real one."""
MAIN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
LAUNCHERS = {
    "alpha": {"cores": 4, "channels": "tcp", "address": "127.0.0.1"},
    "beta": {"cores": 8, "channels": "ssh"},
    "gamma": {"cores": 4, "channels": "spool"},
}
EMULATED = ("--emulate", "--at-sites", "--size-scale", "1e-4", "--time-scale")
BAG_TASKS = 400


def write_case(case: str, dispatch: str, folder: Path, scale: float) -> list[str]:
    """Write the document of a case. Returns the words of the command line that name it."""
    if case == "bag":
        random = Random(1)
        lengths = [f"{scale * random.uniform(2, 10):.2f}" for _ in range(BAG_TASKS)]
        (folder / "bag.csv").write_text("\n".join(["seconds", *lengths, ""]))
        return ["bag.csv", "--command", "sleep {seconds}", "--estimate", "{seconds}"]
    if case == "montage":
        write_dax(generate("montage", 100, 1), folder / "montage.dax")
        return ["montage.dax", *EMULATED, f"{scale:g}"]
    # With a job for each task, shorter tasks show the load of this machine above all. By default
    # policy, half of the tasks wait for the two slots of delta.
    time_scale = scale * (0.5 if dispatch == "jobs" else 0.2)
    return [str(document_of(folder)), "--policy", "heft", *EMULATED, f"{time_scale:g}"]


def write_catalog(layout: Layout, dispatch: str, target: Path) -> None:
    """Write the catalog of a testbed, with a job for each task or with launchers."""
    catalog = yaml.safe_load(layout.catalog.read_text())
    if dispatch == "launchers":
        for name, launchers in LAUNCHERS.items():
            catalog["sites"][name] |= {"dispatch": "launchers", "launchers": launchers}
    target.write_text(yaml.safe_dump(catalog))


class Compared(NamedTuple):
    """A plan and the run that followed."""

    planned_s: float
    run_s: float
    busy: float
    """Share of this machine's processor time that was used during the run."""

    @property
    def ratio(self) -> float:
        return self.planned_s / self.run_s


def compare(words: list[str], folder: Path, number: int) -> Compared:
    """Plan, then run."""
    options = [*words, "--sites", "sites.yaml", "--history", "history.sqlite"]
    plan = _json(folder, "plan", *options, "--compare", "0", "--json")
    (folder / f"plan-{number}.json").write_text(json.dumps(plan, indent=1))
    before = _processor_s()
    _wfrun(folder, "run", *options, "--run-dir", f"wfrun-runs/run-{number}", "-q")
    used_s, whole_s = (after - start for after, start in zip(_processor_s(), before, strict=True))
    (stats,) = _json(folder, "stats", f"wfrun-runs/run-{number}", "--json")
    makespan_s = stats["total"]["makespan_s"]
    return Compared(plan["run"]["makespan_s"], makespan_s, used_s / whole_s)


def _processor_s() -> tuple[int, int]:
    """Used and whole processor time of this machine, in ticks (proc(5), /proc/stat)."""
    line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    ticks = [int(word) for word in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _json(folder: Path, *arguments: str) -> Any:
    return json.loads(_wfrun(folder, *arguments))


def _wfrun(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", MAIN, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"wfrun {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    """Run the benchmark. Returns 1 if a second plan misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--base", type=int, default=DEFAULT_BASE)
    parser.add_argument("--case", default="montage,bag,cybershake")
    parser.add_argument("--dispatch", default="jobs,launchers")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all run times")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    layout, console = Layout.of(options.base), Console()
    if not layout.catalog.exists():
        console.print(f"{layout.catalog} is missing: the testbed is not up (make testbed-up)")
        return 0
    table = Table(title="makespans: plan, run, and their ratio", title_justify="left")
    for heading in ("", "plan", "run", "ratio", "plan after it", "run", "ratio", "busy"):
        table.add_column(heading, justify="right" if table.columns else "left")
    missed = False
    with tempfile.TemporaryDirectory(prefix="wfrun-plan-") as scratch:
        for case in options.case.split(","):
            for dispatch in options.dispatch.split(","):
                folder = (options.folder or Path(scratch)) / f"{case}-{dispatch}"
                folder.mkdir(parents=True)
                write_catalog(layout, dispatch, folder / "sites.yaml")
                words = write_case(case, dispatch, folder, options.scale)
                row = [compare(words, folder, number) for number in (1, 2)]
                table.add_row(f"{case}, {dispatch}", *_cells(row))
                console.print(f"{case}, {dispatch}: {' '.join(_cells(row))}", highlight=False)
                missed |= abs(row[-1].ratio - 1) > GOAL
    console.print(table)
    console.print(f"load average {os.getloadavg()[2]:.1f}; goal: within {GOAL:.0%}")
    return int(missed)


def _cells(row: list[Compared]) -> list[str]:
    cells = []
    for each in row:
        cells += [f"{each.planned_s:.1f} s", f"{each.run_s:.1f} s", f"{each.ratio:.2f}"]
    return [*cells, f"{max(each.busy for each in row):.0%}"]


if __name__ == "__main__":
    sys.exit(main())
