"""`wfrun simulate` as its user meets it: the commands, interrupts, and bad input."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path
from typing import NoReturn

import pytest

from tests.runners import histories
from tests.runners.harness import Done, User, assert_refused, wait_until
from wfrun import read_workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.round_robin import RoundRobin
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.experiments.subjects.workloads import POLICIES
from wfrun.runners.run.history.history_file import history_file

SITES = """\
sites:
  near: {slots: 4}
  far: {slots: 8, speed: 2}
links:
  - {between: [near, far], bandwidth: 10 MB/s, latency: 10 ms}
"""
HEADER = "; MaxProcs: 8\n"
UNTIMED = """\
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="untimed">
  <job id="a" name="first"><uses file="x" link="output" size="5"/></job>
  <job id="b" name="second"><uses file="x" link="input" size="5"/></job>
  <child ref="b"><parent ref="a"/></child>
</adag>
"""


def log_line(number: int, submit_s: object, runtime_s: object = 100, size: object = 2) -> str:
    return f"{number} {submit_s} -1 {runtime_s} {size} -1 -1 {size} 200 -1 1 1 1 1 1 -1 -1 -1\n"


@pytest.fixture
def user(user: User) -> User:
    """With two workflows, a catalog and a log."""
    write_dax(generate("montage", 30, 1), user.folder / "montage.dax")
    write_dax(generate("bag", 12, 1), user.folder / "bag.dax")
    user.catalog(SITES)
    lines = (log_line(i, 300 * i, 400 + 13 * (i % 7)) for i in range(400))
    (user.folder / "log.swf").write_text(HEADER + "".join(lines))
    (user.folder / "untimed.dax").write_text(UNTIMED)
    return user


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of the lines of the first table, by their first word."""
    lines = text.split("NSL:")[0].splitlines()
    return {line.split()[0]: line.split() for line in lines if line.strip()}


def succeeded(done: Done) -> str:
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    return done.out


# What a user can do


