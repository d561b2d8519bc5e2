"""The examples, made and run as a user would: over three local sites, under every policy."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.runners.harness import LONG_S

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

needs_vina = pytest.mark.skipif(
    shutil.which("vina") is None,
    reason="AutoDock Vina is not installed (Debian: apt-get install autodock-vina)",
)

needs_montage = pytest.mark.skipif(
    shutil.which("mProjectPP") is None,
    reason="the Montage toolkit is not installed (Debian: apt-get install montage)",
)


def python(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG_S)


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
        timeout=LONG_S,
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


@pytest.mark.slow
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


# Bags


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in an example's folder, with this environment's programs in the PATH."""
    return subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{WFRUN.parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )


def smaller(example: str, folder: Path, changes: dict[str, dict[str, str]]) -> Path:
    """A copy of an example with other texts in some of its files."""
    copy = folder / example
    shutil.copytree(EXAMPLES / "bags" / example, copy)
    for name, texts in changes.items():
        text = (copy / name).read_text()
        for old, new in texts.items():
            assert old in text, f"{name}: no {old!r}"
            text = text.replace(old, new)
        (copy / name).write_text(text)
    return copy


def follow_readme(folder: Path, tasks: int) -> str:
    """Run the first commands of the README, which end in a picture; what the last one printed."""
    readme = (folder / "README.md").read_text()
    commands = re.findall(r"((?:^    .*\n)+)", readme, re.MULTILINE)[0].splitlines()
    for line in commands:
        done = shell(folder, line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    picture = re.search(r"\S+\.png", done.stdout)
    assert picture is not None, done.stdout
    assert (folder / picture[0]).read_bytes().startswith(b"\x89PNG")
    assert f"{tasks} " in done.stdout
    return done.stdout


@pytest.mark.slow
def test_full_pivoting_is_accurate_and_costs_fill_in(tmp_path: Path) -> None:
    texts = {"{exponent}": "{exponent} --size 300", "step: 0.5": "step: 12"}
    folder = smaller("pivoting", tmp_path, {"pivoting.yaml": texts})
    follow_readme(folder, tasks=8)
    with (folder / "pivoting.csv").open() as file:
        rows = {(row["matrix"], float(row["threshold"])): row for row in csv.DictReader(file)}
    assert len(rows) == 8
    little, much = rows["saddle", 1e-12], rows["saddle", 1.0]
    assert float(much["backward_error"]) < 1e-13 < float(little["backward_error"])
    assert float(much["fill_in"]) > float(little["fill_in"])


@pytest.mark.slow
def test_optional_thresholds_are_tried_after_the_mandatory_ones(tmp_path: Path) -> None:
    texts = {"factor.py {matrix}": "factor.py --size 300 {matrix}", "deadline: 20 s": "max: 8"}
    folder = smaller("pivoting", tmp_path, {"until-deadline.yaml": texts})
    done = shell(folder, "wfrun until-deadline.yaml --run-dir run")
    assert done.returncode == 0, done.stderr
    assert "8/50 tasks done, 42 not needed" in done.stdout
    done = shell(folder, "python3 plot.py run/outputs")
    assert "8 factorizations" in done.stdout
    found = {path.name for path in (folder / "run/outputs").glob("*.json")}
    assert found == {f"{m}_{e}.json" for m in ("saddle", "scattered") for e in (0, -6, -12, -3)}


@pytest.mark.slow
def test_the_estimate_is_near_the_formula_and_a_wrong_one_is_noticed(tmp_path: Path) -> None:
    texts = {"{seed}\n": "{seed} --paths 500\n", "[1, 100]": "[1, 4]"}
    folder = smaller("monte-carlo", tmp_path, {"monte-carlo.yaml": texts})
    assert "8.0" in follow_readme(folder, tasks=4)
    outputs = folder / "wfrun-runs/monte-carlo-1/outputs"
    assert len(list(outputs.iterdir())) == 4
    part = json.loads((outputs / "part-002.json").read_text())
    part["y"] *= 2
    (outputs / "part-002.json").write_text(json.dumps(part))
    assert shell(folder, f"python3 merge.py {outputs}").returncode == 1


@pytest.mark.slow
def test_walks_keep_the_puzzles_rules_and_a_broken_one_is_noticed(tmp_path: Path) -> None:
    texts = {"[6, 10, 16]": "[3, 6]", "0.5, 1, 2, 4, 8, 16": "4", "[1, 6]": "[1, 2]"}
    texts["{seed}\n"] = "{seed} --steps 50000\n"
    changes = {"eternity.yaml": texts, "make_puzzles.py": {"6,10,16": "3,6"}}
    folder = smaller("eternity", tmp_path, changes)
    assert "9 of 9 pieces" in follow_readme(folder, tasks=4)
    result = folder / "wfrun-runs/eternity-1/outputs/3x3-back4-1.json"
    result.write_text(result.read_text().replace("[[", "[[0, 0], [", 1))
    wrong = shell(folder, f"python3 best.py {result.parent}")
    assert wrong.returncode == 1
    assert "3x3-back4-1.json: WRONG" in wrong.stderr


@pytest.mark.slow
@needs_vina
def test_molecules_are_docked(tmp_path: Path) -> None:
    folder = smaller("docking", tmp_path, {})
    (folder / "docking.csv").write_text("ligand,seed\nethanol,1\nbenzene,1\n")
    follow_readme(folder, tasks=2)
    with (folder / "affinities.csv").open() as file:
        names = [row["ligand"] for row in csv.DictReader(file)]
    assert names == ["benzene", "ethanol"]
    assert (folder / "wfrun-runs/docking-1/outputs/benzene-1.pdbqt").exists()


def test_without_vina_docking_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "bags/docking/dock"), "--ligand", "benzene"],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )
    assert done.returncode == 1
    assert "apt-get install autodock-vina" in done.stderr
