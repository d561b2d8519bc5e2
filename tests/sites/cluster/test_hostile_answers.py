"""Answers of a batch system at a hostile site: jobs, or that nothing is known; never a defect."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.sites.batch.recordings import GRID_ENGINE, OPENPBS, SLURM, recorded
from wfrun.sites.batch import elements
from wfrun.sites.batch.grid_engine import queue as grid_engine
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.pbs.attributes import endings_of, jobs_of
from wfrun.sites.batch.pbs.queue_json import read_json
from wfrun.sites.batch.pbs.queue_text import read_text
from wfrun.sites.batch.slurm import queue as slurm
from wfrun.sites.cluster.head_node import parsed

MANY = "9" * 5000
"""More digits than Python converts."""
Parser = Callable[[str], object]


def squeue(ident: str = "7", cores: str = "1", start: str = "17") -> str:
    header = "\x1f".join(("JOBID", "STATE", "USER", "CPUS", "S", "N", "R", "NAME"))
    return f"{header}\x1e\n" + "\x1f".join(
        (ident, "RUNNING", "u", cores, start, "n", "r", "j\x1e\n")
    )


def qstat_xml(**values: str) -> str:
    fields = {"JB_job_number": "7", "slots": "1", "state": "r"} | values
    job = "".join(f"<{tag}>{text}</{tag}>" for tag, text in fields.items())
    return f"<job_info><queue_info><job_list>{job}</job_list></queue_info><job_info/></job_info>"


def qstat_text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("Job Id: 7.h", "    job_state = C", *lines, ""))


def qstat_json(jobs: str) -> str:
    return '{"pbs_version": 1, "Jobs": {' + jobs.replace("MANY", MANY) + "}}"


def qacct(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("=" * 60, "jobnumber 7", *lines))


def pbs(text: str) -> object:
    return jobs_of(read_json(text))


HOSTILE: list[tuple[Parser, str]] = [
    (slurm.read_queue, squeue(ident=MANY)),
    (slurm.read_queue, squeue(ident=f"7_{MANY}")),
    (slurm.read_queue, squeue(cores=MANY)),
    (slurm.read_queue, squeue(start=MANY)),
    (slurm.read_accounting, f"JobID|State|ExitCode|NodeList\n7|FAILED|{MANY}:1|n\n"),
    (grid_engine.read_queue, qstat_xml(slots=MANY)),
    (grid_engine.read_queue, qstat_xml(slots="²")),
    (grid_engine.read_queue, qstat_xml(tasks="1-999999999:1")),
    (grid_engine.read_queue, "<a>" * 100_000),
    (
        grid_engine.read_queue,
        '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;">]>'
        + qstat_xml(JB_name="&c;&c;&c;"),
    ),
    (
        grid_engine.read_queue,
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + qstat_xml(JB_name="&b;"),
    ),
    (grid_engine.read_accounting, qacct(f"taskid {MANY}", "failed 0", "exit_status 0")),
    (
        grid_engine.read_accounting,
        qacct(
            *("taskid 1", "failed 100", "exit_status 137", f"slots {MANY}", f"maxvmem {MANY}G"),
            *(f"ru_wallclock {MANY}", f"category -l h_rt={MANY},h_vmem={MANY}G"),
        ),
    ),
    (pbs, '{"pbs_version": 1, "Jobs": ' + "[" * 100_000),
    (pbs, qstat_json('"7": {"ctime": MANY}')),
    (pbs, qstat_json('"7": {"job_state": "R", "Resource_List": {"ncpus": "MANY"}}')),
    (pbs, qstat_json('"7[MANY]": {"job_state": "R"}')),
    (
        lambda text: endings_of(read_text(text), torque=True),
        qstat_text(
            "    exit_status = 271",
            f"    Resource_List.walltime = {MANY}:00:00",
            f"    resources_used.walltime = {MANY}:00:00",
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("parser", "output"), HOSTILE, ids=range(len(HOSTILE)))
def test_impossible_answers_are_no_answer(parser: Parser, output: str) -> None:
    try:
        found = str(parsed(lambda: parser(output)))
    except QueueUnknownError as error:
        found = str(error)
        assert len(found) < 1000
    assert "root:" not in found


ARRAY = "<JB_job_number>7</JB_job_number><slots>1</slots><state>r</state><tasks>1-900"
BOMBS: list[tuple[Parser, str]] = [
    (slurm.read_queue, squeue(ident="1_[1-900]") + squeue(ident="2_[1-900]").split("\n", 1)[1] * 9),
    (grid_engine.read_queue, qstat_xml(tasks="1-900</tasks></job_list>" + f"<job_list>{ARRAY}")),
    (
        pbs,
        qstat_json(
            ",".join(
                f'"{n}[].h": {{"job_state": "B", "array_indices_remaining": "1-900", '
                '"array_indices_submitted": "1-900", '
                '"array_state_count": "Queued:900 Running:0 Exiting:0 Expired:0 "}'
                for n in range(9)
            )
        ),
    ),
]


@pytest.mark.parametrize(("parser", "output"), BOMBS, ids=["squeue", "qstat -xml", "qstat json"])
def test_a_short_answer_does_not_become_many_jobs(
    parser: Parser, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "MAX_JOBS", 1000)
    with pytest.raises(QueueUnknownError, match="more than 1000 jobs"):
        parsed(lambda: parser(output))


RECORDED: list[tuple[Parser, str, str]] = [
    (slurm.read_queue, SLURM, "queue"),
    (slurm.read_queue_endings, SLURM, "ended-squeue"),
    (slurm.read_accounting, SLURM, "ended-sacct"),
    (grid_engine.read_queue, GRID_ENGINE, "queue"),
    (pbs, OPENPBS, "qstat-after"),
    (lambda text: endings_of(read_json(text), torque=False), OPENPBS, "qstat-after"),
]


@pytest.mark.parametrize(("parser", "system", "name"), RECORDED)
def test_damaged_answers_are_jobs_or_no_answer(parser: Parser, system: str, name: str) -> None:
    """Recordings with pieces of them cut out, repeated, or replaced."""
    whole = recorded(system, name).output[:6000]
    chance = random.Random(13)
    for _ in range(150):
        text = whole
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(text))
            end = start + chance.choice([0, 1, 5, 100])
            new = chance.choice(["", MANY, "\0", "²", "-1", "\udcff", '"', "<", "[1-9]", text[:50]])
            text = text[:start] + new + text[end:]
        try:
            parsed(lambda text=text: parser(text))  # type: ignore[misc]
        except QueueUnknownError:
            continue
