"""Measures malleable jobs. Simulated: processor time of 300 jobs with each policy and precedence,
in all settings of the study. Real: a program on Slurm, on this machine (root and the packages of
docs/testbed.md), which grows and shrinks for another job of the queue; from the offer until a
process has started on a new processor, and on the last of them, and from the mandatory shrink until
the last placeholder has ended.

    python bench/malleability.py [--rounds 5]       # 0: simulated runs alone
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.places import ROOT
from tests.testbed.fixture import bring_up_free
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store
from wfrun.studies.malleability.experiments import (
    BASE,
    MALLEABILITY,
    PRA,
    PWA,
    VARIANTS,
    MalleabilityCell,
    simulated,
)

GOAL_S = 1.0
"""Of each: a simulated run, an offer until its first use, a shrink until the release."""
WFRUN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
PROGRAM = """\
import os, shlex, subprocess, time
from malleable import Malleable
job = Malleable()
agent = shlex.split(os.environ["WFRUN_RSH"])
while not (os.path.exists("ends") or time.time() > job_ends_s):
    message = job.poll(0.2)
    if message is None:
        continue
    if message.kind == "offer":
        taken = job.take(message.processors)
        begun = [subprocess.Popen([*agent, node, "date", "+%s.%N"], stderr=subprocess.PIPE)
                 for node in taken]
        times = sorted(each.communicate()[1].decode().strip() for each in begun)
        print("used", times[0], times[-1], flush=True)
    else:
        job.give_back(job.nodes[-message.processors:])
        print("gave", time.time(), flush=True)
"""
JOB = """\
walltime: {serial_s: 600, parallel: 0.9}
command: [python3, program.py]
inputs: [program.py, {name: malleable.py, from: MODULE}]
stdout: said
outputs: [said]
jobs:
  - {job: grows, malleable: true, size: {min: 2, max: 8}}
"""


def measured(testbed: Testbed, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds from offers to first and to last uses, and from shrinks to releases."""
    entry = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]["alpha"]
    site = testbed.layout.site("alpha")
    environment = {**os.environ, **testbed.layout.environment(site)}
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
        folder = Path(place)
        ends_s = time.time() + 20 + 20 * rounds
        (folder / "program.py").write_text(PROGRAM.replace("job_ends_s", str(ends_s)))
        (folder / "jobs.yaml").write_text(JOB.replace("MODULE", str(ROOT / "wfrun/malleable.py")))
        catalog = {"sites": {"alpha": {**entry, "slots": 8, "poll_min": 0.5}}}
        (folder / "sites.yaml").write_text(yaml.safe_dump(catalog))
        argv = [sys.executable, "-c", WFRUN, "jobs", "jobs.yaml", "--sites", "sites.yaml"]
        argv += ["--malleable", "egs", "--run-dir", "run", "-q"]
        with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL) as engine:
            time.sleep(12.0)
            for _ in range(rounds):
                # It takes the nodes that the run leaves alone, and waits for more.
                words = ["sbatch", "-o", "/dev/null", "-n", "12", "--wrap", "sleep 3"]
                subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
                time.sleep(18.0)
            engine.wait(300)
        events = list(Store(folder / "run").load())
        said = (folder / "run/outputs/grows/said").read_text().split("\n")
    used_s = [list(map(float, line.split()[1:])) for line in said if line.startswith("used")]
    offers_s = [e.at_s for e in events if isinstance(e, ev.GrowthOffered)]
    shrinks = [e for e in events if isinstance(e, ev.ShrinkAsked)]
    releases = [e for e in events if isinstance(e, ev.GrowthReleased) and e.cause == "given-back"]
    exits = site.home / "scratch"
    ended_s = {}
    for path in exits.glob("*/exits/records.jsonl"):  # what job.py writes when a launcher ends
        for record in map(json.loads, path.read_text().splitlines()):
            ended_s[record["key"]] = record["outcome"]["ended_s"]
    released_s = [
        max(ended_s[key] for key in release.launchers) - shrink.at_s
        for shrink, release in zip(shrinks, releases, strict=False)
    ]
    pairs = list(zip(offers_s, used_s, strict=False))
    first_s, last_s = ([used[n] - offer for offer, used in pairs] for n in (0, -1))
    return first_s, last_s, released_s


def real(rounds: int) -> bool:
    """Print what is measured on Slurm; returns whether the goals are met."""
    testbed = bring_up_free()
    try:
        found = measured(testbed, rounds)
    finally:
        testbed.down()
    table = Table("on Slurm", "times", "median", "longest", "longest / goal")
    names = ("offer to first use", "offer to use of all", "shrink to release")
    for name, times_s in zip(names, found, strict=True):
        times_s.sort()
        table.add_row(
            name, str(len(times_s)), f"{times_s[len(times_s) // 2]:.2f} s", f"{times_s[-1]:.2f} s",
            f"{times_s[-1] / GOAL_S:.2f}",
        )  # fmt: skip
    Console(width=110).print(table)
    first_s, _, released_s = found
    return max(*first_s, *released_s) <= GOAL_S


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure malleable jobs.")
    parser.add_argument("--rounds", type=int, default=5, help="on Slurm; 0: none")
    rounds = parser.parse_args().rounds
    table = Table("precedence", "policy", "mean", "maximum", "of", "goal")
    good = True
    for precedence in (PRA, PWA):
        for policy in MALLEABILITY:
            times_s = {}
            for variant in (BASE, *VARIANTS):
                cell = MalleabilityCell(
                    experiment=precedence, policy=policy, mix="m", seed=0, variant=variant
                )
                since_s = time.process_time()
                simulated(cell)
                times_s[variant] = time.process_time() - since_s
            worst = max(times_s, key=times_s.__getitem__)
            good = good and times_s[worst] <= GOAL_S
            table.add_row(
                precedence,
                policy,
                f"{sum(times_s.values()) / len(times_s):.3f} s",
                f"{times_s[worst]:.3f} s",
                worst,
                f"{GOAL_S:g} s",
            )
    Console(width=110).print(table)
    if rounds:
        good = real(rounds) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
