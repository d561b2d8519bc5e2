"""`wfrun sites init`, `check` and `show` on real clusters."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import pbs
from tests.places import ROOT
from tests.runners.harness import LONG_S, WFRUN
from tests.testbed import faults
from tests.testbed.testbed import Testbed
from wfrun.sites.remote.transports.login_shell import profile_of

WORDCOUNT = ROOT / "examples" / "wordcount"
KINDS = {"alpha": "slurm", "beta": "slurm", "gamma": "grid-engine", "delta": "ssh"}


def wfrun(folder: Path, *arguments: str, status: int = 0) -> str:
    """What the command printed; its exit status has to be this."""
    ended = subprocess.run(
        [WFRUN, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=LONG_S,
    )  # fmt: skip
    assert ended.returncode == status, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def init(testbed: Testbed, folder: Path, site: str, *more: str) -> str:
    config = str(testbed.layout.ssh_config)
    return wfrun(folder, "sites", "init", site, "--ssh-config", config, *more)


def give_each_task_a_job(catalog: Path) -> None:
    """Remove the launchers that ``init`` writes."""
    lines = catalog.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("    dispatch:", "    launchers:"))]
    assert len(kept) < len(lines)
    catalog.write_text("".join(kept))


def at(testbed: Testbed, site: str, command: str) -> str:
    """What a command printed there."""
    words = ["ssh", "-F", str(testbed.layout.ssh_config), site, command]
    ended = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    return ended.stdout


def fill_alpha(testbed: Testbed) -> None:
    """Start a job that takes all cores of alpha. Slurm accepts a job before it starts it."""
    at(testbed, "alpha", "sbatch -o /dev/null -p main -N 4 --ntasks-per-node 4 --wrap 'sleep 600'")
    for _ in range(300):
        if at(testbed, "alpha", "sinfo --noheader -p main -o %C").startswith("16/0/"):
            return
        time.sleep(0.1)
    raise AssertionError("the job has not started")


def checked(folder: Path, *arguments: str, status: int = 0) -> dict[str, dict[str, Any]]:
    """The checks of each site, by their names."""
    said = wfrun(folder, "sites", "check", "--json", *arguments, status=status)
    found, _ = json.JSONDecoder().raw_decode(said)  # what is written to stderr follows
    return {site["site"]: {check["check"]: check for check in site["checks"]} for site in found}


@pytest.fixture
def all_sites(testbed: Testbed, tmp_path: Path) -> Path:
    """A folder with the catalog that ``init`` made of all four."""
    for site in KINDS:
        init(testbed, tmp_path, site)
    return tmp_path


@pytest.mark.parametrize("site", KINDS)
def test_what_init_writes_runs_a_workflow(testbed: Testbed, site: str, tmp_path: Path) -> None:
    said = init(testbed, tmp_path, site)
    assert f"wfrun sites check {site}" in said
    assert f"kind: {KINDS[site]}" in (tmp_path / "sites.yaml").read_text()
    make = [sys.executable, str(WORDCOUNT / "make_workflow.py"), "words", "--parts", "3"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    wfrun(tmp_path, "words/wordcount.dax", "--sites", "sites.yaml", "--run-dir", "run", "-q")
    compare = [sys.executable, str(WORDCOUNT / "check.py"), "words", "run/outputs"]
    subprocess.run(compare, cwd=tmp_path, check=True, capture_output=True, timeout=60)


def test_all_sites_are_checked_and_shown(testbed: Testbed, all_sites: Path) -> None:
    catalog = all_sites / "sites.yaml"
    before = catalog.read_text()
    found = checked(all_sites, "--write")
    after = catalog.read_text()
    assert after.startswith(before)
    for site in KINDS:
        assert f"  - {{from: origin, to: {site}, bandwidth: " in after[len(before) :]
        assert f"  - {{from: {site}, to: origin, bandwidth: " in after[len(before) :]
    assert list(found) == list(KINDS)
    for site, checks in found.items():
        names = ["connection", "agent", "clock", "limits", "directory", "link", "test job"]
        expected = set(names if KINDS[site] == "ssh" else [*names, "batch system", "launcher"])
        assert set(checks) == expected
        assert "its end known" in checks["test job"]["text"]
    links = json.loads(wfrun(all_sites, "sites", "links", "--json"))
    measured = {row["destination"] for row in links if row["known_from"] == ["history"]}
    assert measured == {"origin", *KINDS}  # which replaced what earlier runs had learned
    shown = json.loads(wfrun(all_sites, "sites", "show", "--json"))
    for now in shown:
        assert (now["state"], now["site"] in KINDS) == ("up", True)
        assert now["latency_s"] > 0
        assert now["upload_bytes_per_s"] > 0
        assert now["download_bytes_per_s"] > 0
    assert [now["ours"] for now in shown if now["kind"] == "ssh"] == [None]
    for site in KINDS:  # and nothing of it stays
        scratch = testbed.layout.site(site).home / "wfrun-scratch"
        left = [path.name for path in scratch.iterdir()]
        assert not [name for name in left if name.startswith(("wfrun-check", "wfrun-show"))]


def test_an_interrupted_measurement_of_links_is_kept(testbed: Testbed, all_sites: Path) -> None:
    history = all_sites / "history"
    words = ["sites", "links", "--history", str(history)]
    with subprocess.Popen([WFRUN, *words, "--measure"], cwd=all_sites) as process:
        until_s = time.monotonic() + LONG_S
        while not history.exists():
            assert process.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG_S) != 0
    rows = json.loads(wfrun(all_sites, *words, "--json"))
    known = {
        (row["source"], row["destination"]) for row in rows if row["known_from"] == ["history"]
    }
    assert ("origin", "alpha") in known
    assert len(known) < len(rows)
    for site in KINDS:
        assert not list((testbed.layout.site(site).home / "wfrun-scratch").glob("wfrun-links-*"))


def test_one_bad_site_does_not_stop_the_others(testbed: Testbed, all_sites: Path) -> None:
    faults.stop(testbed, "alpha.sshd")
    faults.stop(testbed, "beta.slurmctld")
    faults.misbehave(testbed, "gamma", "qsub", "refuse")
    found = checked(all_sites, "--wait", "20", status=1)
    failed = {
        site: [name for name, check in checks.items() if check["state"] == "failed"]
        for site, checks in found.items()
    }
    assert failed == {
        "alpha": ["connection"], "beta": ["batch system"], "gamma": ["launcher"], "delta": [],
    }  # fmt: skip
    for checks in found.values():
        assert all(check["hint"] for check in checks.values() if check["state"] == "failed")
    lines = wfrun(all_sites, "sites", "show", "alpha", "delta", status=1).splitlines()
    assert any(line.startswith("alpha is down: ") for line in lines)


def test_limits_beyond_those_of_the_cluster_fail(testbed: Testbed, tmp_path: Path) -> None:
    init(testbed, tmp_path, "alpha")
    catalog = tmp_path / "sites.yaml"
    give_each_task_a_job(catalog)
    right = catalog.read_text()
    catalog.write_text(right.replace("slots: 16", "slots: 400").replace("1-00:00:00", "9-00:00:00"))
    limits = checked(tmp_path, status=1)["alpha"]["limits"]
    assert limits["state"] == "failed"
    catalog.write_text(right.replace("queue: main", "queue: mian"))
    found = checked(tmp_path, status=1)["alpha"]
    assert "main" in found["limits"]["hint"]
    assert found["test job"]["state"] == "failed"
    assert "invalid partition specified: mian" in found["test job"]["text"]


def test_a_job_that_waits_is_withdrawn(testbed: Testbed, tmp_path: Path) -> None:
    init(testbed, tmp_path, "alpha")
    give_each_task_a_job(tmp_path / "sites.yaml")
    fill_alpha(testbed)
    found = checked(tmp_path, "--wait", "10")["alpha"]["test job"]
    assert (found["state"], "was cancelled" in found["text"]) == ("note", True)
    (shown,) = json.loads(wfrun(tmp_path, "sites", "show", "--json"))
    assert (shown["idle_cores"], shown["ours"]["queued"]) == (0, 0)
    assert shown["others"]["running"] == 16


def test_an_unknown_host_key_is_to_be_accepted_first(testbed: Testbed, tmp_path: Path) -> None:
    config = str(testbed.layout.ssh_config)
    more = ("--ssh-config", config, "--known-hosts", "known")
    said = wfrun(tmp_path, "sites", "init", "alpha", *more, status=2)
    command = said.splitlines()[-1]
    assert command.split()[0] == "echo"
    assert not (tmp_path / "sites.yaml").exists()
    subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path, timeout=10)
    wfrun(tmp_path, "sites", "init", "alpha", *more)


def test_an_interrupted_check_leaves_no_job(testbed: Testbed, tmp_path: Path) -> None:
    init(testbed, tmp_path, "alpha")
    give_each_task_a_job(tmp_path / "sites.yaml")
    fill_alpha(testbed)
    check = subprocess.Popen([WFRUN, "sites", "check"], cwd=tmp_path, stdin=subprocess.DEVNULL)
    try:
        for _ in range(300):
            if "wfrun-check" in at(testbed, "alpha", "squeue --format %j"):
                break
            time.sleep(0.1)
        check.send_signal(signal.SIGINT)
        assert check.wait(60) == 130
    finally:
        check.kill()
    assert "wfrun-check" not in at(testbed, "alpha", "squeue --format %j")


def test_pbs_as_far_as_recordings_play_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """wfrun runs on the head node itself, whose user finds the commands by their profile."""
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = pbs.install(tmp_path / "pbs", 3, queue_max_array=100)
    (tmp_path / ".profile").write_text(f"PATH={commands}:$PATH; export PATH\n")
    try:
        wfrun(tmp_path, "sites", "init", "--transport", "local", "--name", "here")
        text = (tmp_path / "sites.yaml").read_text()
        for line in ("kind: pbs", "queue: workq", "slots: 3", "max_array: 100"):
            assert f"    {line}" in text
        assert "# The server keeps no history of jobs (job_history_enable)." in text
        give_each_task_a_job(tmp_path / "sites.yaml")
        found = checked(tmp_path)["here"]
        assert "done" in found["test job"]["text"]
        assert "done" in found["array"]["text"]
        assert (found["history"]["state"], "job_history_enable" in found["history"]["text"]) == (
            "note",
            True,
        )
        (shown,) = json.loads(wfrun(tmp_path, "sites", "show", "--json"))
        assert (shown["idle_cores"], shown["others"]) == (3, {"running": 0, "queued": 0})
    finally:
        pbs.end(tmp_path / "pbs")


def test_a_check_finds_what_keeps_the_jobs_of_pbs_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that ends the shell of jobs, a server that takes no array, and what it says."""
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = pbs.install(tmp_path / "pbs", 3, history=True)
    profile = tmp_path / ".profile"
    path = f"PATH={commands}:$PATH; export PATH\n"
    profile.write_text(path)
    try:
        wfrun(tmp_path, "sites", "init", "--transport", "local", "--name", "here")
        catalog = tmp_path / "sites.yaml"
        give_each_task_a_job(catalog)
        catalog.write_text(catalog.read_text() + "    poll_min: 0.3\n")
        profile.write_text(f'{path}[ -z "$PBS_JOBID" ] || export -f nothing\n')
        found = checked(tmp_path, "--wait", "30", status=1)["here"]
        assert "history" not in found
        assert "export: Illegal option -f" in found["test job"]["text"]
        assert "~/.profile" in found["test job"]["hint"]
        profile.write_text(path)
        catalog.write_text(catalog.read_text() + "    options: [-r, n]\n")
        found = checked(tmp_path, "--wait", "12", status=1)["here"]
        assert found["test job"]["state"] == "ok"
        assert "cannot submit non-rerunable Array Job" in found["array"]["text"]
        assert "usage:" not in found["array"]["text"]
    finally:
        pbs.end(tmp_path / "pbs")


