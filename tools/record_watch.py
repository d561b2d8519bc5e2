"""Make docs/images/watch.svg: `wfrun watch` beside a real run.

    python tools/record_watch.py [SVG]

Two generated workflows are run, emulated, over the five sites of examples/das3.yaml by `wfrun run`,
one site of which is paused with `wfrun control`. When a third of the tasks are done and files are
copied, the picture that `wfrun watch` shows in another terminal at that moment is saved.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from wfrun import generate, write_dax
from wfrun.engine.core.state import Phase, RunState
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.watch.app import WatchApp
from wfrun.runners.inspect.watch.observation import RunObserver
from wfrun.runners.run.directory.run_directory import RunDir, find

ROOT = Path(__file__).parent.parent
WFRUN = (sys.executable, "-m", "wfrun.runners.cli.main")
SIZE = 128, 38
"""Columns and lines of the terminal."""
PAUSED = "delft"
SHARE, RUNNING = 0.32, 50
"""Minimum share of the tasks that are done in the picture, and number of those that run."""


def main() -> None:
    svg = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/images/watch.svg"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "survey"
        documents = []
        for family, tasks in ("montage", 600), ("cybershake", 1000):
            documents.append(Path(folder) / f"{family}-{tasks}.dax")
            write_dax(generate(family, tasks=tasks, seed=1), documents[-1])
        words = [*documents, "--sites", ROOT / "examples/das3.yaml", "--emulate", "--time-scale",
                 "0.5", "--run-dir", run, "--quiet"]  # fmt: skip
        engine = subprocess.Popen([*WFRUN, "run", *map(str, words)], cwd=ROOT)
        try:
            picture = asyncio.run(watched(run))
        finally:
            engine.send_signal(signal.SIGINT)
            engine.send_signal(signal.SIGINT)
            engine.wait()
    # Without the web fonts, which a picture in a page cannot load anyway.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    svg.write_text(picture.replace("Fira Code, monospace", "monospace"))
    print(svg)


def is_busy(state: RunState) -> bool:
    """Whether the picture shows all parts of the display."""
    running = sum(site.phases[Phase.RUNNING] for site in state.sites)
    return state.done >= SHARE * state.tasks and running >= RUNNING and bool(state.copies)


async def watched(path: Path) -> str:
    """The picture of a run when enough of its tasks are done."""
    while not (path / "events.sqlite").exists():
        await asyncio.sleep(0.1)
    run: RunDir = find(str(path))
    with FollowedRun(run, timeout_s=60.0) as followed:
        subprocess.run([*WFRUN, "control", str(path), "--pause", PAUSED], cwd=ROOT, check=True)
        app = WatchApp(RunObserver(followed))
        async with app.run_test(size=SIZE) as pilot:
            while not is_busy(followed.state):
                await pilot.pause(0.2)
                app.refresh_look()
            await pilot.pause()
            return app.export_screenshot(title="wfrun watch")


if __name__ == "__main__":
    main()
