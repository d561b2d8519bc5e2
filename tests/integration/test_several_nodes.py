"""Tasks that span nodes of a real cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import wfrun
from tests.testbed.testbed import Testbed
from wfrun.engine.errors import InvalidError

DOCUMENT = """\
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="mpi">
<job id="a" name="sh">
  <argument>-c 'sort $WFRUN_NODEFILE; START sh -c "echo \\$SLURMD_NODENAME" | sort'</argument>
  <profile namespace="pegasus" key="nodes">2</profile>
  <profile namespace="pegasus" key="ppn">2</profile>
  <stdout name="hosts" link="output"/>
  <uses name="hosts" link="output"/>
</job>
</adag>
"""


@pytest.mark.parametrize("start", ["srun", "mpirun --hostfile $WFRUN_NODEFILE"])
def test_a_task_runs_a_process_for_each_core_on_all_its_nodes(
    start: str, testbed: Testbed, tmp_path: Path
) -> None:
    if shutil.which(start.split()[0]) is None:
        pytest.skip(f"no {start.split()[0]} (openmpi-bin)")
    sites = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump({"sites": {"alpha": {**sites["alpha"], "poll_min": 0.5}}}))
    document = tmp_path / "mpi.dax"
    document.write_text(DOCUMENT.replace("START", start))
    result = wfrun.run(document, sites=catalog, run_dir=tmp_path / "run", retries=0)
    assert result.outcome == "done", result.failures
    lines = (result.outputs / "hosts").read_text().splitlines()
    named, ran = lines[:4], lines[4:]
    assert ran == named
    assert [named.count(host) for host in sorted(set(named))] == [2, 2]


def test_one_machine_has_no_several_nodes(tmp_path: Path) -> None:
    document = tmp_path / "mpi.dax"
    document.write_text(DOCUMENT)
    catalog = tmp_path / "sites.yaml"
    catalog.write_text("sites: {here: {slots: 8}}\n")
    with pytest.raises(InvalidError, match="4 cores, 2 nodes") as raised:
        wfrun.run(document, sites=catalog, run_dir=tmp_path / "run")
    assert raised.value.hint == "the sites offer here: 8 cores, on 1 node at most"
