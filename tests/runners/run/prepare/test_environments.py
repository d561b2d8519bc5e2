"""Runs whose documents declare containers, and whose sites set up environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import User
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.sites.catalog import read_catalog

SITES = """\
sites:
  plain: {slots: 1}
  boxes:
    slots: 2
    container: {command: "sh -c 'echo in $0 >>%s; exec \\"$@\\"' {image}"}
"""
BAG = """\
command: sh -c 'echo {n} >out-{n}; cat .wfrun-image/1/root.sif'
parameters: {n: [1, 2, 3]}
outputs: ["out-{n}"]
container: images/root.sif
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    somebody = User(tmp_path)
    yield somebody
    somebody.close()


def document(user: User, text: str) -> str:
    (user.folder / "images").mkdir(exist_ok=True)
    (user.folder / "images" / "root.sif").write_text("an image\n")
    (user.folder / "bag.yaml").write_text(text)
    return "bag.yaml"


def test_a_container_that_no_site_runs_stops_the_run(user: User) -> None:
    done = user.wfrun("run", document(user, "command: touch ran\ncontainer: centos\n"))
    assert done.status == 2
    assert "bag.yaml:2: task 'touch-0' fits no site" in done.err
    assert "local: it runs no containers" in done.err
    assert not list(user.folder.glob("wfrun-runs/*"))


def test_an_image_is_copied_once_to_the_sites_that_run_it(user: User) -> None:
    used = user.folder / "used"
    user.catalog(SITES % used)
    done = user.wfrun(
        "run", document(user, BAG), "--sites", "sites.yaml", "--run-dir", "run", "--keep", "all"
    )
    assert done.status == 0, done.err
    assert "site plain gets no task in the container root.sif" in done.err
    state = read_state(RunDir(user.folder / "run"))
    assert [site.done for site in state.sites] == [0, 3]
    assert [site.transfers_in for site in state.sites] == [0, 1]
    (stored,) = (user.folder / "run" / "sites" / "boxes" / "files").glob("*root.sif")
    assert stored.read_text() == "an image\n"
    assert len(used.read_text().splitlines()) == 3
    assert {path.name for path in (user.folder / "run" / "outputs").iterdir()} == {
        "out-1", "out-2", "out-3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ("images/other.sif", "the container image 'images/other.sif' is missing"),
        (f"{{image: images/root.sif, sha256: '{'0' * 64}'}}", "has the SHA-256 checksum"),
    ],
)
def test_an_image_that_is_not_there(container: str, message: str, user: User) -> None:
    catalog = read_catalog(user.catalog(SITES % "/dev/null"))
    text = BAG.replace("images/root.sif\n", f"{container}\n")
    bag = user.folder / document(user, text)
    with pytest.raises(InvalidError) as caught:
        prepare([bag], catalog, Settings("file-aware"))
    assert "bag.yaml:4: " in str(caught.value)
    assert message in str(caught.value)


def test_emulated_tasks_have_no_container(user: User) -> None:
    user.catalog("sites:\n  a: {slots: 1, prologue: exit 1}\n")
    text = "command: tool\nestimate: 0.1\ncontainer: centos\n"
    done = user.wfrun("run", document(user, text), "--sites", "sites.yaml", "--emulate")
    assert done.status == 0, done.err
    assert user.wfrun("simulate", "bag.yaml", "--sites", "sites.yaml").status == 0


def test_a_prologue_that_never_works_ends_the_run(user: User) -> None:
    user.catalog("sites:\n  a: {slots: 1, prologue: module load gcc/99}\n")
    document(user, "command: 'true'\n")
    words = ("run", "bag.yaml", "--sites", "sites.yaml", "--retry-delay", "0")
    done = user.wfrun(*words)
    assert done.status == 3
    assert "no site is left that could run the rest: a: it is given up" in done.out + done.err
    assert "item 1 of the site's prologue failed (exit code 127): module load gcc/99" in done.out


def test_a_task_in_another_container_is_not_reused(user: User) -> None:
    user.catalog(SITES % "/dev/null")
    document(user, BAG)
    words = ("run", "bag.yaml", "--sites", "sites.yaml", "--keep", "all", "--reuse", "auto")
    assert user.wfrun(*words).status == 0
    assert "0 of 3" in user.wfrun(*words, "--dry-run").out
    (user.folder / "images" / "root.sif").write_text("another image\n")
    assert "would run 3 of 3 tasks" in user.wfrun(*words, "--dry-run").out
