"""The examples of docs/bags.md run, and its tables are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import wfrun
from tests.docs.test_docs import snippets, table
from tests.places import ROOT
from wfrun.parsers.bags import yaml_bags
from wfrun.runners.inspect.tables.results import AFTER, BEFORE

PAGE = ROOT / "docs/bags.md"
EXAMPLES = snippets(PAGE, "yaml")
COUNTS = ([40], [3 * 3 * 3 * 2 * 2], [4, 40])
PROGRAM = '#!/bin/sh\necho "$@" > score.txt\n'


@pytest.mark.parametrize(("text", "counts"), [*zip(EXAMPLES, COUNTS, strict=True)])
def test_yaml_examples_run(text: str, counts: list[int], tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(text)
    (csv,) = snippets(PAGE, "csv")
    (tmp_path / "points.csv").write_text(csv)
    (tmp_path / "ligands").mkdir()
    for name in ("receptor.pdbqt", "ligands/aspirin.pdbqt", "ligands/caffeine.pdbqt"):
        (tmp_path / name).write_text(name)
    for name in ("dock", "simulate", "analyse"):
        (tmp_path / name).write_text(PROGRAM)
        (tmp_path / name).chmod(0o755)
    bags = wfrun.read_workflows(tmp_path / "example.yaml")
    assert [len(bag.tasks) for bag in bags] == counts
    catalog = wfrun.Catalog((wfrun.SiteSpec("here", slots=2),))
    result = wfrun.run(tmp_path / "example.yaml", sites=catalog, run_dir=tmp_path / "run")
    assert result.outcome == "done", result.failures
    assert result.done == sum(counts)
    scores = sorted((result.outputs / "scores").glob("*.txt"))
    if text == EXAMPLES[0]:
        assert [scores[0].name, scores[-1].name] == ["aspirin-0001.txt", "caffeine-0020.txt"]


def cells(page: str, heading: str) -> set[str]:
    return {word.strip("`, ") for row in table(page, heading) for word in row[0].split(", ")}


def test_every_key_is_described() -> None:
    assert cells("docs/bags.md", "key") == set(yaml_bags.KEYS)


def test_every_column_of_results_is_described() -> None:
    assert cells("docs/bags.md", "column") == {*BEFORE, *AFTER}
