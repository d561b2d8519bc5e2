"""The examples, made and run as a user would: over three local sites, under every policy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
WFRUN = Path(sys.executable).with_name("wfrun")

POLICIES = (
    "round-robin",
    "single-cluster",
    "all-clusters",
    "file-aware",
    "coarsening",
    "cluster-min",
    "heft",
    "heft-p",
)

needs_montage = pytest.mark.skipif(
    shutil.which("mProjectPP") is None,
    reason="the Montage toolkit is not installed (Debian: apt-get install montage)",
)


def python(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def run_and_check(example: str, workflow_dir: Path, run_dir: Path, policy: str) -> None:
    """Run an example's workflow with the command, and let the example check what comes out."""
    command = [str(WFRUN), str(workflow_dir / f"{example}.dax"), "--quiet", "--policy", policy]
    command += ["--sites", str(EXAMPLES / "three-sites.yaml"), "--throttle", "50"]
    done = subprocess.run(
        [*command, "--run-dir", str(run_dir)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checked = python(EXAMPLES / example / "check.py", workflow_dir, run_dir / "outputs")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small word count."""
    directory = tmp_path_factory.mktemp("words")
    made = python(EXAMPLES / "wordcount/make_workflow.py", directory, "--parts", "8")
    assert made.returncode == 0, made.stderr
    return directory


@pytest.fixture(scope="module")
def sky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mosaic of 2×2 tiles in three bands: 86 tasks."""
    directory = tmp_path_factory.mktemp("sky")
    made = python(EXAMPLES / "montage/make_workflow.py", directory, "--tiles", "2x2")
    assert made.returncode == 0, made.stderr
    return directory


@pytest.mark.parametrize("policy", POLICIES)
def test_words_are_counted_right(words: Path, tmp_path: Path, policy: str) -> None:
    run_and_check("wordcount", words, tmp_path / "run", policy)


@needs_montage
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_mosaic_looks_like_the_sky(sky: Path, tmp_path: Path, policy: str) -> None:
    run_and_check("montage", sky, tmp_path / "run", policy)


def test_the_same_seed_makes_the_same_word_count(words: Path, tmp_path: Path) -> None:
    python(EXAMPLES / "wordcount/make_workflow.py", tmp_path, "--parts", "8")
    for name in ("wordcount.dax", "text.txt", "expected/counts.txt"):
        assert (tmp_path / name).read_bytes() == (words / name).read_bytes()


def test_a_wrong_count_is_noticed(words: Path, tmp_path: Path) -> None:
    shutil.copytree(words / "expected", tmp_path, dirs_exist_ok=True)
    check = EXAMPLES / "wordcount/check.py"
    assert python(check, words, tmp_path).returncode == 0
    counts = (tmp_path / "counts.txt").read_text()
    (tmp_path / "counts.txt").write_text(counts.replace("1", "2", 1))
    wrong = python(check, words, tmp_path)
    assert wrong.returncode == 1
    assert "counts.txt: WRONG" in wrong.stdout


def test_without_the_toolkit_the_mosaic_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "montage/make_workflow.py"), str(tmp_path)]
    env = {**os.environ, "PATH": "/nonexistent"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "apt-get install montage" in done.stderr
