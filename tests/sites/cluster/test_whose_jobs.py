"""Jobs in the queue are a run's by their name and their user, or by the number of a submission."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from wfrun.sites.batch.grid_engine import queue as grid_engine
from wfrun.sites.batch.jobs import JobInQueue
from wfrun.sites.batch.pbs.attributes import jobs_of
from wfrun.sites.batch.pbs.queue_json import read_json
from wfrun.sites.batch.pbs.queue_text import read_text
from wfrun.sites.batch.slurm import queue as slurm
from wfrun.sites.cluster.batches import Batches
from wfrun.sites.cluster.queue_watch import as_background
from wfrun.testing.probe import request

NAME = "wfrun-r1-1"


def pbs(user: str) -> list[JobInQueue]:
    job = {"Job_Name": NAME, "Job_Owner": f"{user}@head.cluster", "job_state": "R"}
    return jobs_of(read_json(json.dumps({"pbs_version": "23", "Jobs": {"7.head": job}})))


def torque(user: str) -> list[JobInQueue]:
    lines = ("Job Id: 7.head", f"    Job_Name = {NAME}", f"    Job_Owner = {user}@head")
    return jobs_of(read_text("\n".join([*lines, "    job_state = R", "", ""])))


def squeue(user: str) -> list[JobInQueue]:
    header = "\x1f".join(("JOBID", "STATE", "USER", "CPUS", "S", "N", "R", "NAME"))
    job = "\x1f".join(("7", "RUNNING", user, "1", "1700000000", "node1", "None", NAME))
    return slurm.read_queue(f"{header}\x1e\n{job}\x1e\n")


def qstat(user: str) -> list[JobInQueue]:
    return grid_engine.read_queue(
        "<job_info><queue_info><job_list state='running'><JB_job_number>7</JB_job_number>"
        f"<JB_name>{NAME}</JB_name><JB_owner>{user}</JB_owner><state>r</state><slots>1</slots>"
        "</job_list></queue_info><job_info/></job_info>"
    )


def batches() -> Batches:
    found = Batches("r1")
    found.user = "ann"
    found.new([request("k-1", "true")])
    return found


@pytest.mark.parametrize("system", [pbs, torque, squeue, qstat])
def test_a_job_of_another_user_is_not_taken_for_ours(
    system: Callable[[str], list[JobInQueue]],
) -> None:
    ours = batches()
    (stranger,) = system("mallory")
    assert ours.key_of(stranger) is None
    assert ours.jobs_of(["k-1"]) == []  # it is not cancelled
    (job,) = system("ann")
    assert ours.key_of(job) == "k-1"
    assert ours.jobs_of(["k-1"]) == [(job.id, None)]


@pytest.mark.parametrize("system", [pbs, torque, squeue, qstat])
def test_a_job_that_was_submitted_is_ours_by_its_number(
    system: Callable[[str], list[JobInQueue]],
) -> None:
    """Some systems print users in another form than the login does."""
    ours = batches()
    (job,) = system("CLUSTER_ann")
    assert ours.key_of(job) is None
    where = ours.where("k-1")
    assert where is not None
    where[0].ids.add(job.id)
    assert ours.key_of(job) == "k-1"


@pytest.mark.parametrize("system", [pbs, torque, squeue, qstat])
def test_jobs_of_one_user_and_name_have_the_same_labels(
    system: Callable[[str], list[JobInQueue]],
) -> None:
    """Predictions need the classes of other users' jobs; a log keeps no names of theirs."""
    one, again, other = (
        as_background(job, None) for user in ("mallory", "mallory", "trent") for job in system(user)
    )
    assert one.owner
    assert one.application
    assert (one.owner, one.application) == (again.owner, again.application)
    assert (one.owner != other.owner, one.application) == (True, other.application)
    assert not {"mallory", NAME} & {one.owner, one.application}
