"""Launchers in site catalogs: their defaults, and what each mistake gets."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.parsers.catalog.test_catalog import written
from tests.places import EXAMPLES
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import RunStarted, Settings
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.parsers.catalog.launcher_section import KEYS
from wfrun.sites.catalog import read_catalog

LAUNCHERS = """\
sites:
  alpha:
    kind: slurm
    host: alpha
    slots: 128
    memory: 64 GiB
    gpus: 4
    walltime: 24:00:00
    pin_cores: true
    dispatch: launchers
    launchers:
      cores: 16
      nodes: 2
      memory: 32 GiB
      gpus: 2
      min: 1
      max: 3
      backlog: 1
      idle_timeout: 5 min
      walltime: 8 h
      channels: [spool, tcp]
      address: 10.1.0.1
      patience: 20 min
"""


def site(tmp_path: Path, *lines: str, kind: str = "slurm", slots: int = 32) -> SiteSpec:
    """A site with launchers; the first of ``lines`` is the sixth of the catalog."""
    text = f"sites:\n  a:\n    kind: {kind}\n    host: h\n    slots: {slots}\n"
    text += "".join(f"    {line}\n" for line in lines)
    return read_catalog(written(tmp_path, text)).sites[0]


def launchers(spec: SiteSpec) -> LauncherSpec:
    assert spec.access is not None
    assert spec.access.launchers is not None
    return spec.access.launchers


def test_channels_are_encrypted_unless_the_catalog_says_so(tmp_path: Path) -> None:
    assert launchers(site(tmp_path, "dispatch: launchers", "launchers: {cores: 1}")).encrypt
    text = "launchers: {cores: 1, encrypt: false}"
    assert not launchers(site(tmp_path, "dispatch: launchers", text)).encrypt


def test_launchers_are_as_the_catalog_says(tmp_path: Path) -> None:
    (alpha,) = read_catalog(written(tmp_path, LAUNCHERS)).sites
    assert alpha.pin_cores
    assert alpha.access == Access(
        hosts=("alpha",),
        dispatch="launchers",
        launchers=LauncherSpec(
            cores=16,
            nodes=2,
            memory_bytes=32 << 30,
            gpus=2,
            min=1,
            max=3,
            backlog=1,
            idle_timeout_s=300.0,
            walltime_s=8 * 3600.0,
            channels=("spool", "tcp"),
            address="10.1.0.1",
            patience_s=1200.0,
        ),
    )
    event = RunStarted(0.0, "r", Settings(policy="heft"), (alpha,), (), 1)
    assert msgspec.json.decode(msgspec.json.encode(event), type=RunStarted) == event


def test_launchers_of_which_nothing_is_said_fit_the_site(tmp_path: Path) -> None:
    plain = launchers(site(tmp_path, "dispatch: launchers"))
    assert plain == LauncherSpec(cores=4, max=8, walltime_s=3600.0)
    small = site(tmp_path, "dispatch: launchers", "walltime: 30 min", slots=3)
    assert launchers(small) == LauncherSpec(cores=3, max=1, backlog=1, walltime_s=1800.0)
    few = launchers(site(tmp_path, "dispatch: launchers", "max_jobs: 5"))
    assert (few.max, few.backlog) == (5, 2)
    wide = launchers(site(tmp_path, "dispatch: launchers", "launchers: {nodes: 16}"))
    assert (wide.cores, wide.max) == (2, 1)
    one = launchers(site(tmp_path, "dispatch: launchers", "launchers: {channels: spool}"))
    assert one.channels == ("spool",)


@pytest.mark.parametrize("kind", ["slurm", "grid-engine", "pbs", "torque"])
def test_every_batch_system_can_have_them(tmp_path: Path, kind: str) -> None:
    spec = site(tmp_path, "dispatch: launchers", "pin_cores: true", kind=kind)
    assert spec.pin_cores
    assert launchers(spec).cores == 4


ON = "dispatch: launchers"
MISTAKES = {
    "not asked for": (["launchers: {max: 2}"], 6, ["a job of its own", "'dispatch: launchers'"]),
    "jobs instead": ([ON.replace("launchers", "jobs"), "launchers: {max: 2}"], 7, ["a job of"]),
    "nothing": ([ON, "launchers:"], 7, ["a mapping, not nothing"]),
    "a wrong key": ([ON, "launchers: {core: 2}"], 7, ["'launchers' of site a has no", "'cores'?"]),
    "seconds in the key": ([ON, "launchers: {idle_timeout_s: 2}"], 7, ["'idle_timeout'"]),
    "no cores": ([ON, "launchers: {cores: 0}"], 7, ["cores of the launchers of site a"]),
    "larger than the site": ([ON, "launchers:", "  cores: 33"], 8, ["33 cores", "32 slots"]),
    "more nodes than cores": ([ON, "launchers:", "  nodes: 33"], 8, ["33 nodes with 1 each"]),
    "together too large": (
        [ON, "launchers: {cores: 8, nodes: 8}"],
        7,
        ["64 cores (8 nodes with 8 each)", "32 slots"],
    ),
    "too many": ([ON, "launchers: {max: 9}"], 7, ["is 9", "slots for 8"]),
    "more than jobs": ([ON, "max_jobs: 2", "launchers: {max: 3}"], 8, ["max_jobs, 2"]),
    "min above max": ([ON, "launchers: {max: 2, min: 3}"], 7, ["min", "is 3, above max, 2"]),
    "no backlog": ([ON, "launchers: {backlog: 0}"], 7, ["backlog", "above 0"]),
    "longer than granted": (
        [ON, "walltime: 1 h", "launchers: {walltime: 2 h}"],
        8,
        ["is 7200 s", "grants 3600 s"],
    ),
    "no duration": ([ON, "launchers: {idle_timeout: 1:30}"], 7, ["idle_timeout", "HH:MM:SS"]),
    "more memory": ([ON, "memory: 1 GiB", "launchers: {memory: 2 GiB}"], 8, ["on a node"]),
    "more GPUs": ([ON, "launchers: {gpus: 1}"], 7, ["site a is 1,", "has 0 on a node"]),
    "an unknown channel": ([ON, "launchers: {channels: udp}"], 7, ["'udp'", "tcp, ssh or spool"]),
    "a channel twice": ([ON, "launchers: {channels: [tcp, tcp]}"], 7, ["'tcp' is listed twice"]),
    "no channel": ([ON, "launchers: {channels: []}"], 7, ["list is empty", "[tcp, spool]"]),
    "a port": ([ON, "launchers: {address: 'head:99'}"], 7, ["is not an address", "without"]),
    "nothing to connect": (
        [ON, "launchers: {channels: spool, address: head}"],
        7,
        ["files alone", "'address'"],
    ),
}


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [pytest.param(*case, id=name) for name, case in MISTAKES.items()],
)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, lines: list[str], line: int, words: list[str]
) -> None:
    with pytest.raises(InvalidError) as caught:
        site(tmp_path, *lines)
    message = str(caught.value)
    assert f".yaml:{line}: " in message
    for word in words:
        assert word in message


def test_sites_without_a_batch_system_have_none(tmp_path: Path) -> None:
    for key in ("dispatch: launchers", "launchers: {cores: 2}"):
        with pytest.raises(InvalidError, match="kind ssh, which has no"):
            site(tmp_path, key, kind="ssh")


def test_the_example_can_be_read() -> None:
    alpha, beta, gamma = read_catalog(EXAMPLES / "launchers.yaml").sites
    assert (launchers(alpha).max, launchers(beta).max, launchers(gamma).max) == (4, 2, 2)


def test_every_key_is_documented() -> None:
    page = (EXAMPLES.parent / "docs" / "launchers.md").read_text()
    for key in KEYS:
        assert f"| `{key}` |" in page
