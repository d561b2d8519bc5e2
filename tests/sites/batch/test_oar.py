"""OAR's commands and answers, as a live server printed them."""

from __future__ import annotations

import contextlib
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
from wfrun.sites.batch.oar.survey import SURVEY
from wfrun.sites.batch.oar.system import Oar
from wfrun.sites.batch.offers import BatchQueue
from wfrun.sites.kinds import make_batch_system
from wfrun.sites.node.jobs import batch_job

OAR = Oar()


def answer(name: str) -> Recording:
    return recorded("oar-2.5.9", name)


def test_a_large_array() -> None:
    oar = make_batch_system("oar", Access(batch_settings={"core_resource": "cpu"}))
    job = msgspec.structs.replace(LARGE, gpus=0)
    assert oar.submit(job, "/s/the batch.sh") == [
        "oarsub", "-n", "wfrun-r1-1", "-l", "/nodes=1/cpu=4,walltime=00:01:31", "-d", "/",
        "-O", "/scratch/100% $USER/log", "-E", "/scratch/100% $USER/log", "--array", "20",
        "-q", "long", "--project", "physics",
        "-p", "network_address NOT IN ('node7.cluster.org','node8')",
        "--comment", "two words", "/bin/sh '/s/the batch.sh'",
    ]  # fmt: skip
    with pytest.raises(InfeasibleError, match="2 GPUs"):
        oar.submit(LARGE, "/s/batch.sh")


def test_a_job_on_several_nodes() -> None:
    words = OAR.submit(msgspec.structs.replace(JOB, nodes=3, cores=4), "/s/batch.sh")
    assert "/nodes=3/core=4" in words


@pytest.mark.parametrize(("name", "ident"), [("submit-ok", "23"), ("submit-array", "21")])
def test_accepted(name: str, ident: str) -> None:
    assert OAR.submitted(*answer(name)) == ident


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *(
            (f"refuse-{name}", InfeasibleError)
            for name in ("queue", "property", "wide", "option", "where", "admin", "type")
        ),
        ("refuse-array", TransientError),  # a usage text
    ],
)
def test_not_accepted(name: str, error: type[WfrunError]) -> None:
    with pytest.raises(WfrunError) as caught:
        OAR.submitted(*answer(name))
    assert type(caught.value) is error


def test_the_queue() -> None:
    jobs = {(job.id, job.element): job for job in OAR.jobs(*answer("queue"))}
    assert set(jobs) == {("24", 2), ("26", 1)}
    assert jobs["26", 1] == JobInQueue(
        id="26", element=1, name="wfrun-r1-3", user="griduser", state="held", cores=1,
        requested_s=60,
    )  # fmt: skip
    running = jobs["24", 2]
    assert (running.state, running.cores, running.name) == ("running", 6, "wfrun-r1-2")
    assert running.nodes == ("127.0.0.1", "127.0.0.2")
    assert running.started_s is not None
    waiting = answer("queue").output.replace('"Hold"', '"Waiting"')
    (job,) = [job for job in OAR.jobs(0, waiting, "") if job.id == "26"]
    assert (job.state, job.reason) == ("queued", "")  # the message is the request


def test_an_empty_queue() -> None:
    assert OAR.jobs(*answer("queue-empty")) == []


def test_a_failed_query_says_nothing() -> None:
    with pytest.raises(QueueUnknownError, match="Connection refused"):
        OAR.jobs(*answer("down-queue"))
    assert outcomes(OAR, answer("down-queue")) == {}


def test_ends() -> None:
    """Array 1 could not be started twice, and was submitted again by OAR each time."""
    endings = OAR.ended(*answer("ended"))
    assert {key: ending.cause for key, ending in endings.items()} == {
        ("1", 1): "done", ("4", 1): "done", ("4", 2): "exit", ("4", 3): "walltime",
        ("4", 4): "signal", ("8", 1): "done",
    }  # fmt: skip
    assert endings["4", 2].exit_code == 7
    assert endings["4", 3].node == "127.0.0.1"
    assert "WALLTIME" in endings["4", 3].message
    assert OAR.ended(*answer("ended-unknown")) == {}


