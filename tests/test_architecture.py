"""The rooms of the package and who may import whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

CHECKER = ROOT / "tools" / "check_imports.py"


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECKER), str(root)], capture_output=True, text=True, check=False
    )


def plant(root: Path, path: str, code: str) -> None:
    file = root / "wfrun" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)


@pytest.mark.slow
def test_the_packages_import_downwards_only() -> None:
    result = check(ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("path", "code", "fault"),
    [
        (
            "engine/core/core.py",
            "x = 1\nimport time\n",
            "engine/core/core.py:2: the engine imports time",
        ),
        (
            "engine/core/core.py",
            "import random\n",
            "engine/core/core.py:1: the engine imports random",
        ),
        ("engine/core/core.py", "from random import choice\n", "imports random.choice"),
        ("engine/policies/heft.py", "from os import path\n", "heft.py:1: the engine imports os"),
        ("engine/core/core.py", "from ...sites import local\n", "engine imports wfrun.sites"),
        ("engine/core/core.py", "from wfrun import parsers\n", "engine imports wfrun.parsers"),
        ("engine/core/core.py", "def f():\n    import asyncio\n", "core.py:2: the engine imports"),
        ("parsers/units.py", "import wfrun.sites.local\n", "parsers imports wfrun.sites.local"),
        ("sites/tasks.py", "from wfrun.runners import run\n", "sites imports wfrun.runners.run"),
        ("runners/run/loop.py", "from ..simulate import bags\n", "from runners/simulate"),
        ("runners/api.py", "import wfrun.runners.cli.main\n", "from runners/cli"),
        ("runners/attic/old.py", "from wfrun.runners import run\n", "is not a room"),
        ("testing.py", "from wfrun.runners import loop\n", "testing imports wfrun.runners"),
        ("sites/node/jobs/job.py", "import msgspec\n", "job.py imports msgspec"),
        ("sites/node/jobs/job.py", "from ... import local\n", "job.py imports wfrun.sites.local"),
        ("runners/cli/main.py", "import wfrun.studies\n", "runners imports wfrun.studies"),
        ("attic/old.py", "import wfrun.engine\n", "attic is not a room of the design"),
        (
            "engine/core/core.py",
            "from wfrun.engine.capabilities.health import Health\n",
            "core.py:1: core.py imports wfrun.engine.capabilities.health.Health",
        ),
        (
            "engine/tasks/attempts.py",
            "from wfrun.engine import capabilities\n",
            "through hooks alone",
        ),
        ("engine/tasks/status.py", "def f():\n    from ..capabilities import usage\n", "s.py:2"),
        (
            "engine/files/file_events.py",
            "import wfrun.engine.capabilities.usage\n",
            "through hooks alone",
        ),
    ],
)
def test_a_forbidden_import_is_named_with_its_line(
    tmp_path: Path, path: str, code: str, fault: str
) -> None:
    plant(tmp_path, path, code)
    result = check(tmp_path)
    assert result.returncode == 1
    assert fault in result.stdout


def test_a_circle_of_imports_is_named_with_its_way(tmp_path: Path) -> None:
    plant(tmp_path, "engine/a.py", "import re\nfrom wfrun.engine import b\n")
    plant(tmp_path, "engine/b.py", "from wfrun.engine.part.c import x\n")
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..a import y\n"
    plant(tmp_path, "engine/part/c.py", hidden)
    result = check(tmp_path)
    assert result.returncode == 1
    (line,) = result.stdout.splitlines()
    way = "wfrun.engine.a -> wfrun.engine.b -> wfrun.engine.part.c -> wfrun.engine.a"
    assert line == f"wfrun/engine/part/c.py:3: a circle of imports: {way}"


def test_the_init_of_a_package_is_imported_with_its_modules(tmp_path: Path) -> None:
    """Otherwise ``import wfrun.engine.a`` by itself fails: part begins, and wants the rest of a."""
    plant(tmp_path, "engine/a.py", "from wfrun.engine.part.c import x\n")
    plant(tmp_path, "engine/part/__init__.py", "from wfrun.engine.part import b\n")
    plant(tmp_path, "engine/part/b.py", "from wfrun.engine.a import y\n")
    plant(tmp_path, "engine/part/c.py", "x = 1\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert (
        "wfrun.engine.a -> wfrun.engine.part -> wfrun.engine.part.b -> wfrun.eng" in result.stdout
    )


def test_modules_that_import_the_same_one_are_no_circle(tmp_path: Path) -> None:
    plant(tmp_path, "engine/a.py", "from wfrun.engine import b, c\n")
    plant(tmp_path, "engine/b.py", "from wfrun.engine import c\n")
    plant(tmp_path, "engine/c.py", "import re\n")
    assert check(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("engine/core/interpreter.py", "from wfrun.engine.capabilities import CAPABILITIES\n"),
        ("engine/core/core.py", "from random import Random\nimport heapq\nimport msgspec\n"),
        ("engine/policies/heft.py", "from wfrun.engine.model import Task\nfrom .. import view\n"),
        ("runners/cli/runs.py", "import os\nfrom wfrun.sites import batch\nimport click\n"),
        ("studies/page.py", "from wfrun.runners.experiments.plots import draw\n"),
        (
            "sites/node/jobs/job.py",
            "import os\nimport runner\nfrom wfrun.sites.node.tasks import store\n",
        ),
        ("testing/site.py", "import pytest\nfrom wfrun.sites import local\n"),
        ("__init__.py", "from wfrun.runners.api import run\n"),
    ],
)
def test_what_is_allowed_is_not_complained_about(tmp_path: Path, path: str, code: str) -> None:
    plant(tmp_path, path, code)
    assert check(tmp_path).returncode == 0


def test_messages_and_pages_name_packages_that_can_be_installed() -> None:
    """No registry has wfrun: an extra of it, such as wfrun[report], cannot be installed by name."""
    for folder, ending in (("wfrun", "*.py"), ("docs", "*.md"), (".", "README.md")):
        for path in (ROOT / folder).glob(f"**/{ending}" if folder != "." else ending):
            for word in ("wfrun[", "install wfrun"):
                assert word not in path.read_text(encoding="utf-8").replace("`", ""), path
    project = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[0]
    assert "plotly" in project  # `wfrun report` is in the README


def test_a_public_class_has_a_name_of_its_own(tmp_path: Path) -> None:
    plant(tmp_path, "engine/a.py", "class Row: ...\nclass _Own: ...\n")
    plant(tmp_path, "sites/b.py", "class _Own: ...\nclass Table:\n    class Row: ...\n")
    result = check(tmp_path)
    fault = "wfrun/sites/b.py:3: wfrun/engine/a.py:1 defines a class Row, too: choose another name"
    assert (result.returncode, result.stdout) == (1, f"{fault}\n")
