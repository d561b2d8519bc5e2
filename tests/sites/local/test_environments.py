"""What a site sets up for its tasks: variables, a prologue, containers."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tests.sites.local.images import make_root, podman_environment
from wfrun.engine.exchange import AttemptRequest, Outcome
from wfrun.engine.fitting.containers import Container, ContainerRuntime, SiteEnvironment
from wfrun.engine.model import SiteSpec
from wfrun.sites.local.site import LocalSite
from wfrun.testing.probe import Probe, request, shell
from wfrun.testing.sites import ODD_NAMES, wait_for_death

WAIT = 'echo $$ >"$1"; while :; do sleep 0.02; done'


class Place:
    """A local site, and the directory that its tests use."""

    def __init__(self, directory: Path, site: LocalSite, probe: Probe) -> None:
        self.directory = directory
        self.site = site
        self.probe = probe

    async def run(
        self, attempt: AttemptRequest, environment: SiteEnvironment | None, **changes: object
    ) -> Outcome:
        """Run an attempt in an environment to its end."""
        await self.site.submit([set_up(attempt, environment, **changes)])
        return await self.probe.ended(attempt.key)

    async def output(
        self, attempt: AttemptRequest, environment: SiteEnvironment | None, **changes: object
    ) -> str:
        """What an attempt prints. It must succeed."""
        outcome = await self.run(attempt, environment, **changes)
        assert outcome.cause == "done", outcome.message
        return (await self.site.log(attempt.key))[0].decode()


def set_up(
    attempt: AttemptRequest, environment: SiteEnvironment | None, **changes: object
) -> AttemptRequest:
    """The attempt in an environment, with changes of its resources."""
    resources = msgspec.structs.replace(attempt.resources, **changes)
    return msgspec.structs.replace(attempt, environment=environment, resources=resources)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Place]:
    site, probe = LocalSite(SiteSpec("here", 2), 0, directory / "site"), Probe()
    await site.open(probe.post)
    try:
        yield Place(directory, site, probe)
    finally:
        await site.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a login shell's profile."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


# Variables


async def test_tasks_get_no_other_variables_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEFT_OVER", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/odd")
    monkeypatch.setenv("LC_TIME", "C")
    async with opened(tmp_path) as place:
        printed = await place.output(request("envs-1", "env"), None)
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert {"LEFT_OVER", "LD_LIBRARY_PATH", "PYTEST_CURRENT_TEST"}.isdisjoint(names)
    assert {"PATH", "HOME", "LC_TIME", "OMP_NUM_THREADS", "WFRUN_ATTEMPT"} <= names


@pytest.mark.parametrize("prologue", [(), ("export PROLOGUE=3 SITE=3 DOCUMENT=3",)])
async def test_variables_of_the_document_come_last(
    prologue: tuple[str, ...], tmp_path: Path
) -> None:
    site = SiteEnvironment(prologue, {"SITE": "1", "DOCUMENT": "1", "OMP_NUM_THREADS": "7"})
    shown = "$SITE $PROLOGUE $DOCUMENT $OMP_NUM_THREADS"
    async with opened(tmp_path) as place:
        attempt = shell("envs-1", f"echo {shown}", env={"DOCUMENT": "2"})
        printed = await place.output(attempt, site)
    assert printed.split() == (["3", "3", "2", "7"] if prologue else ["1", "2", "7"])


# Prologues


async def test_a_prologue_stays_out_of_the_streams_of_its_task(tmp_path: Path, home: Path) -> None:
    (home / ".profile").write_text("echo from the profile; export FROM_PROFILE=1\n")
    site = SiteEnvironment(("echo from the prologue; cat", "cd /; umask 077"))
    async with opened(tmp_path) as place:
        (place.site.store_path("in")).write_text("input\n")
        attempt = shell(
            "envs-1",
            'cat; echo $FROM_PROFILE "$1"; umask; pwd',
            "an argument",
            inputs={"in": "in"},
            stdin="in",
        )
        printed = await place.output(attempt, site)
        errors = (await place.site.log("envs-1"))[1].decode()
        sandbox = str(place.directory / "site" / "attempts" / "envs-1")
    assert printed.splitlines() == ["input", "1 an argument", "0077", sandbox]
    assert errors.split("\n") == ["from the profile", "from the prologue", ""]


async def test_values_are_quoted(tmp_path: Path, home: Path) -> None:
    async with opened(tmp_path) as place:
        for number, text in enumerate(ODD_NAMES):
            site = SiteEnvironment(("true",), {"SITE": text})
            words = ('echo "$1:$SITE:$DOCUMENT"', text)
            attempt = shell(f"envs-{number}", *words, env={"DOCUMENT": text})
            assert await place.output(attempt, site) == f"{text}:{text}:{text}\n"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (("true", "module load gcc/99", "true"), "item 2 of the site's prologue failed"),
        (("exit 0",), "item 1 of the site's prologue failed (exit code 0): exit 0"),
        (("true", "if true"), "item 2 of the site's prologue failed"),
        (("kill -9 $$",), "item 1 of the site's prologue failed: kill -9 $$"),
    ],
)
async def test_a_prologue_that_fails_is_no_failure_of_the_task(
    items: tuple[str, ...], message: str, tmp_path: Path, home: Path
) -> None:
    ran = tmp_path / "ran"
    async with opened(tmp_path) as place:
        outcome = await place.run(request("envs-1", "touch", str(ran)), SiteEnvironment(items))
    assert outcome.cause == "environment"
    assert outcome.message is not None
    assert message in outcome.message
    assert not ran.exists()


async def test_a_profile_that_ends_the_shell(tmp_path: Path, home: Path) -> None:
    (home / ".profile").write_text("exit 0\n")
    async with opened(tmp_path) as place:
        outcome = await place.run(request("envs-1", "true"), SiteEnvironment(("true",)))
    assert outcome.cause == "environment"
    assert "the login shell ended before the prologue" in str(outcome.message)


async def test_a_program_is_looked_for_after_the_prologue(tmp_path: Path, home: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("echo the tool\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    site = SiteEnvironment((f"PATH={tmp_path}/bin:$PATH",))
    async with opened(tmp_path) as place:
        assert await place.output(request("envs-1", "tool"), site) == "the tool\n"
        outcome = await place.run(request("envs-2", "no-such-tool"), site)
    assert outcome.cause == "launch-failed"
    assert "no-such-tool" in str(outcome.message)


async def test_the_walltime_counts_in_a_prologue(tmp_path: Path, home: Path) -> None:
    async with opened(tmp_path) as place:
        attempt = request("envs-1", "true", walltime_s=0.5)
        outcome = await place.run(attempt, SiteEnvironment(("sleep 600",)))
    assert outcome.cause == "walltime"


# Containers by a command of the user's own


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A minimal root file system."""
    return make_root(tmp_path / "root")


