"""The testbed itself: every site takes jobs, every fault is one, and nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.testbed import faults, processes
from tests.testbed.fixture import bring_up_free
from tests.testbed.layout import Layout, MissingError, TestbedError
from tests.testbed.testbed import Testbed, abandoned, check_machine, registered
from wfrun.sites.catalog import read_catalog

HERE = Path(__file__).parent


def ssh(testbed: Testbed, site: str, command: str, code: int = 0) -> str:
    result = subprocess.run(
        ["ssh", "-F", str(testbed.layout.ssh_config), site, command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=processes.WAIT_S,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result.stdout


def await_lines(testbed: Testbed, site: str, pattern: str, lines: list[str]) -> None:
    """Wait until the files hold these lines."""
    found: list[str] = []
    end = time.monotonic() + processes.WAIT_S
    while time.monotonic() < end:
        found = sorted(ssh(testbed, site, f"cat {pattern} 2>/dev/null || true").splitlines())
        if found == lines:
            return
        time.sleep(0.2)
    assert found == lines


def test_slurm_runs_arrays_as_the_sites_own_user(testbed: Testbed) -> None:
    for site in ("alpha", "beta"):
        ssh(testbed, site, "sbatch --array=1-3 -o out.%a --wrap 'id -un; hostname >/dev/null'")
    for site in ("alpha", "beta"):
        await_lines(testbed, site, "out.*", [testbed.layout.user(site)] * 3)


def test_grid_engine_runs_arrays_as_the_sites_own_user(testbed: Testbed) -> None:
    script = "sleep 3; id -un"  # long enough to be looked at by the execution daemon
    ssh(testbed, "gamma", f"echo '{script}' | qsub -t 1-3 -j y -o 'out.$TASK_ID'")
    ssh(testbed, "gamma", "qsub -pe smp 4 -j y -o out.4 -b y printenv NSLOTS")
    await_lines(testbed, "gamma", "out.?", ["4"] + [testbed.layout.user("gamma")] * 3)


def test_every_kind_of_session_knows_the_batch_system(testbed: Testbed) -> None:
    for site, program in (("alpha", "sinfo"), ("gamma", "qhost")):
        for command in (program, f"bash -lc {program}", f"env -i HOME=$HOME bash -lc {program}"):
            assert ssh(testbed, site, command)
    assert ssh(testbed, "delta", "env").count("SLURM") == 0


def test_the_catalog_names_the_sites(testbed: Testbed) -> None:
    catalog = read_catalog(testbed.layout.catalog)
    assert [(site.name, site.kind) for site in catalog.sites] == [
        (site.name, site.kind) for site in testbed.layout.sites
    ]
    for site in catalog.sites:
        assert site.access is not None
        assert site.access.ssh_config == str(testbed.layout.ssh_config)
    beside = read_catalog(HERE / "sites.yaml")
    assert [site.slots for site in beside.sites] == [site.slots for site in catalog.sites]


def test_a_program_misbehaves_as_often_as_it_is_told(testbed: Testbed) -> None:
    faults.misbehave(testbed, "alpha", "sbatch", "fail-after", times=1)
    ssh(testbed, "alpha", "sbatch --hold --wrap true", code=1)
    ssh(testbed, "alpha", "sbatch --hold --wrap true")
    assert len(ssh(testbed, "alpha", "squeue --noheader").splitlines()) == 2
    faults.misbehave(testbed, "alpha", "squeue", "empty")
    assert ssh(testbed, "alpha", "squeue") == ""
    faults.misbehave(testbed, "alpha", "squeue", "refuse")
    ssh(testbed, "alpha", "squeue", code=1)
    faults.misbehave(testbed, "alpha", "squeue", "hang")
    ssh(testbed, "alpha", "timeout 0.2 squeue", code=124)
    faults.behave(testbed, "alpha", "squeue")
    assert len(ssh(testbed, "alpha", "squeue --noheader").splitlines()) == 2
    with pytest.raises(TestbedError, match="no program 'squueu'"):
        faults.misbehave(testbed, "alpha", "squueu", "empty")


def test_connections_are_cut_and_taken_again(testbed: Testbed) -> None:
    sleeper = subprocess.Popen(
        ["ssh", "-F", str(testbed.layout.ssh_config), "delta", "echo there; exec sleep 60"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"there\n"
        assert faults.cut(testbed, "delta") > 0
        assert sleeper.wait(processes.WAIT_S) == 255
    assert ssh(testbed, "delta", "echo back") == "back\n"
    faults.kill(testbed, "delta.sshd")
    ssh(testbed, "delta", "true", code=255)
    faults.start(testbed, "delta.sshd")
    ssh(testbed, "delta", "true")


def test_a_controller_that_was_stopped_comes_back_with_its_jobs(testbed: Testbed) -> None:
    ssh(testbed, "beta", "sbatch --hold --wrap true")
    # Killed, it forgets the jobs of its last seconds.
    faults.stop(testbed, "beta.slurmctld")
    ssh(testbed, "beta", "timeout 2 squeue || exit 9", code=9)
    faults.start(testbed, "beta.slurmctld")
    assert len(ssh(testbed, "beta", "squeue --noheader").splitlines()) == 1
    faults.pause(testbed, "beta.slurmctld")
    ssh(testbed, "beta", "timeout 1 squeue", code=124)
    faults.kill(testbed, "beta.beta2")
    faults.heal(testbed)
    assert all(pid is not None for _, pid in testbed.status())


def test_a_scratch_fills_up(testbed: Testbed) -> None:
    try:
        place = faults.shrink(testbed, "delta", 1 << 20)
    except MissingError as error:
        pytest.skip(str(error))
    ssh(testbed, "delta", f"head -c 2000000 /dev/zero > {place}/large", code=1)
    faults.grow(testbed, "delta")
    ssh(testbed, "delta", f"head -c 2000000 /dev/zero > {place}/large")


def test_a_clock_is_an_hour_ahead(testbed: Testbed) -> None:
    try:
        faults.shift_clock(testbed, "alpha", 3600)
    except MissingError as error:
        pytest.skip(str(error))
    begun_s = time.time()
    seen_s = float(ssh(testbed, "alpha", "date +%s"))
    assert begun_s - 1 < seen_s - 3600 < time.time() + 1
    assert ssh(testbed, "alpha", "sinfo --noheader")
    faults.heal(testbed)
    begun_s = time.time()
    assert begun_s - 1 < float(ssh(testbed, "alpha", "date +%s")) < time.time() + 1


def test_healing_undoes_what_servers_and_users_leave(testbed: Testbed) -> None:
    layout = testbed.layout
    beta, gamma = (layout.environment(layout.site(name)) for name in ("beta", "gamma"))
    processes.run(["scontrol", "update", "NodeName=beta1", "State=DRAIN", "Reason=test"], beta)
    processes.run(["qconf", "-mattr", "queue", "prolog", "/bin/false", "all.q"], gamma)
    ssh(testbed, "gamma", "qsub -b y -q all.q true")

    def states() -> list[str]:
        lines = processes.run(["qstat", "-f", "-q", "all.q"], gamma).stdout.splitlines()
        return next(line for line in lines if line.startswith("all.q")).split()[5:]

    processes.wait_until(lambda: states() == ["E"], "an error state of all.q")
    processes.run(["qconf", "-mattr", "queue", "prolog", "NONE", "all.q"], gamma)
    processes.run(["qmod", "-d", "all.q"], gamma)
    ssh(testbed, "delta", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    # Of a user of another site, as in a test of two users.
    waits = ["sbatch", "--hold", "--chdir=/", "--output=/dev/null", "--wrap=true"]
    processes.run(["runuser", "-u", layout.user("delta"), "--", *waits], beta)
    faults.heal(testbed)
    assert states() == []
    assert processes.run(["squeue", "--noheader"], beta).stdout == ""
    nodes = processes.run(["sinfo", "--noheader", "--Node", "--format=%N %t"], beta).stdout
    assert set(nodes.splitlines()) == {"beta1 idle", "beta2 idle"}
    assert processes.of_users(layout) == []


def test_a_second_one_survives_a_massacre_and_leaves_nothing_behind(testbed: Testbed) -> None:
    other = bring_up_free()
    layout = other.layout
    doomed = ["munged", "alpha.slurmctld", "alpha.alpha1", "gamma.sge_qmaster", "beta.sshd"]
    try:
        with contextlib.suppress(MissingError):  # The packages of GridFTP are not there.
            other.up(with_gridftp=True)
            doomed.append("beta.gsiftp")
        assert {layout.base, testbed.layout.base} <= set(registered())
        ssh(other, "alpha", "sbatch --wrap 'sleep 100'")
        ssh(other, "gamma", "qsub -b y sleep 100")
        processes.wait_until(
            lambda: " r " in ssh(other, "gamma", "qstat"), "the start of a job at gamma"
        )
        for server, pid in other.status():
            if server.name in doomed:
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
        other.up()
        other.up()
        assert all(pid is not None for _, pid in other.status())
        assert "sleep" in ssh(other, "gamma", "qstat")
        faults.pause(other, "alpha.slurmctld")
        with pytest.raises(TestbedError, match="is there already"):
            Testbed(Layout.of(layout.base + 1)).up()
    finally:
        other.down()
        other.down()
    assert not layout.directory.exists()
    assert processes.all_of(layout) == []
    names = {entry.pw_name for entry in pwd.getpwall()}
    assert names.isdisjoint(site.user for site in layout.sites)
    assert str(layout.base) not in Path("/etc/passwd").read_text()
    assert layout.base not in registered()
    assert all(pid is not None for _, pid in testbed.status())


KILLED = """
import sys, time
from pathlib import Path
from tests.testbed import testbed
from tests.testbed.layout import Layout
layout = next(each for each in map(Layout.of, range(32000, 40000, 40)) if testbed.claim(each))
testbed.Testbed(layout)._prepare()
print(layout.base, flush=True)
time.sleep(1000)
"""


def test_what_a_killed_process_leaves_is_brought_down(testbed: Testbed) -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            layout = Layout.of(int(process.stdout.readline()))
            assert not abandoned()
        finally:
            process.kill()
    assert layout.directory.exists()
    assert layout.base in registered()
    (left,) = abandoned()
    assert left.layout == layout
    left.down()
    assert not layout.directory.exists()
    assert layout.base not in registered()
    assert layout.user("alpha") not in {entry.pw_name for entry in pwd.getpwall()}


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"apt-get install slurmctld .* openssh-server"):
        check_machine()


@pytest.mark.parametrize(
    ("base", "directory"), [(80, "ok"), (65530, "ok"), (17000, "long" * 20), (17000, "a b")]
)
def test_places_that_can_not_work_are_refused(base: int, directory: str) -> None:
    with pytest.raises(TestbedError, match=r"base port|directory"):
        Layout.of(base, Path("/") / directory)
