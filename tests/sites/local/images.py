"""Images of containers, made of what this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_COMMANDS = ("sh", "cat", "echo", "env", "ls", "mkdir", "sleep", "true", "touch", "uname")
_CONFIGURATION = """\
[containers]
cgroupns = "host"
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "{folder}/tmp"
[engine.runtimes]
runc = ["{folder}/runc"]
"""
"""For a machine without systemd, which may itself be a container."""
_RUNC = """#!/bin/sh
exec {runc} --root {folder}/containers "$@"
"""
"""Podman leaves the state of a container whose monitor was killed."""
_STORAGE = """\
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


def make_root(root: Path) -> Path:
    """Make a root file system with a shell and some commands. Skips the test without busybox."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox (Debian: busybox-static)")
    for name in ("bin", "dev", "etc", "proc", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in _COMMANDS:
        (root / "bin" / name).symlink_to("busybox")
    return root


@contextmanager
def podman_environment(folder: Path) -> Iterator[dict[str, str]]:
    """Make ``image.tar``, and give the variables that podman needs here, with storage of its own.
    Skips the test where podman is absent or cannot run."""
    runc = shutil.which("runc")
    if shutil.which("podman") is None or runc is None:
        pytest.skip("needs podman and runc")
    root = make_root(folder / "root")
    (root / "in-the-image").touch()
    (folder / "containers.conf").write_text(_CONFIGURATION.format(folder=folder))
    (folder / "runc").write_text(_RUNC.format(runc=runc, folder=folder))
    (folder / "runc").chmod(0o755)
    (folder / "storage.conf").write_text(_STORAGE.format(folder=folder))
    variables = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    script = (
        f"tar -C {root} -c . | podman import --change 'ENTRYPOINT /bin/false' - "
        "localhost/wfrun-test:1 && "
        f"podman save --output {folder}/image.tar localhost/wfrun-test:1 && "
        "podman run --rm --entrypoint '' localhost/wfrun-test:1 true"
    )
    try:
        done = _run(script, variables)
        if done.returncode != 0:
            pytest.skip(f"podman does not run here: {done.stderr[-300:]}")
        yield variables
    finally:
        _run("podman rm --force --all", variables)  # what a killed client has left


def _run(script: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
