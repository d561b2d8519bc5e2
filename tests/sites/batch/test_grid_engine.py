from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sites.batch.recordings import GRID_ENGINE, recorded
from wfrun.sites.batch.grid_engine.queue import read_accounting, read_queue
from wfrun.sites.batch.grid_engine.system import GridEngine
from wfrun.sites.batch.jobs import JobInQueue, QueueUnknownError

QUEUE = """<?xml version='1.0'?>
<job_info><queue_info></queue_info><job_info><job_list state="pending">
<JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name><JB_owner>ann</JB_owner>
<state>{state}</state><queue_name></queue_name><slots>{slots}</slots><tasks>{tasks}</tasks>
</job_list></job_info></job_info>
"""


def queue(
    number: str = "7", name: str = "n", state: str = "qw", slots: str = "1", tasks: str = ""
) -> str:
    return QUEUE.format(number=number, name=name, state=state, slots=slots, tasks=tasks)


def test_a_real_queue() -> None:
    jobs = read_queue(recorded(GRID_ENGINE, "queue").output)
    array = {job.element: job.state for job in jobs if job.id == "55"}
    running = dict.fromkeys((3, 6, 7, 8, 9), "running")
    waiting = dict.fromkeys((*range(10, 19), 20), "queued")
    assert array == {1: "suspended", **running, **waiting}
    others = {job.name: job for job in jobs if job.id != "55"}
    assert others["wfrun-r1-3"].cores == 2
    assert others["wfrun-a-very-long-name-of-a-job-4"].state == "held"
    assert others["a&b"].state == "held"
    assert others["wfrun-r1-5"].state == "refused"
    assert "qstat -j" in others["wfrun-r1-5"].reason
    assert JobInQueue(
        id="55", element=3, name="wfrun-r1-2", user="griduser", state="running", cores=1,
        nodes=("localhost",),
    ) in jobs  # fmt: skip


def test_an_empty_queue_is_a_document() -> None:
    assert read_queue(recorded(GRID_ENGINE, "queue-empty").output) == []


def test_deleted_jobs_are_ending() -> None:
    jobs = read_queue(recorded(GRID_ENGINE, "queue-deleting").output)
    assert {job.state for job in jobs} == {"ending"}


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("qw", "queued"), ("hqw", "held"), ("hRwq", "held"), ("r", "running"), ("t", "running"),
        ("Rr", "running"), ("hr", "running"), ("s", "suspended"), ("S", "suspended"),
        ("T", "suspended"), ("tS", "suspended"), ("dr", "ending"), ("dt", "ending"),
        ("Eqw", "refused"), ("dEqw", "ending"), ("P", "queued"),
    ],
)  # fmt: skip
def test_states(code: str, state: str) -> None:
    (job,) = read_queue(queue(state=code))
    assert job.state == state


