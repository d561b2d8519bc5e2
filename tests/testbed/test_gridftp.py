"""GridFTP servers of the testbed: every scheme, and between two sites."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.testbed import faults, processes
from tests.testbed.fixture import GridFTP
from tests.testbed.gridftp import Scheme
from tests.testbed.layout import MissingError
from tests.testbed.testbed import Testbed

DATA = os.urandom(1 << 20)


def copy(gridftp: GridFTP, *argv: str) -> subprocess.CompletedProcess[str]:
    return processes.run(["globus-url-copy", *argv], gridftp.environment, check=False)


@pytest.mark.parametrize("scheme", ["ftp", "gsiftp", "sshftp"])
def test_files_go_in_between_and_out(gridftp: GridFTP, tmp_path: Path, scheme: Scheme) -> None:
    (tmp_path / "data").write_bytes(DATA)
    alpha, delta = (gridftp.url(site, "data", scheme) for site in ("alpha", "delta"))
    for argv in (
        ("-p", "2", f"file://{tmp_path}/data", alpha),
        (alpha, delta),
        (delta, f"file://{tmp_path}/back"),
    ):
        result = copy(gridftp, *argv)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "back").read_bytes() == DATA
    stored = gridftp.layout.site("delta").home / "data"
    assert stored.owner() == gridftp.layout.user("delta")


def test_a_client_without_a_certificate_is_refused(gridftp: GridFTP, tmp_path: Path) -> None:
    gridftp.environment["X509_USER_PROXY"] = str(tmp_path / "none")
    result = copy(gridftp, gridftp.url("alpha", ".profile", "gsiftp"), f"file://{tmp_path}/back")
    assert result.returncode != 0
    assert "proxy" in result.stderr


def test_a_server_is_killed_and_healed(gridftp: GridFTP, testbed: Testbed, tmp_path: Path) -> None:
    argv = (gridftp.url("beta", ".profile", "ftp"), f"file://{tmp_path}/back")
    faults.kill(testbed, "beta.ftp")
    assert copy(gridftp, *argv).returncode != 0
    faults.heal(testbed)
    assert copy(gridftp, *argv).returncode == 0


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.testbed import gridftp

    monkeypatch.setattr(processes, "PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"apt-get install globus-gridftp-server-progs .*copy"):
        gridftp.check_machine()