def test_a_job_that_was_submitted_again_and_waits() -> None:
    """It has not ended, although one like it has."""
    text = answer("ended").output
    last = text.replace('"state" : "Terminated"', '"state" : "Waiting"')
    assert ("1", 1) not in OAR.ended(0, last, "")


def test_an_end_by_its_owner_and_by_a_node() -> None:
    killed = answer("ended").output.replace('"WALLTIME"', '"OTHER"')
    assert OAR.ended(0, killed, "")["4", 3].cause == "cancelled"
    failed = killed.replace('"FRAG_JOB_REQUEST"', '"CANNOT_CREATE_TMP_DIRECTORY"')
    assert OAR.ended(0, failed, "")["4", 3].cause == "node"


def test_cancelling() -> None:
    arrays = [("7", 3), ("7", 1), ("8", None), ("9", 1), ("9", None)]
    assert OAR.cancel(arrays) == [
        ["oardel", "--array", "8", "9"],
        ["oardel", "--sql", "array_id = 7 AND array_index IN (1,3)"],
    ]


def test_what_a_launcher_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_facts(tmp_path, "oar")
    system = batch_job.JobSystem(str(tmp_path))
    (tmp_path / "oarsh").write_text("#!/bin/sh\n")
    (tmp_path / "oarsh").chmod(0o755)
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("OAR_NODEFILE", str(tmp_path / "nodes"))
    monkeypatch.setenv("OAR_JOB_WALLTIME_SECONDS", "60")
    assert system.time_granted_s(3600) == 60
    assert system.hosts() == ["n1", "n2"]
    # oarsh passes words to a shell, as ssh does.
    assert system.starts(["sh", "/a b/x"], system.hosts(), 4) == [
        (["oarsh", "n2", "sh", "'/a b/x'", "1"], {})
    ]


def test_the_offer() -> None:
    assert SURVEY.version.search(answer("version").output)
    offer = SURVEY.read({"nodes": answer("nodes").output})
    (queue,) = offer.queues
    assert isinstance(queue, BatchQueue)
    assert (queue.name, queue.is_default, queue.is_open) == ("default", True, True)
    assert (queue.cores, queue.down_cores, queue.node_cores) == (8, 0, 4)
    assert queue.choices == {"core_resource": ("core",)}
    half = answer("nodes").output.replace('"Alive"', '"Suspected"', 4)
    assert SURVEY.read({"nodes": half}).queues[0].down_cores == 4
    plain = re.sub(r'"core" : \d+,?', '"x" : 1,', answer("nodes").output)
    assert SURVEY.read({"nodes": plain}).queues[0].choices == {"core_resource": ("resource_id",)}
    with pytest.raises(QueueUnknownError):
        SURVEY.read({"nodes": "OAR version : 2.5.9 (Canicule)\n"})


@given(st.integers(0, 2400))
def test_a_document_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = answer("queue").output
    with pytest.raises(QueueUnknownError):
        OAR.jobs(0, whole[: min(length, len(whole) - 1)], "")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, f'{{"1": {text}}}', f'{{"1": {{"array_id": 1, "array_index": {text}}}}}'):
        for read in (OAR.jobs, OAR.ended):
            with contextlib.suppress(QueueUnknownError):
                read(0, f"{each}\nOAR version : 2\n", "")
        with contextlib.suppress(QueueUnknownError):
            SURVEY.read({"nodes": f"{each}\nOAR version : 2\n"})


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "null", '"²"', "[]", "1e999"])
@pytest.mark.parametrize("name", ["queue", "ended", "nodes"])
def test_each_number_of_an_answer(name: str, number: str) -> None:
    text = answer(name).output
    found = list(re.finditer(r"(?<= : )\d+", text))
    for match in found[:: 1 + len(found) // 60]:
        each = text[: match.start()] + number + text[match.end() :]
        with contextlib.suppress(QueueUnknownError):
            OAR.jobs(0, each, "")
        with contextlib.suppress(QueueUnknownError):
            OAR.ended(0, each, "")
        with contextlib.suppress(QueueUnknownError):
            SURVEY.read({"nodes": each})
