"""A site that cannot be reached, or that does not have what the catalog says, ends a new run before
anything is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, assert_refused, wait_until
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

CATALOG = """\
sites:
  here:
    slots: 1
  away:
    kind: ssh
    slots: 1
    host: 127.0.0.1
    port: {port}
"""


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def catalog(user: User) -> Path:
    return user.catalog(CATALOG.format(port=closed_port()))


def test_a_host_that_refuses_ends_the_run_at_once(user: User, catalog: Path) -> None:
    document = user.write([Job("a", f"touch {user.folder}/begun")])
    done = user.wfrun(document, "--sites", catalog, "--run-dir", user.folder / "run")
    assert_refused(done, 3, [f"{catalog}:4: site away", "Connection refused", "--wait"])
    assert not (user.folder / "begun").exists()
    assert not (user.folder / "run").exists()


def test_with_wait_the_others_work_meanwhile(user: User, catalog: Path) -> None:
    document = user.write([Job("a", "true")])
    run = user.folder / "run"
    done = user.wfrun(document, "--sites", catalog, "--run-dir", run, "--wait")
    assert done.status == 0, done.text
    assert "Connection refused" in (read_state(RunDir(run)).sites[1].reported or "")
    assert "not removed" not in done.text  # there never were files of the run


@pytest.mark.slow
def test_a_resumed_run_is_patient(user: User, catalog: Path) -> None:
    """Its sites have worked before, so they may come back."""
    begun, go = user.folder / "begun", user.folder / "go"
    script = f"touch {begun}; until test -e {go}; do sleep 0.1; done"
    run = user.folder / "run"
    engine = user.start(
        user.write([Job("a", script)]), "--sites", catalog, "--run-dir", run, "--wait"
    )
    assert wait_until(begun.exists), engine.told
    engine.kill()
    go.touch()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text


def test_all_unusable_sites_are_named_together(user: User) -> None:
    catalog = user.catalog(
        CATALOG.format(port=closed_port()).replace(
            "slots: 1\n  away", "slots: 1\n    directory: /proc/x\n  away"
        )
    )
    document = user.write([Job("a", "true")])
    done = user.wfrun(document, "--sites", catalog, "--run-dir", user.folder / "run")
    assert_refused(
        done, 3, ["2 sites cannot be used", f"{catalog}:2: site here", f"{catalog}:5: site away"]
    )
