"""The file for Prometheus, read by the parser of its own library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_docs import table
from tests.runners.harness import Job, User, wait_until
from wfrun.runners.run.notices.metrics_file import METRICS

parser = pytest.importorskip("prometheus_client.parser")

Sample = tuple[str, frozenset[tuple[str, str]]]


def parsed(path: Path) -> dict[Sample, float]:
    """The value of each sample; fails for text that Prometheus would not take."""
    families = list(parser.text_string_to_metric_families(path.read_text()))
    assert all(family.type in ("gauge", "counter") and family.documentation for family in families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(path: Path, name: str, run: str = "run", **labels: str) -> float:
    return parsed(path)[name, frozenset({"run": run, **labels}.items())]


@pytest.mark.slow
def test_the_file_is_that_of_the_run_and_goes_on_after_a_crash(user: User) -> None:
    path, folder = user.folder / "m.prom", user.folder
    jobs = [
        Job("a", "true"),
        Job("b", f"touch {folder}/begun; until [ -e {folder}/go ]; do sleep 0.02; done", (), (),
            parents=["a"]),
    ]  # fmt: skip
    catalog = user.catalog("sites:\n  alpha: {slots: 1}\n")
    words = ["--sites", str(catalog), "--run-dir", "run", "--metrics-file", str(path)]
    engine = user.start(user.write(jobs), *words)
    assert wait_until(lambda: engine.ended or (path.exists() and (folder / "begun").exists()))
    assert not engine.ended, engine.told
    assert value(path, "wfrun_run_state", state="running") == 1
    engine.kill()
    (folder / "go").touch()
    assert user.wfrun("resume", "run").status == 0
    assert value(path, "wfrun_run_state", state="running") == 0
    assert value(path, "wfrun_run_state", state="done") == 1
    assert value(path, "wfrun_tasks", status="done") == 2
    assert value(path, "wfrun_site_ended_attempts_total", site="alpha", outcome="done") == 2
    assert value(path, "wfrun_site_core_seconds_total", site="alpha") > 0
    names = {name for name, _ in parsed(path)}
    assert names == {metric.name for metric in METRICS}
    assert not list(folder.glob(".m.prom*"))


def test_the_end_is_written_and_names_are_escaped(user: User) -> None:
    path = user.folder / "m.prom"
    run = 'r "1" \\ x'
    done = user.wfrun(user.write([Job("a", "exit 3")]), "--retries", "0", "--run-dir", run,
                      "--metrics-file", path)  # fmt: skip
    assert done.status == 1, done.text
    assert value(path, "wfrun_tasks", run, status="failed") == 1
    assert value(path, "wfrun_run_state", run, state="failed") == 1


@pytest.mark.parametrize("name", ["no/such/folder/m.prom", "."])
def test_a_file_that_cannot_be_written_is_refused_before_the_start(user: User, name: str) -> None:
    done = user.ask("run", user.write([Job("a", "true")]), "--metrics-file", name)
    assert done.status == 2, done.text
    assert "--metrics-file cannot be written" in done.err
    assert not (user.folder / "wfrun-runs").exists()


def test_the_page_lists_the_metrics() -> None:
    shown = {row[0]: row[1] for row in table("docs/metrics-file.md", "metric")}
    assert shown == {metric.name: metric.type for metric in METRICS}


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type == "counter"), metric.name
