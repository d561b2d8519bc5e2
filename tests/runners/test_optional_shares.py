"""Metrics of bags with optional tasks, beside what they are by hand."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.engine.optional.test_optional import bag, world_of
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import OptionalTasks
from wfrun.runners.cli.main import cli
from wfrun.runners.inspect.statistics.statistics_table import print_statistics
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.metrics.log import run_timings
from wfrun.runners.metrics.optional_bags import deserved_core_s, optional_shares
from wfrun.runners.metrics.statistics import run_statistics


def test_the_metrics_of_two_owners_by_hand() -> None:
    """One slot. Tasks of a take 4 s, those of b 1 s; all of a come first. a: 0 to 4, 4 to 8, and
    8 until its deadline at 10. b, from 2: one from 10 to 11, after its deadline at 10.

    Deserved: a 2 s + 8 s / 2 = 6 core seconds, b 4. Satisfaction: a 10 / 6, b 1 / 4.
    """
    bags = [bag("a", 3, 4.0, OptionalTasks(2, within_s=10.0))]
    bags.append(bag("b", 3, 1.0, OptionalTasks(1, within_s=8.0)))
    world = world_of(*bags, slots=(1,), selection="s-bot", arrive_s=(0.0, 2.0))
    assert world.run() == "done"
    shares = optional_shares(world.core.state)
    assert shares is not None
    a, b = shares.owners
    assert (a.owner, a.unhappy, a.completed) == ("a", False, 2)
    assert (b.owner, b.unhappy, b.completed) == ("b", True, 1)
    assert [a.deserved_core_s, b.deserved_core_s] == pytest.approx([6, 4])
    assert [a.allocated_core_s, b.allocated_core_s] == pytest.approx([10, 1])
    assert (shares.unhappy_owners, shares.completed) == (1, 3)
    assert shares.unfairness == pytest.approx(10 / 6 - 1 / 4)

    console = Console(record=True, width=120, file=io.StringIO())
    console.print(summary(world.core.state))
    documents = {str(number): one for number, one in enumerate(bags)}
    timings = run_timings(world.log, documents)
    statistics = run_statistics(Path("run"), world.core.state, timings, "done")
    assert statistics.optional == shares
    print_statistics(console, [statistics])
    text = console.export_text()
    line = "bags with optional tasks: 3 tasks done, 1 of 2 owners unhappy, unfairness 1.42"
    assert line in text
    rows = [line.split() for line in text.splitlines()]
    assert ["unhappy", "owners", "1"] in rows
    assert ["unfairness", "1.42"] in rows
    assert ["b", "1", "no", "0.000278", "0.00111", "0.25"] in rows


def test_bags_of_one_owner_that_overlap_are_one_presence() -> None:
    """Alone: 0 to 1, with 1 to 3; again alone: 3 to 5; nobody from 5 to 7."""
    present_s = {"a": [(0.0, 3.0), (2.0, 5.0), (7.0, 8.0)], "b": [(1.0, 3.0)], "c": [(4.0, 4.0)]}
    assert deserved_core_s(present_s, 2) == pytest.approx({"a": 2 + 2 + 4 + 2, "b": 2, "c": 0})


def test_an_owner_whose_mandatory_task_fails_for_good_is_unhappy_once_it_is_due() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("exit", exit_code=1) if task == 0 else Outcome("done")

    asked = OptionalTasks(2, within_s=50.0)
    world = world_of(bag("a", 60, 4.0, asked), slots=(1,), result=result)
    unhappy: dict[int, float] = {}
    for _ in world.steps():
        shares = optional_shares(world.core.state)
        if shares is not None:
            unhappy.setdefault(shares.unhappy_owners, world.core.state.now_s)
    assert world.core.state.ended == "failed"
    assert set(unhappy) == {0, 1}
    assert unhappy[1] >= 50


def test_runs_without_optional_tasks_have_none_of_it() -> None:
    world = world_of(bag("a", 3, 1.0, None))
    assert world.run() == "done"
    assert optional_shares(world.core.state) is None


BAG = """\
bag: {owner}
owner: {owner}
command: sleep {{t}}
parameters: {{t: {{range: [1, 50]}}}}
estimate: 10
optional: {{min: {least}, max: 40, deadline: 1 min}}
"""


def documents(folder: Path, **least: int) -> list[str]:
    """A document for each owner, with this number of mandatory tasks."""
    for owner, number in least.items():
        (folder / f"{owner}.yaml").write_text(BAG.format(owner=owner, least=number))
    return [str(folder / f"{owner}.yaml") for owner in least]


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_simulate_compares_unhappy_owners_and_unfairness(tmp_path: Path) -> None:
    """Two slots, tasks of 10 s. First come, first served: ann has 12 of them in 60 s, and bob
    begins after that."""
    words = ["simulate", *documents(tmp_path, ann=3, bob=3), "--policy", "fpf", "--jobs", "1"]
    file = tmp_path / "out.csv"
    run(*words, "--selection", "ethic,s-bot", "--overheads", "none", "--output", str(file))
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["unhappy_owners"] for row in rows] == ["0", "1"]
    assert [float(row["unfairness"]) for row in rows] == pytest.approx([0, 4 / 3])
    text = run(*words, "--selection", "ethic,s-bot", "--overheads", "none", "--output", str(file))
    assert "unhappy: owners without their mandatory results at the deadline" in text


def test_results_of_an_older_version_get_the_new_columns(tmp_path: Path) -> None:
    words = ["simulate", *documents(tmp_path, ann=3), "--overheads", "none", "--jobs", "1"]
    words += ["--policy", "fpf", "--selection", "ethic"]
    file = tmp_path / "out.csv"
    run(*words, "--output", str(file))
    lines = file.read_text().splitlines()
    assert lines[0].endswith(",failure,unhappy_owners,unfairness")
    file.write_text("".join(line.rsplit(",", 2)[0] + "\n" for line in lines))
    run(*words, "--seeds", "2", "--output", str(file))
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["unhappy_owners"] for row in rows] == ["", "0"]
    file.write_text(lines[0].replace(",failure", "") + "\n")
    result = CliRunner().invoke(cli, [*words, "--output", str(file)])
    assert "not a file of results" in str(result.exception)


def test_simulate_warns_of_mandatory_tasks_that_cannot_end_in_time(tmp_path: Path) -> None:
    (late,) = documents(tmp_path, ann=30)
    words = ["simulate", late, "--policy", "fpf", "--overheads", "none", "--jobs", "1"]
    assert "the mandatory tasks (min 30) of the bag ann cannot end by its deadline" in run(*words)
    (soon,) = documents(tmp_path, bob=3)
    assert "cannot end by its deadline" not in run(words[0], soon, *words[2:])


def test_results_by_owner(tmp_path: Path) -> None:
    words = ["simulate", *documents(tmp_path, ann=30, bob=1), "--policy", "fpf", "--selection"]
    run(*words, "ethic", "--overheads", "none", "--jobs", "1", "--run-dir", str(tmp_path / "run"))
    ann, bob = csv.DictReader(io.StringIO(run("results", str(tmp_path / "run"), "--owners")))
    assert (ann["owner"], ann["completed"], ann["unhappy"]) == ("ann", "30", "1")
    assert float(bob["deserved_core_s"]) == 60
    assert float(bob["satisfaction"]) == pytest.approx(float(bob["allocated_core_s"]) / 60)
    file = tmp_path / "owners.tsv"
    run("results", str(tmp_path / "run"), "--owners", "--output", str(file))
    assert file.read_text().startswith("owner\tcompleted\tunhappy\tallocated_core_s\t")


def test_a_run_without_optional_tasks_has_no_results_by_owner(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("bag: a\ncommand: sleep 1\nestimate: 1\n")
    folder = str(tmp_path / "run")
    run("simulate", str(tmp_path / "a.yaml"), "--policy", "fpf", "--jobs", "1",
        "--run-dir", folder)  # fmt: skip
    result = CliRunner().invoke(cli, ["results", folder, "--owners"])
    assert "has no bags with optional tasks" in str(result.exception)
