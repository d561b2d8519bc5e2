"""The check that keeps writes in their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.model import ORIGIN, SiteSpec
from wfrun.sites.contained import contained
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter


@pytest.mark.parametrize("name", ["f", "a/b/c", "..f", "a/../f", "./f", "f/.", "a//b", "f\nx"])
def test_names_inside_are_kept(tmp_path: Path, name: str) -> None:
    path = contained(tmp_path / "outputs", name)
    assert path.is_relative_to(tmp_path / "outputs")
    assert ".." not in path.parts
    assert contained(tmp_path / "outputs", str(path)) == path


@pytest.mark.parametrize(
    "name",
    ["", ".", "/", "..", "../outputs", "../outputs2/f", "a/../../f", "/etc/passwd", "f\0", "//f"],
)
def test_names_that_leave_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InfeasibleError, match="leads out of"):
        contained(tmp_path / "outputs", name)


@pytest.mark.parametrize("name", ["link", "link/f", "d/link/e/f"])
def test_links_inside_are_refused(tmp_path: Path, name: str) -> None:
    outputs, victim = tmp_path / "outputs", tmp_path / "victim"
    (outputs / "d").mkdir(parents=True)
    victim.mkdir()
    (outputs / "link").symlink_to(victim)
    (outputs / "d" / "link").symlink_to("/nowhere")
    with pytest.raises(InfeasibleError, match="symbolic link"):
        contained(outputs, name)


def test_links_above_the_folder_are_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "outputs").symlink_to("large disk")
    assert contained(tmp_path / "outputs", "f") == tmp_path / "outputs" / "f"


@pytest.mark.parametrize("method", [LocalCopy, Stream])
@pytest.mark.parametrize("size", [1, 2_000_000])
async def test_no_transfer_writes_beside_the_outputs(
    tmp_path: Path, method: type[LocalCopy | Stream], size: int
) -> None:
    store, victim = tmp_path / "store", tmp_path / "victim"
    (tmp_path / "outputs").mkdir()
    store.mkdir()
    victim.mkdir()
    (store / "f").write_bytes(bytes(size))
    (store / "tree").mkdir()
    (store / "tree" / "f").write_bytes(b"x")
    (tmp_path / "outputs" / "link").symlink_to(victim)
    endpoints = [LocalEndpoint(0, SiteSpec("a", slots=1), store)]
    transfer = TransferRouter(endpoints, {"": method()}, tmp_path / "outputs")
    for source in ("f", "tree"):
        for target in ("outputs/../victim/f", "victim/f", "outputs", "outputs/link/f"):
            with pytest.raises(InfeasibleError):
                await transfer.copy(0, source, ORIGIN, f"{tmp_path}/{target}")
    assert list(victim.iterdir()) == []
    await transfer.copy(0, "f", ORIGIN, f"{tmp_path}/outputs/d/f")
    transfer.close()
    assert (tmp_path / "outputs" / "d" / "f").stat().st_size == size
