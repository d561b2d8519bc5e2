"""What `wfrun sites init` writes, without a host: choices, names, mistakes of the user."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.runners.harness import WFRUN
from tests.sites.batch.recordings import GRID_ENGINE, SLURM, recorded
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.entry import cluster_entry, quoted, size, walltime
from wfrun.runners.admin.init import name_of
from wfrun.runners.admin.limits import cluster_mismatches
from wfrun.runners.admin.survey import StoragePlace, System, choose_place, place_of
from wfrun.sites.batch.offers import BatchQueue, Offer
from wfrun.sites.batch.slurm import offer as slurm_offer
from wfrun.sites.catalog import read_catalog

GIB = 1 << 30
HOME = StoragePlace("~", "/home/ann", "ext4", "/dev/sda1", 9 * GIB)
LOCAL = StoragePlace("/scratch/$USER", "/scratch/ann", "xfs", "/dev/sdb1", 900 * GIB)
SHARED = StoragePlace("$WORK", "/work/ann", "lustre", "10.0.0.1@tcp:/work", 5000 * GIB)


def sites(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [WFRUN, "sites", *arguments], cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def entry(places: list[StoragePlace], offer: Offer, kind: str = "slurm", **access: str) -> str:
    return cluster_entry(
        "alpha",
        msgspec.convert({"hosts": ("login.alpha.org",), **access}, Access),
        System(kind, "Slurm 22.05.8"),
        offer,
        places,
        base=Path("/home/me"),
        taken=frozenset(),
    )


def read(text: str, folder: Path) -> SiteSpec:
    path = folder / "sites.yaml"
    path.write_text(f"sites:\n{text}")
    return read_catalog(path).sites[0]


def test_an_entry_says_what_was_chosen_and_what_else_there_is(tmp_path: Path) -> None:
    offer = slurm_offer.read_offer(
        recorded(SLURM, "sinfo-busy").output, recorded(SLURM, "config").output, ""
    )
    text = entry([LOCAL, SHARED, HOME], offer, ssh_config="/home/me/my config", user="ann")
    spec = read(text, tmp_path)
    assert spec.access is not None
    assert (spec.kind, spec.slots, spec.memory_bytes) == ("slurm", 12, 4 * GIB)
    assert (spec.walltime_s, spec.directory) == (86400, "$WORK/wfrun-scratch")
    assert spec.node_cores == 4
    assert (spec.access.queue, spec.access.max_array, spec.access.max_jobs) == ("main", 1000, 100)
    assert (spec.access.hosts, spec.access.user) == (("login.alpha.org",), "ann")
    assert spec.access.ssh_config == str(tmp_path / "my config")
    for words in ("short", "/scratch/ann/wfrun-scratch", "do the nodes see it?", "4 more are out"):
        assert words in text


def test_tasks_run_in_launchers_of_a_whole_node(tmp_path: Path) -> None:
    offer = slurm_offer.read_offer(
        recorded(SLURM, "sinfo-busy").output, recorded(SLURM, "config").output, ""
    )
    text = entry([HOME], offer)
    assert "    # are wider or longer than a launcher.\n    dispatch: launchers\n" in text
    access = read(text, tmp_path).access
    assert access is not None
    assert access.dispatch == "launchers"
    assert access.launchers == LauncherSpec(
        cores=4, max=3, memory_bytes=4 * GIB, walltime_s=4 * 3600
    )


def test_the_entry_of_a_slurm_without_anything_special_is_short(tmp_path: Path) -> None:
    offer = Offer((BatchQueue("on", is_default=True, cores=4),))  # a name that YAML takes for true
    spec = read(entry([HOME], offer), tmp_path)
    assert spec.access is not None
    assert (spec.access.queue, spec.walltime_s, spec.memory_bytes) == ("on", None, 0)


def test_a_place_that_the_nodes_may_not_see_is_not_chosen() -> None:
    assert choose_place([LOCAL, HOME], nodes_see_it=True) is HOME
    assert choose_place([LOCAL, HOME], nodes_see_it=False) is LOCAL
    assert choose_place([SHARED, HOME], nodes_see_it=True) is SHARED
    beside = msgspec.structs.replace(LOCAL, device=HOME.device)
    assert choose_place([beside, HOME], nodes_see_it=True) is beside
    assert choose_place([LOCAL], nodes_see_it=True) is None


@pytest.mark.parametrize(
    ("line", "file_system", "free", "shared"),
    [
        ("/dev/vda ext4 103081248 17431420 80367564 18% /", "ext4", 80367564, False),
        ("fs:/home nfs4 100 60 40 60% /home", "nfs4", 40, True),
        ("10.0.0.1@tcp:/work lustre 9 4 5 45% /work", "lustre", 5, True),
        ("nas.uni.nl:/vol 100 60 40 60% /home", "", 40, True),
        ("/dev/vda 100 120 -20 120% /", "", 0, False),
        ("map auto.home autofs 0 0 0 - /home", "autofs", 0, False),
        ("df: unknown", "", 0, False),
    ],
)
def test_what_df_prints(line: str, file_system: str, free: int, shared: bool) -> None:
    place = place_of("~", "/home/ann", line)
    assert (place.file_system, place.free_bytes) == (file_system, free * 1024)
    assert place.is_shared == shared


def test_a_directory_that_another_site_has_is_not_taken_twice() -> None:
    offer = Offer((BatchQueue("main", cores=4),))
    text = cluster_entry(
        "second", Access(hosts=("a",)), System("slurm", "Slurm"), offer, [HOME],
        base=Path("/"), taken=frozenset({"~/wfrun-scratch"}),
    )  # fmt: skip
    assert "directory: ~/wfrun-scratch-second" in text


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("alpha", "alpha"),
        ("login.alpha.org", "alpha"),
        ("login-2.alpha.uni.nl", "alpha"),
        ("fs0.das5.cs.vu.nl", "das5"),
        ("snellius.surf.nl", "snellius"),
        ("10.0.0.1", "cluster"),
        ("my_host", "my-host"),
        ("origin", "cluster"),
    ],
)
def test_a_site_is_named_after_its_host(host: str, name: str) -> None:
    assert name_of(host) == name


def test_what_is_written_is_read_again() -> None:
    assert [quoted(text) for text in ("main", "no", "12", "a: b", "~/x")] == [
        "main", '"no"', '"12"', '"a: b"', "~/x",
    ]  # fmt: skip
    assert [size(3 * GIB), size(3 * GIB + (5 << 20))] == ["3 GiB", "3077 MiB"]
    assert [walltime(90), walltime(90061)] == ["00:01:30", "1-01:01:01"]


# -- limits


def spec(**changes: object) -> SiteSpec:
    access = Access(hosts=("a",), queue=str(changes.pop("queue", "main")))
    plain = SiteSpec("alpha", slots=4, kind=str(changes.pop("kind", "slurm")), access=access)
    return msgspec.structs.replace(plain, **changes)


MAIN = BatchQueue(
    "main", cores=16, node_cores=4, node_memory_bytes=4 * GIB, node_gpus=0, walltime_s=3600
)


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (spec(queue="mian"), "there is no queue mian"),
        (spec(slots=17), "slots: the catalog says 17, the limit is 16 in main"),
        (spec(walltime_s=3601), "walltime: the catalog says 01:00:01, the limit is 01:00:00"),
        (spec(memory_bytes=5 * GIB), "memory: the catalog says 5 GiB"),
        (spec(node_cores=5), "node_cores: the catalog says 5, the limit is 4 on a node of main"),
        (spec(gpus=1), "gpus: the catalog says 1, the limit is 0"),
    ],
)
def test_limits_that_a_cluster_does_not_have(site: SiteSpec, words: str) -> None:
    ((text, hint),) = cluster_mismatches(site, Offer((MAIN,)))
    assert text.startswith(words)
    assert hint


@pytest.mark.parametrize(
    ("launchers", "words"),
    [
        (LauncherSpec(cores=5), "launchers: cores: the catalog says 5, the limit is 4 on a node"),
        (LauncherSpec(cores=1, memory_bytes=5 * GIB), "launchers: memory: the catalog says 5 GiB"),
        (LauncherSpec(cores=1, walltime_s=7200), "launchers: walltime: the catalog says 02:00:00"),
    ],
)
def test_launchers_that_fit_on_no_node(launchers: LauncherSpec, words: str) -> None:
    access = Access(hosts=("a",), queue="main", dispatch="launchers", launchers=launchers)
    ((text, _),) = cluster_mismatches(
        msgspec.structs.replace(spec(), access=access), Offer((MAIN,))
    )
    assert text.startswith(words)


def test_limits_that_a_cluster_has() -> None:
    right = spec(slots=16, walltime_s=3600, memory_bytes=4 * GIB, node_cores=4)
    assert cluster_mismatches(right, Offer((MAIN,))) == []
    closed = msgspec.structs.replace(MAIN, is_open=False)
    assert cluster_mismatches(right, Offer((closed,)))[0][0] == "queue main is closed"
    away = msgspec.structs.replace(MAIN, down_cores=16)
    assert "in service" in cluster_mismatches(right, Offer((away,)))[0][0]


def test_what_a_grid_engine_does_not_know() -> None:
    assert recorded(GRID_ENGINE, "environments").exit_code == 0
    settings = {"parallel_environment": "mpi", "memory_resource": "mem"}
    access = Access(hosts=("a",), queue="main", batch_settings=settings)
    site = msgspec.structs.replace(spec(kind="grid-engine"), access=access)
    choices = {"parallel_environment": (), "memory_resource": ("h_vmem",)}
    queue = msgspec.structs.replace(MAIN, choices=choices)
    (environment, none), (resource, other) = cluster_mismatches(site, Offer((queue,)))
    assert environment.startswith("parallel_environment: queue main has no usable mpi")
    assert none.endswith("available: none.")
    assert resource.startswith("memory_resource: queue main has no usable mem")
    assert other.endswith("available: h_vmem.")
    # What the cluster does not show is not judged.
    assert cluster_mismatches(site, Offer((MAIN,))) == []


def test_without_a_default_queue() -> None:
    access = Access(hosts=("a",))
    site = msgspec.structs.replace(spec(), access=access)
    (wrong,) = cluster_mismatches(site, Offer((MAIN,)))
    assert wrong.text == "there is no default queue"
    assert cluster_mismatches(site, Offer((MAIN,), picks_queue=True)) == []


# -- the command


@pytest.mark.slow
def test_mistakes_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text("sites:\n  # mine\n  alpha: {slots: 2}\n")
    (tmp_path / "more.yaml").write_text("sites:\n  beta: {slots: 2}\n")
    twice = sites(tmp_path, "init", "login.alpha.org")
    assert (twice.returncode, twice.stdout) == (2, "")
    assert "sites.yaml:3: the catalog already has a site alpha" in twice.stderr
    assert "--name alpha-2" in twice.stderr
    for arguments, words in (
        (["init"], "no host is given"),
        (["init", "beta", "--sites", "more.yaml"], "more.yaml:2: the catalog already has a site"),
        (["init", "beta", "--file", "more.yaml"], "already has a site beta"),  # the old name
        (["check", "alhpa"], "Did you mean 'alpha'?"),
        (["show", "--sites", "none.yaml"], "`wfrun sites init HOST` creates one"),
    ):
        found = sites(tmp_path, *arguments)
        assert found.returncode == 2
        assert words in found.stderr


@pytest.mark.slow
def test_a_host_that_is_not_there_leaves_the_catalog_alone(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host gone\n  HostName 127.0.0.1\n  Port 1\n")
    found = sites(tmp_path, "init", "gone", "--ssh-config", "config")
    assert found.returncode == 3
    assert "gone cannot be reached" in found.stderr
    assert f"`ssh -F {tmp_path}/config gone` shows more" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


@pytest.mark.slow
def test_local_sites_are_checked_and_shown(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(
        "sites:\n  here: {slots: 1}\n  there: {slots: 9999, directory: there}\n"
        "  file: {slots: 1, directory: sites.yaml/x}\n"
    )
    found = sites(tmp_path, "check", "--json")
    assert found.returncode == 1
    by_name = {site["site"]: site for site in json.loads(found.stdout)}
    assert [by_name[name]["state"] for name in ("here", "there", "file")] == ["ok", "ok", "failed"]
    assert [check["check"] for check in by_name["here"]["checks"]] == [
        "limits", "directory", "test job",
    ]  # fmt: skip
    assert by_name["there"]["checks"][0]["state"] == "note"
    failure = by_name["file"]["checks"][-1]
    assert (failure["state"], failure["check"]) == ("failed", "directory")
    assert "another 'directory'" in failure["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["sites.yaml"]
    shown = sites(tmp_path, "show", "here")
    assert shown.returncode == 0
    assert "here" in shown.stdout


@pytest.mark.slow
def test_environments_are_checked_on_the_node(tmp_path: Path) -> None:
    """The prologue is run, and the container runtime is looked for after it."""
    (tmp_path / "bin").mkdir()
    runtime = tmp_path / "bin" / "apptainer"
    runtime.write_text("#!/bin/sh\necho apptainer version 1.3.4 $1\n")
    runtime.chmod(0o755)
    (tmp_path / "sites.yaml").write_text(
        "sites:\n"
        f"  loaded: {{slots: 1, prologue: 'PATH={tmp_path}/bin:$PATH', container: apptainer}}\n"
        "  absent: {slots: 1, container: apptainer}\n"
        "  failing: {slots: 1, prologue: module load gcc/99}\n"
    )
    found = json.loads(sites(tmp_path, "check", "--json").stdout)
    last = {site["site"]: site["checks"][-1] for site in found}
    loaded, absent, failing = (last[name] for name in ("loaded", "absent", "failing"))
    assert (loaded["check"], loaded["state"]) == ("container", "ok")
    assert loaded["text"] == "apptainer version 1.3.4 --version"
    assert (absent["check"], absent["state"]) == ("container", "failed")
    assert "'prologue'" in absent["hint"]
    assert (failing["check"], failing["state"]) == ("test job", "failed")
    assert "environment: item 1 of the site's prologue failed" in failing["text"]


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028", "\n"])
def test_a_host_cannot_write_lines_of_the_catalog(tmp_path: Path, end: str) -> None:
    """YAML has more line ends than a reader may think of; a further key could make the site run its
    commands on this machine."""
    path = f"/scratch/x{end}    transport: local{end}    # "
    evil = StoragePlace("/scratch/$USER", path, "nfs", "server:/scratch", GIB)
    name = f"q{end}    transport: local{end}    #"
    queue = BatchQueue("q", cores=4, node_cores=4, node_memory_bytes=GIB, walltime_s=60.0)
    other = msgspec.structs.replace(queue, name=f"{name}2", cores=2)
    offer = Offer((queue, other), max_jobs=5, max_jobs_why=f"why{end}    transport: local")
    text = entry([SHARED, evil], offer)
    assert len(text.splitlines()) == len(text.split("\n")) - 1
    spec = read(text, tmp_path)
    assert spec.access is not None
    assert spec.access.transport == "asyncssh"
    with pytest.raises(InvalidError, match="control characters"):  # the catalog refuses values
        read(entry([evil, HOME], offer), tmp_path)
