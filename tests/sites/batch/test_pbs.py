from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sites.batch.recordings import OPENPBS, recorded
from wfrun.sites.batch.jobs import JobInQueue, QueueUnknownError
from wfrun.sites.batch.pbs.absent_nodes import may_start
from wfrun.sites.batch.pbs.attributes import endings_of, jobs_of, killed
from wfrun.sites.batch.pbs.queue_json import read_json
from wfrun.sites.batch.pbs.queue_text import after_header, read_text

AFTER = recorded(OPENPBS, "qstat-after").output

# After the manual: no Torque was at hand.
TORQUE = """\
Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext   Com Status
----------------   ---   ---   ---   ---   ---   ---   ---   ---   --- ----------
head               0     4     1     1     0     0     0     0     1 Active
Job Id: 3[1].head.cluster
    Job_Name = wfrun-r1-2-1
    Job_Owner = ann@head.cluster
    job_state = R
    job_array_id = 1
    exec_host = node1/0+node1/1
    Resource_List.nodes = 1:ppn=2
    Variable_List = PBS_O_PATH=/usr/bin:/bin,A=b
c,PBS_O_HOST=head,
\tPBS_O_LANG=C

Job Id: 3[2].head.cluster
    Job_Name = wfrun-r1-2-2
    Job_Owner = ann@head.cluster
    job_state = Q
    job_array_id = 2
    comment = Not Running: Not enough of the right type of nodes are available a
\tt the moment
    Resource_List.nodes = 1:ppn=2

Job Id: 4.head.cluster
    Job_Name = wfrun-r1-3
    Job_Owner = bob@head.cluster
    resources_used.walltime = 00:01:05
    job_state = C
    exec_host = node2/0
    exit_status = -11
    Resource_List.walltime = 00:01:00

"""


def document(**jobs: Mapping[str, object]) -> str:
    return json.dumps({"timestamp": 1, "pbs_version": "23", "Jobs": jobs})


def test_a_real_queue() -> None:
    jobs = {job.id: job for job in jobs_of(read_json(AFTER))}
    assert {ident: job.state for ident, job in jobs.items()} == {
        "2.pbshost": "refused",
        "7.pbshost": "held",
    }
    assert jobs["2.pbshost"] == JobInQueue(
        id="2.pbshost", element=1, name="wf-r1-t2-a1", user="griduser", state="refused", cores=64,
        reason="Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 8)",
        requested_s=300,
    )  # fmt: skip


def test_why_jobs_wait() -> None:
    """A held job has no comment; an array that has begun keeps one that is no reason."""
    jobs = {job.id: job for job in jobs_of(read_json(AFTER))}
    assert (jobs["7.pbshost"].state, jobs["7.pbshost"].reason) == ("held", "Hold_Types = u")
    waiting = {"Job_Name": "w", "job_state": "Q", "comment": "Not Running: Queue not started."}
    array = {
        "Job_Name": "w", "job_state": "B", "comment": "Job Array Began at Sat Nov 28 at 06:00",
        "array_indices_submitted": "1-2", "array_indices_remaining": "2",
        "array_state_count": "Queued:1 Running:1 Exiting:0 Expired:0 ",
    }  # fmt: skip
    stopped, element, _ = jobs_of(read_json(document(**{"1.a": waiting, "2[].a": array})))
    assert (stopped.state, stopped.reason) == ("held", "Not Running: Queue not started.")
    assert (element.state, element.reason) == ("queued", "")


def test_running_jobs_have_nodes_and_cores() -> None:
    jobs = {job.id: job for job in jobs_of(read_json(recorded(OPENPBS, "qstat-xtf-json").output))}
    job = jobs["1.pbshost"]
    assert (job.state, job.cores, job.nodes) == ("running", 2, ("pbshost",))


def test_json_and_text_say_the_same() -> None:
    text = jobs_of(read_text(recorded(OPENPBS, "qstat-f").output))
    assert text == jobs_of(read_json(recorded(OPENPBS, "qstat-xtf-json").output))


def test_real_endings() -> None:
    endings = endings_of(read_json(AFTER), torque=False)
    causes = {(job, element): ending.cause for (job, element), ending in endings.items()}
    assert causes == {
        ("0.pbshost", 1): "done",
        ("1.pbshost", 1): "cancelled",
        **{("3[].pbshost", element): ("done", "exit")[element % 2] for element in range(5)},
        ("8.pbshost", 1): "exit",
        ("9.pbshost", 1): "walltime",
    }
    assert endings["8.pbshost", 1].exit_code == 7
    assert "exceeded resource walltime" in endings["9.pbshost", 1].message


def test_a_job_that_was_deleted_and_made_a_good_end() -> None:
    polite = AFTER.replace('"Exit_status":\t271', '"Exit_status":\t0')
    ending = endings_of(read_json(polite), torque=False)["1.pbshost", 1]
    assert ending.cause == "cancelled"
    assert "terminated by griduser" in ending.message


