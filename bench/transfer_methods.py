"""Runs workflows over the sites of the testbed by each transfer method in turn and by all of them
mixed, and checks by the log that the files went as the catalog says.

    python bench/transfer_methods.py [--base 17000] [--tiles 2x2] [--no-mosaic]
                                     [--document DAX] [--size-scale 1e-3] [METHOD ...]

Needs the testbed with its GridFTP servers (`make testbed-up ARGS=--gridftp`; without it this says
so and ends) and the Montage toolkit. The sites get ``direct: forward`` and an agent with the
testbed's key; their GridFTP servers have a scheme for each. The mosaic is compared with the sky
that it shows. The other workflow has the tasks and sizes of a document, CyberShake_1000 where
WFRUN_CORPUS names a folder that has it in ``dax/synthetic``, else a generated one: each of its
tasks checks the content of its inputs, and this script that of its final outputs.
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
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.shared.real_contents import RealWorkflow, document_of, with_real_contents  # noqa: E402
from tests.testbed import gridftp  # noqa: E402
from tests.testbed.layout import DEFAULT_BASE, Layout  # noqa: E402
from tests.testbed.testbed import Testbed  # noqa: E402
from wfrun.engine import events as ev  # noqa: E402
from wfrun.runners.run.store.event_store import Store  # noqa: E402

MONTAGE = ROOT / "examples" / "montage"
METHODS = ("stream", "relay", "gridftp", "rsync", "scp", "sftp", "mixed")
SCHEMES: dict[str, gridftp.Scheme] = {
    "alpha": "gsiftp", "beta": "sshftp", "gamma": "gsiftp", "delta": "gsiftp"
}  # fmt: skip
MAIN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"


@contextlib.contextmanager
def clients(layout: Layout) -> Iterator[dict[str, str]]:
    """An SSH agent with the testbed's key, and what the client of GridFTP needs; yields the
    environment that leads to them."""
    made = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    words = dict(line.split(";")[0].split("=") for line in made.splitlines()[:2])
    environment = {**os.environ, **words, **gridftp.environment(gridftp.place(layout))}
    try:
        add = ["ssh-add", "-q", str(layout.client / "id_ed25519")]
        subprocess.run(add, check=True, env=environment)
        yield environment
    finally:
        os.kill(int(words["SSH_AGENT_PID"]), signal.SIGTERM)


def write_catalog(layout: Layout, target: Path, method: str) -> dict[tuple[str, str], str]:
    """Write a catalog whose sites send files to each other by this method; returns the method of
    each pair."""
    catalog = yaml.safe_load(layout.catalog.read_text())
    for name, site in catalog["sites"].items():
        server = gridftp.url(layout, name, "/", SCHEMES[name]).rstrip("/")
        site |= {"direct": "forward", "gridftp": server}
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


@dataclass
class Copies:
    """The copies between sites of one run, by its log."""

    files: Counter[str] = field(default_factory=Counter)
    """By method."""
    size_bytes: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    """Copies that failed, to and from this machine included."""
    wrong: list[str] = field(default_factory=list)
    """Pairs of sites with a file that went by another method than was chosen, and why."""


def copies_of(run: Path, chosen: dict[tuple[str, str], str]) -> Copies:
    """Read the log of a run."""
    store = Store(run)
    names: list[str] = []
    found = Copies()
    for event in store.load():
        if isinstance(event, ev.RunStarted):
            names = [site.name for site in event.sites]
        elif isinstance(event, ev.TransferFailed):
            found.retries += 1
        elif isinstance(event, ev.TransferEnded) and min(event.source, event.destination) >= 0:
            pair = (names[event.source], names[event.destination])
            found.files[event.method] += 1
            found.size_bytes[event.method] += event.size_bytes
            if event.fallback or event.method != chosen[pair]:
                found.wrong.append(event.fallback or f"{pair}: {event.method}")
    store.close()
    return found


def run_once(words: list[str], catalog: Path, run: Path, environment: dict[str, str]) -> float:
    """Run a workflow; returns the seconds. Raises SystemExit after a failure."""
    begun_s = time.monotonic()
    argv = [sys.executable, "-c", MAIN, "run", *words, "--sites", str(catalog)]
    argv += ["--run-dir", str(run), "--policy", "round-robin", "--history", "none"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    return time.monotonic() - begun_s


class Mosaic:
    """The Montage mosaic of a synthetic sky."""

    name = "mosaic"

    def __init__(self, folder: Path, tiles: str) -> None:
        self._folder = folder
        make = [sys.executable, str(MONTAGE / "make_workflow.py"), str(folder), "--tiles", tiles]
        subprocess.run(make, check=True, capture_output=True)

    def words(self) -> list[str]:
        return [str(self._folder / "montage.dax")]

    def check(self, outputs: Path) -> None:
        """Raises CalledProcessError where the mosaic does not show the sky."""
        argv = [sys.executable, str(MONTAGE / "check.py"), str(self._folder), str(outputs)]
        subprocess.run(argv, check=True, capture_output=True)


class Contents:
    """The tasks of a document with real file contents."""

    def __init__(self, name: str, made: RealWorkflow) -> None:
        self.name = name
        self.words = made.words
        self._made = made

    def check(self, outputs: Path) -> None:
        """Raises SystemExit if an output is wrong."""
        if wrong := self._made.wrong_outputs(outputs):
            raise SystemExit(f"{self.name}: {len(wrong)} wrong outputs, such as {wrong[0]}")


def measure(options: argparse.Namespace, layout: Layout, place: Path) -> int:
    """Run all, and print the table. Returns 1 if a file went by another method than was chosen."""
    document = options.document or document_of(place)
    contents = with_real_contents(
        document, place / "contents", time_scale=1e-3, size_scale=options.size_scale
    )
    workflows: list[Mosaic | Contents] = [Contents(document.stem, contents)]
    if not options.no_mosaic:
        workflows.insert(0, Mosaic(place / "sky", options.tiles))
    table = Table("workflow", "method", "seconds", "files between sites", "MB", "retries")
    wrong: list[str] = []
    with clients(layout) as environment:
        for workflow, method in itertools.product(workflows, options.methods):
            chosen = write_catalog(layout, place / "sites.yaml", method)
            run = place / f"{workflow.name}-{method}"
            elapsed_s = run_once(workflow.words(), place / "sites.yaml", run, environment)
            workflow.check(run / "outputs")
            found = copies_of(run, chosen)
            files = ", ".join(f"{count} {each}" for each, count in found.files.items())
            size = f"{found.size_bytes.total() / 1e6:.1f}"
            row = [workflow.name, method, f"{elapsed_s:.1f}", files, size, str(found.retries)]
            print(*row, sep="; ", flush=True)  # All take long.
            table.add_row(*row)
            wrong += found.wrong
    Console().print(table)
    for line in wrong:
        print(line)
    print(f"files that went by another method than the catalog's first: {len(wrong)}")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--base", type=int, default=DEFAULT_BASE)
    parser.add_argument("--tiles", default="2x2")
    parser.add_argument("--no-mosaic", action="store_true")
    parser.add_argument("--document", type=Path)
    parser.add_argument("--size-scale", type=float, default=1e-3)
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    options = parser.parse_args()
    testbed = Testbed(Layout.of(options.base))
    if not testbed.layout.catalog.exists() or not testbed.has_gridftp:
        print("the testbed is not up with GridFTP servers: make testbed-up ARGS=--gridftp")
        return 0
    with tempfile.TemporaryDirectory() as place:
        return measure(options, testbed.layout, Path(place))


if __name__ == "__main__":
    sys.exit(main())
