"""The example package of a third-party policy, as if pip had installed it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

PLUGIN = ROOT / "examples" / "policy_plugin"
WFRUN = [sys.executable, "-m", "wfrun.runners.cli.main"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's module, and the metadata that its build backend makes of pyproject.toml."""
    folder = tmp_path_factory.mktemp("package")
    for file in PLUGIN.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    code = "from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('.')"
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, timeout=100
    )
    return folder


@pytest.fixture
def installed(package: Path, tmp_path: Path) -> Path:
    """A folder for PYTHONPATH that holds what an installation of the package consists of."""
    (metadata,) = package.glob("*.dist-info")
    folder = tmp_path / "installed"
    shutil.copytree(metadata, folder / metadata.name)
    shutil.copy(package / "wfrun_two_choices.py", folder)
    return folder


def wfrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), str(ROOT)))
    return subprocess.run(
        [*WFRUN, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def placements(events: str) -> list[tuple[int, int]]:
    decoded = [json.loads(line) for line in events.splitlines()]
    return [(e["task"], e["site"]) for e in decoded if e["event"] == "attempt-placed"]


@pytest.mark.slow
def test_it_is_listed_with_its_option(installed: Path) -> None:
    listed = wfrun(installed, "policies")
    assert listed.returncode == 0, listed.stderr
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("two-choices")]
    assert line.split()[1:6] == ["R", "U", "U", "U", "U"]
    assert "-O choices=2" in line


@pytest.mark.slow
def test_a_run_spreads_over_the_sites_as_the_seed_says(installed: Path) -> None:
    made = wfrun(installed, "generate", "bag", "--tasks", "40")
    assert made.returncode == 0, made.stderr
    sites = str(ROOT / "examples" / "three-sites.yaml")
    command = ["bag-40.dax", "--policy", "two-choices", "--sites", sites, "--json"]
    command += ["--emulate", "--time-scale", "0", "--seed"]
    first, again, other = (wfrun(installed, *command, seed) for seed in ("1", "1", "2"))
    for run in (first, again, other):
        assert run.returncode == 0, run.stderr
    # All tasks are eligible at once, so nothing but the seed decides.
    assert placements(first.stdout) == placements(again.stdout)
    assert placements(first.stdout) != placements(other.stdout)
    assert {site for _, site in placements(first.stdout)} == {0, 1, 2}


@pytest.mark.slow
def test_it_has_to_be_installed_to_be_known(installed: Path) -> None:
    (next(installed.glob("*.dist-info")) / "entry_points.txt").unlink()
    made = wfrun(installed, "generate", "bag", "--tasks", "1")
    assert made.returncode == 0, made.stderr
    refused = wfrun(installed, "bag-1.dax", "--policy", "two-choices", "--emulate")
    assert refused.returncode == 2
    assert "there is no placement policy 'two-choices'" in refused.stderr


@pytest.mark.slow
def test_a_package_that_is_broken_is_named(installed: Path) -> None:
    module = installed / "wfrun_two_choices.py"
    module.write_text("import not_there_at_all\n")
    listed = wfrun(installed, "policies")
    assert listed.returncode == 0
    assert "two-choices" not in listed.stdout
    assert "cannot be imported" in listed.stderr
    made = wfrun(installed, "generate", "bag", "--tasks", "1")
    assert made.returncode == 0, made.stderr
    refused = wfrun(installed, "bag-1.dax", "--policy", "two-choices", "--emulate")
    assert refused.returncode == 2
    assert "there is no placement policy 'two-choices'" in refused.stderr
    assert f"{module}:1: the policy 'two-choices' cannot be imported from" in refused.stderr
    assert "ModuleNotFoundError: No module named 'not_there_at_all'" in refused.stderr
    assert "Traceback" not in refused.stderr
