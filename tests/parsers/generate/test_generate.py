"""Generated workflows: structure of the published ones, at any size."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.amounts import examples
from tests.places import CORPUS
from tools import compare_generated
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.generate import FAMILIES, MAX_TASKS, generate

FURTHEST = {"montage": 1, "cybershake": 1, "inspiral": 1, "epigenomics": 3}
"""How far from the tasks asked for a workflow may be; other families are exact."""


WITHOUT_INPUTS = {"ZipSeis", "ZipPSA"}
WITHOUT_FILES = {*WITHOUT_INPUTS, "mConcatFit"}
"""Types that wait for tasks whose files they do not read, as in the published documents."""


def depth(workflow: Workflow) -> int:
    """Tasks on the longest path."""
    levels: list[int] = []
    for parents in workflow.parents:
        levels.append(1 + max((levels[parent] for parent in parents), default=0))
    return max(levels)


def check_sound(workflow: Workflow) -> None:
    """What every generated workflow promises."""
    tasks, files = workflow.tasks, workflow.files
    assert len({task.id for task in tasks}) == len(tasks)
    assert len({file.name for file in files}) == len(files)
    read = {index for task in tasks for index in task.inputs}
    for number, (task, parents) in enumerate(zip(tasks, workflow.parents, strict=True)):
        assert task.executable == task.name
        assert task.runtime_s is not None
        assert task.runtime_s > 0
        assert task.inputs or task.name in WITHOUT_INPUTS
        assert task.outputs
        assert len(set(task.inputs)) == len(task.inputs)
        producers = {files[index].producer for index in task.inputs}
        if task.name not in WITHOUT_FILES:
            assert parents == tuple(sorted(p for p in producers if p is not None))
        assert all(parent < number for parent in parents)
        assert all(files[index].producer == number for index in task.outputs)
    for index, file in enumerate(files):
        assert file.size_bytes is not None
        assert file.size_bytes >= 0
        assert file.collect == (file.producer is not None and index not in read)
        assert file.producer is not None or index in read


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 700), st.integers(0, 2**32))
def test_any_size_and_seed_gives_a_sound_workflow(family: str, tasks: int, seed: int) -> None:
    tasks = max(tasks, FAMILIES[family].smallest)
    workflow = generate(family, tasks, seed)
    check_sound(workflow)
    assert abs(len(workflow.tasks) - tasks) <= FURTHEST.get(family, 0)


SIZES = range(1, 130)
POSSIBLE = {
    "montage": {11, 14, 15, *SIZES[16:]},
    "cybershake": {5, *SIZES[6:]},
    "inspiral": {*SIZES[5::2]},
    "sipht": {*SIZES[12:]},
    "epigenomics": {*SIZES[7::4], 15, 19, *SIZES[20::2]},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sizes_that_the_documentation_gives(family: str) -> None:
    for tasks in SIZES[FAMILIES[family].smallest - 1 :]:
        made = len(generate(family, tasks, seed=1).tasks)
        assert (made == tasks) == (tasks in POSSIBLE.get(family, SIZES)), (tasks, made)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_workflow_and_another_another(family: str) -> None:
    first = generate(family, 200, seed=7)
    assert generate(family, 200, seed=7) == first
    assert generate(family, 200, seed=8) != first


@pytest.mark.cases
@pytest.mark.parametrize("family", FAMILIES)
def test_a_large_workflow_is_sound_and_of_the_size_asked_for(family: str) -> None:
    workflow = generate(family, 20_000, seed=1)
    assert abs(len(workflow.tasks) - 20_000) <= FURTHEST.get(family, 0)
    check_sound(workflow)


def test_layers_are_about_as_many_as_they_are_wide() -> None:
    workflow = generate("layered", 10_000, seed=3)
    assert 80 <= depth(workflow) <= 125
    assert {len(parents) for parents in workflow.parents} == {0, 1, 2, 3}


def test_a_bag_has_no_edges() -> None:
    assert set(generate("bag", 50, seed=1).parents) == {()}


def test_an_unknown_family_names_the_nearest() -> None:
    with pytest.raises(InvalidError, match="Did you mean 'montage'"):
        generate("Montagne", 100, seed=1)


@pytest.mark.parametrize("tasks", [-1, 0, 10, MAX_TASKS + 1])
def test_a_size_that_no_montage_has_is_refused_with_those_there_are(tasks: int) -> None:
    with pytest.raises(InvalidError, match="Ask for 11 to 1,000,000 tasks"):
        generate("montage", tasks, seed=1)


class Published:
    """Shares of tasks, mean run times, edges and depth of a published synthetic document.

    Read with a few lines of its own, so that it does not depend on the readers.
    """

    def __init__(self, path: Path) -> None:
        root = etree.parse(str(path)).getroot()
        kinds = {job.get("id"): job.get("name", "") for job in root.iter("{*}job")}
        times: dict[str, list[float]] = defaultdict(list)
        for job in root.iter("{*}job"):
            times[job.get("name", "")].append(float(job.get("runtime", "nan")))
        self.tasks = len(kinds)
        self.counts = Counter(kinds.values())
        self.means = {kind: statistics.fmean(values) for kind, values in times.items()}
        parents = {
            child.get("ref"): [parent.get("ref") for parent in child]
            for child in root.iter("{*}child")
        }
        self.edges = sum(map(len, parents.values()))
        levels: dict[str | None, int] = {}

        def level(task: str | None) -> int:
            if task not in levels:
                levels[task] = 1 + max(map(level, parents.get(task, ())), default=0)
            return levels[task]

        self.depth = max(map(level, kinds))


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("document", "edge_tolerance"),
    [
        # Some of their mDiffFit compare an image with itself.
        ("Montage_25", 0.06),
        ("Montage_50", 0.06),
        ("Montage_1000", 0.01),
        ("CyberShake_30", 0.01),
        ("CyberShake_1000", 0.01),
        # A few of its Inspiral go into two Thinca.
        ("Inspiral_1000", 0.025),
        ("Inspiral_50", 0.01),
        ("Sipht_30", 0.01),
        ("Sipht_60", 0.01),
        ("Sipht_100", 0.01),
        ("Epigenomics_24", 0.0),
        ("Epigenomics_46", 0.0),
        ("Epigenomics_100", 0.0),
        ("Epigenomics_997", 0.0),
    ],
)
def test_the_structure_is_that_of_the_published_document(
    document: str, edge_tolerance: float
) -> None:
    published = Published(CORPUS / "dax" / "synthetic" / f"{document}.xml")
    workflow = generate(document.split("_")[0].lower(), published.tasks, seed=1)
    assert len(workflow.tasks) == published.tasks
    counts = Counter(task.name for task in workflow.tasks)
    assert counts.keys() == published.counts.keys()
    for kind, count in published.counts.items():
        assert abs(counts[kind] - count) <= max(1, 0.01 * published.tasks), kind
    edges = sum(map(len, workflow.parents))
    assert edges == pytest.approx(published.edges, rel=edge_tolerance)
    assert depth(workflow) == published.depth


@pytest.mark.corpus
def test_the_tables_of_the_page_compare_what_is_generated_now() -> None:
    begin, tables = (
        compare_generated.BEGIN,
        compare_generated.compared(CORPUS / "dax" / "synthetic"),
    )
    assert begin + tables + compare_generated.END in compare_generated.PAGE.read_text("utf-8")


@pytest.mark.corpus
@pytest.mark.parametrize(
    "document", ["Montage_1000", "CyberShake_1000", "Inspiral_1000", "Epigenomics_997"]
)
def test_mean_run_times_are_those_of_the_published_document(document: str) -> None:
    """Over ten seeds, since some kinds of task are there once."""
    published = Published(CORPUS / "dax" / "synthetic" / f"{document}.xml")
    times: dict[str, list[float]] = defaultdict(list)
    for seed in range(10):
        for task in generate(document.split("_")[0].lower(), published.tasks, seed).tasks:
            times[task.name].append(task.runtime_s or 0.0)
    for kind, mean in published.means.items():
        assert statistics.fmean(times[kind]) == pytest.approx(mean, rel=0.15), kind


@pytest.mark.corpus
def test_sipht_is_that_of_the_published_list_of_a_thousand() -> None:
    published: dict[str, list[float]] = defaultdict(list)
    edges = 0
    for line in (CORPUS / "dag" / "Sipht_1000.dag").read_text().splitlines():
        words = line.split()
        if words[:1] == ["TASK"]:
            published[words[2].split(":")[2]].append(float(words[3]))
        edges += words[:1] == ["EDGE"]
    total = sum(map(len, published.values()))
    times: dict[str, list[float]] = defaultdict(list)
    for seed in range(3):
        workflow = generate("sipht", total, seed)
        assert sum(map(len, workflow.parents)) == pytest.approx(edges, rel=0.01)
        for task in workflow.tasks:
            times[task.name].append(task.runtime_s or 0.0)
    for kind, values in published.items():
        assert len(times[kind]) / 3 == pytest.approx(len(values), abs=0.01 * total), kind
        assert statistics.fmean(times[kind]) == pytest.approx(statistics.fmean(values), rel=0.15)