def test_no_jobs() -> None:
    assert jobs_of(read_json('{\n\t"timestamp":\t1,\n\t"pbs_version":\t"23"\n}')) == []


def test_environments_that_are_not_escaped() -> None:
    broken = AFTER.replace('"C.UTF-8"', '"a"b\\c\x01\n}() {  echo\n{"')
    broken = broken.replace('"array_index":\t1', '"array_index":\t01')
    with pytest.raises(ValueError, match=r"line \d+"):
        json.loads(broken, strict=False)
    assert jobs_of(read_json(broken)) == jobs_of(read_json(AFTER))
    assert endings_of(read_json(broken), torque=False) == endings_of(read_json(AFTER), torque=False)


def test_waiting_elements_that_are_not_listed() -> None:
    array = {
        "Job_Name": "n", "Job_Owner": "ann@h", "job_state": "B", "array_indices_remaining": "3-5",
        "Resource_List": {"ncpus": 2},
    }  # fmt: skip
    running = {"Job_Name": "n", "Job_Owner": "ann@h", "job_state": "R"}
    expired = {"Job_Name": "n", "Job_Owner": "ann@h", "job_state": "X"}
    listed: dict[str, Mapping[str, object]] = {
        "7[].h": array, "7[1].h": expired, "7[2].h": running, "7[3].h": running,
    }  # fmt: skip
    jobs = jobs_of(read_json(document(**listed)))
    assert [(job.id, job.element, job.state) for job in jobs] == [
        ("7[].h", 2, "running"),
        ("7[].h", 3, "running"),
        ("7[].h", 4, "queued"),
        ("7[].h", 5, "queued"),
    ]


ARRAY = {
    "Job_Name": "n", "Job_Owner": "ann@h", "job_state": "B", "Resource_List": {"ncpus": 2},
    "array_state_count": "Queued:2 Running:1 Exiting:1 Expired:3 ",
    "array_indices_submitted": "1-7", "array_indices_remaining": "5,7",
}  # fmt: skip


def test_an_array_that_is_shown_without_its_elements() -> None:
    jobs = jobs_of(read_json(document(**{"7[].h": ARRAY})))
    assert {job.element: job.state for job in jobs} == {
        **dict.fromkeys((1, 2, 3, 4, 6), "begun"),
        **dict.fromkeys((5, 7), "queued"),
    }
    assert {job.running_elements for job in jobs if job.state == "begun"} == {2}
    assert {job.id for job in jobs} == {"7[].h"}


@pytest.mark.parametrize("missing", ["array_indices_submitted", "array_state_count"])
def test_an_array_without_its_elements_and_their_number_says_nothing(missing: str) -> None:
    array = {key: value for key, value in ARRAY.items() if key != missing}
    with pytest.raises(QueueUnknownError, match="without its elements"):
        jobs_of(read_json(document(**{"7[].h": array})))


def test_a_held_array() -> None:
    """The array is H, and its waiting elements stay Q."""
    held = {**ARRAY, "job_state": "H", "array_indices_remaining": "1-7"}
    whole = jobs_of(read_json(document(**{"7[].h": held})))
    assert {job.state for job in whole} == {"held"}
    assert [job.element for job in whole] == list(range(1, 8))
    listed: dict[str, Mapping[str, object]] = {"7[].h": held}
    listed.update({f"7[{n}].h": {"Job_Name": "n", "job_state": "Q"} for n in range(1, 8)})
    assert [(job.element, job.state) for job in jobs_of(read_json(document(**listed)))] == [
        (n, "held") for n in range(1, 8)
    ]


@pytest.mark.parametrize(
    ("letter", "state"),
    [("Q", "queued"), ("T", "queued"), ("W", "queued"), ("H", "held"), ("R", "running"),
     ("E", "ending"), ("S", "suspended"), ("U", "suspended"), ("Z", "queued")],
)  # fmt: skip
def test_states(letter: str, state: str) -> None:
    (job,) = jobs_of(read_json(document(**{"7.h": {"job_state": letter}})))
    assert job.state == state


@pytest.mark.parametrize(
    ("status", "more", "cause"),
    [
        (-1, {}, "node"),
        (-27, {}, "memory"),
        (265, {"comment": "x and exceeded resource vmem"}, "memory"),
        (271, {}, "signal"),
        (
            271,
            {"resources_used": {"walltime": "01:00:03"}, "Resource_List": {"walltime": "01:00:00"}},
            "walltime",
        ),
    ],
)
def test_exit_statuses(status: int, more: dict[str, object], cause: str) -> None:
    text = document(**{"7.h": {"job_state": "F", "Exit_status": status, **more}})
    assert endings_of(read_json(text), torque=False)["7.h", 1].cause == cause


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        # Seen in outputs of jobs of PBS Professional and Torque.
        ("walltime 3650 exceeded limit 3600", "walltime"),
        ("cput job total 7300 secs exceeded limit 7200", "walltime"),
        ("mem 2097152kb exceeded limit 1048576kb", "memory"),
        ("vmem job total 1 kb exceeded limit 10 kb", "memory"),
        ("ncpus 58.88 exceeded limit 16 (sum)", "signal"),
    ],
)
def test_why_pbs_killed_a_job(said: str, cause: str) -> None:
    ending = killed(f"Welcome!\n=>> PBS: job killed: {said}\nTerminated\n")
    assert ending is not None
    assert ending.cause == cause
    assert ending.message == f"PBS killed the job: {said}"
    assert killed(f"echo '=>> PBS: job killed: {said}'") is None


