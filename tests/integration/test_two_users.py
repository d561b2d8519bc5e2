"""Another user of the same cluster tries the jobs, the files, the processes and the sockets of a
run, and gets nowhere; the run goes on."""

from __future__ import annotations

import os
import pwd
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.clusters import Grid
from tests.integration.launchers.test_launchers_faults import launchers
from tests.sites.users import as_user
from tests.testbed.testbed import Testbed


class Mallory:
    """A user with an account at another site, who can submit to alpha as well."""

    def __init__(self, testbed: Testbed) -> None:
        self.name = testbed.layout.site("delta").user
        self.uid = pwd.getpwnam(self.name).pw_uid
        self._environment = {
            **os.environ,
            **testbed.layout.environment(testbed.layout.site("alpha")),
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*as_user(self.uid, 'cd /; exec "$0" "$@"'), *command],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def submit(self, name: str) -> str:
        done = self.run(
            "sbatch", "--parsable", "-o", "/dev/null", "-J", name, "--wrap", "sleep 600"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """States by the names of the jobs."""
        lines = self.run("squeue", "--noheader", "--me", "--format=%j %T").stdout.splitlines()
        return dict(line.split() for line in lines)


@pytest.fixture
def mallory(testbed: Testbed) -> Iterator[Mallory]:
    user = Mallory(testbed)
    yield user
    user.run("scancel", "--user", user.name)


@pytest.fixture
def shared(testbed: Testbed) -> Path:
    """A scratch that all users share."""
    place = testbed.layout.directory / "shared"
    place.mkdir(exist_ok=True)
    place.chmod(0o1777)
    return place


def everything(directory: Path) -> list[Path]:
    return [directory, *directory.rglob("*")]


def test_jobs_of_the_same_name_stay_apart(
    testbed: Testbed, grid: Grid, mallory: Mallory, shared: Path
) -> None:
    """In a run whose policy looks at everybody's jobs. Theirs are neither counted as the run's, nor
    cancelled, and its tasks are neither late nor lost for them."""
    grid.bag(4, 4.0)
    catalog = grid.catalog("alpha", changes={"alpha": {"directory": str(shared)}})
    engine = grid.start(catalog, "--policy", "heft")
    grid.wait(engine, grid.logged)
    run_id = grid.state().run_id
    names = [f"wfrun-{run_id}-{number}" for number in (1, 2, 3)]
    for name in names:
        mallory.submit(name)
    grid.wait_begun(engine, 1)
    mallory.run("scancel", f"--user={testbed.layout.user('alpha')}")
    (directory,) = (each for each in shared.iterdir() if run_id in each.name)
    assert directory.name == grid.state().site_directory
    for attack in (
        ("ls", str(directory)),
        ("cat", f"{directory}/bin/job.sh"),
        ("touch", f"{directory}/exits/forged.json"),
        ("mv", str(directory), f"{directory}.old"),
        ("rm", "-rf", str(directory)),
        ("ln", "-sfn", "/tmp", str(directory / "files")),
    ):
        assert mallory.run(*attack).returncode != 0, attack
    done = grid.finish(engine)
    grid.check_results(done)
    assert not grid.failures()
    assert mallory.jobs().keys() == set(names)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    owner = grid.uid("alpha")
    assert {each.lstat().st_uid for each in everything(directory)} == {owner}


def test_a_directory_that_another_user_made_stops_the_site(
    grid: Grid, mallory: Mallory, shared: Path
) -> None:
    """They cannot know its name in advance; here they have found it out, after its removal."""
    grid.bag(2, 600.0)
    catalog = grid.catalog("alpha", changes={"alpha": {"directory": str(shared)}})
    engine = grid.start(catalog)
    grid.wait_begun(engine, 1)
    engine.kill()
    directory = shared / grid.state().site_directory
    directory.rename(shared / "away")
    assert mallory.run("mkdir", "-m", "777", str(directory)).returncode == 0
    done = grid.finish(grid.resume())
    assert done.status != 0
    assert "Traceback" not in done.text
    assert re.search(rf"{directory} belongs to another user \(uid {mallory.uid}\)", done.text)
    assert not list(directory.iterdir())
    directory.rmdir()
    (shared / "away").rename(directory)  # where its job, which the testbed cancels, looks for it


def test_no_process_shows_a_secret(
    testbed: Testbed, grid: Grid, mallory: Mallory, shared: Path
) -> None:
    """Of launchers, whose channel is proved by one, and whose command lines all users see."""
    grid.bag(8, 2.0)
    changes = {"alpha": {"directory": str(shared), **launchers()}}
    engine = grid.start(grid.catalog("alpha", changes=changes))
    grid.wait_begun(engine, 2)
    directory = shared / grid.state().site_directory
    secret = (directory / "launchers" / "secret").read_text().strip()
    assert len(secret) >= 32
    shown = mallory.run("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null")
    assert str(directory) in shown.stdout  # the launchers are among them
    assert secret not in shown.stdout
    jobs = mallory.run("scontrol", "show", "job", "--details").stdout
    assert secret not in jobs
    assert mallory.run("cat", f"{directory}/launchers/secret").returncode != 0
    done = grid.finish(engine)
    grid.check_results(done)
    assert not grid.failures()
