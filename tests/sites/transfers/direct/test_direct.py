"""What the methods of a site that sends files itself make of its programs and of odd names. Copies
between real servers are in tests/integration/suites/test_conformance_direct.py."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wfrun.engine.errors import TransientError
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.remote.transports.transport import Address
from wfrun.sites.transfers.direct import direct_copy
from wfrun.sites.transfers.direct.direct_clients import (
    SSH,
    Clients,
    Program,
    parse_clients,
    probe,
)
from wfrun.sites.transfers.direct.direct_copy import DirectMethod, Sending
from wfrun.sites.transfers.direct.direct_rsync import DirectRsync
from wfrun.sites.transfers.direct.direct_scp import DirectScp
from wfrun.sites.transfers.direct.direct_script import is_plain, seen_by_others, sending_script
from wfrun.sites.transfers.direct.direct_sftp import DirectSftp
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.method import NotCarriedError

DEBIAN_12 = """\
Welcome! wfrun-has nothing to do with this line
wfrun-has ssh OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.14 4 Jun 2024
wfrun-has rsync rsync  version 3.2.7  protocol version 31
wfrun-has scp OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.14 4 Jun 2024
wfrun-has sftp OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.14 4 Jun 2024
"""
OPENRSYNC = """\
wfrun-has ssh OpenSSH_8.6p1, LibreSSL 3.3.6
wfrun-has rsync openrsync: protocol version 29
"""
EVERY = {*DirectRsync.programs, *DirectScp.programs, *DirectSftp.programs}
TO = Address("b.org", 22, "me", ("ssh-ed25519 AAAA",))


def test_the_programs_of_a_site() -> None:
    modern, other = parse_clients(DEBIAN_12, EVERY), parse_clients(OPENRSYNC, EVERY)
    assert modern == {"rsync": (3, 2), **dict.fromkeys(("ssh", "scp", "sftp"), (9, 2))}
    assert other == {"ssh": (8, 6), "rsync": (0, 0)}
    assert parse_clients("", EVERY) == {}
    for method, works in ((DirectRsync(), False), (DirectScp(), True), (DirectSftp(), True)):
        assert method.works_between(modern, modern)
        assert method.works_between(modern, other) is works
        assert not method.works_between(other, modern)


def test_sites_are_asked_for_any_program_that_a_method_names() -> None:
    further = Program("printf", "printf 'two 12.34\\n56.78\\n'", r"two (\d+)\.(\d+)")
    absent = Program("wfrun-absent", "echo two 1.2", further.version)
    script = probe([further, absent, SSH])
    said = subprocess.run(
        ["sh", "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    found = parse_clients(said.stdout, [further, absent, SSH])
    assert found["printf"] == (12, 34)
    assert found["ssh"] > (0, 0)
    assert "wfrun-absent" not in found


async def test_no_site_reaches_another_unless_the_catalog_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever clients both have."""

    async def modern(*_: object) -> Clients:
        return parse_clients(DEBIAN_12, EVERY)

    monkeypatch.setattr(RemoteEndpoint, "clients", modern)
    for direct in (None, "forward", "key"):
        site = SimpleNamespace(
            spec=SiteSpec("a", slots=1, access=Access(direct=direct)), connection=None
        )
        ends = [RemoteEndpoint(index, cast(Any, site)) for index in (0, 1)]
        for method in (DirectRsync(), DirectScp(), DirectSftp()):
            assert await method.can_carry(*ends) is (direct is not None)


def test_names_that_an_old_client_would_hand_to_a_shell_are_not_carried() -> None:
    old: Clients = dict.fromkeys(("ssh", "scp", "sftp"), (7, 4))
    assert "-s" not in DirectScp().client(Sending(old, TO, "/plain/path"))
    for path in ("/with space", "/$(touch injected)", "/line\nend"):
        with pytest.raises(NotCarriedError):
            DirectScp().client(Sending(old, TO, path))
    with pytest.raises(NotCarriedError):
        DirectSftp().files(Sending(old, TO, "/line\nend"))


