"""Drafts of files, in directories where other users may write: no draft goes through their link."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from pathlib import Path

import pytest

from tests.sites.users import MALLORY, run_as, scratch
from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import drafted, replacing, write_file

__all__ = ["scratch"]


def test_a_draft_is_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even at a name that somebody has found out."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "5ec2e7")
    (tmp_path / ".wfrun-5ec2e7.part").symlink_to(kept)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "out", b"new")
    with pytest.raises(InvalidError, match="File exists"), replacing(tmp_path / "out") as stream:
        stream.write("new")
    assert kept.read_text() == "kept"
    assert not (tmp_path / "out").exists()


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), drafted(path) as stream:
        stream.write(b"new" * (1 // 0))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]
    write_file(path, b"new", 0o600)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_of_another_user_in_a_directory_of_a_group(scratch: Path) -> None:
    """They make links to a file of this user's at all names of drafts that they see."""
    shared, kept = scratch / "shared", scratch / "alice" / "kept"
    shared.mkdir()
    shared.chmod(0o2777)
    kept.write_text("kept")
    names = (".report.html.part", f".report.html.{os.getpid()}.part", "report.html")
    links = "; ".join(f"ln -s {kept} {shared}/{name}" for name in names)
    assert run_as(MALLORY, links).returncode == 0
    seen: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            seen.update(os.listdir(shared))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(100):
        write_file(shared / "report.html", b"page")
    ended.set()
    watcher.join()
    assert kept.read_text() == "kept"
    assert not (shared / "report.html").is_symlink()
    assert (shared / "report.html").read_text() == "page"
    drafts = seen - set(names)
    assert all(name.startswith(".wfrun-") and len(name) > 20 for name in drafts)
