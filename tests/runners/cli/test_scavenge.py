"""What `wfrun run --scavenge` refuses, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wfrun.engine.errors import InvalidError
from wfrun.runners.cli.main import cli
from wfrun.runners.run.prepare.scavenging import scavengeable
from wfrun.sites.catalog import read_catalog

CLUSTER = "sites:\n  alpha: {kind: slurm, host: alpha, slots: 16, node_cores: 4}\n"
SWEEP = "command: echo {n}\nowner: ann\nparameters: {n: [1, 2]}\n"


def run(folder: Path, *options: str, sites: str = CLUSTER, sweep: str = SWEEP) -> Result:
    (folder / "sites.yaml").write_text(sites)
    (folder / "sweep.yaml").write_text(sweep)
    words = ["run", str(folder / "sweep.yaml"), "--sites", str(folder / "sites.yaml")]
    return CliRunner().invoke(cli, [*words, "--run-dir", str(folder / "run"), *options])


def refusal(result: Result) -> InvalidError:
    assert isinstance(result.exception, InvalidError), result.output
    return result.exception


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (["--policy", "rr"], "--policy"),
        (["--selection", "s-t"], "--selection"),
        (["--throttle", "auto"], "--throttle auto"),
        (["--replicas", "1"], "--replicas"),
    ],
)
def test_options_without_effect(tmp_path: Path, options: list[str], flag: str) -> None:
    found = refusal(run(tmp_path, "--scavenge", "persite", *options))
    assert found.message.startswith(f"{flag} has no effect with --scavenge")
    assert not (tmp_path / "run").exists()


def test_an_order_of_preemption_that_does_not_exist(tmp_path: Path) -> None:
    found = refusal(run(tmp_path, "--scavenge", "persite", "--preempt", "last-puled"))
    assert found.message == "there is no order of preemption 'last-puled'"
    assert "did you mean 'last-pulled'?" in (found.hint or "")


def test_the_number_of_scavengers_needs_scavenging(tmp_path: Path) -> None:
    result = run(tmp_path, "--most-scavengers", "2")
    assert "--most-scavengers has no effect without --scavenge" in refusal(result).message


def test_a_site_without_a_batch_system(tmp_path: Path) -> None:
    sites = f"{CLUSTER}  here: {{slots: 2}}\n"
    found = refusal(run(tmp_path, "--scavenge", "all", sites=sites))
    assert "site 'here' has no batch system" in found.message
    assert found.line == 3


def test_optional_tasks(tmp_path: Path) -> None:
    sweep = f"{SWEEP}optional: {{min: 1, deadline: 1 h}}\n"
    found = refusal(run(tmp_path, "--scavenge", "all", sweep=sweep))
    assert "no optional tasks" in found.message
    assert found.line == 4


def test_a_task_that_is_wider_than_a_node(tmp_path: Path) -> None:
    found = refusal(run(tmp_path, "--scavenge", "all", sweep=f"{SWEEP}cores: 5\n"))
    assert "fits no site" in found.message
    assert found.line == 4


def test_launchers_have_a_node_or_what_the_catalog_says(tmp_path: Path) -> None:
    text = f"""{CLUSTER}\
  beta: {{kind: slurm, host: beta, slots: 16, scavenge: {{queue: low}}}}
  gamma: {{kind: slurm, host: gamma, slots: 16, dispatch: launchers, launchers: {{cores: 2}}}}
"""
    (tmp_path / "sites.yaml").write_text(text)
    sites = scavengeable(read_catalog(tmp_path / "sites.yaml")).sites
    found = [site.access for site in sites]
    assert [a.launchers.cores for a in found if a is not None and a.launchers] == [4, 1, 2]
    assert [a.queue for a in found if a is not None] == [None, "low", None]
    assert all(site.has_launchers for site in sites)
