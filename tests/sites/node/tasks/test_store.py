"""Directories that are removed at a site."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wfrun.sites.node.tasks.store import remove_tree


def test_what_can_be_removed_goes_though_one_file_cannot(tmp_path: Path) -> None:
    top = tmp_path / "sandbox"
    (top / "sub" / "deeper").mkdir(parents=True)
    for number in range(20):
        (top / f"{number}.txt").touch()
    kept = top / "7.txt"
    if subprocess.run(["chattr", "+i", kept], capture_output=True, check=False).returncode:
        pytest.skip("no user or file system that makes files immutable")
    try:
        remove_tree(str(top))
        assert [*top.iterdir()] == [kept]
    finally:
        subprocess.run(["chattr", "-i", kept], check=True)
    remove_tree(str(top))
    assert not top.exists()
