"""The run's directory at a site: no job shows its name, and runs of older versions keep theirs."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

import wfrun
from tests.engine.core.old_logs import KINDS, read
from tests.runners.harness import Job, make_workflow
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InfeasibleError
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.sites.cluster.batches import Batches


def catalog_at(place: Path, directory: Path) -> Path:
    catalog = place / "sites.yaml"
    catalog.write_text(f"sites: {{a: {{slots: 1, directory: '{directory}'}}}}")
    return catalog


@pytest.mark.slow
def test_its_name_has_a_part_that_no_job_shows(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    wfrun.run(
        make_workflow([Job("A", "echo")]),
        sites=catalog_at(tmp_path, scratch),
        run_dir=tmp_path / "run",
    )
    state = read_state(RunDir(tmp_path / "run"))
    (directory,) = scratch.iterdir()
    assert directory.name == state.site_directory
    assert re.fullmatch(rf"wfrun-{state.run_id}-[0-9a-f]{{16}}", directory.name)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    secret = directory.name.rpartition("-")[2]
    assert secret not in Batches(state.run_id).new([]).name


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_an_earlier_version_finds_its_directories(kind: str, tmp_path: Path) -> None:
    events, documents = read(kind, str(tmp_path))
    core = Core(documents)
    core.replay(events)
    assert core.state.site_directory == f"wfrun-{core.state.run_id}"


def test_a_local_directory_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp())  # others can enter it, unlike tmp_path
    place.chmod(0o755)
    scratch = place / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    try:
        with pytest.raises(InfeasibleError, match=f"{scratch} can be changed by other users"):
            wfrun.run(
                make_workflow([Job("A", "echo")]),
                sites=catalog_at(tmp_path, scratch),
                run_dir=tmp_path / "run",
            )
        assert not list(scratch.iterdir())
    finally:
        shutil.rmtree(place)