def test_all_policies_are_compared(user: User) -> None:
    out = succeeded(user.wfrun("simulate", "montage.dax", "--sites", "sites.yaml"))
    rows = rows_of(out)
    for_workflows = set(PLACEMENT) - set(POLICIES)
    assert set(rows) == {"policy", *for_workflows}
    makespans = [float(row[1].replace(",", "")) for row in list(rows.values())[1:]]
    assert makespans == sorted(makespans)
    assert next(iter(list(rows.values())[1:]))[2] == "best"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_policy_that_raises_costs_its_own_runs_only(
    user: User, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    class Broken(RoundRobin):
        name = "broken"

        def place(self, *_: object) -> NoReturn:
            raise KeyError("no such site")

    class Unmade(RoundRobin):
        name = "unmade"

        def __init__(self, *_: object) -> None:
            raise RuntimeError("not today")

    for policy in (Broken, Unmade):
        monkeypatch.setitem(PLACEMENT, policy.name, policy)
    options = ("simulate", "montage.dax", "--sites", "sites.yaml", "--seeds", "2", "-j", jobs)
    alone = user.ask(*options, "--policy", "heft,round-robin")
    done = user.ask(*options, "--policy", "heft,broken,unmade,round-robin", "-o", "all.csv")
    assert (done.status, done.out) == (3, alone.out)
    assert done.err.count("policy 'broken' raised KeyError: 'no such site'") == 1
    assert "test_simulate.py:" in done.err
    assert done.err.count("policy 'unmade' raised RuntimeError: not today") == 1
    monkeypatch.setitem(PLACEMENT, "broken", RoundRobin)
    again = user.ask(*options, "--policy", "heft,broken,round-robin", "-o", "all.csv")
    assert again.status == 0, again.text
    assert {"heft", "broken", "round-robin"} <= rows_of(again.out).keys()
    only = user.ask(*options, "--policy", "unmade")
    assert (only.status, only.out) == (3, "")
    assert "policy 'unmade' raised" in only.err


@pytest.mark.slow
def test_a_grid_with_background_gives_a_table_a_file_and_a_picture(user: User) -> None:
    words = (
        "simulate", "montage.dax", "bag.dax", "--sites", "sites.yaml", "--policy",
        "heft,all-clusters,heft", "--background", "log.swf", "--load", "0.2,0.5", "--throttle",
        "2,-", "--seeds", "2", "--output", "out.csv", "--plot", "out.png",
    )  # fmt: skip
    first = user.wfrun(*words)
    out = succeeded(first)
    assert "±" in out
    assert "makespan s of each workflow" in out
    assert "plot: out.png" in first.err
    assert (user.folder / "out.png").read_bytes().startswith(b"\x89PNG")
    lines = (user.folder / "out.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 2 * 2
    assert lines[0].startswith(
        "subject,sites,background,settings,workload,architecture,selection,policy,throttle,load,"
    )
    again = succeeded(user.wfrun(*words))
    assert again == out
    assert (user.folder / "out.csv").read_text().splitlines() == lines


@pytest.mark.slow
def test_each_workflow_on_its_own_to_parquet(user: User) -> None:
    from pyarrow import parquet

    words = ("simulate", "montage.dax", "bag.dax", "--separately", "--sites", "sites.yaml",
             "--policy", "heft,round-robin", "--output", "out.parquet", "--plot",
             "out.svg")  # fmt: skip
    out = succeeded(user.wfrun(*words))
    lines = [line.split()[:2] for line in out.splitlines()[:5]]
    names = [generate("montage", 30, 1).name, generate("bag", 12, 1).name]
    assert lines[0] == ["workload", "policy"]
    assert [name for name, _ in lines[1:]] == [names[0]] * 2 + [names[1]] * 2
    assert "makespan s of each workflow" not in out
    records = parquet.read_table(user.folder / "out.parquet").to_pylist()
    assert sorted(r["makespans_s"] for r in records) == sorted([r["makespan_s"]] for r in records)
    kept = (user.folder / "out.csv").read_text()
    assert len(kept.splitlines()) == 1 + 4
    (user.folder / "out.parquet").unlink()
    assert succeeded(user.wfrun(*words)) == out  # from the CSV file
    assert parquet.read_table(user.folder / "out.parquet").to_pylist() == records
    assert (user.folder / "out.csv").read_text() == kept
    alone = succeeded(user.wfrun("simulate", "bag.dax", *words[4:8]))
    assert rows_of(alone)["heft"][1] in {row.split()[2] for row in out.splitlines()[3:5]}


def test_more_load_takes_longer(user: User) -> None:
    rows = []
    for load in ("0.1", "0.9"):
        out = succeeded(user.wfrun(
            "simulate", "bag.dax", "--sites", "sites.yaml", "--policy", "round-robin",
            "--background", "log.swf", "--load", load, "--seeds", "5",
        ))  # fmt: skip
        rows.append(float(rows_of(out)["round-robin"][1].replace(",", "")))
    assert rows[0] < rows[1]


@pytest.mark.parametrize("lrm", ["fcfs", "easy", "conservative"])
def test_the_queue_of_a_log(user: User, lrm: str) -> None:
    out = succeeded(user.wfrun("simulate", "log.swf", "--lrm", lrm))
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["queue"].strip() == lrm
    assert facts["jobs"].strip() == "400"
    assert facts["processors"].strip() == "8"
    assert facts["killed at their request"].strip() == "400"  # they ask for 200 s
    free = succeeded(user.wfrun("simulate", "log.swf", "--lrm", lrm, "--no-kill-overruns"))
    assert dict(line.split("  ", 1) for line in free.splitlines())[
        "killed at their request"
    ].strip() == "0"  # fmt: skip


def test_a_queue_that_grows_as_long_as_jobs_arrive_is_named(user: User) -> None:
    """2 of 8 processors for 100 s: every 20 s, more than is done; every 40 s, less; three long jobs
    at once leave processors free, although their work is more than fits while they arrive."""
    says = "1.26 of the processors while jobs arrive: the queue grows as long as they do"
    for gap_s, count, runtime_s, grows in ((20, 100, 100, True), (40, 100, 100, False),
                                           (10, 3, 9000, False)):  # fmt: skip
        lines = [log_line(number, gap_s * number, runtime_s) for number in range(count)]
        (user.folder / "load.swf").write_text(HEADER + "".join(lines))
        out = succeeded(user.ask("simulate", "load.swf", "--lrm", "easy", "--no-kill-overruns"))
        assert ("offered load" in out) is grows, out
        assert (says in " ".join(out.split())) is grows, out


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_jobs_of_a_queue_ask_for_the_processors_that_users_requested(
    user: User, suffix: str
) -> None:
    """Two of them fit together by their requests, and not by their allocations."""
    lines = [
        f"{number} {submit_s} -1 100 5 -1 -1 {requested} 200 -1 1 1 1 1 1 -1 -1 -1\n"
        for number, submit_s, requested in ((7, 0, 4), (8, 10, 4), (9, 20, -1))
    ]
    (user.folder / "few.swf").write_text(HEADER + "".join(lines))
    path = user.folder / f"jobs.{suffix}"
    out = succeeded(user.wfrun("simulate", "few.swf", "--output", path))
    assert (
        "processors of a job      as requested; as allocated where there is no request (1 of 3)"
        in out
    )
    if suffix == "csv":
        rows = [list(row.values()) for row in csv.DictReader(path.read_text().splitlines())]
        assert rows == [
            ["7", "4", "0.0", "0.0", "0.0", "100.0", "False"],
            ["8", "4", "10.0", "0.0", "10.0", "110.0", "False"],
            ["9", "5", "20.0", "90.0", "110.0", "210.0", "False"],
        ]
    else:
        from pyarrow import parquet

        table = parquet.read_table(path)
        assert table["wait_s"].to_pylist() == [0.0, 0.0, 90.0]
        assert table["killed"].to_pylist() == [False] * 3


def test_a_past_run_is_simulated_with_its_measured_times(user: User) -> None:
    succeeded(user.wfrun(
        "montage.dax", "--sites", "sites.yaml", "--emulate", "--time-scale", "0.001", "--run-dir",
        "past", "--quiet",
    ))  # fmt: skip
    out = succeeded(user.wfrun("simulate", "--from-run", "past", "--policy", "heft,file-aware"))
    assert set(rows_of(out)) == {"policy", "heft", "file-aware"}
    assert float(rows_of(out)["heft"][1]) < 60


def test_a_simulated_run_is_inspected_like_a_run(user: User) -> None:
    words = ("simulate", "montage.dax", "--sites", "sites.yaml", "--policy", "heft", "--run-dir")
    out = succeeded(user.wfrun(*words, "wfrun-runs/what-if"))
    status = succeeded(user.ask("status", "wfrun-runs/what-if"))
    assert status == out
    assert "(simulated)" in status
    assert "done: 30/30 tasks done" in status
    listed = succeeded(user.ask("list")).splitlines()
    assert listed[1].split()[:3] == ["what-if", "done", "30"]
    again = succeeded(user.wfrun("simulate", "--from-run", "last", "--policy", "heft"))
    direct = succeeded(user.wfrun(*words[:-1]))
    assert rows_of(again)["heft"][1] == rows_of(direct)["heft"][1]
    assert_refused(user.ask("resume"), 2, ["was simulated"])
    assert_refused(user.ask("logs", "last", "x"), 2, ["was simulated"])
    assert_refused(user.ask(*words, "wfrun-runs/what-if"), 2, ["already holds a run"])


def test_equal_simulated_runs_have_equal_logs(user: User) -> None:
    logs = []
    for name in ("one", "two"):
        succeeded(user.wfrun(
            "simulate", "montage.dax", "--sites", "sites.yaml", "--policy", "round-robin",
            "--failure-rate", "0.2", "--run-dir", name,
        ))  # fmt: skip
        logs.append((user.folder / name / "events.sqlite").read_bytes())
    assert logs[0] == logs[1]


def failed(done: Done) -> str:
    assert done.status == 1, done.text
    assert "Traceback" not in done.text
    return done.out


def test_a_run_that_did_not_finish_has_a_reason_and_no_makespan(user: User) -> None:
    words = ("simulate", "montage.dax", "--sites", "sites.yaml", "--failure-rate", "0.9")
    out = failed(user.wfrun(*words))
    assert "failed" in out.splitlines()[0]
    assert "makespan" not in out.splitlines()[0]
    assert " best " not in out.split("\n", 1)[1]
    assert re.search(r"heft did not finish: \d+ of 30 tasks are not done: ID\d+ at (near|far)", out)
    kept = failed(user.wfrun(*words, "--policy", "heft", "--run-dir", "kept"))
    assert "failed: " in kept
    record = json.loads(succeeded(user.ask("status", "kept", "--json")))
    assert [workflow["makespan_s"] for workflow in record["workflows"]] == [None]
    status = succeeded(user.ask("status", "kept"))
    assert "to continue" not in status


def test_runs_have_the_options_of_real_runs(user: User) -> None:
    words = ("simulate", "montage.dax", "--sites", "sites.yaml", "--failure-rate", "0.3")
    failed(user.wfrun(*words, "--policy", "heft", "--retries", "0"))
    succeeded(user.wfrun(*words, "--policy", "heft", "--retries", "9"))
    sizes = [
        succeeded(user.wfrun(*words[:4], "--policy", "coarsening,heft", "-O", f"size={size}"))
        for size in (1, 30)
    ]
    assert rows_of(sizes[0])["heft"][1] == rows_of(sizes[1])["heft"][1]
    assert rows_of(sizes[0])["coarsening"][1] != rows_of(sizes[1])["coarsening"][1]


def test_selection_policies_are_compared(user: User) -> None:
    words = ("simulate", "montage.dax", "bag.dax", "--sites", "sites.yaml", "--policy", "heft")
    out = succeeded(user.wfrun(*words, "--selection", "s-t,s-bot", "--output", "out.csv"))
    assert out.split("\n")[0].split()[:2] == ["selection", "policy"]
    assert {line.split()[0] for line in out.splitlines()[1:3]} == {"s-t", "s-bot"}


def test_a_table_gives_run_times_by_type(user: User) -> None:
    (user.folder / "times.yaml").write_text("first: 1 min\n")
    out = succeeded(user.wfrun(
        "simulate", "untimed.dax", "--sites", "sites.yaml", "--policy", "single-cluster",
        "--runtimes", "times.yaml", "--runtime", "20",
    ))  # fmt: skip
    assert float(rows_of(out)["single-cluster"][1]) in (80, 40)


def test_run_times_that_documents_lack_are_those_of_earlier_runs(user: User) -> None:
    """By the method of --predictor."""
    (user.folder / "list.txt").write_text("sleep 1\n" * 4)
    workflow = read_workflow(user.folder / "list.txt")
    user.catalog("sites:\n  near: {slots: 4}\n")
    words = ("simulate", "list.txt", "--sites", "sites.yaml", "--policy", "round-robin")
    assert_refused(user.ask(*words), 2, ["4 of 4 tasks have no run time"])
    file = history_file(None)
    assert file is not None
    histories.remember(file.path, [10, 30, 50], workflow.tasks[0].name, workflow.owner)
    for predictor, makespan_s in (("last2", 40), ("last", 50), ("rm", 30)):
        done = user.ask(*words, "--predictor", predictor)
        assert "4 tasks have no run time in their documents" in done.err
        assert float(rows_of(succeeded(done))["round-robin"][1]) == makespan_s


def test_on_80_columns_nothing_is_cut(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--sites", "sites.yaml", "--throttle", "2,3", "--failure-rate", "0.3")
    done = user.wfrun("simulate", "montage.dax", "bag.dax", *words, "--seeds", "3")
    out = failed(done)
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert "…" not in out
    assert "no room for" in " ".join(out.split())


# Interrupts


def big_grid(user: User) -> list[str]:
    """One that takes a while."""
    write_dax(generate("montage", 1000, 1), user.folder / "big.dax")
    return ["simulate", "big.dax", "--sites", "sites.yaml", "--seeds", "200", "--jobs", "2",
            "--output", "out.csv", "--quiet"]  # fmt: skip


def lines_in(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.cases
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_grid_keeps_what_is_done_and_leaves_no_process(
    user: User, number: signal.Signals
) -> None:
    words = big_grid(user)
    out = user.folder / "out.csv"
    engine = user.start(*words)
    assert wait_until(lambda: lines_in(out) >= 4)
    engine.signal(number)
    done = engine.done()
    assert "Traceback" not in done.text
    assert user.is_alone()
    if number == signal.SIGINT:
        assert done.status == 130
        assert "the same command goes on" in done.err
    before = out.read_text()
    engine = user.start(*words)
    assert wait_until(lambda: lines_in(out) >= before.count("\n") + 2)
    engine.kill()
    assert out.read_text().startswith(before[: before.rindex("\n") + 1])


# Bad input


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("montage.dax --policy hefft", ["did you mean 'heft'"]),
        ("montage.dax --lrm eazy", ["did you mean 'easy'"]),
        ("montage.dax --load 0.3", ["name its log with --background"]),
        ("montage.dax --load 30% --background log.swf", ["'30%'"]),
        ("montage.dax --throttle 5,0", ["--throttle has '0'"]),
        ("montage.dax --throttle 5,²", ["--throttle has '²'"]),
        ("montage.dax --head-bandwidth fast", ["--head-bandwidth: 'fast'"]),
        ("montage.dax --run-dir new", ["name one policy"]),
        ("montage.dax --run-dir new --policy heft --output x.csv", ["--output is for experiments"]),
        ("montage.dax --processors 4", ["--processors does not apply to documents"]),
        ("montage.dax --skip-bad-lines", ["name one with --background"]),
        (
            "montage.dax bag.dax --separately --policy heft --run-dir new",
            ["with --separately, one document"],
        ),
        ("log.swf --separately", ["--separately does not apply to the queue of a log"]),
        ("montage.dax --from-run past", ["takes the workflows of the run"]),
        ("--from-run past", ["no run 'past'"]),
        ("montage.dax log.swf", ["montage.dax stands for documents, and log.swf for the queue"]),
        ("log.swf more.swf", ["the queue of one log"]),
        ("log.swf --retries 3", ["--retries does not apply to the queue of a log"]),
        ("montage.dax --policy heft -O size=5", ["none of the policies has an option 'size'"]),
        ("montage.dax --policy coarsening -O size=x", ["'size'", "not of type int"]),
        ("montage.dax --retries -1", ["--retries is -1"]),
        ("log.swf --plot x.png", ["--plot does not apply to the queue of a log"]),
        ("--log log.swf --each", ["--separately does not apply to the queue of a log"]),
        ("log.swf --lrm backfill", ["available: fcfs, easy, conservative"]),
        ("", ["there is nothing to simulate"]),
        ("absent.dax", ["absent.dax"]),
        ("sites.yaml", ["sites.yaml: not a workflow document", "DAX (XML)"]),
        ("montage.dax --output montage.dax", ["montage.dax: not a file of results"]),
        ("montage.dax --plot out.xyz", ["'xyz' is not a format of pictures"]),
        ("montage.dax --background log.swf", ["fit site 'near'"]),
        ("untimed.dax", ["2 of 2 tasks have no run time", "--runtimes FILE", "--from-run"]),
        ("untimed.dax --runtimes one.yaml", ["1 of 2 tasks have no run time", "'b' (second)"]),
        ("untimed.dax --runtimes typo.yaml", ["typo.yaml:2:", "did you mean 'second'"]),
        ("untimed.dax --runtimes bad.yaml", ["bad.yaml:1:", "'soon'"]),
        ("untimed.dax --runtimes negative.yaml", ["negative.yaml:1:", "below 0"]),
        ("untimed.dax --runtimes list.yaml", ["list.yaml:1:", "a mapping"]),
        ("wide.dax", ["wide.dax: task", "fits no site", "near: 4 cores"]),
    ],
)
def test_wrong_options_and_documents_are_refused(user: User, words: str, told: list[str]) -> None:
    texts = {
        "one.yaml": "first: 3\n", "typo.yaml": "first: 3\nsecnd: 4\n", "bad.yaml": "first: soon\n",
        "negative.yaml": "first: -1\n", "list.yaml": "- first\n",
        "wide.dax": UNTIMED.replace('name="first"', 'name="first" runtime="3"').replace(
            '<job id="b" name="second">', '<job id="b" name="second" runtime="3">'
            '<profile namespace="pegasus" key="cores">64</profile>'
        ),
    }  # fmt: skip
    for name, text in texts.items():
        (user.folder / name).write_text(text)
    if words.endswith("--background log.swf") and "--load" not in words:
        big = "".join(log_line(i, i, size=64) for i in range(5))
        (user.folder / "log.swf").write_text("; MaxProcs: 64\n" + big)
    sites = [] if "log.swf" in words.split()[:2] or not words else ["--sites", "sites.yaml"]
    before = sorted(user.folder.iterdir())
    done = user.ask("simulate", *words.split(), *sites)
    assert_refused(done, 2, told)
    assert [p for p in sorted(user.folder.iterdir()) if p.name[0] != "."] == [
        p for p in before if p.name[0] != "."
    ]


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (HEADER + log_line(1, 0) + "2 5 -1 10\n", "", ["odd.swf:3:", "the line has 4 columns"]),
        (HEADER + log_line(1, 0, "ten"), "", ["odd.swf:2:", "'ten'"]),
        (log_line(1, 0), "", ["number of processors", "--processors N"]),
        (HEADER + log_line(1, 0, -1), "", ["none of the 1 jobs"]),
        (HEADER + log_line(1, 0), "--processors 1", ["all 1 jobs are larger"]),
        ("", "", ["odd.swf"]),
    ],
)
def test_strange_logs_are_refused(user: User, text: str, words: str, told: list[str]) -> None:
    (user.folder / "odd.swf").write_text(text)
    assert_refused(user.ask("simulate", "odd.swf", *words.split()), 2, told)


