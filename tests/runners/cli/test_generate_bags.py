"""`wfrun generate bags`, as its users meet it."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.runners.harness import User
from wfrun.parsers.generate import FAMILIES
from wfrun.parsers.generate.bots import generate_workload
from wfrun.parsers.generate.bots_log import bags_of_log
from wfrun.parsers.generate.bots_model import ROWS
from wfrun.parsers.generate.bots_statistics import statistics_of
from wfrun.parsers.read import read_workflows
from wfrun.runners.cli.simulate.generate import generate
from wfrun.runners.cli.simulate.generate_bags_command import even_clusters

SITES = "sites:\n  vu: {slots: 60}\n  tud: {slots: 40, speed: 1.5}\n"


def test_every_family_has_a_command() -> None:
    assert set(generate.commands) == {*FAMILIES, "bags"}


@pytest.mark.parametrize("suffix", ["gwf", "swf"])
def test_bags_are_written_and_shown_beside_the_table(user: User, suffix: str) -> None:
    (user.folder / "sites.yaml").write_text(SITES)
    words = ("--sites", "sites.yaml", "--tasks", "500", "--load", "0.7", "--seed", "3")
    done = user.ask("generate", "bags", *words, "-o", f"bags.{suffix}")
    assert done.status == 0, done.text
    read = bags_of_log(user.folder / f"bags.{suffix}")
    assert read.tasks == 500
    assert read.clusters == ("vu", "tud")
    assert read.load == pytest.approx(0.7)
    assert read.capacity == 120
    lines = done.out.splitlines()
    assert lines[-1] == f"bags.{suffix}: {len(read.bags)} bags, 500 tasks"
    for fit in ("Z(1.31, 368)", "W(1.76, 2.11)", "N(2.73, 6.1)", "W(2.05, 12.25)"):
        assert fit in done.out
    assert any(line.startswith("load 0.700: ") for line in lines)


def test_the_bags_as_documents_are_those_of_the_model(user: User) -> None:
    """One document of all, and a folder of one each, with estimates that are wrong."""
    words = ("generate", "bags", "--tasks", "60", "--clusters", "3", "--inaccuracy", "50")
    for output in ("bags.yaml", "folder"):
        done = user.ask(*words, "-o", output)
        assert done.status == 0, done.text
    made = generate_workload(even_clusters(3), tasks=60, inaccuracy=50)
    files = sorted((user.folder / "folder").iterdir())
    read = read_workflows(user.folder / "bags.yaml")
    assert len(files) == len(made.bags) == len(read)
    each = chain.from_iterable(read_workflows(path) for path in files)
    for one, other, bag in zip(read, each, made.bags, strict=True):
        for workflow in (one, other):
            assert workflow.owner == bag.user
            assert workflow.bag is not None
            assert workflow.bag.application == bag.application
            assert [float(task.arguments[0]) for task in workflow.tasks] == list(bag.runtime_s)
            assert [task.runtime_s for task in workflow.tasks] == list(bag.estimate_s)
            assert {task.executable for task in workflow.tasks} == {"sleep"}


def test_the_documents_run(user: User) -> None:
    words = ("--tasks", "8", "--clusters", "1", "--mean-runtime", "1 s")
    assert user.ask("generate", "bags", *words, "-o", "bags.yaml").status == 0
    (user.folder / "sites.yaml").write_text("sites:\n  here: {slots: 8}\n")
    done = user.wfrun("bags.yaml", "--sites", "sites.yaml", "--quiet")
    assert done.status == 0, done.text
    assert "8/8 tasks done" in done.text


def test_bags_of_a_log_at_another_load(user: User) -> None:
    words = ("generate", "bags", "--clusters", "2")
    assert user.ask(*words, "--tasks", "300", "--load", "0.3", "-o", "a.gwf").status == 0
    done = user.ask(*words, "--log", "a.gwf", "--load", "0.9", "-o", "b.gwf")
    assert done.status == 0, done.text
    before, after = (bags_of_log(user.folder / name) for name in ("a.gwf", "b.gwf"))
    assert after.load == pytest.approx(0.9)
    assert [bag.runtime_s for bag in after.bags] == [bag.runtime_s for bag in before.bags]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--row", "grid500"), "Did you mean 'grid5000'?"),
        (("--tasks", "1"), "Ask for more tasks."),
        (("--mean-runtime", "3 fortnights"), "--mean-runtime"),
        (("--clusters", "2", "--sites", "s.yaml"), "has no effect with --sites"),
        (("-o", "bags.txt"), "Give --format."),
        (("--format", "swf", "-o", "."), "a log is one file"),
        (("--skip-bad-lines",), "has no effect without --log"),
        (("--sites", "none.yaml"), "none.yaml"),
        (("--log", "log.swf", "--median-size", "10"), "apply to the model, not to a log"),
        (("--log", "log.swf"), "log.swf:1"),
        (("-o", "not/there.gwf"), "not/there.gwf"),
    ],
)
def test_what_cannot_be_is_refused(user: User, words: tuple[str, ...], told: str) -> None:
    (user.folder / "log.swf").write_text("no log\n")
    if "--tasks" not in words:
        words = (*words, "--tasks", "50")
    done = user.ask("generate", "bags", *words)
    assert done.status == 2, done.text
    assert told in done.text
    assert [path.name for path in user.folder.glob("[!.]*")] == ["log.swf"]


def test_sizes_are_counted_by_the_classes_of_the_thesis() -> None:
    workload = generate_workload(even_clusters(4), tasks=10_000)
    sizes = statistics_of(workload, ROWS["average"]).sizes
    assert [each.name for each in sizes[:4]] == ["1", "2-4", "5-9", "10-19"]
    assert sizes[-1].name == "1000 and over"
    small = [len(bag) for bag in workload.bags if 2 <= len(bag) <= 4]
    assert sizes[1].bags == len(small) / len(workload.bags)
    assert sizes[1].tasks == sum(small) / 10_000
    for column in ("model", "bags", "tasks"):
        assert sum(getattr(each, column) for each in sizes) == pytest.approx(1)
    assert sizes[1].model == pytest.approx(sizes[1].bags, abs=0.04)
