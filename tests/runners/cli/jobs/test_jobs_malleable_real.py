"""``wfrun jobs --malleable`` on clusters: what is refused before anything is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wfrun.engine.errors import InvalidError
from wfrun.runners.cli.main import cli

SITES = "sites: {alpha: {kind: slurm, host: alpha, directory: /x, slots: 10, node_cores: 4}}\n"


def jobs(folder: Path, entry: str, sites: str = SITES) -> Result:
    (folder / "jobs.yaml").write_text(f"command: ./x\njobs:\n  - {{job: x, {entry}}}\n")
    (folder / "sites.yaml").write_text(sites)
    words = [str(folder / "jobs.yaml"), "--sites", str(folder / "sites.yaml")]
    return CliRunner().invoke(cli, ["jobs", *words, "--malleable", "egs"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("ppn: 4, malleable: true, walltime: {12: 9, 16: 8}",
         "the job 'x' needs at least 12 processors, the largest site has 10"),
        ("malleable: true, walltime: {5: 9, 6: 8}", "fits no site: it asks for 5 cores"),
        ("walltime: {2: 9, 4: 8}", "the job 'x' has several sizes and is not malleable"),
        ("walltime: 9, components: [2, 2]", "the job 'x' has components"),
        ("size: 4, walltime: 9, malleable: true", "is malleable and has the size 4 alone"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_run_is_refused_with_its_line(
    entry: str, message: str, tmp_path: Path
) -> None:
    done = jobs(tmp_path, entry)
    assert isinstance(done.exception, InvalidError)
    assert message in str(done.exception)
    assert done.exception.line == 3


def test_a_site_without_a_batch_system_is_refused(tmp_path: Path) -> None:
    done = jobs(tmp_path, "malleable: true, walltime: {2: 9, 4: 8}", "sites: {here: {slots: 8}}\n")
    assert isinstance(done.exception, InvalidError)
    assert "site 'here' has no batch system" in str(done.exception)
