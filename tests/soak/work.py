"""What a round of the soak test runs: a random workflow or bag, at random sites, with random
options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.integration.clusters import SCRIPT, Grid
from tests.runners.harness import Job
from wfrun import Resources

SITES = ("alpha", "beta", "gamma", "delta")
HERE = "here"
"""A site of processes on this machine, beside those of the testbed."""

PATTERN_BYTES = 150_000
"""Size of a file that takes a transfer of its own and can be cut off half way."""


@dataclass
class Work:
    """What is run, and where."""

    words: list[str | Path]
    """Arguments of ``wfrun``: document, catalog and options."""
    sites: list[str]
    """Sites of the testbed."""
    tasks: int
    has_replicas: bool
    title: str


def choose_work(grid: Grid, random: Random, seconds: float) -> Work:
    """Fill ``grid`` with random tasks that keep the sites busy for about ``seconds`` in total."""
    sites = random.sample(SITES, random.randint(1, len(SITES)))
    catalog, described = _catalog(grid, random, sites)
    task_s = random.choice((0.2, 0.5, 1.0, 2.0))
    count = max(8, min(150, round(8 * seconds / (task_s + 0.5))))
    shape = random.choice(("workflow", "workflow", "document", "bag"))
    if shape == "workflow":
        width = random.choice((4, 8, 16))
        grid.layers(max(2, count // width), width, task_s)
        if random.random() < 0.5:
            shape = "workflow with larger files"
            grid.jobs = [_with_pattern(job) for job in grid.jobs]
    else:
        grid.bag(count, task_s)
    if shape == "bag":
        document = _bag_document(grid, count, task_s)
    else:
        grid.jobs = [_with_cores(job, random) for job in grid.jobs]
        document = grid.user.write(grid.jobs)
    options, has_replicas = _options(random, len(described))
    words: list[str | Path] = [
        document, "--sites", catalog, "--run-dir", grid.run, "--wait", *options
    ]  # fmt: skip
    title = f"{shape} of {len(grid.jobs)} x {task_s:g} s at {', '.join(described)}"
    return Work(words, sites, len(grid.jobs), has_replicas, f"{title}; {' '.join(options)}")


def _catalog(grid: Grid, random: Random, sites: list[str]) -> tuple[Path, list[str]]:
    changes: dict[str, dict[str, Any]] = {}
    described = []
    for site in sites:
        described.append(site)
        if site != "delta" and random.random() < 0.5:
            channels = random.choice(("tcp", "ssh", "spool", ["spool", "tcp"]))
            keys: dict[str, Any] = {
                "cores": random.choice((2, 3, 4)),
                "max": random.choice((1, 2)),
            }
            walltime_s = random.choice((20, 300, 300, 300))
            keys.update(walltime=walltime_s, channels=channels)
            changes[site] = {"dispatch": "launchers", "launchers": keys}
            described[-1] += f" (launchers {channels} {walltime_s} s)"
        if random.random() < 0.2:
            changes.setdefault(site, {})["transport"] = "openssh"
            described[-1] += " by openssh"
    path = grid.catalog(*sites, changes=changes)
    if random.random() < 0.25:
        described.append(HERE)
        catalog = yaml.safe_load(path.read_text())
        catalog["sites"][HERE] = {"slots": 2}
        path.write_text(yaml.safe_dump(catalog))
    return path, described


def _options(random: Random, sites: int) -> tuple[list[str], bool]:
    policy = random.choice(("round-robin", "file-aware", "cluster-min", "wqr", "fplt", "ect"))
    # Faults come faster than in life: no task may run out of retries.
    options = ["--policy", policy, "--retries", "90", "--retry-delay", "0.05"]
    replicas = random.randint(0, sites - 1) if policy == "wqr" else 0
    if policy == "wqr":
        options += ["--replicas", str(replicas)]
    if random.random() < 0.3:
        options += ["--throttle", str(random.choice((5, 20)))]
    if random.random() < 0.3:
        options.append("--pack-logs")
    return options, replicas > 0


def _bag_document(grid: Grid, count: int, task_s: float) -> Path:
    """The bag of ``grid`` as a template."""
    script = SCRIPT.format(id="@", record=grid.record, seconds=task_s, inputs="")
    script = script.replace("{", "{{").replace("}", "}}").replace("@", "t{n}")
    bag = {
        "command": ["sh", "-c", script],
        "parameters": {"n": {"range": [0, count - 1]}},
        "outputs": ["t{n}.txt"],
        "estimate": f"{task_s:g} s",
    }
    path = grid.user.folder / "bag.yaml"
    path.write_text(yaml.safe_dump(bag))
    return path


def _with_pattern(job: Job) -> Job:
    """A task that also writes a larger file, and checks those of the tasks before it."""
    parents = [name.removesuffix(".txt") for name in job.inputs]
    checks = [f"{_pattern(parent)} | cmp - {parent}.bin" for parent in parents]
    script = "; ".join(["set -e", *checks, f"{_pattern(job.id)} > {job.id}.bin", job.script])
    inputs = [*job.inputs, *(f"{parent}.bin" for parent in parents)]
    return job._replace(script=script, inputs=inputs, outputs=[*job.outputs, f"{job.id}.bin"])


def _pattern(id: str) -> str:
    return f"yes {id} | head -c {PATTERN_BYTES}"


def _with_cores(job: Job, random: Random) -> Job:
    return job._replace(resources=Resources(cores=1 if random.random() < 0.9 else 2))
