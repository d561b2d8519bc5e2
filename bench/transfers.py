"""Measures whether transfers delay the dispatch of tasks that need none.

CyberShake with 1,000 tasks runs twice: with files that fill the links between the sites, and with
empty ones. Reported for both: the time from the placement of a task to its acceptance by its site,
of the tasks whose inputs are all there when they are placed; and the time that the others wait for
their inputs.

    python bench/transfers.py [--base 17000] [--time-scale 0.005] [--size-scale 0.005]

By default it is emulated at three local sites, whose links are slow. With ``--base`` it runs with
real file contents over all sites of the testbed of that base port. CyberShake_1000 of the
WorkflowSim collection is used where WFRUN_CORPUS names a folder that has it in ``dax/synthetic``,
else one that is generated.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.shared.real_contents import document_of, with_real_contents  # noqa: E402
from tests.testbed.layout import Layout  # noqa: E402
from wfrun.engine import events as ev  # noqa: E402
from wfrun.engine.core.interpreter import Interpreter  # noqa: E402
from wfrun.runners.run.store.event_store import Store  # noqa: E402

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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--base", type=int)
    parser.add_argument("--time-scale", type=float, default=0.005)
    parser.add_argument("--size-scale", type=float, default=0.005)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        catalog = folder / "sites.yaml"
        if options.base is None:
            catalog.write_text(CATALOG, encoding="utf-8")
        else:
            write_testbed(Layout.of(options.base), catalog)
        found = {}
        for name, size_scale in (("with", options.size_scale), ("without", 0.0)):
            words = (emulated if options.base is None else with_contents)(
                document_of(folder), folder / f"{name}-files", options.time_scale, size_scale
            )
            run = folder / name
            where = ("--sites", str(catalog), "--run-dir", str(run), "--history", "none")
            _wfrun("run", *words, *where, "--policy", "round-robin")
            found[name] = delays_of(run)
    return report(found)


def write_testbed(layout: Layout, target: Path) -> None:
    """Write the catalog of a testbed, with few large copies at a time as in ``CATALOG``."""
    catalog = yaml.safe_load(layout.catalog.read_text())
    for site in catalog["sites"].values():
        site["max_transfers"] = 4
    target.write_text(yaml.safe_dump(catalog))


def emulated(document: Path, folder: Path, time_scale: float, size_scale: float) -> list[str]:
    """The command line that emulates a document."""
    scales = ["--time-scale", str(time_scale), "--size-scale", str(size_scale)]
    return [str(document), "--emulate", *scales]


def with_contents(document: Path, folder: Path, time_scale: float, size_scale: float) -> list[str]:
    """The command line that runs a document's tasks with real file contents, made in a folder."""
    made = with_real_contents(document, folder, time_scale=time_scale, size_scale=size_scale)
    return made.words()


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
