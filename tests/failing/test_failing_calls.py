"""A sample of the system calls that may fail: nothing is lost or doubled, and no task fails for
good. ``python -m tests.failing`` plays all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.failing.failing_calls import ROLES, SOURCE, Case, compile_library, play
from tests.testbed.layout import MissingError

QUICK = (
    Case("engine", "fsync", errno.EIO, 12),
    Case("engine", "write", errno.ENOSPC, 23),
    Case("engine", "read", errno.EIO, 3),
    Case("engine", "spawn", errno.EAGAIN, 2),
    Case("launcher", "open", errno.EIO, 6),
    Case("launcher", "rename", errno.EIO, 1),
)
SLOW = (
    Case("engine", "open", errno.ESTALE, 5),
    Case("engine", "stat", errno.EIO, 49),
    Case("agent", "open", errno.EIO, 23),
    Case("agent", "spawn", errno.EAGAIN, 4),
    Case("agent", "spawn", errno.EAGAIN, 5),
    Case("agent", "write", errno.ENOSPC, 4),
    Case("agent", "rename", errno.ESTALE, 3),
    Case("launcher", "spawn", errno.EAGAIN, 1),
    Case("job", "stat", errno.ESTALE, 60),
    Case("job", "link", errno.EIO, 3),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compile_library(SOURCE, tmp_path_factory.mktemp("library"))
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("case", QUICK, ids=str)
def test_a_call_fails(tmp_path: Path, library: Path, case: Case) -> None:
    assert play(tmp_path, library, case), "there were fewer such calls"


@pytest.mark.slow
def test_a_role_that_nothing_plays(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library has to reach the programs, or these tests could not fail."""
    monkeypatch.setitem(ROLES, "job", "no-such-program.py")
    with pytest.raises(AssertionError, match="no such program was started"):
        play(tmp_path, library, Case("job", "open", errno.EIO, 1))


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_a_call_fails_at_a_cluster(tmp_path: Path, library: Path, case: Case) -> None:
    assert play(tmp_path, library, case), "there were fewer such calls"
