"""The mosaic does not depend on who made which part of it where: every policy makes the same."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import EXAMPLES
from tests.runners.harness import User
from wfrun.engine.policies.placement import WORKFLOW_POLICIES

POLICIES = (*(policy.name for policy in WORKFLOW_POLICIES), "wqr")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("mProjectPP") is None,
        reason="the Montage toolkit is not installed (Debian: apt-get install montage)",
    ),
]


def digests(outputs: Path) -> dict[str, str]:
    return {
        str(path.relative_to(outputs)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in outputs.rglob("*")
        if path.is_file()
    }


def test_every_policy_makes_the_same_mosaic(user: User) -> None:
    script = EXAMPLES / "montage" / "make_workflow.py"
    command = [sys.executable, str(script), str(user.folder), "--tiles", "2x2"]
    subprocess.run(command, check=True, capture_output=True)
    made = {}
    for policy in POLICIES:
        done = user.wfrun(
            "montage.dax",
            "--sites",
            EXAMPLES / "three-sites.yaml",
            "--policy",
            policy,
            "--run-dir",
            policy,
        )
        assert done.status == 0, done.text
        made[policy] = digests(user.folder / policy / "outputs")
    first = made["round-robin"]
    assert any(name.endswith(".png") for name in first)
    assert any(name.endswith(".fits") for name in first)
    assert made == dict.fromkeys(POLICIES, first)
    assert user.is_alone()
