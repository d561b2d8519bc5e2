"""Measures `wfrun report` and `wfrun stats` on a run of many tasks.

    python bench/report.py [--tasks N]

A workflow of N tasks (100,000), half of which read a file of another one each, is simulated on 30
sites with 1,000 slots. Then its statistics are shown and its report is written, as a user does it,
from the start of the command to its end: processor seconds, and seconds. Where chromium is
installed, it opens the report, and an empty page: processor seconds of all its processes, and
seconds from its start to its end. The difference is what opening takes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.explain import WFRUN, pairs  # noqa: E402
from wfrun.engine.model import Catalog, SiteSpec  # noqa: E402
from wfrun.engine.settings import Settings  # noqa: E402
from wfrun.runners.simulate.simulated_run import simulate_into  # noqa: E402
from wfrun.runners.simulate.simulation import Platform  # noqa: E402

MAX_CPU_S = 20.0
MAX_BYTES = 15_000_000
MAX_OPEN_S = 5.0
SITES = Catalog(tuple(SiteSpec(f"site-{n}", 20 + n, 1.0 + n / 30) for n in range(30)), ())
PR_SET_CHILD_SUBREAPER = 36
EMPTY = "<!DOCTYPE html><title>empty</title><body data-drawn=0>"


def took(*words: str | Path) -> tuple[float, float]:
    """Processor seconds and seconds of a command."""
    before, began_s = os.times(), time.monotonic()
    subprocess.run([*WFRUN, *map(str, words)], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system, time.monotonic() - began_s


def opened(page: Path, folder: Path) -> tuple[float, float, str]:
    """Processor seconds and seconds in which chromium opens a page, and the number of charts."""
    before, began_s = os.times(), time.monotonic()
    words = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{page}",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    took_s = time.monotonic() - began_s
    with contextlib.suppress(ChildProcessError):  # there are no more
        while True:
            os.wait()
    after = os.times()
    drawn = re.search(r'data-drawn="(\d+)"', done.stdout)
    user_s = after.children_user - before.children_user
    cpu_s = user_s + after.children_system - before.children_system
    return cpu_s, took_s, drawn[1] if drawn else "no"


def main() -> int:
    """Print the table. Returns the exit status."""
    # The processes of chromium that outlive their parent become ours, and their time counts.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, page, empty = folder / "run", folder / "report.html", folder / "empty.html"
        settings = Settings("all-clusters", throttle=2000)
        simulate_into(run, [pairs(options.tasks // 2)], Platform(SITES), settings)
        print(f"{'':24} {'processor s':>12} {'s':>6}")
        stats_s, elapsed_s = took("stats", run)
        print(f"{'stats':24} {stats_s:12.1f} {elapsed_s:6.1f}", flush=True)
        report_s, elapsed_s = took("report", run, "-o", page)
        size_bytes = page.stat().st_size
        print(f"{'report':24} {report_s:12.1f} {elapsed_s:6.1f}  {size_bytes / 1e6:.1f} MB")
        open_s = 0.0
        if shutil.which("chromium"):
            empty.write_text(EMPTY)
            opened(empty, folder)  # makes the profile
            empty_cpu_s, empty_s, _ = opened(empty, folder)
            print(f"{'chromium, empty page':24} {empty_cpu_s:12.1f} {empty_s:6.1f}", flush=True)
            cpu_s, page_s, drawn = opened(page, folder)
            print(f"{'chromium, the report':24} {cpu_s:12.1f} {page_s:6.1f}  {drawn} charts")
            open_s = cpu_s - empty_cpu_s
    kept = max(stats_s, report_s) <= MAX_CPU_S and size_bytes <= MAX_BYTES
    return 0 if kept and open_s <= MAX_OPEN_S else 1


if __name__ == "__main__":
    sys.exit(main())