async def test_a_part_that_stops_growing_is_given_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its first bytes came shortly before it stopped."""
    monkeypatch.setattr(direct_copy, "STALL_S", 2.0)
    (tmp_path / "part").write_bytes(b"some")
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    site = SimpleNamespace(spec=SiteSpec("a", slots=1), connection=connection)
    process = await (await connection.transport()).start("cat")
    began_s = time.monotonic()
    with pytest.raises(TransientError, match="nothing came for 2 s"):
        await direct_copy.wait_growing(
            process, RemoteEndpoint(0, cast(Any, site)), str(tmp_path / "part")
        )
    assert 2.0 <= time.monotonic() - began_s < 3.5
    await process.close()
    await connection.close()


def test_addresses_that_a_configuration_cannot_have() -> None:
    assert is_plain(TO)
    for wrong in ("-oProxyCommand=x", "b.org\nHost *", "", "a b"):
        assert not is_plain(TO._replace(host=wrong))
        assert not is_plain(TO._replace(user=wrong))
    assert seen_by_others(None, Access()) is None
    given = Access(user="me", direct_host="data.b.org", direct_port=2222)
    assert seen_by_others(None, given) == Address("data.b.org", 2222, "me", ())
    assert seen_by_others(TO, given) == Address("data.b.org", 2222, "me", TO.host_keys)


def test_the_script_leaves_nothing_and_ends_with_its_input(tmp_path: Path) -> None:
    """By a client that shows its surroundings, and waits for ever."""
    source = tmp_path / "it's $(touch injected)\n"
    source.write_text("content")
    show = "pwd; cat file known_hosts config >&2; pwd >&2; echo ready >&2; exec sleep 1000"
    script = sending_script(
        ["sh", "-c", show],
        str(source),
        TO._replace(port=2222),
        Access(direct="key", direct_key="~/.ssh/id_x"),
    )
    process = subprocess.Popen(
        ["sh", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line.strip())
        if line == "ready\n":
            break
    place = Path(said[-2])
    assert place.is_dir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert said[0] == "content[b.org]:2222 ssh-ed25519 AAAA"
    assert {"StrictHostKeyChecking yes", "IdentityFile ~/.ssh/id_x", "BatchMode yes"} <= set(said)
    assert f"UserKnownHostsFile {place}/known_hosts ~/.ssh/known_hosts" in said
    process.stdin.close()
    process.stdin = None
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143  # SIGTERM
    assert out == ""
    assert not place.exists()
    assert sorted(tmp_path.iterdir()) == [source]


def test_the_reason_is_not_what_a_client_says_once_ssh_has_ended() -> None:
    why = "ssh: connect to host b.org port 22: Connection refused"

    def reason(method: type[DirectMethod], last: str) -> str:
        return direct_copy.end_of(f"{why}\n{last}\n", 255, method.after_ssh)

    for method in (DirectScp, DirectSftp):
        assert reason(method, "scp: Connection closed") == why
        assert reason(method, "Connection closed") == why
        assert direct_copy.end_of("Connection closed\n", 255, method.after_ssh) != "exit code 255"
    closed = "rsync: connection unexpectedly closed (0 bytes received so far) [sender]"
    assert reason(DirectRsync, f"{closed}\nrsync error: unexplained error (code 255)") == why
    assert direct_copy.end_of(f"{why}\nclient: gave up\n", 1) == f"{why}; client: gave up"
    assert direct_copy.end_of(" \n", 3) == "exit code 3"


def test_clients_get_a_maximum_rate() -> None:
    clients = {"scp": (9, 2)}
    free, capped = Sending(clients, TO, "/p"), Sending(clients, TO, "/p", bytes_per_s=1_024_000.0)
    assert "--bwlimit=1000" in DirectRsync().client(capped)
    assert not any("bwlimit" in word for word in DirectRsync().client(free))
    for method in (DirectScp(), DirectSftp()):
        argv = list(method.client(capped))
        assert argv[argv.index("-l") + 1] == "8000"
        assert "-l" not in method.client(free)
