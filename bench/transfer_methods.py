"""Runs workflows over the sites of the testbed by each transfer method in turn and by all of them
mixed, and checks by the log that the files went as the catalog says.

    python bench/transfer_methods.py [--catalog FILE] [--tiles 2x2] [--tasks DAX]
                                     [--size-scale 1e-5] [METHOD ...]

Needs the testbed (`make testbed-up`; without it this says so and ends) and the Montage toolkit.
The catalog's sites get ``direct: forward`` and an agent with the testbed's key. The mosaic is
compared with the sky that it shows. ``--tasks`` names a workflow, such as CyberShake_1000, that is
emulated, too.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.runners.run.store import Store

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "tests" / "testbed" / ".run"
MONTAGE = ROOT / "examples" / "montage"
METHODS = ("stream", "rsync", "scp", "sftp", "mixed")
MAIN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"


@contextlib.contextmanager
def agent(key: Path) -> Iterator[dict[str, str]]:
    """An SSH agent with this key; yields the environment that leads to it."""
    made = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    words = dict(line.split(";")[0].split("=") for line in made.splitlines()[:2])
    environment = {**os.environ, **words}
    try:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env=environment)
        yield environment
    finally:
        os.kill(int(words["SSH_AGENT_PID"]), signal.SIGTERM)


def write_catalog(source: Path, target: Path, method: str) -> dict[tuple[str, str], str]:
    """Write a catalog whose sites send files to each other by this method; returns the method of
    each pair."""
    catalog = yaml.safe_load(source.read_text())
    for site in catalog["sites"].values():
        site["direct"] = "forward"
        site["ssh_config"] = str((source.parent / site["ssh_config"]).resolve())
        site |= {} if site["kind"] == "ssh" else {"poll_min": 0.5, "poll_max": 5}
    pairs = list(itertools.permutations(catalog["sites"], 2))
    kinds = itertools.cycle(METHODS[:-1] if method == "mixed" else [method])
    chosen = dict(zip(pairs, kinds, strict=False))
    catalog["links"] = [
        {"from": a, "to": b, "transfer": list(dict.fromkeys([name, "stream"]))}
        for (a, b), name in chosen.items()
    ]
    target.write_text(yaml.safe_dump(catalog))
    return chosen


def used_methods(run: Path, chosen: dict[tuple[str, str], str]) -> Counter[str]:
    """The number of files between sites by method. Raises SystemExit where the log has another one
    than was chosen for its pair."""
    store = Store(run)
    names: list[str] = []
    used: Counter[str] = Counter()
    for event in store.load():
        if isinstance(event, ev.RunStarted):
            names = [site.name for site in event.sites]
        if isinstance(event, ev.TransferEnded) and min(event.source, event.destination) >= 0:
            pair = (names[event.source], names[event.destination])
            if event.method != chosen[pair]:
                raise SystemExit(f"{pair}: {event.method}, not {chosen[pair]}; {event.fallback}")
            used[event.method] += 1
    store.close()
    return used


def run_once(
    words: list[str], catalog: Path, run: Path, environment: dict[str, str]
) -> float | None:
    """Run a workflow; returns the seconds, or None after a failure, which is printed."""
    begun_s = time.monotonic()
    argv = [sys.executable, "-c", MAIN, "run", *words, "--sites", str(catalog)]
    argv += ["--run-dir", str(run), "--policy", "round-robin"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr)
        return None
    return time.monotonic() - begun_s


def workflows_of(options: argparse.Namespace, sky: Path) -> dict[str, list[str]]:
    """The words of the command line for each workflow."""
    make = [sys.executable, str(MONTAGE / "make_workflow.py"), str(sky), "--tiles", options.tiles]
    subprocess.run(make, check=True, capture_output=True)
    workflows = {"mosaic": [str(sky / "montage.dax")]}
    if options.tasks is not None:
        scales = ["--time-scale", "0.0001", "--size-scale", options.size_scale]
        workflows[options.tasks.stem] = [str(options.tasks), "--emulate", "--at-sites", *scales]
    return workflows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--catalog", type=Path, default=CLIENT.parent / "sites.yaml")
    parser.add_argument("--tiles", default="2x2")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--size-scale", default="1e-5")
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    options = parser.parse_args()
    sites = yaml.safe_load(options.catalog.read_text())["sites"]
    config = options.catalog.parent / next(iter(sites.values()))["ssh_config"]
    if not config.exists():
        print("the testbed is not up: make testbed-up")
        return 0
    table = Table("workflow", "method", "seconds", "files between sites")
    with tempfile.TemporaryDirectory() as name, agent(config.parent / "id_ed25519") as environment:
        place = Path(name)
        sky = place / "sky"
        every = itertools.product(workflows_of(options, sky).items(), options.methods)
        for (workflow, words), method in every:
            chosen = write_catalog(options.catalog, place / "sites.yaml", method)
            run = place / f"{workflow}-{method}"
            elapsed_s = run_once(words, place / "sites.yaml", run, environment)
            if elapsed_s is None:
                return 1
            if workflow == "mosaic":
                check = [sys.executable, str(MONTAGE / "check.py"), str(sky), str(run / "outputs")]
                subprocess.run(check, check=True, capture_output=True)
            counts = used_methods(run, chosen).items()
            used = ", ".join(f"{count} {each}" for each, count in counts)
            table.add_row(workflow, method, f"{elapsed_s:.1f}", used)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
