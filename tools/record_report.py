"""Make docs/images/report.png: the top of the report of a real run.

    python tools/record_report.py [PNG]

The mosaic of examples/montage, which needs the Montage toolkit, is made over three sites of this
machine. Chromium takes the picture of the run's report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WFRUN = Path(sys.executable).with_name("wfrun")
WIDTH, HEIGHT = 1100, 1480


def main() -> None:
    png = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/images/report.png"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call(sys.executable, ROOT / "examples/montage/make_workflow.py", folder / "montage")
        run, page = folder / "montage-1", folder / "report.html"
        call(
            *(WFRUN, folder / "montage/montage.dax", "--sites", ROOT / "examples/three-sites.yaml"),
            *("--policy", "cluster-min", "--throttle", "20", "--run-dir", run),
        )
        call(WFRUN, "report", run, "-o", page)
        call(
            *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={WIDTH},{HEIGHT}"),
            *("--virtual-time-budget=10000", f"--screenshot={png.absolute()}", f"file://{page}"),
        )
    print(png)


def call(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