@pytest.fixture
def chroot() -> ContainerRuntime:
    """A runtime that needs no package. It has its own mounts, and the sandbox in them."""
    if shutil.which("unshare") is None or os.getuid() != 0:
        pytest.skip("needs unshare, and the right to mount")
    script = (
        'mkdir -p "$1$2" "$1$3" && mount --bind "$2" "$1$2" && mount --bind "$3" "$1$3" && '
        'image=$1 && cd "$2" && shift 3 && exec chroot "$image" /bin/sh -c '
        '\'cd "$0" && exec "$@"\' "$PWD" "$@"'
    )
    words = ("unshare", "--mount", "sh", "-c", script, "sh", "{image}", "{sandbox}", "{files}")
    return ContainerRuntime("command", words)


async def test_a_task_runs_in_its_container(
    tmp_path: Path, root: Path, chroot: ContainerRuntime
) -> None:
    (root / "in-the-image").touch()
    site = SiteEnvironment((), {"SITE": "1"}, chroot)
    async with opened(tmp_path) as place:
        place.site.store_path("in").write_text("input\n")
        attempt = shell(
            "envs-1", "ls /in-the-image && cat in >out && echo $SITE $DOCUMENT",
            inputs={"in": "in"}, outputs={"out": "stored"}, env={"DOCUMENT": "2"},
        )  # fmt: skip
        assert await place.output(attempt, site, container=Container(str(root))) == (
            "/in-the-image\n1 2\n"
        )
        assert place.site.store_path("stored").read_text() == "input\n"
        failed = await place.run(shell("envs-2", "exit 3"), site, container=Container(str(root)))
    assert (failed.cause, failed.exit_code) == ("exit", 3)


async def test_what_runs_in_a_container_ends_with_its_attempt(
    tmp_path: Path, root: Path, chroot: ContainerRuntime
) -> None:
    site = SiteEnvironment(container=msgspec.structs.replace(chroot, image=str(root)))
    async with opened(tmp_path) as place:
        await place.site.submit([set_up(shell("envs-1", WAIT, "pid"), site)])
        inside = tmp_path / "site" / "attempts" / "envs-1" / "pid"
        await place.probe.started("envs-1")
        while not (inside.exists() and inside.read_text()):
            await place.probe.let_pass(0.02)
        pid = int(inside.read_text())
        await place.site.cancel(["envs-1"])
        assert (await place.probe.ended("envs-1")).cause == "cancelled"
        assert wait_for_death([pid])


