"""What Slurm's commands say of an account and a QOS that do not exist, where an accounting database
checks them. Source of the texts: slurm_errno.c of version 22.05."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.sites.cluster.earlier_engine import leave_batch
from wfrun.engine.model import Access, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.entry_error import EntryError
from wfrun.testing.probe import Probe

SBATCH = """\
#!/bin/sh
echo "$@" >> {record}
echo "allocation failure: {says}" >&2
exit 1
"""
ACCOUNT = Access(transport="local", account="physics")
QOS = Access(transport="local", account="physics", options=("--qos=nope",))


@pytest.mark.parametrize(
    ("access", "says", "key"),
    [
        (ACCOUNT, "Invalid account or account/partition combination specified", "account"),
        (QOS, "Invalid qos specification", "options"),
    ],
)
async def test_a_refusal_names_the_key(
    access: Access, says: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await opened(tmp_path, monkeypatch, access, says)
    assert error is not None
    assert error.key == key
    assert says in error.message
    (line,) = (tmp_path / "record").read_text().splitlines()
    assert line.startswith("--test-only ")
    assert "--account=physics" in line


async def test_a_limit_on_jobs_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes."""
    says = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    assert await opened(tmp_path, monkeypatch, ACCOUNT, says) is None


@pytest.mark.parametrize(
    "says",
    [
        "Requested node configuration is not available",
        "Requested partition configuration not available now",
        "Required partition not available (inactive or drain)",
        "Unable to contact slurm controller (connect failure)",
    ],
)
async def test_what_passes_is_no_refusal(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld says the first of each job for some seconds after a restart, and while all nodes
    are drained, but takes them (22.05)."""
    assert await opened(tmp_path, monkeypatch, ACCOUNT, says) is None


async def test_a_resumed_run_with_jobs_there_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs may run, whatever has become of the account since."""
    leave_batch(tmp_path)
    says = "Invalid account or account/partition combination specified"
    assert await opened(tmp_path, monkeypatch, ACCOUNT, says) is None
    assert "--test-only" in (tmp_path / "record").read_text()


async def opened(
    home: Path, monkeypatch: pytest.MonkeyPatch, access: Access, says: str
) -> EntryError | None:
    """Open a site whose sbatch says this; returns the error."""
    program = home / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(SBATCH.format(record=home / "record", says=says))
    program.chmod(0o755)
    (home / ".profile").write_text(f"PATH={program.parent}:$PATH; export PATH\n")
    monkeypatch.setenv("HOME", str(home))
    spec = SiteSpec("here", 2, kind="slurm", directory=f"{home}/scratch", access=access)
    site = make_site(spec, 0, "r1", "wfrun-r1", home, time.time)
    try:
        await site.open(Probe().post)
        await asyncio.sleep(0)  # so that the site's tasks begin
    except EntryError as error:
        return error
    finally:
        await site.close()
    return None
