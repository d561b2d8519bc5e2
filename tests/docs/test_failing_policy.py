"""An exception in a third-party policy: one message that names it, and a run that goes on with the
corrected policy."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.docs.test_policy_plugin import installed, package, wfrun
from tests.places import ROOT

__all__ = ["installed", "package"]

RAISE = "raise KeyError('no such cluster')"
BREAK = {
    "place": ("draw = Random", f"if task == 3: {RAISE}\n        draw = Random", RAISE),
    "__init__": ("super().__init__", f"{RAISE}\n        super().__init__", RAISE),
    "view": ("draw = Random", "self.view.runtime_s(task)\n        draw = Random", "self.view.run"),
}
"""Texts of the policy, what replaces them, and what the line that fails contains."""
SAYS = {
    "view": "raised InvalidError: a placement policy asked for View.runtime_s without declaring"
}


@pytest.mark.cases
@pytest.mark.parametrize(
    "method", ["place", "__init__", pytest.param("view", marks=pytest.mark.slow)]
)
def test_the_run_is_resumed_with_a_corrected_policy(installed: Path, method: str) -> None:
    module = installed / "wfrun_two_choices.py"
    good = module.read_text()
    old, new, fails = BREAK[method]
    bad = good.replace(old, new)
    module.write_text(bad)
    line = next(n for n, text in enumerate(bad.splitlines(), 1) if fails in text)
    assert wfrun(installed, "generate", "bag", "--tasks", "5").returncode == 0
    command = ["bag-5.dax", "--policy", "two-choices", "--run-dir", "run"]
    failed = wfrun(installed, *command, "--emulate", "--time-scale", "0")
    assert failed.returncode == 3, failed.stderr
    assert "Traceback" not in failed.stderr
    says = SAYS.get(method, "raised KeyError: 'no such cluster'")
    message = f"{module}:{line}: policy 'two-choices' {says}"
    assert failed.stderr.count(message) == 1, failed.stderr
    assert "to continue: wfrun resume run" in failed.stderr
    module.write_text(good)
    resumed = wfrun(installed, "resume", "run")
    assert resumed.returncode == 0, resumed.stderr
    assert "5/5 tasks done" in resumed.stdout


@pytest.mark.slow
def test_simulations_at_sites_go_on_with_the_other_policies(installed: Path) -> None:
    module = installed / "wfrun_two_choices.py"
    old, new, _ = BREAK["place"]
    good = module.read_text()
    module.write_text(good.replace(old, new))
    assert wfrun(installed, "generate", "bag", "--tasks", "5").returncode == 0
    site = {
        "kind": "local",
        "slots": 1,
        "environment": {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
            "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT))),
        },
    }
    (installed.parent / "on.yaml").write_text(json.dumps({"sites": {"here": site}}))
    command = ["simulate", "bag-5.dax", "--policy", "two-choices,round-robin", "--seeds", "3"]
    command += ["--on", "on.yaml", "-o", "rows.csv"]
    failed = wfrun(installed, *command)
    assert failed.returncode == 3, failed.stderr
    assert failed.stderr.count("policy 'two-choices' raised KeyError: 'no such cluster'") == 1
    assert "round-robin" in failed.stdout
    assert "two-choices" not in failed.stdout
    module.write_text(good)
    again = wfrun(installed, *command)
    assert again.returncode == 0, again.stderr
    assert len((installed.parent / "rows.csv").read_text().splitlines()) == 1 + 2 * 3


@pytest.mark.slow
def test_a_selection_policy_is_named_too(installed: Path) -> None:
    module = installed / "wfrun_two_choices.py"
    module.write_text(module.read_text() + SELECTION)
    (metadata,) = installed.glob("*.dist-info/entry_points.txt")
    metadata.write_text(
        metadata.read_text() + "\n[wfrun.selection]\nbroken = wfrun_two_choices:Broken\n"
    )
    assert wfrun(installed, "generate", "bag", "--tasks", "5").returncode == 0
    failed = wfrun(
        installed, "bag-5.dax", "--selection", "broken", "--emulate", "--time-scale", "0"
    )
    assert failed.returncode == 3, failed.stderr
    assert "selection policy 'broken' raised ZeroDivisionError" in failed.stderr
    assert "Traceback" not in failed.stderr


SELECTION = """

class Broken:
    name = "broken"
    summary = "fails"

    def __init__(self, queue):
        self.queue = queue

    def arrived(self, bag):
        return False

    def select(self):
        return [1 // 0]
"""