def test_a_host_without_any_of_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "id", "df", "tail", "rm", "mktemp", "nproc", "awk", "cut", "python3"):
        (commands / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".profile").write_text(f"PATH={commands}; export PATH\n")
    said = wfrun(tmp_path, "sites", "init", "--transport", "local", "--name", "here")
    assert "no batch system" in said
    assert "done" in checked(tmp_path)["here"]["test job"]["text"]
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(catalog.read_text().replace("kind: ssh", "kind: pbs"))
    system = checked(tmp_path, status=1)["here"]["batch system"]
    assert "pbs is not found: qstat" in system["text"]
    assert f"put that into {profile_of(pwd.getpwuid(os.getuid()).pw_shell)} " in system["hint"]
    (shown,) = json.loads(wfrun(tmp_path, "sites", "show", "--json", status=1))
    assert shown["reason"].startswith("its batch system does not answer")


@pytest.mark.parametrize("transport", ["openssh", "local"])
def test_other_ways_to_a_host(testbed: Testbed, transport: str, tmp_path: Path) -> None:
    if transport == "local":
        wfrun(tmp_path, "sites", "init", "--transport", "local", "--name", "here")
        text = (tmp_path / "sites.yaml").read_text()
        (tmp_path / "sites.yaml").write_text(text.replace("~/", f"{tmp_path}/"))
    else:
        init(testbed, tmp_path, "gamma", "--transport", transport, "--name", "here")
    assert f"transport: {transport}" in (tmp_path / "sites.yaml").read_text()
    assert set(checked(tmp_path)) == {"here"}
