"""What commands write in a directory where others may write, too: no draft of a file is opened
through a link that they have made, whatever its name."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, assert_refused, make_workflow
from wfrun.engine.errors import InvalidError
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.runners.api import run

COMMANDS = (
    "report run -o out.html",
    "results run -o out.csv",
    "results run -o out.parquet",
    "export run --format wfformat -o out.json",
    "export run --format trace -o out.swf",
    "graph run --dot out.dot",
    "graph run --picture out.png",
    "generate montage --tasks 30 -o out.dax",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_through_a_link(
    user: User, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The names that drafts once had, which anybody knew, are links; later that of the next draft
    is one, which nobody can know."""
    run(
        make_workflow([Job("a", "echo x > out", (), ["out"], ["out"])]), run_dir=user.folder / "run"
    )
    out = next(word for word in command.split() if word.startswith("out."))
    kept = plant(user.folder, f".{out}.part", f".{out}.{os.getpid()}.part", ".wfrun-5ec2e7.part")
    done = user.ask(*command.split())
    assert done.status == 0, done.text
    assert kept.read_text() == "kept"
    assert (user.folder / out).read_bytes() not in (b"", b"kept")
    (user.folder / out).unlink()
    foresee(monkeypatch)
    done = user.ask(*command.split())
    assert_refused(done, done.status, ["File exists"])
    assert done.status != 0
    assert kept.read_text() == "kept"
    assert not (user.folder / out).exists()
    assert (user.folder / ".wfrun-5ec2e7.part").is_symlink()


@pytest.mark.slow
def test_the_metrics_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on without it, with a warning."""
    out = tmp_path / "out.prom"
    kept = plant(tmp_path, f".out.prom.{os.getpid()}.part", ".wfrun-5ec2e7.part")
    workflow = make_workflow([Job("a", "true")])
    assert run(workflow, run_dir=tmp_path / "one", metrics_file=str(out)).outcome == "done"
    assert "wfrun_tasks" in out.read_text()
    out.unlink()
    foresee(monkeypatch)
    assert run(workflow, run_dir=tmp_path / "two", metrics_file=str(out)).outcome == "done"
    assert kept.read_text() == "kept"
    assert not out.exists()


def test_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = plant(tmp_path, ".wfrun-5ec2e7.part")
    rewrite(tmp_path / "sites.yaml", b"", b"sites: {}\n")
    assert (tmp_path / "sites.yaml").read_text() == "sites: {}\n"
    foresee(monkeypatch)
    with pytest.raises(InvalidError, match="File exists"):
        rewrite(tmp_path / "sites.yaml", b"sites: {}\n", b"")
    assert kept.read_text() == "kept"
    assert (tmp_path / "sites.yaml").read_text() == "sites: {}\n"


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_tables_follow_the_umask(user: User, umask: int) -> None:
    run(make_workflow([Job("a", "true")]), run_dir=user.folder / "run")
    before = os.umask(umask)
    try:
        for name in ("out.csv", "out.parquet"):
            assert user.ask("results", "run", "-o", name).status == 0
            assert stat.S_IMODE((user.folder / name).stat().st_mode) == 0o666 & ~umask
    finally:
        os.umask(before)


def plant(folder: Path, *names: str) -> Path:
    """Make links of these names to a file, and return it."""
    kept = folder / "kept"
    kept.write_text("kept")
    for name in names:
        (folder / name).symlink_to(kept)
    return kept


def foresee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next drafts have a name that was known."""
    real = secrets.token_hex
    monkeypatch.setattr(
        "wfrun.parsers.atomic.secrets.token_hex", lambda n=None: "5ec2e7" if n == 8 else real(n)
    )
