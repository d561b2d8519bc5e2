"""What each text of a submission command means. Where the batch system is installed, its programs
are asked whether they have these texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import Access
from wfrun.sites.batch.system import ArrayTooLargeError, BackPressureError
from wfrun.sites.kinds import make_batch_system

WAIT = BackPressureError
HALVE = ArrayTooLargeError
NEVER = InfeasibleError
RETRY = TransientError

LIMITS_OF_OPENPBS = [
    "Maximum number of jobs already in queue workq",
    "Maximum number of jobs already in complex",
    *(
        f"Maximum number of jobs{state} for {whose} already in {where}"
        for state in ("", " in 'Q' state")
        for whose in ("user ann", "group physics", "project astro")
        for where in ("queue workq", "complex")
    ),
    "Maximum number of jobs in 'Q' state already in queue workq",
    "Maximum number of jobs in 'Q' state already in complex",
    *(
        f"would exceed {where}'s per-{whose} limit{state}"
        for where in ("queue workq", "complex")
        for whose in ("user", "group", "project")
        for state in ("", " of jobs in 'Q' state")
    ),
    *(
        f"would exceed {whose}limit on resource ncpus in {where}{state}"
        for whose in ("", "per-user ", "per-group ", "per-project ", "user ann's ", "group g's ")
        for where in ("queue workq", "complex")
        for state in ("", " for jobs in 'Q' state")
    ),
]
"""OpenPBS 23.06, pbs_messages.c, "entity limit controls"."""

# OpenPBS 23.06: pbs_messages.c, with the exit codes of pbs_error.h modulo 256. Exit code 2: qsub.c.
OPENPBS: list[tuple[int, str, type[WfrunError]]] = [
    *((38 if "resource" not in text else 39, text, WAIT) for text in LIMITS_OF_OPENPBS),
    *((1, text, WAIT) for text in LIMITS_OF_OPENPBS),
    (38, "a text of this site's own", WAIT),
    (39, "a text of this site's own", WAIT),
    (198, "Maximum number of jobs already in queue", WAIT),
    (173, "Queue is not enabled", WAIT),
    (3, "Array job exceeds server or queue size limit", HALVE),
    (3, "error writing copy of script, /tmp/pbsscrpt1", RETRY),
    (170, "Unknown queue", NEVER),
    (187, "Unknown resource: ngpus", NEVER),
    (166, "Illegal attribute or resource value for Resource_List.mem", NEVER),
    (188, "Job violates queue and/or server resource limits", NEVER),
    (200, "Resource limit exceeds allowable", NEVER),
    (189, "No default queue specified", NEVER),
    (174, "Access to queue is denied", NEVER),
    (175, "Bad UID for job execution", NEVER),
    (197, "Bad GID for job execution", NEVER),
    (159, "Unauthorized Request ", NEVER),
    (201, "Invalid Account", NEVER),
    (191, "Job rejected by all possible destinations", NEVER),
    (4, 'Resource invalid in "select" specification: walltime', NEVER),
    (5, '"-lresource=" cannot be used with "select" or "place", resource is: ncpus', NEVER),
    (6, "Cannot be used with select or place", NEVER),
    (12, "duplicated resource within a section of a select specification, resource is", NEVER),
    (69, "Job name is too long", NEVER),
    (40, "attribute value is out of range", NEVER),
    (196, "Resource temporarily unavailable", RETRY),
    (212, "Request not allowed: Server shutting down", RETRY),
    (163, "PBS server internal error", RETRY),
    (162, "System error: ", RETRY),
    (185, "No free connections", RETRY),
    (13, "Server connection table full", RETRY),
    (193, "Execution server rejected request", RETRY),
    (171, "Invalid credential", RETRY),
    (32, "hook error", RETRY),
    (57, "Failed to save job/resv, refer server logs for details", RETRY),
    (255, "cannot connect to server pbsnowhere (errno=15008)", RETRY),
    (2, "cannot submit non-rerunable Array Job\nusage: qsub [-a date_time] invalid option", RETRY),
    (2, "illegal -l value\nusage: qsub [-a date_time] [-q queue] Unknown queue", RETRY),
]

# Torque 6.1: pbs_error_db.h; the part after MSG= from req_quejob.c, svr_jobfunc.c and array_func.c.
TORQUE: list[tuple[int, str, type[WfrunError]]] = [
    (1, "Maximum number of jobs already in queue", WAIT),
    (
        1,
        "Maximum number of jobs already in queue for user MSG=total number of current user's jobs "
        "exceeds the queue limit: user ann@head, queue batch",
        WAIT,
    ),
    (1, "Queue is not enabled", WAIT),
    (1, "Queue is currently not available", WAIT),
    (1, "Bad Job Array Request MSG=Requested array size too large, limit is 100", HALVE),
    (1, "Queue does not allow job arrays", HALVE),
    (1, "Unknown queue MSG=requested queue not found", NEVER),
    (1, "Unknown resource type  Resource_List.gpus", NEVER),
    (1, "Illegal attribute or resource value for Resource_List.mem", NEVER),
    (1, "Job exceeds queue resource limits MSG=cannot satisfy queue max walltime", NEVER),
    (1, "Resource limit exceeds allowable", NEVER),
    (1, "Invalid Account MSG=invalid account", NEVER),
    (1, "Bad UID for job execution MSG=ruserok failed validating ann/ann from login1", NEVER),
    (1, "Unauthorized Request  MSG=group ACL is not satisfied: user ann@head, queue q", NEVER),
    (1, "Access to queue is denied", NEVER),
    (1, "No default queue specified MSG=cannot locate queue", NEVER),
    (1, "Job rejected by all possible destinations (check syntax, queue resources, ...)", NEVER),
    (1, "Queue does not allow batch jobs", NEVER),
    (1, "Queue does not allow nonrerunable jobs", NEVER),
    (1, "Server busy. Not available threads", RETRY),
    (1, "Could not connect to batch server", RETRY),
    (1, "Resource temporarily unavailable", RETRY),
    (1, "Job function must be temporarily delayed", RETRY),
    (1, "Time out", RETRY),
    (1, "Error allocating memory - out of memory", RETRY),
    (1, "trqauthd unable to authenticate", RETRY),
    (1, "PBS server internal error", RETRY),
]

FAILED = "Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
# Slurm 22.05: slurm_errno.c and sbatch.c.
SLURM: list[tuple[int | None, str, type[WfrunError]]] = [
    (1, POLICY, WAIT),
    (None, "Slurm job queue full, sleeping and retrying", WAIT),
    (None, "Slurm temporarily unable to accept job, sleeping and retrying", WAIT),
    (None, "Job creation temporarily disabled, retrying", WAIT),
    (1, "Unable to create job record, try again", WAIT),
    (1, "Invalid job array specification", HALVE),
    (1, "Invalid partition name specified", NEVER),
    (1, "No partition specified or system default partition", NEVER),
    (1, "Access/permission denied", NEVER),
    (1, "User's group not permitted to use this partition", NEVER),
    (1, "Requested nodes not in this partition", NEVER),
    (1, "More processors requested than permitted", NEVER),
    (1, "Node count specification invalid", NEVER),
    (1, "Task count specification invalid", NEVER),
    (1, "Job size specification needs to be provided", NEVER),
    (1, "Requested node configuration is not available", NEVER),
    (1, "Requested partition configuration not available now", NEVER),
    (1, "Invalid node name specified", NEVER),
    (1, "Invalid feature specification", NEVER),
    (1, "Requested operation not supported on this system", NEVER),
    (1, "Memory required by task is not available", NEVER),
    (1, "Invalid account or account/partition combination specified", NEVER),
    (1, "Invalid qos specification", NEVER),
    (1, "Invalid wckey specification", NEVER),
    (1, "Invalid license specification", NEVER),
    (1, "Requested time limit is invalid (missing or exceeds some limit)", NEVER),
    (1, "Access denied to requested reservation", NEVER),
    (1, "Requested reservation is invalid", NEVER),
    (1, "CPU count specification invalid", NEVER),
    (1, "Invalid generic resource (gres) specification", NEVER),
    (1, "Duplicate generic resource (gres) specification", NEVER),
    (1, "Requested GRES option unsupported by configured SelectType plugin", NEVER),
    (1, "Invalid Trackable RESource (TRES) specification", NEVER),
    (1, "Invalid mcs_label specified", NEVER),
    (1, "Burst Buffer permission denied", NEVER),
    (
        1,
        "Multiple partition job request not supported when a partition is set in the association",
        NEVER,
    ),
    (1, "Unable to contact slurm controller (connect failure)", RETRY),
    (1, "Slurm backup controller in standby mode", RETRY),
    (1, "Protocol authentication error", RETRY),
    (1, "Invalid user id", RETRY),  # a directory service of the controller may be down
    (1, "I/O error writing script/environment to file", RETRY),
    (1, "Error generating job credential", RETRY),
    (1, "Requested operation is presently disabled", RETRY),
    (1, "System submissions disabled", RETRY),
    (1, "Required partition not available (inactive or drain)", RETRY),
    (1, "Required node not available (down, drained or reserved)", RETRY),
    (1, "Job can not start due to maintenance reservation.", RETRY),
    (1, "Requested account has breached requested QOS usage threshold", RETRY),
    (1, "Socket timed out on send/recv operation", RETRY),
    (1, "Communication connection failure", RETRY),
]
NEWER_SLURM: list[tuple[str, type[WfrunError]]] = [
    ("MaxJobCount limit reached", WAIT),
    ("Rate limit exceeded, please retry momentarily", RETRY),
    ("Invalid GRES specification (with and without type identification)", NEVER),
]
"""Slurm 24.05, slurm_errno.c."""

# Slurm 22.05, names of reasons, which sbatch prints before ``POLICY``.
REASONS: list[tuple[str, type[WfrunError]]] = [
    *(
        (name, WAIT)
        for name in (
            "AssocMaxSubmitJobLimit", "AssocGrpSubmitJobsLimit", "QOSMaxSubmitJobPerUserLimit",
            "QOSGrpSubmitJobsLimit", "MaxSubmitJobsPerAccount", "MaxJobsPerAccount",
            "AssocMaxJobsLimit", "AssocGrpJobsLimit", "QOSGrpJobsLimit", "QOSMaxJobsPerUserLimit",
        )
    ),
    *(
        (name, NEVER)
        for name in (
            "QOSMaxCpuPerJobLimit", "QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit",
            "QOSMaxCpuPerUserLimit", "QOSMaxMemoryPerUser", "QOSMaxGRESPerUser", "QOSGrpCpuLimit",
            "QOSGrpMemLimit", "QOSGrpCPUMinutesLimit", "AssocGrpCpuLimit",
            "AssocGrpCPUMinutesLimit", "AssocMaxCpuPerJobLimit", "AssocMaxWallDurationPerJobLimit",
            "MaxCpuPerAccount", "MaxNodePerAccount", "MaxMemoryPerAccount", "MaxMemPerLimit",
            "PartitionTimeLimit", "PartitionNodeLimit", "AssociationTimeLimit", "QOSTimeLimit",
        )
    ),
]  # fmt: skip

# Son of Grid Engine 8.1.9: msg_qmaster.h, msg_sgeobjlib.h and msg_gdilib.h.
GRID_ENGINE: list[tuple[int, str, type[WfrunError]]] = [
    (25, "job rejected: only 5 jobs are allowed per user (current job count: 7)", WAIT),
    (25, "job rejected: only 3 jobs are allowed per cluster", WAIT),
    (1, "job rejected: Only 3 jobs are allowed per cluster", WAIT),  # other descendants
    (25, "JSV temporarily rejected job", WAIT),
    (25, "Job is rejected temporarily", WAIT),
    (1, "job rejected: you tried to submit a job with more than 75000 tasks", HALVE),
    (1, "job rejected: You try to submit a job with more than 75000 tasks", HALVE),
    (1, 'Job was rejected because job requests unknown queue "nosuch"', NEVER),
    (
        1,
        "Job was rejected because job requests a queue while queues are not configured as "
        "requestable",
        NEVER,
    ),
    (1, 'unknown resource "nosuch"', NEVER),
    (1, 'job rejected: the requested parallel environment "nosuch" does not exist', NEVER),
    (1, 'job rejected: the requested project "nosuch" does not exist', NEVER),
    (1, 'job rejected: no access to project "astro" for user "ann"', NEVER),
    (1, "job rejected: no project assigned to job", NEVER),
    (
        1,
        "job rejected: no project was supplied and only certain projects are allowed to submit "
        "jobs",
        NEVER,
    ),
    (
        1,
        "job rejected: your user id 0 is lower than minimum user id 100 of cluster configuration",
        NEVER,
    ),
    (1, "job rejected: positive submission priority requires operator privileges", NEVER),
    (1, "JSV rejected job", NEVER),
    (1, "Job is rejected", NEVER),
    (1, "error: no suitable queues", NEVER),
    (1, 'denied: host "login2" is not a submit host', NEVER),
    (1, 'denied: missing value for resource "h_vmem"', NEVER),
    (1, "job 7 was rejected because it couldn't be written", RETRY),
    (1, "job 7 rejected because authentication failed", RETRY),
]

FILLED_IN = re.compile(r'"[^"]*"|\d+')
"""Parts of a text that a program fills in."""


def refused(kind: str, exit_code: int | None, errors: str) -> WfrunError:
    with pytest.raises(WfrunError) as caught:
        make_batch_system(kind, Access()).submitted(exit_code, "", errors)
    assert errors.splitlines()[0].strip() in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("exit_code", "text", "error"), OPENPBS)
def test_openpbs(exit_code: int, text: str, error: type[WfrunError]) -> None:
    assert type(refused("pbs", exit_code, f"qsub: {text}\n")) is error


@pytest.mark.parametrize(("exit_code", "text", "error"), TORQUE)
def test_torque(exit_code: int, text: str, error: type[WfrunError]) -> None:
    assert type(refused("torque", exit_code, f"qsub: submit error ({text})\n")) is error


@pytest.mark.parametrize(("exit_code", "text", "error"), SLURM)
def test_slurm(exit_code: int | None, text: str, error: type[WfrunError]) -> None:
    failed = "" if exit_code is None else FAILED
    assert type(refused("slurm", exit_code, f"sbatch: error: {failed}{text}\n")) is error


@pytest.mark.parametrize(("text", "error"), NEWER_SLURM)
def test_newer_slurm(text: str, error: type[WfrunError]) -> None:
    assert type(refused("slurm", 1, f"sbatch: error: {FAILED}{text}\n")) is error


@pytest.mark.parametrize(("reason", "error"), REASONS)
def test_limits_of_slurm(reason: str, error: type[WfrunError]) -> None:
    errors = f"sbatch: error: {reason}\nsbatch: error: {FAILED}{POLICY}\n"
    assert type(refused("slurm", 1, errors)) is error


@pytest.mark.parametrize(("exit_code", "text", "error"), GRID_ENGINE)
def test_grid_engine(exit_code: int, text: str, error: type[WfrunError]) -> None:
    errors = f"Unable to run job: {text}\nExiting.\n"
    assert type(refused("grid-engine", exit_code, errors)) is error


def test_slurm_has_these_texts() -> None:
    binaries = [
        Path("/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so"),
        Path("/usr/bin/sbatch"),
    ]
    content = b"".join(path.read_bytes() for path in binaries if path.exists())
    if not content:
        pytest.skip("Slurm is not installed")
    texts = [text for _, text, _ in SLURM] + [reason for reason, _ in REASONS]
    assert [text for text in texts if text.encode() not in content] == []


def test_grid_engine_has_these_texts() -> None:
    qmaster = Path("/usr/lib/gridengine/sge_qmaster")
    if not qmaster.exists():
        pytest.skip("Grid Engine is not installed")
    content = qmaster.read_bytes()
    missing = []
    for _, text, _ in GRID_ENGINE:
        parts = FILLED_IN.split(text.removeprefix("error: "))
        missing += [text for part in parts if part.encode() not in content]
    assert missing == [
        "job rejected: Only 3 jobs are allowed per cluster",
        "job rejected: You try to submit a job with more than 75000 tasks",
    ]


def test_a_usage_text_is_no_verdict_and_not_shown() -> None:
    said = str(refused("pbs", 2, "qsub: illegal -l value\nusage: qsub [-a date_time]\n\t[-q x]\n"))
    assert said == "qsub ended with exit code 2: qsub: illegal -l value"