def test_bad_lines_of_logs_are_dropped_on_request(user: User) -> None:
    with (user.folder / "log.swf").open("a") as stream:
        stream.write("401 x\n")
    backed = ("montage.dax", "--sites", "sites.yaml", "--background", "log.swf", "--policy", "heft",
              "--seeds", "2", "--jobs", "2", "--load", "0.3")  # fmt: skip
    for words in (("log.swf",), backed):
        assert_refused(user.ask("simulate", *words), 2, ["log.swf:402:", "with --skip-bad-lines"])
        done = user.wfrun("simulate", *words, "--skip-bad-lines")
        succeeded(done)
        assert "1 line dropped, first 402: wrong number of columns" in done.err


def test_old_names_are_kept(user: User) -> None:
    words = ("--sites", "sites.yaml", "--policy", "heft")
    assert succeeded(
        user.wfrun("simulate", "montage.dax", "bag.dax", "--each", *words)
    ) == succeeded(user.wfrun("simulate", "montage.dax", "bag.dax", "--separately", *words))
    assert succeeded(user.wfrun("simulate", "--log", "log.swf", "--run-overruns")) == succeeded(
        user.wfrun("simulate", "log.swf", "--no-kill-overruns")
    )
    assert "tolerant" not in user.wfrun("simulate", "--help").out


