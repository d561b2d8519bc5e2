"""The Python API: the same runs as the command's, from a program."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import wfrun
from tests.runners.harness import Job, User, lines_of, make_workflow, wait_until
from wfrun import Catalog, File, InfeasibleError, InvalidError, SiteSpec, Task, Workflow
from wfrun.engine.events import Event, FilesRemoved, RunEnded, RunStarted

SITES = Catalog((SiteSpec("alpha", 2), SiteSpec("beta", 2, speed_ratio=2.0)))


def chain(record: Path) -> Workflow:
    jobs = [
        Job("a", f"echo one > a.txt; echo a >> {record}", (), ["a.txt"]),
        Job("b", f"cat a.txt > b.txt; echo b >> {record}", ["a.txt"], ["b.txt"], ["b.txt"]),
    ]
    return make_workflow(jobs, "chain")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, and the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_public_name_is_there_and_documented() -> None:
    assert dir(wfrun) == sorted(wfrun.__all__)
    for name in wfrun.__all__:
        assert getattr(wfrun, name).__doc__
    with pytest.raises(AttributeError, match="'no_such_name'"):
        wfrun.__getattr__("no_such_name")


@pytest.mark.slow
def test_run_a_workflow_built_in_python(folder: Path) -> None:
    seen: list[Event] = []
    result = wfrun.run(chain(folder / "record"), sites=SITES, observer=seen.extend)
    assert (result.outcome, result.tasks, result.done) == ("done", 2, 2)
    assert (result.failed, result.blocked, result.failures) == (0, 0, ())
    assert result.directory == Path("wfrun-runs/chain-1")
    assert (result.outputs / "b.txt").read_text() == "one\n"
    assert lines_of(folder / "record") == ["a", "b"]
    assert result.makespan_s is not None
    assert 0 < result.makespan_s < 1000
    assert isinstance(seen[0], RunStarted)
    assert isinstance(next(e for e in reversed(seen) if not isinstance(e, FilesRemoved)), RunEnded)


@pytest.mark.slow
def test_run_a_document_with_every_argument(folder: Path) -> None:
    (folder / "sites.yaml").write_text("sites:\n  alpha: {slots: 1}\n")
    (folder / "data").mkdir()
    wfrun.write_dax(chain(folder / "record"), folder / "chain.dax")
    result = wfrun.run(
        "chain.dax",
        sites="sites.yaml",
        policy="coarsening",
        policy_options={"size": 2},
        throttle=1,
        inputs="data",
        run_dir="run",
        retries=0,
        retry_delay_s=0.1,
        on_failure="stop",
        seed=3,
        emulate=True,
        time_scale=0.001,
        size_scale=0.5,
        keep="all",
    )
    assert result.outcome == "done"
    assert result.directory == Path("run")
    assert lines_of(folder / "record") == []  # emulated
    assert list((folder / "run/sites/alpha/files").iterdir())


@pytest.mark.slow
def test_several_workflows_in_one_run(folder: Path) -> None:
    wfrun.write_dax(chain(folder / "record"), folder / "second.dax")
    result = wfrun.run(chain(folder / "record"), folder / "second.dax", run_dir=folder / "run")
    assert (result.outcome, result.tasks) == ("done", 4)
    found = sorted(p.relative_to(result.outputs) for p in result.outputs.rglob("*.txt"))
    assert found == [Path("0-chain/b.txt"), Path("1-chain/b.txt")]


@pytest.mark.slow
def test_failures_are_results_not_exceptions(folder: Path) -> None:
    jobs = [
        Job("bad", f"echo oh no >&2; test -e {folder}/ok"),
        Job("next", "true", parents=["bad"]),
    ]
    result = wfrun.run(make_workflow(jobs), retries=1, retry_delay_s=0.01, run_dir="run")
    assert (result.outcome, result.failed, result.blocked) == ("failed", 1, 1)
    assert [failure.final for failure in result.failures] == [False, True]
    assert "oh no" in result.failures[-1].message
    assert wfrun.status("run") == result
    (folder / "ok").touch()
    again = wfrun.resume("run")
    assert (again.outcome, again.done, again.failed) == ("done", 2, 0)
    assert wfrun.status("run") == again


@pytest.mark.slow
async def test_run_inside_an_event_loop(folder: Path) -> None:
    """Two runs side by side."""
    documents = [chain(folder / f"record-{n}") for n in range(2)]
    results = await asyncio.gather(
        *(wfrun.run_async(d, run_dir=f"run-{n}") for n, d in enumerate(documents))
    )
    assert [result.outcome for result in results] == ["done", "done"]
    assert [lines_of(folder / f"record-{n}") for n in range(2)] == [["a", "b"], ["a", "b"]]


@pytest.mark.slow
async def test_cancelled_and_resumed(folder: Path) -> None:
    """What runs when a program gives up goes on; resume_async finds it."""
    record, go = folder / "record", folder / "go"
    script = f"echo begun >> {record}; while [ ! -e {go} ]; do sleep 0.02; done; echo a >> {record}"
    running = asyncio.create_task(wfrun.run_async(make_workflow([Job("a", script)]), run_dir="run"))
    assert await asyncio.to_thread(wait_until, lambda: lines_of(record) == ["begun"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert wfrun.status("run").outcome is None
    go.touch()
    result = await wfrun.resume_async("run")
    assert result.outcome == "done"
    assert lines_of(record) == ["begun", "a"]


def test_status_while_another_process_drives_it(user: User) -> None:
    go = user.folder / "go"
    document = user.write([Job("a", f"while [ ! -e {go} ]; do sleep 0.02; done"), Job("b", "true")])
    engine = user.start(document, "--run-dir", user.folder / "run")
    assert wait_until(lambda: bool(user.tasks()))
    assert wait_until(lambda: wfrun.status(user.folder / "run").done == 1)
    assert wfrun.status(user.folder / "run").outcome is None
    with pytest.raises(InvalidError, match="is being driven by process"):
        wfrun.resume(user.folder / "run")
    go.touch()
    assert engine.done().status == 0
    assert wfrun.status(user.folder / "run").outcome == "done"


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"policy": "best"}, InvalidError, "no placement policy 'best'"),
    ({"throttle": 0}, InvalidError, "^throttle is 0, but must be at least 1"),
    ({"throttle": "5"}, InvalidError, "^throttle is '5', but must be a whole number"),
    ({"retries": -1}, InvalidError, "^retries is -1, but must be at least 0"),
    ({"retry_delay_s": float("inf")}, InvalidError, "^retry_delay_s is inf, but must be a finite"),
    ({"replica_share": 1.5}, InvalidError, "^replica_share is 1.5, but must be from 0 to 1"),
    ({"on_failure": "wait"}, InvalidError, "^on_failure is 'wait', but must be continue or stop"),
    ({"time_scale": float("nan"), "emulate": True}, InvalidError, "^time_scale is nan, but must"),
    ({"time_scale": 0.5}, InvalidError, "^time_scale has no effect without emulate"),
    ({"retrys": 1}, TypeError, "retrys"),
    ({"sites": "nowhere.yaml"}, InvalidError, "nowhere.yaml: cannot be read"),
    ({"sites": Catalog((SiteSpec("a", 1, directory="/proc/x"),))}, InfeasibleError, "site a: its"),
    ({"run_dir": "/proc/x"}, InfeasibleError, "the run directory /proc/x cannot be made"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_arguments(
    folder: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wfrun.run(chain(folder / "record"), **arguments)
    assert not list(folder.iterdir())


def test_nothing_to_run(folder: Path) -> None:
    with pytest.raises(InvalidError, match="there is no workflow to run"):
        wfrun.run()
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_an_empty_workflow_is_done_at_once(folder: Path) -> None:
    result = wfrun.run(Workflow("nothing", "nothing", [], [], []), run_dir=folder / "run")
    assert (result.outcome, result.tasks) == ("done", 0)


def test_graphs_of_networkx() -> None:
    jobs = [
        Job("a", "true", (), ["x", "y"]),
        Job("b", "true", ["x"], ["z"]),
        Job("c", "true", ["y", "z"]),
        Job("d", "true", parents=["a"]),
    ]
    graph = wfrun.to_networkx(make_workflow(jobs, "diamond"))
    assert graph.graph["name"] == "diamond"
    assert list(graph) == ["a", "b", "c", "d"]
    assert set(graph.edges) == {("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")}
    assert nx.is_directed_acyclic_graph(graph)
    assert nx.dag_longest_path(graph, weight="none") == ["a", "b", "c"]


@pytest.mark.parametrize("writer", [wfrun.write_dax, wfrun.write_wfformat])
def test_written_and_read_again(folder: Path, writer: Any) -> None:
    workflow = wfrun.generate("montage", 40, 1)
    writer(workflow, folder / "document")
    again = wfrun.read_workflow(folder / "document")
    assert nx.utils.graphs_equal(wfrun.to_networkx(again), wfrun.to_networkx(workflow))


@pytest.mark.slow
def test_a_workflow_of_plain_records(folder: Path) -> None:
    """As the documentation shows it."""
    files: Sequence[File] = [File("greeting.txt", producer=0, collect=True)]
    task = Task("hello", "echo", "echo", ("hello",), outputs=(0,), stdout=0)
    workflow = Workflow("hello", "program", [task], list(files), [()])
    result = wfrun.run(workflow, run_dir=folder / "run")
    assert (result.outputs / "greeting.txt").read_text() == "hello\n"
