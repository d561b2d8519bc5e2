from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sites.batch.recordings import SLURM, recorded
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError
from wfrun.sites.batch.slurm.queue import read_accounting, read_queue, read_queue_endings

HEADER = "\x1f".join(["JOBID", "STATE", "USER", "CPUS", "START", "NODES", "REASON", "NAME"])
HEADER += "\x1e\n"


def row(ident: str = "7", state: str = "RUNNING", cores: str = "1", reason: str = "None") -> str:
    return "\x1f".join([ident, state, "ann", cores, "N/A", "", reason, "wfrun-r-1"]) + "\x1e\n"


def test_a_real_queue() -> None:
    jobs = read_queue(recorded(SLURM, "queue").output)
    array = [job for job in jobs if job.name == "wfrun-r1-2"]
    assert [(job.id, job.element) for job in array if job.state == "queued"] == [
        ("43", number) for number in range(4, 13)
    ]
    assert JobInQueue(
        id="43", element=2, name="wfrun-r1-2", user="griduser", state="running", cores=4,
        nodes=("alpha3",), started_s=1795259941.0,
    ) in jobs  # fmt: skip
    others = {job.name: (job.state, job.reason) for job in jobs if job not in array}
    assert others == {
        "wfrun-r1-1": ("suspended", ""),
        "wfrun-r1-3": ("queued", "BeginTime"),
        "odd|name\nwith 1\x1f2 é \udcff": ("held", "JobHeldUser"),
        "wfrun-r1-5": ("refused", "PartitionTimeLimit"),
        "wfrun-r1-6": ("queued", "PartitionConfig"),
        "wfrun-r1-7": ("held", "PartitionDown"),
    }


def test_planned_starts_of_waiting_jobs() -> None:
    jobs = {job.name: job for job in read_queue(recorded(SLURM, "queue-planned").output)}
    planned = {name: job.planned_s for name, job in jobs.items()}
    assert planned["b"] == 1795443735.0
    assert planned["later"] == 1795453935.0  # it is not to begin earlier
    assert planned["held"] is planned["a"] is None
    assert jobs["a"].started_s == 1795443135.0
    assert [job.requested_s for job in jobs.values()][:2] == [360.0, 240.0]
    assert all(job.started_s is None for name, job in jobs.items() if name != "a")


@pytest.mark.parametrize(
    "start", ["N/A", "", "soon", "-5", "2026-11-23T14:00:00", "\u0661", "9" * 400]
)
def test_starts_that_are_no_times_are_none(start: str) -> None:
    for state in ("PENDING", "RUNNING"):
        (job,) = read_queue(HEADER + row(state=state).replace("N/A", start))
        assert job.planned_s is None
        assert job.started_s is None


def test_time_limits_of_jobs() -> None:
    header = HEADER.replace("NAME", "TIME_LIMIT\x1fNAME")
    limits = {"1:00": 60.0, "2-00:00:00": 172_800.0, "UNLIMITED": None, "NOT_SET": None, "": None}
    rows = [row(str(i)).replace("wfrun", f"{limit}\x1fa\x1fb") for i, limit in enumerate(limits)]
    jobs = read_queue(header + "".join(rows))
    assert [job.requested_s for job in jobs] == list(limits.values())
    assert {job.name for job in jobs} == {"a\x1fb-r-1"}
    assert [job.requested_s for job in read_queue(HEADER + row())] == [None]


def test_an_empty_queue_has_a_header() -> None:
    assert read_queue(recorded(SLURM, "queue-empty").output) == []


def test_ended_jobs_are_not_in_the_queue() -> None:
    jobs = read_queue(recorded(SLURM, "ended-squeue").output)
    assert {(job.id, job.element) for job in jobs} == {("29", 1), ("30", 1), ("30", 2), ("30", 3)}


def test_the_schedulers_memory_of_ended_jobs() -> None:
    endings = read_queue_endings(recorded(SLURM, "ended-squeue").output)
    causes = {int(job): ending.cause for (job, _), ending in endings.items() if job not in "2 22"}
    assert causes == {
        18: "done", 19: "exit", 20: "signal", 21: "cancelled", 23: "preempted", 28: "node",
        31: "done", 32: "signal", 33: "walltime", 34: "walltime", 35: "signal",
    }  # fmt: skip
    assert [element for job, element in sorted(endings) if job == "22"] == [1, 2, 3, 4, 5]
    assert endings["28", 1] == Ending(cause="node", message="NODE_FAIL (NodeDown)", node="alpha4")