def test_names_of_others_can_be_anything() -> None:
    (job,) = read_queue(queue(name="caf\udce9 \x01 \x1b[0m"))
    assert job.name.startswith("caf")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "error: commlib error: got select error (Connection refused)\n",
        "<?xml version='1.0'?>\n<unknown_jobs/>",
        "<?xml version='1.0'?>\n<job_info></job_info>",
        queue()[:-20],
        queue() + "trailing",
        queue(number="seven"),
        queue(slots=""),
        queue(state=""),
        queue(tasks="1-999999999"),
        "<!DOCTYPE a [<!ENTITY b 'c'>]><job_info>&b;</job_info>",
    ],
)
def test_what_is_no_queue_says_nothing(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        read_queue(output)


@given(st.integers(0, 10_000))
def test_a_document_cut_off_is_never_a_shorter_queue(length: int) -> None:
    whole = recorded(GRID_ENGINE, "queue").output.rstrip()
    with pytest.raises(QueueUnknownError):
        read_queue(whole[: min(length, len(whole) - 1)])


def test_a_huge_array() -> None:
    assert len(read_queue(queue(tasks="1-75000:1"))) == 75_000


@pytest.mark.parametrize(
    ("name", "cause", "exit_code"),
    [
        ("qacct-exit", "exit", 7),
        ("qacct-sig", "signal", None),
        ("qacct-del", "signal", None),
        ("qacct-rt", "walltime", None),
        ("qacct-vmem", "memory", None),
    ],
)
def test_real_endings(name: str, cause: str, exit_code: int | None) -> None:
    (ending,) = read_accounting(recorded(GRID_ENGINE, name).output).values()
    assert (ending.cause, ending.exit_code, ending.node) == (cause, exit_code, "localhost")


def test_elements_have_a_record_each() -> None:
    endings = read_accounting(recorded(GRID_ENGINE, "qacct-array").output)
    codes = {element: ending.exit_code for (_, element), ending in endings.items()}
    assert codes == dict.fromkeys(range(1, 10), 3)


def test_before_the_record_is_written_nothing_is_known() -> None:
    assert read_accounting(recorded(GRID_ENGINE, "qacct-unknown").output) == {}


@pytest.mark.parametrize(
    ("failed", "status", "cause"),
    [
        ("0", "0", "done"),
        ("1   : before job", "0", "node"),
        ("21  : in recognizing job", "0", "node"),
        ("26  : opening input/output file", "0", "disk-full"),
        ("100 : assumedly after job", "139", "signal"),
        ("37  : qmaster enforced h_rt limit", "137", "signal"),
    ],
)
def test_codes(failed: str, status: str, cause: str) -> None:
    text = recorded(GRID_ENGINE, "qacct-exit").output
    text = text.replace("failed       0", f"failed       {failed}")
    text = text.replace("exit_status  7", f"exit_status  {status}")
    (ending,) = read_accounting(text).values()
    assert ending.cause == cause


def test_of_a_number_used_twice_the_last_record_counts() -> None:
    old, new = (recorded(GRID_ENGINE, "qacct-exit").output for _ in range(2))
    (ending,) = read_accounting(old + new.replace("exit_status  7", "exit_status  0")).values()
    assert ending.cause == "done"


def test_a_record_cut_off_is_left_out() -> None:
    whole = recorded(GRID_ENGINE, "qacct-sig").output
    assert read_accounting(whole[: whole.index("exit_status  137") + len("exit_status  1")]) == {}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read_accounting("=" * 62 + "\njobnumber 7\ntaskid 1\nfailed 0\nexit_status 0\n" + text)
    with contextlib.suppress(QueueUnknownError):
        read_queue(text)


def test_endings_are_told_in_the_systems_words() -> None:
    (ending,) = read_accounting(recorded(GRID_ENGINE, "qacct-sig").output).values()
    assert ending.message == "failed 100 : assumedly after job; exit status 137 (Killed)"


def waits(name: str) -> tuple[str, bool]:
    return GridEngine().waits(*recorded(GRID_ENGINE, name))


def test_why_a_job_waits() -> None:
    """Queues that it did not ask for are no reason."""
    assert waits("why-full") == ("queue all.q is full", False)
    assert waits("why-disabled") == ("queue all.q is disabled", True)
    with pytest.raises(QueueUnknownError, match="do not exist"):
        waits("why-unknown")


def test_why_a_job_waits_in_a_large_cluster() -> None:
    _, output, _ = recorded(GRID_ENGINE, "why-full")
    line = 'queue instance "all.q@localhost" dropped because it is full\n'
    more = "".join(f"    {line.replace('localhost', f'node{n}')}" for n in range(99))
    more += "    (-l h_rt=600) cannot run globally because of a reservation\n"
    for other in ("all.q@dead", "big.q@one"):
        more += f'    queue instance "{other}" dropped because it is disabled\n'
    said = GridEngine().waits(0, output.replace(line, line + more), "")
    assert said == (
        "100 instances of all.q are full; queue all.q is disabled; "
        "(-l h_rt=600) cannot run globally because of a reservation",
        False,
    )


def test_a_scheduler_that_gives_no_reasons() -> None:
    """``schedd_job_info`` is off."""
    _, output, _ = recorded(GRID_ENGINE, "why-full")
    assert GridEngine().waits(0, output.partition("scheduling info")[0], "") == ("", False)
