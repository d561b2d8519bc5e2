"""``wfrun jobs`` on this machine and on the testbed."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.runners.cli.main import cli
from wfrun.runners.run.store.event_store import Store


def jobs(*arguments: str | Path) -> Result:
    before = signal.getsignal(signal.SIGINT)
    try:
        return CliRunner().invoke(cli, ["jobs", *map(str, arguments)])
    finally:
        # A run leaves it ignored, which processes of later tests would inherit.
        signal.signal(signal.SIGINT, before)


def test_jobs_run_on_this_machine(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text("""\
stdout: out
jobs:
  - {job: a, command: "sh -c 'cat $WFRUN_NODEFILE; echo {size} $OMP_NUM_THREADS'", size: 2}
  - {job: b, command: echo b}
""")
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 2}}\n")
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--run-dir", run, "--quiet")
    assert result.exit_code == 0, result.output
    assert (run / "outputs/a/out").read_text() == "localhost\nlocalhost\n2 1\n"
    assert (run / "outputs/b/out").read_text() == "b\n"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("size: 4", "task 'x' fits no site: it asks for 4 cores"),
        ("walltime: 2 h", "task 'x' fits no site: it asks for 1 cores, 7200 s walltime"),
        ("size: {min: 1, max: 2}, walltime: 60", "the job 'x' has several sizes"),
    ],
)
def test_jobs_that_no_site_takes_are_refused_with_their_line(
    entry: str, message: str, tmp_path: Path
) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(f"jobs:\n  - {{job: w, command: 'true'}}\n  - {{job: x, command: 'true', "
                        f"{entry}}}\n")  # fmt: skip
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 2, walltime: 1 h}}\n")
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--run-dir", run)
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 3
    assert message in str(result.exception)
    assert not run.exists()


MPI = """\
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
assert mpi.MPI_Init(None, None) == 0
one, total = ctypes.c_int(1), ctypes.c_int(0)
words = handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), handle("ompi_mpi_comm_world")
assert mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, *words) == 0
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    print(total.value)
mpi.MPI_Finalize()
"""
"""All processes add ones, and the first one prints the sum: an MPI program without a compiler."""


@pytest.mark.testbed
def test_mpi_jobs_run_in_the_queues_of_two_clusters(testbed: Testbed, tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun (openmpi-bin)")
    entries = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    sites = tmp_path / "sites.yaml"
    chosen = {name: {**entries[name], "poll_min": 0.5} for name in ("alpha", "gamma")}
    sites.write_text(yaml.safe_dump({"sites": chosen}))
    tmp_path.joinpath("sum.py").write_text(MPI)
    document = tmp_path / "jobs.yaml"
    # TCP, since Open MPI crashes in the memory that it shares with another "node" of this machine.
    document.write_text("""\
command: mpirun --mca btl tcp,self python3 sum.py
inputs: [sum.py]
walltime: 5 min
stdout: size
jobs:
  - {job: two-nodes, size: 4, ppn: 2}
  - {job: one-node, size: 4}
  - {job: wide-node, size: 8}
""")
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--run-dir", run, "--quiet")
    assert result.exit_code == 0, result.output
    for name, size in (("two-nodes", 4), ("one-node", 4), ("wide-node", 8)):
        assert (run / "outputs" / name / "size").read_text() == f"{size}\n"


LOG = """\
; MaxProcs: 4
1 0 -1 100 4 -1 -1 4 200 -1 1 7 1 1 1 1 -1 -1
2 50 -1 100 1 -1 -1 1 150 -1 1 8 1 1 1 1 -1 -1
3 60 -1 -1 1 -1 -1 1 150 -1 0 8 1 1 1 1 -1 -1
"""


def log_and_site(folder: Path, slots: int) -> tuple[Path, Path]:
    """A log of jobs, and a catalog of one site."""
    log, sites = folder / "two.swf", folder / "sites.yaml"
    log.write_text(LOG)
    sites.write_text(f"sites: {{here: {{slots: {slots}}}}}\n")
    return log, sites


def test_jobs_of_a_log_are_simulated_as_they_arrive(tmp_path: Path) -> None:
    log, sites = log_and_site(tmp_path, 4)
    result = jobs(log, "--sites", sites, "--simulate")
    assert result.exit_code == 0, result.output
    assert "two.swf: 1 job dropped: run time zero" in result.output
    assert (
        "done: 2/2 tasks done in 3:20" in result.output
    )  # 100 s, then 100 s: no processor is free
    refused = jobs(log, "--sites", sites)
    assert "have no programs" in str(refused.exception)
    log.write_text(LOG.replace("4 -1 -1 4", "-1 -1 -1 -1").replace("1 -1 -1 1", "-1 -1 -1 -1"))
    refused = jobs(log, "--simulate")
    assert f"{log}:2: none of the 3 jobs of the log has a run time and processors" in str(
        refused.exception
    )
    log.write_text(LOG.replace("2 50", "2 x"))
    assert f"{log}:3: " in str(jobs(log, "--simulate").exception)
    result = jobs(log, "--sites", sites, "--simulate", "--skip-bad-lines")
    assert "1 line dropped, first 3" in result.output
    assert "1/1 tasks done" in result.output


@pytest.mark.slow
def test_a_simulation_beside_other_users_jobs(tmp_path: Path) -> None:
    document, sites, log = (tmp_path / name for name in ("jobs.yaml", "sites.yaml", "load.swf"))
    document.write_text("jobs: [{job: a, command: x, size: 4, walltime: 1 h, runtime: 60}]\n")
    sites.write_text("sites: {here: {slots: 4}}\n")
    rows = (f"{n} {n * 90} -1 100 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 40))
    log.write_text("".join(rows))
    run = tmp_path / "run"
    result = jobs(document, "--sites", sites, "--simulate", "--background", log, "--run-dir", run)
    assert result.exit_code == 0, result.output
    assert "1/1 tasks done" in result.output
    assert "1/1 tasks done" in CliRunner().invoke(cli, ["status", str(run)]).output
    assert "no effect without" in jobs(document, "--background", log).output


MOLDABLE = """\
command: [sh, -c, "echo {size} {nodes}"]
stdout: size
walltime: {1: 100, 2: 50, 4: 30}
jobs:
  - {job: a}
  - {job: b}