def test_accounting() -> None:
    endings = read_accounting(recorded(SLURM, "ended-sacct").output)
    causes = {int(job): ending.cause for (job, _), ending in endings.items() if job not in "2 22"}
    assert causes == {
        18: "done", 19: "exit", 20: "signal", 21: "cancelled", 23: "preempted", 28: "node",
        31: "done", 32: "signal", 33: "walltime", 34: "walltime", 35: "disk-full",
    }  # fmt: skip
    assert endings["2", 6] == Ending(cause="cancelled", message="CANCELLED")
    assert endings["22", 4] == Ending("exit", 3, "FAILED: exit code 3", "alpha1")
    cancelled = read_accounting(recorded(SLURM, "sacct-cancelled").output)
    assert list(cancelled) == [("43", 2)]


def test_out_of_memory() -> None:
    # Needs cgroups, which the recorded machine had not.
    table = "JobID|State|ExitCode|NodeList\n8_2|OUT_OF_MEMORY|0:125|n1\n"
    assert read_accounting(table)["8", 2].cause == "memory"
    assert read_queue_endings(HEADER + row("8_2", "OUT_OF_MEMORY"))["8", 2].cause == "memory"


def test_a_state_of_the_future_is_a_job_that_is_there() -> None:
    (job,) = read_queue(HEADER + row(state="TELEPORTING"))
    assert (job.state, job.reason) == ("queued", "in state TELEPORTING")
    assert read_queue_endings(HEADER + row(state="TELEPORTING")) == {}


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Priority", "queued"),
        ("Resources", "queued"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-4]", "queued"),
        ("QOSMaxJobsPerUserLimit", "queued"),
        ("AssocGrpCpuLimit", "queued"),
        ("PartitionNodeLimit", "queued"),
        ("JobHeldAdmin", "held"),
        ("launch failed requeued held", "held"),
        ("JobHoldMaxRequeue", "held"),
        ("PartitionDown", "held"),
        ("PartitionInactive", "held"),
        ("QOSMaxWallDurationPerJobLimit", "refused"),
        ("AssocMaxCpuPerJobLimit", "refused"),
        ("QOSMaxMemoryPerNode", "refused"),
        ("BadConstraints", "refused"),
        ("InvalidAccount", "refused"),
    ],
)
def test_why_a_job_waits(reason: str, state: str) -> None:
    (job,) = read_queue(HEADER + row(state="PENDING", reason=reason))
    assert (job.state, job.reason) == (state, reason)


def test_a_part_of_an_array_in_one_line_is_expanded() -> None:
    jobs = read_queue(HEADER + row("7_[2-4,9%2]", "PENDING"))
    assert [job.element for job in jobs] == [2, 3, 4, 9]


def test_a_huge_array() -> None:
    table = HEADER + "".join(row(f"7_{number}", "PENDING") for number in range(1, 20_001))
    assert len(read_queue(table)) == 20_000


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\n",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        "<html>502 Bad Gateway</html>\n",
        row(),
        HEADER[:-1],
        HEADER + row()[:-1],
        HEADER + row("seven"),
        HEADER + row("7_[1-999999999]"),
        HEADER + row(cores=""),
        HEADER + "garbage\x1e\n",
        HEADER + row() + "slurm_load_jobs error: Socket timed out\n",
    ],
)
def test_what_is_no_table_says_nothing(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        read_queue(output)


@given(st.integers(0, 2000))
def test_a_table_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = recorded(SLURM, "queue").output
    length = min(length, len(whole) - 1)
    if whole[:length].endswith("\x1e\n"):
        return  # Cut between two lines: only the exit code can tell.
    with pytest.raises(QueueUnknownError):
        read_queue(whole[:length])


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Slurm accounting storage is disabled\n",
        "JobID|State|ExitCode|NodeList\n7|COMPLE",
        "JobID|State|ExitCode|NodeList\n7|COMPLETED\n",
        "JobID|State|ExitCode|NodeList\n7|COMPLETED|zero|n1\n",
    ],
)
def test_what_is_no_accounting_is_refused(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        read_accounting(output)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_queue, read_queue_endings, read_accounting):
        for prefix in ("", HEADER, "JobID|State|ExitCode|NodeList\n"):
            with contextlib.suppress(QueueUnknownError):
                read(prefix + text)
