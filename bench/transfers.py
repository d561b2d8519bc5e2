"""Measures whether transfers delay the dispatch of tasks that need none.

CyberShake with 1,000 tasks is emulated twice: with files that fill the links between the sites, and
with empty ones. Reported for both: the time from the placement of a task to its acceptance by its
site, of the tasks whose inputs are all there when they are placed; and the time that the others
wait for their inputs.

    python bench/transfers.py [--sites FILE] [--time-scale 0.005] [--size-scale 0.005]

Without a catalog three local sites are used, whose links are slow. CyberShake_1000 of the
WorkflowSim collection is used where WFRUN_CORPUS names a folder that has it in ``dax/synthetic``,
else one that is generated.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.interpreter import Interpreter
from wfrun.runners.run.store import Store

ROOT = Path(__file__).parent.parent
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")

CATALOG = """\
sites:
  alpha: {slots: 12, max_transfers: 4}
  beta: {slots: 12, max_transfers: 4}
  gamma: {slots: 12, max_transfers: 4}
links:
  - {between: [origin, alpha], bandwidth: 1 MB/s}
  - {between: [origin, beta], bandwidth: 1 MB/s}
  - {between: [origin, gamma], bandwidth: 1 MB/s}
"""

GOAL_RATIO, GOAL_S = 2.0, 0.05
"""Maximum dispatch delay with transfers relative to that without, or in seconds: of a delay of a
few milliseconds the noise of a loaded machine is a multiple."""


class Delays(NamedTuple):
    """What one run has shown, in seconds."""

    ready: list[float]
    """Dispatch delays of attempts that miss no input."""
    staged: list[float]
    """Staging times of the other attempts."""
    transfers: int


def main() -> int:
    """Run the benchmark. Returns 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=Path)
    parser.add_argument("--time-scale", default="0.005")
    parser.add_argument("--size-scale", default="0.005")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        catalog = options.sites or folder / "sites.yaml"
        if options.sites is None:
            catalog.write_text(CATALOG, encoding="utf-8")
        found = {}
        for name, size_scale in (("with", options.size_scale), ("without", "0")):
            run = folder / name
            emulate(_document(folder), catalog, run, options.time_scale, size_scale)
            found[name] = delays_of(run)
    return report(found)


def _document(folder: Path) -> Path:
    path = CORPUS / "dax" / "synthetic" / "CyberShake_1000.xml"
    if path.exists():
        return path
    made = folder / "cybershake.dax"
    _wfrun("generate", "cybershake", "--tasks", "1000", "--seed", "1", "-o", str(made))
    return made


def emulate(document: Path, catalog: Path, run: Path, time_scale: str, size_scale: str) -> None:
    """Emulate a document in a new run directory."""
    scales = ("--time-scale", time_scale, "--size-scale", size_scale)
    where = ("--sites", str(catalog), "--run-dir", str(run))
    _wfrun("run", str(document), "--emulate", *scales, *where, "--policy", "round-robin")


def _wfrun(*arguments: str) -> None:
    code = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)


def delays_of(run: Path) -> Delays:
    """The delays of a run, by its log."""
    store = Store(run)
    try:
        interpreter = Interpreter(store.workflows())
        state, open_, found = interpreter.state, {}, Delays([], [], 0)
        for event in store.load():
            interpreter.apply(event)
            interpreter.actions()
            if isinstance(event, ev.AttemptPlaced):
                if state.attempts[event.key].missing == 0:
                    open_[event.key] = event.at_s
            elif isinstance(event, ev.AttemptsSubmitted):
                found.ready.extend(event.at_s - open_.pop(k) for k in event.keys if k in open_)
            elif isinstance(event, ev.AttemptStarted):
                attempt = state.attempts.get(event.key)
                ready_s = None if attempt is None else attempt.ready_s
                if attempt is not None and ready_s is not None and ready_s > attempt.placed_s:
                    found.staged.append(ready_s - attempt.placed_s)
    finally:
        store.close()
    transfers = sum(site.transfers_in for site in state.sites)
    return found._replace(transfers=transfers)


def report(found: dict[str, Delays]) -> int:
    """Print the delays. Returns 1 if the goal is missed."""
    table = Table("transfers", "files", "tasks without", "median", "95%", "staging of others")
    shares = {}
    for name, delays in found.items():
        ready = sorted(delays.ready)
        median, most = statistics.median(ready), ready[int(0.95 * (len(ready) - 1))]
        shares[name] = most
        staged = statistics.mean(delays.staged) if delays.staged else 0.0
        table.add_row(
            name,
            str(delays.transfers),
            str(len(ready)),
            f"{1000 * median:.1f} ms",
            f"{1000 * most:.1f} ms",
            f"{staged:.2f} s",
        )
    console = Console()
    console.print(table)
    ratio = shares["with"] / max(shares["without"], 1e-3)
    console.print(f"95% of the dispatch delays, with transfers to without: {ratio:.2f}")
    return int(ratio > GOAL_RATIO and shares["with"] > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
