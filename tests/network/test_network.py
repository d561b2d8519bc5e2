"""The test network: hosts of their own, shaped links, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.network.network import Network, check_machine, connects
from tests.places import ROOT
from tests.testbed import processes
from tests.testbed.gridftp import Scheme
from tests.testbed.layout import MissingError, TestbedError
from tests.waiting import PATIENCE_S, is_running

DATA = os.urandom(1 << 20)


def start(network: Network, host: str, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["ssh", "-F", str(network.ssh_config), host, command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ssh(network: Network, host: str, command: str, code: int = 0) -> str:
    with start(network, host, command) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, output
    return output


def change_accounts(*argv: str) -> None:
    """Change the machine's accounts; others may hold their lock for a moment."""
    processes.wait_until(lambda: not processes.run(argv, check=False).returncode, " ".join(argv))


def test_a_host_is_a_machine_of_its_own(network: Network) -> None:
    words = "hostname; id -un; pwd; ls /tmp; ps -e -o comm= | sort -u"
    lines = ssh(network, "two", words).splitlines()
    assert lines[:3] == ["two", "user", "/home/user"]
    assert {"sh", "sleep", "sshd"} <= set(lines[3:])
    assert "python3" not in lines[3:]
    ssh(network, "two", "echo mine >file; touch /tmp/file")
    assert (network.hosts["two"].home / "file").read_text() == "mine\n"
    assert ssh(network, "one", "ls . /tmp") == ".:\n\n/tmp:\n"
    ssh(network, "one", "ssh -o BatchMode=yes two true", code=255)
    # A host reaches another one by name, once its user has a key for it.
    network.trust("one", "two")
    assert ssh(network, "one", "ssh two cat file") == "mine\n"
    # Programs that change accounts replace files of /etc, and mounts on these with them.
    name = f"wfrun-{os.getpid()}"
    change_accounts("useradd", "--no-create-home", name)
    change_accounts("userdel", name)
    assert ssh(network, "one", "id -un") == "user\n"
    root = subprocess.run(network.enter("one", "id", "-u"), capture_output=True, check=True)
    assert root.stdout == b"0\n"


def test_links_are_shaped_changed_and_cut_while_in_use(network: Network) -> None:
    network.trust("one", "two")
    one, two = network.hosts["one"], network.hosts["two"]
    (one.home / "data").write_bytes(DATA)
    network.shape("submit", "one", latency_s=0.15)
    began = time.monotonic()
    assert connects(one.address, 22)
    assert time.monotonic() - began >= 0.3
    network.shape("submit", "one")

    network.shape("one", "two", rate=2e6)
    began = time.monotonic()
    ssh(network, "one", "scp -q data two:first")
    assert time.monotonic() - began >= len(DATA) / 2e6
    before = network.carried("one", "two")
    assert before >= len(DATA)

    network.shape("one", "two", rate=2e4)
    with start(network, "one", "scp -q data two:second") as process:
        processes.wait_until(
            lambda: network.carried("one", "two") > before + 20_000, "data on the slow link"
        )
        assert process.poll() is None
        network.cut("one", "two")
        assert "timed out" in ssh(network, "one", "ssh -o ConnectTimeout=1 two true", code=255)
        network.shape("one", "two")
        assert process.wait(PATIENCE_S) == 0
    assert (two.home / "second").read_bytes() == DATA


@pytest.mark.parametrize("scheme", ["ftp", "gsiftp", "sshftp"])
def test_gridftp_goes_directly_between_hosts(network: Network, scheme: Scheme) -> None:
    if not network.has_gridftp:
        pytest.skip("GridFTP is not installed")
    one, two = network.hosts["one"], network.hosts["two"]
    (one.home / "data").write_bytes(DATA)
    (one.home / "data").chmod(0o644)
    argv = ["globus-url-copy", "-p", "2", one.url("data", scheme), two.url("copy", scheme)]
    processes.run(argv, network.environment)
    assert (two.home / "copy").read_bytes() == DATA
    assert network.carried("one", "two") >= len(DATA)
    assert network.carried("one", "submit") < len(DATA)


def test_links_between_unknown_hosts_are_refused(network: Network) -> None:
    with pytest.raises(ValueError, match=r"no link from 'one' to 'four'; hosts: submit, one"):
        network.cut("one", "four")
    assert network.carried("one", "two") >= 0


def test_a_network_is_reset(network: Network) -> None:
    network.trust("one", "two")
    ssh(network, "one", "touch /tmp/file file; setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    network.cut("one", "two")
    network.reset()
    left = ssh(network, "one", "ls -A . /tmp; pgrep -u user sleep || true").split()
    assert [word for word in left if word != ".globus"] == [".:", "/tmp:"]
    denied = ssh(network, "one", "ssh -o StrictHostKeyChecking=no two true", code=255)
    assert "Permission denied" in denied
    processes.run(network.enter("one", "pkill", "-x", "sshd"))
    with pytest.raises(TestbedError, match="a server at one has ended"):
        network.reset()


OWNER = """\
import sys
from pathlib import Path
from tests.network.network import Network
network = Network(["one", "two"], Path(sys.argv[1]))
print(network.number, *network.pids.values(), flush=True)
sys.stdin.read()
"""


@pytest.mark.testbed
def test_nothing_is_left_when_its_owner_is_killed(tmp_path: Path) -> None:
    try:
        check_machine()
    except MissingError as error:
        pytest.skip(str(error))
    argv = [sys.executable, "-c", OWNER, str(tmp_path / "network")]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        number, *pids = map(int, owner.stdout.readline().split())
        owner.send_signal(signal.SIGKILL)
    interface = Path(f"/sys/class/net/wfnet{number}")
    processes.wait_until(
        lambda: not interface.exists() and not any(map(is_running, pids)), "the end of all"
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"apt-get install iproute2 .* openssh-server"):
        check_machine()
