"""The wheel: it has every file of the package, and the commands work from it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow


def call(*argv: str | Path, cwd: Path, **env: str) -> str:
    """The output of a program, which must succeed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        list(map(str, argv)), cwd=cwd, env={**clean, **env}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the source: a folder ``build`` there would get into it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("wfrun", "docs"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    call(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ".", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel. Its dependencies are those of this
    environment, so that no network is needed."""
    place = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    pip += ["--python", str(place / "bin/python"), "install", "--no-deps", "--no-index"]
    call(*pip, wheel, cwd=place)
    (packages,) = place.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(others) + "\n")
    where = call(place / "bin/python", "-c", "import wfrun; print(wfrun.__file__)", cwd=place)
    assert where.startswith(str(packages))
    return place / "bin"


def test_the_wheel_has_every_file(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = [
        Path(folder, name)
        for folder, _, names in os.walk(ROOT / "wfrun")  # which does not follow the link to docs
        for name in names
        if not folder.endswith("__pycache__")
    ]
    files += (ROOT / "wfrun/docs").glob("*.md")
    assert {str(path.relative_to(ROOT)) for path in files} - packed == set()
    assert {"wfrun/docs/running.md", "wfrun/sites/remote/agent.py"} <= packed


def test_the_commands_work_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    def wfrun(*words: str) -> str:
        return call(installed / "wfrun", *words, cwd=tmp_path, XDG_STATE_HOME=str(tmp_path))

    assert wfrun("--version").startswith("wfrun, version ")
    assert "wfrun run" in wfrun("--help")
    (tmp_path / "tasks.txt").write_text("echo one\necho two\n")
    assert "2/2 tasks done" in wfrun("run", "tasks.txt", "--run-dir", "run")
    wfrun("watch", "run")
    wfrun("report", "run", "-o", "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1_000_000  # with the library of charts
    assert "one" in wfrun("logs", "run", "tasks-0")
    wfrun("generate", "montage", "--tasks", "20", "--output", "montage.dax")
    wfrun("simulate", "montage.dax")
    assert "# Running" in wfrun("help", "running")