async def test_an_image_of_the_site_is_for_tasks_without_one(
    tmp_path: Path, root: Path, chroot: ContainerRuntime
) -> None:
    (root / "in-the-image").touch()
    site = SiteEnvironment(container=msgspec.structs.replace(chroot, image=str(root)))
    async with opened(tmp_path) as place:
        assert await place.output(request("envs-1", "ls", "/in-the-image"), site)


async def test_a_container_is_never_left_out(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    async with opened(tmp_path) as place:
        attempt = request("envs-1", "touch", str(ran))
        outcome = await place.run(attempt, None, container=Container("docker://centos"))
    assert outcome.cause == "environment"
    assert not ran.exists()


async def test_an_image_that_was_changed_on_its_way(
    tmp_path: Path, root: Path, chroot: ContainerRuntime
) -> None:
    """It is found before the first use of an image at a site; later uses are quick."""
    command = ("sh", "-c", 'shift; exec "$@"', "sh", "{image}")
    site = SiteEnvironment(container=ContainerRuntime("command", command))
    checksum = hashlib.sha256(b"image").hexdigest()
    container = Container(".wfrun-image/1/a.sif", is_staged=True, sha256=checksum)
    async with opened(tmp_path) as place:
        image = place.site.store_path("0-1-a.sif")
        links = {".wfrun-image/1/a.sif": "0-1-a.sif"}
        image.write_text("other")
        outcome = await place.run(
            request("envs-1", "true", inputs=links), site, container=container
        )
        assert outcome.cause == "environment"
        assert "checksum" in str(outcome.message)
        image.write_text("image")
        for key in ("envs-2", "envs-3"):
            attempt = request(key, "cat", ".wfrun-script", inputs=links)
            printed = await place.output(attempt, site, container=container)
            assert ("sha256sum" in printed) == (key == "envs-2")


async def test_a_runtime_that_is_absent(tmp_path: Path) -> None:
    site = SiteEnvironment(container=ContainerRuntime("singularity"))
    async with opened(tmp_path) as place:
        container = Container("docker://centos")
        outcome = await place.run(request("envs-1", "true"), site, container=container)
    assert outcome.cause == "environment"
    assert "'singularity' is not in the PATH" in str(outcome.message)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for runtimes that are in no package of Debian; they print how they are called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("apptainer", "docker", "podman"):
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"; env\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


async def test_the_command_line_of_apptainer(tmp_path: Path, recorded: Path) -> None:
    """Source: apptainer-exec(1), version 1.3."""
    site = SiteEnvironment(
        (), {"SITE": "1"}, ContainerRuntime("apptainer", binds=("/a:/b",), options=("--nv",))
    )
    container = Container("docker://centos:8", mounts=("/c:/d:ro",))
    async with opened(tmp_path) as place:
        attempt = request("envs-1", "tool", "--flag", env={"TOKEN": "secret"})
        lines = (await place.output(attempt, site, container=container)).splitlines()
        sandbox = f"{place.directory}/site/attempts/envs-1"
        files = f"{place.directory}/site/files"
    assert lines[:17] == [
        "exec", "--cleanenv",
        "--bind", f"{sandbox}:{sandbox}", "--bind", f"{files}:{files}:ro",
        "--bind", "/a:/b", "--bind", "/c:/d:ro",
        "--pwd", sandbox, "--nv", "docker://centos:8", "tool", "--flag",
        lines[16],
    ]  # fmt: skip
    assert {"APPTAINERENV_TOKEN=secret", "APPTAINERENV_SITE=1"} <= set(lines[16:])
    assert not any("secret" in line for line in lines[:16])


@pytest.mark.parametrize(("name", "verb"), [("podman", "run"), ("apptainer", "exec")])
async def test_options_of_the_runtime_come_before_its_verb(
    name: Literal["podman", "apptainer"], verb: str, tmp_path: Path, recorded: Path
) -> None:
    options = ("--cgroup-manager", "a b")
    site = SiteEnvironment((), {}, ContainerRuntime(name, global_options=options))
    async with opened(tmp_path) as place:
        container = Container("docker://library/centos:8")
        lines = (await place.output(request("envs-1", "tool"), site, container=container)).split(
            "\n"
        )
    assert lines[:3] == [*options, verb]


async def test_the_command_line_of_docker(tmp_path: Path, recorded: Path) -> None:
    """Source: docker-run(1), version 24."""
    site = SiteEnvironment((), {}, ContainerRuntime("docker", options=("--network=none",)))
    container = Container("docker://library/centos:8")
    async with opened(tmp_path) as place:
        attempt = request("envs-1", "tool", "--flag", env={"TOKEN": "secret"})
        lines = (await place.output(attempt, site, container=container)).splitlines()
        sandbox = f"{place.directory}/site/attempts/envs-1"
    words = lines[: lines.index("--flag") + 1]
    assert words[:5] == ["run", "--rm", "--interactive", "--name", "wfrun-envs-1"]
    assert words[-4:] == ["--network=none", "library/centos:8", "tool", "--flag"]
    assert words[words.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert "no-new-privileges" in words
    assert words[words.index("--workdir") + 1] == sandbox
    assert "TOKEN" in words
    assert not any("secret" in word for word in words)


# podman


@pytest.fixture
def key() -> str:
    """The key of an attempt, which no container of this machine has."""
    return f"envs-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    """Variables for podman, and an image in an archive."""
    folder = tmp_path_factory.mktemp("podman")
    with podman_environment(folder) as variables:
        yield variables, folder / "image.tar"


@pytest.mark.slow
async def test_podman(podman: tuple[dict[str, str], Path], key: str, tmp_path: Path) -> None:
    variables, image = podman
    site = SiteEnvironment((), variables, ContainerRuntime("podman"))
    container = Container(str(image))
    async with opened(tmp_path) as place:
        place.site.store_path("in").write_text("input\n")
        attempt = shell(
            key, "ls /in-the-image && cat && cat in >out && echo $DOCUMENT",
            inputs={"in": "in"}, outputs={"out": "stored"}, stdin="in", env={"DOCUMENT": "a b"},
        )  # fmt: skip
        printed = await place.output(attempt, site, container=container)
        assert printed == "/in-the-image\ninput\na b\n"
        assert place.site.store_path("stored").stat().st_uid == os.getuid()
        failed = await place.run(shell(f"{key}-2", "exit 3"), site, container=container)
        assert (failed.cause, failed.exit_code) == ("exit", 3)
        absent = await place.run(request(f"{key}-3", "true"), site, container=Container("/no.tar"))
        assert absent.cause == "environment"
        assert "podman could not start its container" in str(absent.message)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cancel", "walltime", "kill"])
async def test_what_runs_in_podman_ends_with_its_attempt(
    way: str, podman: tuple[dict[str, str], Path], key: str, tmp_path: Path
) -> None:
    variables, image = podman
    site = SiteEnvironment((), variables, ContainerRuntime("podman"))
    async with opened(tmp_path) as place:
        walltime_s = None
        if way == "walltime":
            # Four times what it takes to start a container here. The first one loads the image.
            for number in range(2):
                begun_s = time.monotonic()
                again = request(f"{key}-{number}", "true")
                await place.run(again, site, container=Container(str(image)))
            walltime_s = min(40.0, 4 * (time.monotonic() - begun_s))
        attempt = shell(key, WAIT, "pid", walltime_s=walltime_s)
        await place.site.submit([set_up(attempt, site, container=Container(str(image)))])
        inside = tmp_path / "site" / "attempts" / key / "pid"
        await place.probe.started(key)
        while not (inside.exists() and inside.read_text()):
            await place.probe.let_pass(0.02)
        pids = in_containers(key)
        assert pids
        if way == "cancel":
            await place.site.cancel([key])
        elif way == "kill":
            for pid in clients(key):
                os.kill(pid, signal.SIGKILL)
        outcome = await place.probe.ended(key)
        expected = {"cancel": "cancelled", "walltime": "walltime", "kill": "exit"}
        assert outcome.cause == expected[way], outcome.message
        assert wait_for_death(pids)


def in_containers(key: str) -> list[int]:
    """Processes of the attempt that see other mounts."""
    own = os.readlink("/proc/self/ns/mnt")
    return [pid for pid, mounts, _ in _processes(key) if mounts != own]


def clients(key: str) -> list[int]:
    """The processes that have started the container of the attempt."""
    return [pid for pid, _, words in _processes(key) if words.startswith(b"podman\0run\0")]


def _processes(key: str) -> list[tuple[int, str, bytes]]:
    """The processes of an attempt, with their mount namespaces and command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if f"WFRUN_ATTEMPT={key}\0".encode() in (entry / "environ").read_bytes():
                mounts = os.readlink(entry / "ns" / "mnt")
                found.append((int(entry.name), mounts, (entry / "cmdline").read_bytes()))
        except OSError:  # it is no process, or has ended
            continue
    return found
