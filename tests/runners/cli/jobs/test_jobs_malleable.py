"""``wfrun jobs --malleable``: simulated jobs that grow and shrink."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.malleable.manager import PRECEDENCES
from wfrun.engine.jobs.malleable.policies import POLICIES
from wfrun.runners.cli.main import cli
from wfrun.runners.cli.run.jobs_command import jobs as command

NBODY = """\
command: ./nbody {size}
jobs:
  - {job: nbody, walltime: {2: 80, 4: 40, 8: 20}, malleable: true}
"""
OTHERS = """\
; A job of 1 processor for 5 s, and one of 8 for 10 s that arrives after 10 s.
1 0 -1 5 1 -1 -1 1 9 -1 1 7 1 1 1 1 -1 -1
2 10 -1 10 8 -1 -1 8 19 -1 1 8 1 1 1 1 -1 -1
"""
SITES = "sites: {alpha: {slots: 10}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("nbody.yaml", NBODY), ("others.swf", OTHERS), ("sites.yaml", SITES)):
        (tmp_path / name).write_text(text)
    return tmp_path


def jobs(folder: Path, *arguments: str) -> Result:
    words = [str(folder / "nbody.yaml"), "--sites", str(folder / "sites.yaml"), *arguments]
    return CliRunner().invoke(cli, ["jobs", *words])


def result_of(folder: Path, *arguments: str) -> dict[str, Any]:
    done = jobs(folder, str(folder / "others.swf"), "--simulate", "--json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_running_jobs_shrink_for_the_first_waiting_one(policy: str, folder: Path) -> None:
    found = result_of(folder, "--malleable", policy, "--precedence", "pwa")
    nbody, _, late = found["jobs"]
    # Half of its work is done with 8 processors, an eighth with 2, and the rest with 8.
    assert nbody["sizes"] == [[0, 8], [10, 2], [20, 8]]
    assert (nbody["site"], nbody["start_s"], nbody["end_s"]) == ("alpha", 0, 27.5)
    assert [nbody[key] for key in ("smallest", "largest", "grows", "shrinks")] == [2, 8, 2, 1]
    assert nbody["mean"] == pytest.approx(160 / 27.5)
    assert (late["job"], late["arrival_s"], late["start_s"], late["end_s"]) == ("job-2", 10, 10, 20)
    assert found["utilization"] == pytest.approx((160 + 5 + 80) / 275)
    assert found["mean_response_s"] == pytest.approx((27.5 + 5 + 10) / 3)


@pytest.mark.parametrize("policy", POLICIES)
def test_waiting_jobs_wait_for_running_ones_by_default(policy: str, folder: Path) -> None:
    found = result_of(folder, "--malleable", policy)
    nbody, _, late = found["jobs"]
    assert (nbody["sizes"], nbody["end_s"], late["start_s"]) == ([[0, 8]], 20, 20)
    assert found["makespan_s"] == 30


def test_the_threshold_stays_idle(folder: Path) -> None:
    nbody, _, late = result_of(folder, "--malleable", "egs", "--threshold", "4")["jobs"]
    assert (nbody["sizes"], nbody["end_s"], late["start_s"]) == ([[0, 4]], 40, 40)


def test_policies_differ_and_a_faster_site_takes_less_time(folder: Path) -> None:
    (folder / "sites.yaml").write_text("sites: {alpha: {slots: 8, speed: 2}}\n")
    line = NBODY.splitlines()[-1]
    (folder / "nbody.yaml").write_text(f"{NBODY}{line.replace('nbody', 'second')}\n")
    # Two jobs at once with all 8 processors: 4 and 4, or 4 for the first, which cannot use 6.
    found = json.loads(jobs(folder, "--malleable", "egs", "--simulate", "--json").stdout)
    assert [job["sizes"] for job in found["jobs"]] == [[[0, 4]], [[0, 4]]]
    assert [job["end_s"] for job in found["jobs"]] == [20, 20]
    assert found["utilization"] == 1
    (folder / "sites.yaml").write_text("sites: {alpha: {slots: 10, speed: 2}}\n")
    found = json.loads(jobs(folder, "--malleable", "fpsma", "--simulate", "--json").stdout)
    assert [job["sizes"] for job in found["jobs"]] == [[[0, 8]], [[0, 2], [10, 8]]]


def test_the_result_is_a_table_with_a_summary(folder: Path) -> None:
    words = (str(folder / "others.swf"), "--malleable", "egs", "--precedence", "pwa", "--simulate")
    done = jobs(folder, *words)
    assert done.exit_code == 0, done.output
    rows = [" ".join(line.split()) for line in done.output.splitlines()]
    assert rows[0] == "job site start end smallest mean largest grows shrinks"
    assert rows[1] == "nbody/nbody alpha 0.0 s 27.5 s 2 5.8 8 2 1"
    summary = "3 jobs in 27.5 s, utilization 89.1%, mean response 14.2 s"
    assert done.output.splitlines()[-1] == summary
    assert jobs(folder, *words, "--quiet").output.splitlines() == [summary]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("size: {min: 4, max: 2}, walltime: 9", "the range from 4 to 2 is empty"),
        ("size: 4, walltime: 9, malleable: true", "is malleable and has the size 4 alone"),
        ("size: [11, 12], walltime: {11: 9, 12: 8}, malleable: true",
         "needs at least 11 processors, the largest site has 10"),
        ("walltime: {2: 9, 4: 8}", "has several sizes and is not malleable"),
        ("size: 2", "has neither a walltime nor a runtime"),
        ("walltime: 9, components: [2, 2]", "has components"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_simulated_is_refused_with_its_line(
    entry: str, message: str, folder: Path
) -> None:
    (folder / "nbody.yaml").write_text(f"{NBODY}  - {{job: x, {entry}}}\n")
    done = jobs(folder, "--malleable", "egs", "--simulate")
    assert isinstance(done.exception, InvalidError)
    assert message in str(done.exception)
    assert done.exception.line == 4
    assert done.stdout == ""


def test_a_document_without_malleable_jobs_is_refused(folder: Path) -> None:
    (folder / "nbody.yaml").write_text("jobs: [{command: ./nbody, size: 2, walltime: 9}]\n")
    done = jobs(folder, "--malleable", "egs", "--simulate")
    assert isinstance(done.exception, InvalidError)
    assert "no job is malleable" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--malleable egs --size binary", "--malleable chooses sites and sizes of jobs: leave out"),
        ("--malleable egs --place fcm", "--malleable chooses sites and sizes of jobs: leave out"),
        ("--malleable egs --pack saf", "--malleable chooses sites and sizes of jobs: leave out"),
        ("--malleable egs --allocate mst", "--malleable chooses sites and sizes of jobs"),
        ("--malleable eggs --simulate", "'eggs' is not one of"),
        ("--malleable egs --simulate --lrm easy", "--lrm has no effect with --malleable"),
        ("--malleable egs --simulate --run-dir x", "--run-dir has no effect with --malleable"),
        ("--malleable egs --simulate --size binary", "--size has no effect with --malleable"),
        ("--malleable egs --simulate --retries 9", "--retries has no effect with --malleable"),
        ("--malleable egs --simulate --pack saf", "--pack has no effect with --malleable"),
    ],
)
def test_options_that_have_no_effect_are_refused(options: str, message: str, folder: Path) -> None:
    done = jobs(folder, *options.split())
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--precedence pwa --simulate", "--precedence has no effect without --malleable"),
        ("--threshold 1", "--threshold has no effect without --malleable"),
        ("--malleable egs --threshold -1 --simulate", "--threshold is -1, but must be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: str, message: str, folder: Path) -> None:
    done = jobs(folder, *options.split())
    assert isinstance(done.exception, InvalidError)
    assert message in str(done.exception)


def test_the_options_offer_all_policies_and_precedences() -> None:
    offered = {each.name: getattr(each.type, "choices", ()) for each in command.params}
    assert set(offered["malleable"]) == set(POLICIES)
    assert set(offered["precedence"]) == set(PRECEDENCES)


@pytest.mark.slow
def test_a_run_without_the_option_imports_nothing_of_it(folder: Path) -> None:
    program = (
        "import sys; from wfrun.runners.cli.main import main\n"
        "try: main()\n"
        "finally: print(*(m for m in sys.modules if 'wfrun.engine.capabilities' not in m\n"
        "    and m not in ('wfrun.engine.jobs.malleable', 'wfrun.engine.jobs.malleable.policies',\n"
        "    'wfrun.engine.jobs.malleable.shapes') and ('malleable' in m or 'growing' in m)))"
    )
    """There a malleable job is a moldable one."""
    words = [
        "jobs",
        folder / "nbody.yaml",
        "--sites",
        folder / "sites.yaml",
        "--simulate",
        "--size",
        "binary",
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "1/1 tasks done" in done.stdout
    assert done.stdout.splitlines()[-1] == ""