def test_torque() -> None:
    jobs = jobs_of(read_text(after_header(TORQUE)))
    assert [(job.id, job.element, job.name, job.state, job.cores, job.user) for job in jobs] == [
        ("3[].head.cluster", 1, "wfrun-r1-2", "running", 2, "ann"),
        ("3[].head.cluster", 2, "wfrun-r1-2", "queued", 2, "ann"),
    ]
    assert jobs[1].reason.endswith("nodes are available at the moment")
    endings = endings_of(read_text(after_header(TORQUE)), torque=True)
    assert {key: ending.cause for key, ending in endings.items()} == {
        ("4.head.cluster", 1): "walltime"
    }


def test_torque_without_jobs() -> None:
    head = TORQUE.partition("Job Id:")[0]
    assert jobs_of(read_text(after_header(head))) == []


@pytest.mark.parametrize("output", ["", "Job Id: 3.h\n\n", "qstat: cannot connect to server\n"])
def test_torque_without_the_servers_line(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        after_header(output)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Unknown Host.\nqstat: cannot connect to server pbsnowhere (errno=15008)\n",
        "[]",
        "{}",
        '{"pbs_version": "23", "Jobs": []}',
        '{"pbs_version": "23", "Jobs": {"7.h": 1}}',
        "[" * 100_000,
        AFTER.rstrip()[:-1],
        AFTER[:5000],
    ],
)
def test_what_is_no_document_says_nothing(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        read_json(output)


@pytest.mark.parametrize("jobs", [{"seven": {"job_state": "R"}}, {"7.h": {"Job_Name": "n"}}])
def test_what_are_no_jobs_says_nothing(jobs: dict[str, dict[str, object]]) -> None:
    with pytest.raises(QueueUnknownError):
        jobs_of(read_json(document(**jobs)))


@given(st.integers(0, 25_000))
def test_a_document_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = AFTER.rstrip()
    with pytest.raises(QueueUnknownError):
        read_json(whole[: min(length, len(whole) - 1)])


@given(st.integers(1, 2000))
def test_text_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = after_header(TORQUE)
    cut = whole[: min(length, len(whole) - 1)]
    if cut.endswith("\n\n"):
        return  # Cut between two jobs: only the exit code can tell.
    with pytest.raises(QueueUnknownError):
        read_text(cut)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read, prefix in ((read_json, '{"pbs_version": 1, "Jobs": '), (read_text, "Job Id: 7.h\n")):
        for each in (text, prefix + text, prefix + text + "\n\n", prefix + text + "\n}"):
            try:
                jobs_of(read(each))
                endings_of(read(each), torque=False)
            except QueueUnknownError:
                pass


NODES = {
    "n1": {"state": "free", "resources_available.ncpus": "8", "resources_available.mem": "8gb"},
    "n2": {"state": "job-exclusive", "resources_available.ncpus": "8",
           "resources_available.mem": "8gb", "resources_assigned.ncpus": "2"},
    "n3": {"state": "down,offline", "resources_available.ncpus": "8",
           "resources_available.mem": "8388608kb"},
}  # fmt: skip
"""PBS counts 8 + 2 cores of them."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Insufficient amount of resource: ncpus (R: 24 A: 10 T: 10)", True),
        ("Insufficient amount of resource: ncpus (R: 25 A: 10 T: 10)", False),
        ("Insufficient amount of resource: mem (R: 24gb A: 8gb T: 8gb)", True),
        ("Insufficient amount of resource: mem (R: 25gb A: 8gb T: 8gb)", False),
        ("Insufficient amount of resource: ngpus (R: 2 A: 0 T: 0)", True),  # of n3 it is unknown
        ("Insufficient amount of resource: bigmem (True != False)", True),
        ("Insufficient amount of queue resource: ncpus (R: 24 A: 10 T: 10)", False),
        ("Not enough total nodes available", False),
    ],
)
def test_what_can_start_when_all_nodes_are_back(said: str, expected: bool) -> None:
    comment = f"Can Never Run: {said}"
    assert may_start(comment, NODES) == expected
    assert not may_start(comment, {"n1": NODES["n1"]})