def test_what_is_mended_or_dropped_of_a_log_is_told(user: User) -> None:
    text = HEADER + log_line(1, 50) + log_line(2, 0) + log_line(3, 60, size=16) + log_line(4, 9, 0)
    (user.folder / "odd.swf").write_text(text)
    done = user.wfrun("simulate", "odd.swf")
    succeeded(done)
    for told in ("sorted by submission", "1 job dropped: larger than the 8 processors",
                 "1 job dropped: run time zero"):  # fmt: skip
        assert told in done.err
    assert "jobs                     2" in done.out


def test_missing_links_and_sizes_are_counted(user: User) -> None:
    user.catalog("sites:\n  a: {slots: 2}\n  b: {slots: 2}\n  c: {slots: 2}\n"
                 "links:\n  - {between: [a, b], bandwidth: 1 MB/s}\n")  # fmt: skip
    (user.folder / "untimed.dax").write_text(UNTIMED.replace(' size="5"', ""))
    done = user.wfrun("simulate", "untimed.dax", "--sites", "sites.yaml", "--runtime", "5")
    succeeded(done)
    assert "lacks 4 links between sites, the first is a to c" in done.err
    assert "1 of 1 files that tasks read have no size, the first is 'x'" in done.err


def test_places_that_cannot_be_written_are_named(user: User) -> None:
    words = ("simulate", "montage.dax", "--sites", "sites.yaml")
    assert_refused(user.ask(*words, "--output", "absent/x.csv"), 3, ["absent/x.csv"])
    assert_refused(user.ask(*words, "--output", "absent/x.parquet"), 3, ["no folder absent"])
    assert_refused(user.ask(*words, "--plot", "absent/x.png"), 3, ["no folder absent"])
    file = ("--policy", "heft", "--run-dir", "montage.dax/run")
    assert_refused(user.ask(*words, *file), 3, ["cannot be made"])


