"""``wfrun jobs --pack``: planned, simulated, on this machine, and in an allocation of Slurm."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.packing import PACKERS
from wfrun.runners.cli.main import cli
from wfrun.runners.display.durations import duration
from wfrun.runners.run.directory.run_directory import RunDir, StartingError
from wfrun.runners.run.prepare.pack_jobs import planned_schedule
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store

FITS = """\
command: echo {size}
walltime: {serial_s: 100, parallel: 0.9}
size: {min: 1, max: 16}
jobs:
  - {job: a, weight: 3}
  - {job: b, owner: ann}
  - {job: c, walltime: {serial_s: 10, parallel: 0.5}, weight: 7}
  - {job: d, size: 4, walltime: 30, owner: bob}
  - {job: e, walltime: {1: 40, 4: 12, 8: 7}}
  - {job: f, size: 16, walltime: 5}
"""


def jobs(*arguments: str | Path) -> Result:
    before = signal.getsignal(signal.SIGINT)
    try:
        return CliRunner().invoke(cli, ["jobs", *map(str, arguments)])
    finally:
        # A run leaves it ignored, which processes of later tests would inherit.
        signal.signal(signal.SIGINT, before)


def write(folder: Path, text: str) -> Path:
    document = folder / "fits.yaml"
    document.write_text(text)
    return document


def ends(run: Path) -> dict[str, tuple[float, float]]:
    """Start and end of each job that is done, by the exit records."""
    state = state_of(run)
    store = Store(run)
    tasks: dict[str, str] = {}
    found = {}
    for event in store.load():
        if isinstance(event, ev.AttemptPlaced):
            tasks[event.key] = state.workflows[0].workflow.tasks[event.task].id
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            assert event.outcome.started_s is not None
            assert event.outcome.ended_s is not None
            found[tasks[event.key]] = event.outcome.started_s, event.outcome.ended_s
    store.close()
    return found


def state_of(run: Path) -> RunState:
    return read_state(RunDir(run))


def planned_ends(run: Path) -> dict[str, float]:
    state = state_of(run)
    schedule = planned_schedule(state)
    assert schedule is not None
    tasks = state.workflows[0].workflow.tasks
    return {task.id: end for task, end in zip(tasks, schedule.ends_s, strict=True)}


def check_order(run: Path, apart_s: float) -> None:
    """Check that jobs have ended in the order of the plan, as far as planned ends are apart."""
    planned, found = planned_ends(run), ends(run)
    assert planned.keys() == found.keys()
    for one, one_s in planned.items():
        for other, other_s in planned.items():
            if one_s + apart_s < other_s:
                assert found[one][1] < found[other][1], (one, other)


def test_a_simulated_packing_shows_chart_criteria_and_bounds(tmp_path: Path) -> None:
    pytest.importorskip("scipy.optimize")
    run = tmp_path / "run"
    document = write(tmp_path, FITS)
    result = jobs(document, "--pack", "demt", "--processors", "16", "--simulate", "--run-dir", run)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line[:4] for line in lines[:16]] == [f"{row:>2} |" for row in range(1, 17)]
    rows = {line[:21].strip(): line[21:].split() for line in lines if "." in line[21:]}
    names = ("DEMT", "Gang", "Sequential", "List (shelves)", "List (weighted LPTF)", "List (SAF)")
    bounds = rows["lower bound"]
    for name in names:
        makespan, over, weighted, weighted_over = (float(x.replace(",", "")) for x in rows[name])
        assert over == pytest.approx(makespan / float(bounds[0]), abs=0.01)
        assert weighted_over == pytest.approx(weighted / float(bounds[1]), abs=0.01)
        assert min(over, weighted_over) >= 1
    assert "Σ w C as the paper prints it" in result.output
    assert "6/6 tasks done" in result.output
    assert "packed by demt" in result.output
    # The engine has simulated what was planned.
    planned = planned_ends(run)
    assert f"{max(planned.values()):.6g}" == rows["DEMT"][0]
    simulated = ends(run)
    first_s = min(start for start, _ in simulated.values())
    assert {name: end - first_s for name, (_, end) in simulated.items()} == pytest.approx(planned)


@pytest.mark.parametrize("algorithm", PACKERS)
def test_the_engine_follows_the_list_of_every_algorithm(algorithm: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = jobs(write(tmp_path, FITS), "--pack", algorithm, "--processors", "16", "--simulate",
                  "--quiet", "--run-dir", run)  # fmt: skip
    assert result.exit_code == 0, result.output
    simulated = ends(run)
    first_s = min(start for start, _ in simulated.values())
    found = {name: end - first_s for name, (_, end) in simulated.items()}
    assert found == pytest.approx(planned_ends(run))


def test_a_packing_runs_on_this_machine_with_sizes_and_order(tmp_path: Path) -> None:
    """Four processors; the heavy short job starts first, and the last job gets all that are
    free."""
    document = write(
        tmp_path,
        "command: sh -c 'echo {size}'\nstdout: out\nwalltime: 60\nruntime: 0.2\njobs:\n"
        "  - {job: late, runtime: 0.4, weight: 0.1}\n"
        "  - {job: moldable, walltime: {1: 60, 2: 30, 4: 15}}\n"
        "  - {job: heavy, runtime: 0.1, weight: 9}\n",
    )
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 4}}\n")
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--pack", "demt", "--run-dir", run)
    assert result.exit_code == 0, result.output
    assert "3 jobs packed into 4 processors at here, planned to end after" in result.output
    state = state_of(run)
    tasks = state.workflows[0].workflow.tasks
    for task in tasks:
        shown = (run / "outputs" / task.id / "out").read_text()
        assert int(shown) == task.resources.cores
    order = sorted(tasks, key=lambda task: -task.priority)
    found = ends(run)
    assert order[0].id == min(found, key=lambda name: found[name][0])


def test_plan_and_run_are_in_the_report_and_the_explanation(tmp_path: Path) -> None:
    run = tmp_path / "run"
    jobs(write(tmp_path, FITS), "--pack", "demt", "--processors", "16", "--simulate", "--quiet",
         "--run-dir", run)  # fmt: skip
    end_s = planned_ends(run)["f"]
    shown = CliRunner().invoke(cli, ["explain", str(run), "f"]).output
    number = next(
        place for place, task in enumerate(
            sorted(state_of(run).workflows[0].workflow.tasks, key=lambda task: -task.priority), 1
        ) if task.id == "f"
    )  # fmt: skip
    assert f"packed by demt as number {number} of 6: planned on 16 processors from" in shown
    assert f"to {duration(end_s)} into the allocation" in " ".join(shown.split())
    assert "policy" not in shown  # no policy chose the site
    page = tmp_path / "report.html"
    result = CliRunner().invoke(cli, ["report", str(run), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "<td>wfrun jobs " in page.read_text()
    text = page.read_text(encoding="utf-8")
    start = text.index('<script type="application/json" id="figures">')
    charts = json.loads(text[text.index("{", start) : text.index("</script>", start)])
    [bars] = charts["plan"]["data"]
    sizes = {t.id: t.resources.cores for t in state_of(run).workflows[0].workflow.tasks}
    assert len(bars["x"]) == sum(sizes.values())
    assert sum("f:" in text for text in bars["hovertext"]) == 16
    assert "<h2>Plan</h2>" in text
    assert len(set(bars["y"])) == 16


def test_a_failed_job_is_tried_again_before_what_is_behind_it(tmp_path: Path) -> None:
    """One processor, the longest first: the first job fails once, and keeps its place."""
    flag = tmp_path / "flag"
    fails_once = f"sh -c 'test -e {flag} || {{{{ touch {flag}; exit 1; }}}}'"
    document = write(
        tmp_path,
        "walltime: 60\ncommand: sleep 0.5\njobs:\n"
        f'  - {{job: first, runtime: 9, command: "{fails_once}"}}\n'
        "  - {job: second, runtime: 8}\n  - {job: third, runtime: 7}\n",
    )
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 1}}\n")
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--pack", "sequential", "--run-dir", run,
                  "--retry-delay", "0.1s")  # fmt: skip
    assert result.exit_code == 0, result.output
    found = ends(run)
    assert sorted(found, key=lambda name: found[name][0]) == ["second", "first", "third"]
    assert "1 failed attempt" in result.output


@pytest.mark.slow
def test_a_resume_goes_on_with_sizes_and_order(tmp_path: Path) -> None:
    """The engine is killed when the first job is done; its successor asks for no plan."""
    listed = "".join(
        f"  - {{job: j{n}, walltime: {{1: 60, 2: 30}}, runtime: {2 - n / 10}}}\n" for n in range(4)
    )
    marks = tmp_path / "marks"
    marks.mkdir()
    command = f"sh -c 'sleep 0.5; touch {marks}/{{job}}'"
    document = write(tmp_path, f"command: {command}\njobs:\n{listed}")
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 1}}\n")
    run = tmp_path / "run"
    words = [sys.executable, "-m", "wfrun.runners.cli.main"]
    engine = subprocess.Popen(
        [*words, "jobs", document, "--sites", sites, "--pack", "lptf", "--quiet", "--run-dir", run],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until_s = time.monotonic() + 60
        while not any(marks.iterdir()):
            assert time.monotonic() < until_s
            time.sleep(0.05)
    finally:
        engine.kill()
        engine.wait()
    before = planned_ends(run)
    done = ends(run)
    assert len(done) < 4
    result = subprocess.run([*words, "resume", run, "--quiet"], timeout=100, check=False)
    assert result.returncode == 0
    assert planned_ends(run) == before
    found = ends(run)
    tasks = state_of(run).workflows[0].workflow.tasks
    order = [task.id for task in sorted(tasks, key=lambda task: -task.priority)]
    late = [name for name in order if name not in done]
    starts = [found[name][0] for name in late]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  - {job: x, size: 2}\n", 4, "the job 'x' has neither a walltime nor a runtime"),
        ("  - {job: x, size: [1, 2]}\n", 4, "'x' has several sizes and no walltime"),
        ("  - {job: x, size: 9, walltime: 5}\n", 4,
         "the job 'x' needs at least 9 processors, the allocation has 8"),
        ("  - {job: x, walltime: {9: 8, 12: 5}}\n", 4,
         "the job 'x' needs at least 9 processors, the allocation has 8"),
        ("  - {job: x, walltime: 5, weight: 0}\n", 4, "must be above 0, not 0"),
        ("  - {job: x, walltime: 5, weight: heavy}\n", 4, "must be a number"),
        ("  - {job: x, walltime: 5, components: [2, 2]}\n", 4, "the job 'x' has components"),
    ],
)  # fmt: skip
def test_wrong_jobs_get_one_message_with_their_line(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    document = write(tmp_path, f"command: x\njobs:\n  - {{job: w, walltime: 60}}\n{text}")
    result = jobs(document, "--pack", "demt", "--processors", "8", "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == line
    assert message in str(result.exception)


def test_a_job_of_a_log_that_does_not_fit_is_named_with_its_line(tmp_path: Path) -> None:
    """The first row of this log names its columns, in another order than that of the format."""
    log = tmp_path / "trace.gwf"
    log.write_text("# a trace\nSubmitTime,RunTime,NProcs,JobID\n0,5,1,6\n1,5,9,7\n")
    result = jobs(log, "--pack", "demt", "--processors", "8", "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 4
    assert "job-7 needs at least 9 processors, the allocation has 8" in str(result.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pack", "demt", "--size", "binary"), "--pack chooses the sizes of all jobs"),
        (("--pack", "demt", "--allocate", "mct"), "--allocate has no effect with --pack"),
        (("--pack", "demt", "--simulate", "--lrm", "easy"), "--lrm has no effect with --pack"),
    ],
)
def test_options_that_packing_excludes_are_refused(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = jobs(write(tmp_path, FITS), *options)
    assert result.exit_code == 2
    assert message in result.output


def test_processors_need_a_packing_and_a_site_that_has_them(tmp_path: Path) -> None:
    document = write(tmp_path, FITS)
    assert "--processors has no effect without --pack" in str(
        jobs(document, "--processors", "4").exception
    )
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 2}, there: {slots: 4}}\n")
    result = jobs(document, "--sites", sites, "--pack", "demt", "--processors", "5")
    assert "no site has an allocation of 5 processors; the largest has 4" in str(result.exception)


def test_the_site_whose_plan_ends_first_gets_the_jobs(tmp_path: Path) -> None:
    """A wider site, a faster one, and one that is too narrow for a job."""
    sites = tmp_path / "sites.yaml"
    sites.write_text(
        "sites:\n  narrow: {slots: 4, speed: 100}\n  wide: {slots: 32}\n"
        "  fast: {slots: 16, speed: 10}\n"
    )
    result = jobs(write(tmp_path, FITS), "--sites", sites, "--pack", "demt", "--simulate")
    assert result.exit_code == 0, result.output
    assert "fast" in result.output
    assert "wide" not in result.output


LOG = """\
; MaxProcs: 4
1 0 -1 100 4 -1 -1 4 200 -1 1 7 1 1 1 1 -1 -1
2 50 -1 100 1 -1 -1 1 150 -1 1 8 1 1 1 1 -1 -1
"""


def test_jobs_of_a_log_are_packed_with_the_next_batch(tmp_path: Path) -> None:
    log = tmp_path / "x.swf"
    log.write_text(LOG)
    result = jobs(log, "--pack", "demt", "--processors", "4", "--simulate")
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.output.splitlines() if line.startswith("DEMT")]
    assert line.split() == ["DEMT", "200", "300"]
    assert "bound of" not in result.output
    result = jobs(log, "--pack", "demt", "--processors", "2", "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 2
    assert "give --simulate" in jobs(log, "--pack", "demt", "--processors", "4").output


def sleeps(folder: Path) -> Path:
    """Twelve moldable jobs that sleep as long as they are planned at their size."""
    tables = [{1: 4.0, 2: 2.0}, {1: 3.0, 4: 1.0}, {1: 2.0}, {1: 6.0, 8: 1.5}, {1: 1.0}, {2: 2.5}]
    entries = []
    for number, table in enumerate(tables * 2):
        arms = " ".join(f"{size}) sleep {time};;" for size, time in table.items())
        entries.append({
            "job": f"j{number}", "command": ["sh", "-c", f"case {{size}} in {arms} esac"],
            "walltime": {size: 20 * time for size, time in table.items()},
            "runtime": next(iter(table.values())), "weight": 1 + number % 5,
        })  # fmt: skip
    return write(folder, yaml.safe_dump({"jobs": entries}))


def catalog_of(testbed: Testbed, site: str, folder: Path, **more: object) -> Path:
    entry = yaml.safe_load(testbed.layout.catalog.read_text())["sites"][site]
    sites = folder / "sites.yaml"
    sites.write_text(yaml.safe_dump({"sites": {site: {**entry, "poll_min": 0.5, **more}}}))
    return sites


def launchers_of(run: Path) -> list[tuple[int, int]]:
    """Nodes, and processors of each, of all launchers that a run has asked for."""
    store = Store(run)
    asked = [e for e in store.load() if isinstance(e, ev.LaunchersAsked)]
    store.close()
    return [(r.nodes, r.cores) for e in asked for r in e.launchers]


@pytest.mark.testbed
def test_a_packing_fills_one_allocation_of_slurm_in_its_order(
    testbed: Testbed, tmp_path: Path
) -> None:
    sites = catalog_of(testbed, "beta", tmp_path)
    run = tmp_path / "run"
    result = jobs(sleeps(tmp_path), "--sites", sites, "--pack", "demt", "--processors", "8",
                  "--run-dir", run)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "12/12 tasks done" in result.output
    assert launchers_of(run) == [(1, 8)]
    check_order(run, apart_s=0.7)


@pytest.mark.testbed
def test_a_packing_on_two_nodes_of_slurm_goes_on_after_a_crash(
    testbed: Testbed, tmp_path: Path
) -> None:
    """The engine is killed when the first jobs are done, and its successor keeps the allocation."""
    sites = catalog_of(
        testbed, "alpha", tmp_path, dispatch="launchers", launchers={"cores": 4, "nodes": 2}
    )
    run = tmp_path / "run"
    words = [sys.executable, "-m", "wfrun.runners.cli.main"]
    engine = subprocess.Popen(
        [*words, "jobs", sleeps(tmp_path), "--sites", sites, "--pack", "demt", "--processors", "8",
         "--quiet", "--run-dir", run],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until_s = time.monotonic() + 100
        done = 0
        while done < 2:
            assert time.monotonic() < until_s
            assert engine.poll() is None
            time.sleep(0.2)
            with contextlib.suppress(StartingError):
                done = len(ends(run)) if (run / "events.sqlite").exists() else 0
    finally:
        engine.kill()
        engine.wait()
    assert len(ends(run)) < 12
    result = subprocess.run(
        [*words, "resume", run, "--quiet"], stdin=subprocess.DEVNULL, timeout=100, check=False
    )
    assert result.returncode == 0
    assert launchers_of(run) == [(2, 4)]
    assert ends(run).keys() == planned_ends(run).keys()
    assert state_of(run).workflows[0].attempts_of.tolist() == [1] * 12
