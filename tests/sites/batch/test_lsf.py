"""LSF's commands and answers, after the manual: no LSF was at hand."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sites.batch.recordings import Recording, recorded
from tests.sites.batch.test_systems import JOB, LARGE, outcomes
from tests.sites.node.jobs.facts import put_facts
from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import Access
from wfrun.sites.batch.jobs import JobInQueue, QueueUnknownError
from wfrun.sites.batch.lsf.offer import read_offer
from wfrun.sites.batch.lsf.survey import SURVEY
from wfrun.sites.batch.lsf.system import Lsf
from wfrun.sites.batch.lsf.termination import reason_of
from wfrun.sites.batch.offers import BatchQueue
from wfrun.sites.batch.system import ArrayTooLargeError, BackPressureError
from wfrun.sites.kinds import make_batch_system
from wfrun.sites.node.jobs import batch_job

LSF = Lsf()
GIB = 1 << 30


def answer(name: str) -> Recording:
    return recorded("lsf-10.1-manual", name)


def test_a_large_array() -> None:
    command = make_batch_system("lsf", Access()).submit(LARGE, "/s/batch.sh")
    assert command[:2] == ["sh", "-c"]
    assert command[3:] == [
        "/s/batch.sh", "-J", "wfrun-r1-1[1-20]", "-rn", "-cwd", "/",
        "-oo", "/scratch/wfrun-r1/output/1.%I", "-n", "4", "-R",
        "select[hname!='node7' && hname!='node7.cluster.org' && hname!='node8'] span[hosts=1] "
        "rusage[mem=1025MB]",
        "-M", "1025MB", "-gpu", "num=2", "-W", "2", "-q", "long", "-P", "physics",
        "--comment", "two words",
    ]  # fmt: skip


def test_a_job_on_several_nodes() -> None:
    job = msgspec.structs.replace(JOB, nodes=3, cores=4, memory_bytes=GIB)
    words = " ".join(LSF.submit(job, "/s/batch.sh"))
    assert "-n 12 -R span[ptile=4] rusage[mem=1024MB] -M 1024MB" in words


def test_a_walltime_of_the_users_own() -> None:
    job = msgspec.structs.replace(JOB, walltime_s=90.0)
    assert "WFRUN_JOB_WALLTIME_S=120\n" in LSF.script(job)
    assert "WALLTIME" not in LSF.script(msgspec.structs.replace(job, options=("-W", "10")))


@pytest.mark.parametrize(("name", "ident"), [("bsub-ok", "101"), ("bsub-array", "102")])
def test_accepted(name: str, ident: str) -> None:
    assert LSF.submitted(*answer(name)) == ident


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("bsub-queue", InfeasibleError),
        ("bsub-queue-user", InfeasibleError),
        ("bsub-resource", InfeasibleError),
        ("bsub-runlimit", InfeasibleError),
        ("bsub-wide", InfeasibleError),
        ("bsub-array-large", ArrayTooLargeError),
        ("bsub-limit", BackPressureError),
        ("bsub-closed", BackPressureError),
        ("bsub-option", TransientError),  # a usage text
        ("down", TransientError),
    ],
)
def test_not_accepted(name: str, error: type[WfrunError]) -> None:
    with pytest.raises(WfrunError) as caught:
        LSF.submitted(*answer(name))
    assert type(caught.value) is error
    assert answer(name).errors.splitlines()[0].strip() in str(caught.value)


def test_the_queue() -> None:
    jobs = LSF.jobs(*answer("bjobs"))
    assert [(job.id, job.element, job.state) for job in jobs] == [
        ("101", 1, "running"),
        ("102", 1, "running"),
        ("102", 2, "queued"),
        ("103", 1, "held"),
        ("104", 1, "suspended"),
        ("105", 1, "running"),
    ]
    assert jobs[0] == JobInQueue(
        id="101", element=1, name="wfrun-r1-1", user="griduser", state="running", cores=6,
        nodes=("hostA", "hostB"), requested_s=3600,
    )  # fmt: skip
    assert jobs[1].name == jobs[2].name == "wfrun-r1-2"
    assert jobs[2].reason == "Job slot limit reached: 2 hosts;"


@pytest.mark.parametrize("name", ["bjobs-none", "bjobs-none-text"])
def test_an_empty_queue(name: str) -> None:
    assert LSF.jobs(*answer(name)) == []


def test_lines_before_a_document() -> None:
    said = "Cannot connect to LSF. Please wait ...\n" + answer("bjobs").output
    assert len(LSF.jobs(0, said, "")) == 6


@pytest.mark.parametrize("name", ["down", "bjobs-unknown"])
def test_a_failed_query_says_nothing(name: str) -> None:
    with pytest.raises(QueueUnknownError):
        LSF.jobs(*answer(name))
    assert outcomes(LSF, answer(name)) == {}


def test_recent_ends() -> None:
    endings = LSF.ended(*answer("bjobs-ended"))
    assert {key: ending.cause for key, ending in endings.items()} == {
        ("111", 1): "done", ("111", 2): "walltime", ("111", 3): "exit", ("112", 1): "memory",
    }  # fmt: skip
    assert endings["111", 3].exit_code == 7
    assert endings["112", 1].node == "hostB"
    assert endings["111", 2].message.startswith("TERM_RUNLIMIT: job killed")


def test_ends_of_the_history() -> None:
    endings = LSF.ended(*answer("bhist"))
    assert {key: ending.cause for key, ending in endings.items()} == {
        ("7", 1): "walltime", ("7", 2): "done", ("8", 1): "exit",
    }, "9 was queued again and runs"  # fmt: skip
    assert (endings["8", 1].exit_code, endings["8", 1].node) == (3, "hostC")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("TERM_SWAP: job killed after reaching LSF swap usage limit", "memory"),
        ("TERM_CPULIMIT: job killed after reaching LSF CPU usage limit", "walltime"),
        ("TERM_ADMIN: job killed by root or LSF administrator", "cancelled"),
        ("TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF", "signal"),
        ("TERM_PREEMPT: job killed after preemption", "signal"),
        ("TERM_CWD_NOTEXIST: current working directory is not accessible", "node"),
    ],
)
def test_reasons(said: str, cause: str) -> None:
    ending = reason_of(f"Completed <exit>; {said};")
    assert ending is not None
    assert (ending.cause, ending.message) == (cause, said)
    assert reason_of("Completed <exit>; TERM_UNKNOWN: unknown") is None


def test_the_report_of_a_job() -> None:
    report = answer("report").output
    ending = LSF.explained(report)
    assert ending is not None
    assert ending.cause == "memory"
    mimicked = report.replace("TERM_MEMLIMIT", "x") + "TERM_RUNLIMIT: of the job itself\n"
    assert LSF.explained(mimicked) is None


def test_cancelling() -> None:
    arrays = [("7", 3), ("7", 1), ("7", 2), ("7", 9), ("8", None), ("9", 1), ("9", None)]
    assert LSF.cancel(arrays) == [["bkill", "7[1-3,9]", "8", "9"]]


def test_what_a_launcher_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_facts(tmp_path, "lsf")
    system = batch_job.JobSystem(str(tmp_path))
    programs = tmp_path / "programs"
    programs.mkdir()
    script = '#!/bin/sh\ntest "$5" = "$EXPECTED" && echo "01:00:30 L"\n'
    for name in ("bjobs", "blaunch"):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("LSB_MCPU_HOSTS", "hostA 4 hostB 4 hostC 4")
    monkeypatch.setenv("LSB_JOBID", "101")
    for index, expected in (("0", "101"), ("7", "101[7]")):
        monkeypatch.setenv("LSB_JOBINDEX", index)
        monkeypatch.setenv("EXPECTED", expected)
        assert system.time_granted_s(100_000) == 3630
    monkeypatch.setenv("EXPECTED", "another job")
    assert system.time_granted_s(100_000) == 100_000
    assert system.hosts() == ["hostA", "hostB", "hostC"]
    assert system.starts(["sh", "x"], system.hosts(), 4) == [
        (["blaunch", "-n", "hostB", "sh", "x", "1"], {}),
        (["blaunch", "-n", "hostC", "sh", "x", "2"], {}),
    ]


ANSWERS = {
    "queues": "bqueues", "hosts": "bhosts", "machines": "lshosts", "groups": "bmgroup",
    "parameters": "bparams", "user": "busers",
}  # fmt: skip


def test_the_offer() -> None:
    assert set(ANSWERS) == {*SURVEY.needed, *SURVEY.wanted}
    assert SURVEY.version.search(answer("lsid").output)
    offer = SURVEY.read({name: answer(file).output for name, file in ANSWERS.items()})
    assert offer.queues == (
        BatchQueue(
            "normal", is_default=True, cores=30, down_cores=18, idle_cores=3, node_cores=16,
            node_memory_bytes=round(31.2 * GIB), walltime_s=86400,
        ),
        BatchQueue(
            "short", is_open=False, cores=14, down_cores=2, idle_cores=3, node_cores=8,
            node_memory_bytes=round(15.6 * GIB), walltime_s=900,
        ),
    )  # fmt: skip
    assert (offer.max_array, offer.max_jobs) == (5000, 500)


def test_an_offer_without_the_commands_that_may_fail() -> None:
    texts = {name: answer(file).output for name, file in ANSWERS.items()}
    few = {name: texts[name] if name in SURVEY.needed else "" for name in texts}
    normal, short = SURVEY.read(few).queues
    assert (normal.is_default, normal.cores, normal.node_memory_bytes) == (True, 30, 0)
    assert short.cores == 2, "the hosts of the group are unknown"
    for name in SURVEY.needed:
        with pytest.raises(QueueUnknownError):
            SURVEY.read({**texts, name: ""})


@given(st.integers(0, 1800))
def test_a_document_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = answer("bjobs").output.rstrip()
    with pytest.raises(QueueUnknownError):
        LSF.jobs(0, whole[: min(length, len(whole) - 1)], "")


def test_a_document_with_fewer_jobs_than_it_says() -> None:
    document = json.loads(answer("bjobs").output)
    document["RECORDS"].pop()
    with pytest.raises(QueueUnknownError, match="5 of 6"):
        LSF.jobs(0, json.dumps(document), "")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, f'{{"JOBS": 1, "RECORDS": [{text}]}}', f"Job <7>\n{text}\n"):
        for read in (LSF.jobs, LSF.ended):
            with contextlib.suppress(QueueUnknownError):
                read(0, each, "")
        with contextlib.suppress(QueueUnknownError):
            read_offer(*[f"QUEUE: {each}\nHOST_NAME {each}\n{each}\n"] * 6)


@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", ""])
def test_each_number_of_an_answer(number: str) -> None:
    for name in ("bjobs", "bjobs-ended", "bhist"):
        text = answer(name).output
        found = list(re.finditer(r"\d+", text))
        for match in found[:: 1 + len(found) // 60]:
            each = text[: match.start()] + number + text[match.end() :]
            for read in (LSF.jobs, LSF.ended):
                with contextlib.suppress(QueueUnknownError):
                    read(0, each, "")
    texts = {name: answer(file).output for name, file in ANSWERS.items()}
    for name in texts:
        with contextlib.suppress(QueueUnknownError):
            SURVEY.read({**texts, name: re.sub(r"\d+", number, texts[name])})
