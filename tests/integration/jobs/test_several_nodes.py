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
  <profile namespace="pegasus" key="maxwalltime">1</profile>
  <stdout name="hosts" link="output"/>
  <uses name="hosts" link="output"/>
</job>
</adag>
"""


IN_LAUNCHERS = {"dispatch": "launchers", "launchers": {"nodes": 2, "cores": 4, "max": 1}}
MPIRUN = "mpirun --hostfile $WFRUN_NODEFILE"
SRUN = "SLURM_HOSTFILE=$WFRUN_NODEFILE srun --ntasks=4 --distribution=arbitrary"


@pytest.mark.parametrize(
    ("start", "entry"),
    [("srun", {}), (MPIRUN, {}), (SRUN, IN_LAUNCHERS), (MPIRUN, IN_LAUNCHERS)],
    ids=["job-srun", "job-mpirun", "launcher-srun", "launcher-mpirun"],
)
def test_a_task_runs_a_process_for_each_core_on_all_its_nodes(
    start: str, entry: dict[str, object], testbed: Testbed, tmp_path: Path
) -> None:
    if start == MPIRUN and shutil.which("mpirun") is None:
        pytest.skip("no mpirun (openmpi-bin)")
    sites = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    catalog = tmp_path / "sites.yaml"
    alpha = {**sites["alpha"], "poll_min": 0.5, **entry}
    catalog.write_text(yaml.safe_dump({"sites": {"alpha": alpha}}))
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