def test_a_load_above_one_and_a_background_that_ends_are_told(user: User) -> None:
    days = json.dumps(80 * 86400)
    (user.folder / "long.yaml").write_text(f"first: {days}\nsecond: 1\n")
    done = user.wfrun(
        "simulate", "untimed.dax", "--sites", "sites.yaml", "--policy", "heft", "--runtimes",
        "long.yaml", "--background", "log.swf", "--load", "0.1",
    )  # fmt: skip
    succeeded(done)
    assert "1 of 1 simulated runs took longer than the 30 days of background" in done.err
    done = user.wfrun(
        "simulate", "untimed.dax", "--sites", "sites.yaml", "--policy", "heft", "--runtime", "1",
        "--background", "log.swf", "--load", "1.2",
    )  # fmt: skip
    assert "a load of 1.2 is more than the sites can do" in done.err


@pytest.mark.parametrize(("every_s", "grows"), [(10, True), (1000, False)])
def test_a_load_without_end_is_said(user: User, every_s: int, grows: bool) -> None:
    """Jobs of 2 processors and 100 s at a cluster of 4."""
    lines = [f"{n} {n * every_s} 1 100 2 -1 -1 2 120 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 51)]
    (user.folder / "load.swf").write_text("; MaxProcs: 4\n" + "".join(lines))
    out = succeeded(user.wfrun("simulate", "load.swf", "--lrm", "easy"))
    assert ("the queue grows as long as they do" in out) is grows
