"""The run's directory at a site with other users: what they made or can replace is refused."""

from __future__ import annotations

import grp
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.sites.users import ALICE, CAN_BE_OTHERS, MALLORY, UserTransport, run_as, scratch
from wfrun.engine.errors import InfeasibleError
from wfrun.sites.remote import agent
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.files.directory import make_directory, put_programs
from wfrun.sites.remote.transports.openssh_transport import _private_directory

__all__ = ["scratch"]
NAME = "wfrun-r1-5ec2e7"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[AgentHost]:
    """The agent of Alice."""
    if not CAN_BE_OTHERS:
        pytest.skip("only root can become two users")
    transport = UserTransport(ALICE, Path("/"))
    agent = AgentHost(transport)
    await agent.start()
    yield agent
    await agent.close()
    await transport.close()


async def make(host: AgentHost, place: Path) -> str:
    return await make_directory(host, "alpha", str(place), NAME)


@pytest.mark.parametrize(
    "prepare",
    [
        "mkdir -m 777 $D",
        "mkdir -m 700 $D",
        "mkdir -m 777 $D.own && ln -s $D.own $D",
        "ln -s $S/alice $D",
        "ln -s $S/nowhere $D",
        "echo > $D",
        "mkfifo $D",
    ],
)
async def test_what_another_user_made_first_is_refused(
    host: AgentHost, scratch: Path, prepare: str
) -> None:
    assert run_as(MALLORY, f"S={scratch}; D=$S/{NAME}; {prepare}").returncode == 0
    with pytest.raises(InfeasibleError, match=rf"site alpha: .*{NAME}") as raised:
        await make(host, scratch)
    assert "directory of your own" in str(raised.value.hint)
    assert not run_as(MALLORY, f"ls {scratch}/{NAME}/bin").stdout


async def test_it_is_found_again_and_nobody_else_can_enter_it(
    host: AgentHost, scratch: Path
) -> None:
    directory = await make(host, scratch)
    assert await make(host, scratch) == directory
    await put_programs(host, directory, ["jobs/job.py"])
    assert stat.S_IMODE(os.lstat(directory).st_mode) == 0o700
    assert os.lstat(directory).st_uid == ALICE
    for attack in ("ls", "cat {}/bin/job.py", "touch {}/bin/job.py", "mv {} {}.old", "rmdir {}"):
        line = attack.replace("{}", directory) if "{}" in attack else f"{attack} {directory}"
        assert run_as(MALLORY, line).returncode != 0, line


async def test_an_own_directory_is_closed_or_refused(host: AgentHost, scratch: Path) -> None:
    run_as(ALICE, f"mkdir -m 755 {scratch}/{NAME}")
    assert stat.S_IMODE(os.lstat(await make(host, scratch)).st_mode) == 0o700
    run_as(ALICE, f"chmod 770 {scratch}/{NAME}")
    with pytest.raises(InfeasibleError, match="mode 0770"):
        await make(host, scratch)


@pytest.mark.parametrize(
    ("user", "make_parent"),
    [
        (MALLORY, "mkdir -m 755 $P"),
        (MALLORY, "mkdir -m 1777 $P"),
        (ALICE, "mkdir -m 777 $P"),
        (ALICE, "mkdir -m 775 $P"),  # whose group is not a private one
        (ALICE, "mkdir -m 777 $P.x && mkdir -m 755 $P.x/y && ln -s $P.x/y $P"),
        (MALLORY, "ln -s $S/alices $P"),
    ],
)
async def test_a_parent_in_which_others_can_rename_is_refused(
    host: AgentHost, scratch: Path, user: int, make_parent: str
) -> None:
    run_as(ALICE, f"mkdir -m 755 {scratch}/alices")
    prepared = run_as(user, f"S={scratch}; P=$S/parent; umask 0; {make_parent}")
    assert prepared.returncode == 0, prepared.stderr
    with pytest.raises(InfeasibleError, match="cannot be used"):
        await make(host, scratch / "parent")


@pytest.mark.parametrize(
    "make_parent",
    [
        "mkdir -m 755 $P",
        "mkdir -m 1777 $P",
        "ln -s $S/alice $P",
        "mkdir -m 777 alice/open && ln -s alice/open $P",  # below a directory of mode 0700
        "mkdir -m 755 $P.x && ln -s ./$P.x/../$P.x/ $P",
        "true",
    ],
)
async def test_own_and_shared_directories_can_be_used(
    host: AgentHost, scratch: Path, make_parent: str
) -> None:
    prepared = run_as(ALICE, f"cd {scratch}; S=.; P=parent; umask 0; {make_parent}")
    assert prepared.returncode == 0, prepared.stderr
    directory = await make(host, scratch / "parent")
    assert stat.S_IMODE(os.stat(f"{directory}/files").st_mode) == 0o700


async def test_a_group_of_one_user_is_that_user(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many systems give each user a group of the same name, which may write."""
    (scratch / "own").mkdir()
    (scratch / "own").chmod(0o775)
    path = os.fsencode(scratch / "own")
    agent.check_way(path)
    for group in (
        grp.struct_group(("root", "x", 0, ["root", "mallory"])),
        grp.struct_group(("staff", "x", 0, [])),
    ):
        monkeypatch.setattr(grp, "getgrgid", lambda _, group=group: group)
        with pytest.raises(agent.RefusedError):
            agent.check_way(path)
    monkeypatch.undo()
    os.chown(scratch / "own", 0, MALLORY)
    with pytest.raises(agent.RefusedError):
        agent.check_way(path)


async def test_links_in_a_circle_are_refused(host: AgentHost, scratch: Path) -> None:
    run_as(ALICE, f"ln -s {scratch}/b {scratch}/a; ln -s {scratch}/a {scratch}/b")
    with pytest.raises(InfeasibleError, match="cannot be used"):
        await make(host, scratch / "a")


@pytest.mark.parametrize("prepare", ["mkdir -m 777 $D", "ln -s $S $D", "mkdir -m 700 $D"])
async def test_sockets_are_not_put_where_another_user_waits(
    scratch: Path, prepare: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The directory in /tmp has a name that everybody knows."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("HOME", str(tmp_path))
    taken = scratch / f"wfrun-{os.getuid()}"
    assert run_as(MALLORY, f"S={scratch}; D={taken}; {prepare}").returncode == 0
    chosen = _private_directory(None)
    assert chosen == tmp_path / ".wfrun-ssh"
    assert stat.S_IMODE(chosen.lstat().st_mode) == 0o700
    with pytest.raises(InfeasibleError, match="directory of yours"):
        _private_directory(taken)


async def test_links_in_a_masters_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("mine")
    with pytest.raises(InfeasibleError, match="directory of yours"):
        _private_directory(tmp_path / "link")
