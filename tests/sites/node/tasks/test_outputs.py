"""What is committed is self-contained: links that lead out of an output are replaced or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wfrun.sites.node.tasks.outputs import commit
from wfrun.sites.node.tasks.store import AttemptError


class Task:
    """A sandbox and a store at a site, and a file of the user's outside of both."""

    def __init__(self, place: Path) -> None:
        self.sandbox = place / "site" / "attempts" / "k"
        self.store = place / "site" / "files"
        self.secret = place / "home" / "secret"
        for path in (self.sandbox / "d" / "sub", self.store, self.secret.parent):
            path.mkdir(parents=True)
        self.secret.write_text("mine")
        self.stored = self.store / "0-d"

    def commit(self, name: str = "d") -> None:
        outputs = [{"name": name, "stored": "0-d", "optional": False}]
        commit({"outputs": outputs}, str(self.sandbox), str(self.store), {})


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def links_in(directory: Path) -> dict[str, str]:
    """All symbolic links of a directory, by their names in it."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(directory))] = os.readlink(path)
    return found


def test_links_within_an_output_are_kept(task: Task) -> None:
    kept = {"sub/up": "..", "sub/a": "../file", "lib64": "sub", "lock": "host:17", "x": "./sub/a"}
    (task.sandbox / "d" / "file").write_text("here")
    for name, target in kept.items():
        (task.sandbox / "d" / name).symlink_to(target)
    task.commit()
    assert links_in(task.stored) == kept
    assert (task.stored / "x").read_text() == "here"


@pytest.mark.parametrize("name", ["absolute", "sub/relative", "sub/through", "sub/renamed"])
def test_a_file_outside_is_copied(name: str, task: Task) -> None:
    directory = task.sandbox / "d"
    (directory / "sub" / "up").symlink_to("..")
    (task.sandbox / "input").write_text("mine")
    targets = {
        "absolute": str(task.secret),
        "sub/relative": "../../input",
        "sub/through": "up/../input",  # stays in by its text alone
        "sub/renamed": "../../d/sub/up/../input",  # comes back, while the directory has its name
    }
    (directory / name).symlink_to(targets[name])
    task.commit()
    assert links_in(task.stored) == {"sub/up": ".."}
    assert (task.stored / name).read_text() == "mine"
    assert task.secret.stat().st_mode & 0o222
    assert task.secret.stat().st_nlink == 1


@pytest.mark.parametrize(
    "target", ["../..", "/etc", "../gone", "/proc/self/fd", "loop", "/dev/zero"]
)
def test_what_cannot_be_copied_is_refused(target: str, task: Task) -> None:
    (task.sandbox / "d" / "loop").symlink_to(target)
    with pytest.raises(AttemptError) as caught:
        task.commit()
    assert caught.value.cause == "output"
    assert "'loop'" in caught.value.message
    assert not task.stored.exists()


@pytest.mark.parametrize("target", ["..", "."])
def test_an_output_is_not_a_link_to_what_it_is_in(target: str, task: Task) -> None:
    (task.sandbox / "all").symlink_to(target)
    with pytest.raises(AttemptError):
        task.commit("all")


def test_an_output_behind_a_link_stays_with_its_owner(task: Task) -> None:
    (task.sandbox / "out").symlink_to(task.secret.parent)
    task.commit("out/secret")
    assert task.stored.read_text() == task.secret.read_text() == "mine"
    assert task.secret.stat().st_mode & 0o222


def test_a_directory_that_is_a_link_is_copied_without_links_out(task: Task) -> None:
    (task.secret.parent / "sub").mkdir()
    (task.secret.parent / "sub" / "in").symlink_to("../secret")
    (task.secret.parent / "sub" / "out").symlink_to("/etc/hostname")
    (task.sandbox / "e").symlink_to(task.secret.parent)
    task.commit("e")
    assert links_in(task.stored) == {"sub/in": "../secret"}
    assert (task.stored / "sub" / "out").read_text() == Path("/etc/hostname").read_text()
    assert not (task.stored / "secret").samefile(task.secret)