"""


def test_the_size_with_the_earliest_completion_is_chosen(tmp_path: Path) -> None:
    """The first job takes all processors of the larger site. The second would wait 30 s for them,
    and ends sooner with one processor of the other site than with those 30 s later."""
    document = tmp_path / "jobs.yaml"
    document.write_text(MOLDABLE.replace("1: 100, 2: 50, 4: 30", "1: 55, 2: 50, 4: 30"))
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites:\n  large: {slots: 4}\n  small: {slots: 1}\n")
    run = tmp_path / "run"
    sizing = ("--sites", sites, "--size", "binary", "--run-dir", run, "--quiet")
    result = jobs(document, *sizing)
    assert result.exit_code == 0, result.output
    sizes = {name: (run / "outputs" / name / "size").read_text() for name in ("a", "b")}
    assert sizes == {"a": "4 1\n", "b": "1 1\n"}
    assert "size binary" in result.output
    assert "policy" not in result.output


def test_no_size_that_fits_is_one_message(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(MOLDABLE)
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {slots: 2, walltime: 40 s}}\n")
    result = jobs(document, "--sites", sites, "--size", "binary")
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 5
    assert "'a' fits no site with any of its sizes" in str(result.exception)


def test_a_job_of_a_log_that_no_site_takes_is_refused_with_its_line(tmp_path: Path) -> None:
    log, sites = log_and_site(tmp_path, 2)
    result = jobs(log, "--sites", sites, "--simulate")
    assert f"{log}:2: task 'job-1' fits no site" in str(result.exception)


def test_a_simulated_job_without_a_time_is_refused_with_its_line(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text("jobs:\n  - {command: x, walltime: 60}\n  - {command: x}\n")
    result = jobs(document, "--simulate")
    assert isinstance(result.exception, InvalidError)
    assert result.exception.line == 3
    assert "'job-2' has neither a walltime nor a runtime" in str(result.exception)


def test_a_simulation_refuses_options_without_effect(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text("jobs: [{command: x, walltime: 60}]\n")
    real = ("--wait", "--metrics-file=m.prom", "--on=finished=true", "--keep=all")
    for option in ("--json", *real):
        result = jobs(document, "--simulate", option)
        assert result.exit_code == 2
        why = "is for real runs" if option in real else "has no effect with --simulate"
        assert f"{option.partition('=')[0]} {why}" in result.output
    assert "no effect without a workload log" in jobs(document, "--skip-bad-lines").output
    result = jobs(document, "--simulate", "--allocate", "mct", "--reallocate", "mct-reg")
    assert result.output.count("has no effect with one site") == 2


def test_a_simulation_with_failed_jobs_has_the_status_of_a_failed_run(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text("jobs: [{command: x, walltime: 100, runtime: 10}]\n")
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {here: {nodes: [{count: 1, cores: 1, mtbf: 5, mttr: 5}]}}\n")
    result = jobs(document, "--sites", sites, "--simulate", "--retries", "0")
    assert (result.exit_code, "1 failed" in result.output) == (1, True), result.output


def test_options_of_moves_need_them(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(MOLDABLE)
    result = jobs(document, "--size", "binary", "--every", "20s")
    assert "--every has no effect without --reallocate" in str(result.exception)
    result = jobs(document, "--size", "binary", "--allocate", "mpl")
    assert "give it or --allocate" in result.output


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jobs_that_wait_move_to_a_queue_that_is_faster_than_expected(
    algorithm: str, tmp_path: Path
) -> None:
    """Each site gets three jobs. The first of each says that it takes 1000 s; one ends after 10 s,
    and what waits behind the other goes there: the second job at once, the one that waits longest
    when it can start immediately."""
    document = tmp_path / "jobs.yaml"
    entries = [
        "{job: slow, runtime: 1000}", "{job: quick, runtime: 10}",
        *(f"{{job: w{number}, walltime: 200, runtime: 200}}" for number in range(4)),
    ]  # fmt: skip
    lines = "".join(f"  - {entry}\n" for entry in entries)
    document.write_text(f"command: x\nwalltime: 1000\njobs:\n{lines}")
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites:\n  one: {slots: 1}\n  two: {slots: 1}\n")
    common = (document, "--sites", sites, "--simulate", "--allocate", "mlp")
    stays = jobs(*common)
    run = tmp_path / "run"
    moves = jobs(*common, "--reallocate", algorithm, "--every", "20 s", "--run-dir", run)
    assert stays.exit_code == moves.exit_code == 0, stays.output + moves.output
    store = Store(run)
    log = list(store.load())
    store.close()
    moved = [e for e in log if isinstance(e, ev.JobsReallocated)]
    assert moved
    assert [e.outcome.cause for e in log if isinstance(e, ev.AttemptEnded)].count("done") == 6
    assert "in 23:20" in stays.output
    assert "in 16:40" in moves.output
    assert f"reallocate {algorithm} ({sum(len(e.moves) for e in moved)} move" in moves.output
    shown = CliRunner().invoke(cli, ["events", str(run)]).output
    assert re.search(r"jobs-reallocated: \S+ to (one|two)", shown)


def test_other_documents_are_refused_with_what_runs_them(tmp_path: Path) -> None:
    for name, text in (
        ("bags.yaml", "bags:\n  - bag: x\n    command: echo\n"),
        ("x.dax", "<adag/>\n"), ("x.csv", "a,b\n1,2\n"), ("x.json", '{"name": "x"}\n'),
        ("p.yml", "pegasus: '5.0'\njobs: []\n"),
    ):  # fmt: skip
        tmp_path.joinpath(name).write_text(text)
        refused = str(jobs(tmp_path / name).exception)
        assert "not a document of parallel jobs, but of a workflow or of bags" in refused
        assert "`wfrun run` runs it" in refused
    tmp_path.joinpath("jobs.yaml").write_text("command: x\njbos: []\n")
    assert "no key 'jbos'" in str(jobs(tmp_path / "jobs.yaml").exception)


def test_the_papers_names_of_strategies_are_suggested() -> None:
    for name, own in (("MPL", "mpl"), ("LBal_S", "lbal-s"), ("MSWCT_W", "mswct-w")):
        refused = jobs("jobs.yaml", "--allocate", name)
        assert f"did you mean {own!r}?" in str(refused.exception)


def test_wfrun_run_gives_moldable_jobs_their_smallest_size(tmp_path: Path) -> None:
    document, sites, run = (tmp_path / name for name in ("jobs.yaml", "sites.yaml", "run"))
    document.write_text(MOLDABLE)
    words = ["run", str(document), "--sites", str(sites), "--run-dir", str(run)]
    sites.write_text("sites: {here: {slots: 2, walltime: 60 s}}\n")
    refused = CliRunner().invoke(cli, words)
    assert "'a' fits no site: it asks for 1 cores, 100 s walltime" in str(refused.exception)
    sites.write_text("sites: {here: {slots: 2}}\n")
    before = signal.getsignal(signal.SIGINT)
    result = CliRunner().invoke(cli, words)
    signal.signal(signal.SIGINT, before)
    assert result.exit_code == 0, result.output
    assert "2 jobs get their smallest sizes; `wfrun jobs --size` chooses others" in result.output
    assert (run / "outputs/a/size").read_text() == "1 1\n"


def test_jobs_of_logs_may_span_nodes_in_a_simulation_and_others_only_as_they_ask(
    tmp_path: Path,
) -> None:
    """A log says how many processors a job had, and nothing of its nodes."""
    sites, log, document = (tmp_path / name for name in ("s.yaml", "l.swf", "j.yaml"))
    sites.write_text("sites: {a: {kind: slurm, host: a, slots: 16, node_cores: 4}}\n")
    log.write_text("; MaxProcs: 16\n1 0 0 10 8 -1 -1 8 20 -1 1 1 1 1 1 1 -1 -1\n")
    result = jobs(log, "--simulate", "--sites", sites)
    assert result.exit_code == 0, result.output
    text = "walltime: 60\njobs:\n  - {job: a, command: x, size: 8, ppn: PPN}\n"
    document.write_text(text.replace("PPN", "4"))
    result = jobs(document, "--simulate", "--sites", sites)
    assert result.exit_code == 0, result.output
    document.write_text(text.replace("PPN", "8"))
    result = jobs(document, "--simulate", "--sites", sites)
    assert isinstance(result.exception, InvalidError)
    assert "a: 16 cores, nodes of 4 cores" in str(result.exception)
