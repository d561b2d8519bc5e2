"""Runs a real workflow over three sites of this machine, and checks what comes out.

With the Montage toolkit (Debian: ``apt-get install montage``) that is a mosaic of 27 synthetic sky
images, without it the word count of a text. ``make demo`` calls this.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent


def next_run_dir(name: str) -> Path:
    """A new run directory where ``wfrun list`` finds it."""
    candidates = (Path("wfrun-runs", f"{name}-demo-{number}") for number in count(1))
    return next(path for path in candidates if not path.exists())


def main() -> int:
    name = "montage" if shutil.which("mProjectPP") else "wordcount"
    example = EXAMPLES / name
    workflow_dir = Path("build", "demo", name)
    run_dir = next_run_dir(name)
    make = [sys.executable, str(example / "make_workflow.py"), str(workflow_dir)]
    subprocess.run(make, check=True)
    command = [
        *("wfrun", str(workflow_dir / f"{name}.dax"), "--sites", "examples/three-sites.yaml"),
        *("--policy", "cluster-min", "--throttle", "50", "--run-dir", str(run_dir)),
    ]
    print(" ".join(command), flush=True)
    command[0] = str(Path(sys.executable).with_name("wfrun"))
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        return status
    outputs = run_dir / "outputs"
    check = [sys.executable, str(example / "check.py"), str(workflow_dir), str(outputs)]
    return subprocess.run(check, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
