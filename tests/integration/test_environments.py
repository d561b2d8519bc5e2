"""Prologues, variables and containers at real clusters, however tasks reach their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import wfrun
from tests.testbed.testbed import Testbed
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

BAG = """\
command: sh -c 'echo "$PROLOGUE:$SITE:$DOCUMENT:$IMAGE:$LEFT_OVER" >out-{n}'
parameters: {n: [1, 2]}
env: {DOCUMENT: "it's {n}"}
outputs: ["out-{n}"]
container: an.sif
"""
BOX = 'sh -c \'IMAGE=$(cat "$0"); export IMAGE; exec "$@"\' {image}'
"""A runtime whose image is the value of a variable: users of testbeds may not mount."""

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "Slurm": ("alpha", {}),
    "launchers": ("alpha", {"dispatch": "launchers", "launchers": {"cores": 2}}),
    "Grid Engine": ("gamma", {}),
    "SSH alone": ("delta", {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_environment_of_tasks_at_real_sites(
    way: str, testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEFT_OVER", "of this machine")
    name, changes = WAYS[way]
    site = {
        **yaml.safe_load(testbed.layout.catalog.read_text())["sites"][name],
        "prologue": "echo printed\nexport PROLOGUE=run\n",
        "environment": {"SITE": name, "DOCUMENT": "the site's"},
        "container": {"command": BOX},
        **changes,
    }
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump({"sites": {name: site}}))
    (tmp_path / "an.sif").write_text("image of the document\n")
    (tmp_path / "bag.yaml").write_text(BAG)
    run = tmp_path / "run"
    result = wfrun.run(tmp_path / "bag.yaml", sites=catalog, run_dir=run)
    assert result.failed == 0
    assert [site.transfers_in for site in read_state(RunDir(run)).sites] == [1]
    for n in (1, 2):
        printed = (run / "outputs" / f"out-{n}").read_text()
        assert printed == f"run:{name}:it's {n}:image of the document:\n"


def test_a_prologue_that_fails_at_a_cluster(testbed: Testbed, tmp_path: Path) -> None:
    listed = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]["alpha"]
    site = {**listed, "prologue": "true\nmodule load gcc/99\n"}
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump({"sites": {"alpha": site}}))
    (tmp_path / "bag.yaml").write_text("command: touch out\noutputs: [out]\n")
    run = tmp_path / "run"
    result = wfrun.run(tmp_path / "bag.yaml", sites=catalog, run_dir=run, retry_delay_s=0.0)
    assert result.done == 0
    state = read_state(RunDir(run))
    assert (state.sites[0].done, state.sites[0].failed) == (0, 3)
    assert "item 2 of the site's prologue failed" in str(state.end_reason)
