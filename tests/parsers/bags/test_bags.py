"""Bag documents in YAML, tables and lists of commands: what is read of them, and how much room it
takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun import InvalidError, Workflow, read_workflow, read_workflows
from wfrun.engine.model import (
    Axis,
    Bag,
    BagFile,
    DictionaryColumn,
    PackedColumn,
    Progression,
    Resources,
)
from wfrun.engine.tasks.bag import expand, tasks_of, values_of
from wfrun.parsers.bags.build import build_bag
from wfrun.parsers.bags.columns import column_of, progression
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.bags.values import words_of


def read(tmp_path: Path, text: str, name: str = "sweep.yaml") -> Workflow:
    (tmp_path / name).write_text(text)
    return read_workflow(tmp_path / name)


def commands(workflow: Workflow) -> list[str]:
    return [" ".join((task.executable, *task.arguments)) for task in workflow.tasks]


# YAML


def test_parameters_are_multiplied_and_the_last_varies_fastest(tmp_path: Path) -> None:
    (tmp_path / "proteins.txt").write_text("p1\n\n  p2  \n")
    (tmp_path / "points.tsv").write_text('lat\tlon\n1\t"a\tb"\n')
    bag = read(
        tmp_path,
        """
command: dock {ligand} {seed:02} {x}{y} {protein} '{lat} {lon}' {{}} {index}
parameters:
  ligand: [a, 7]
  seed: {range: [1, 2]}
  pair: {zip: {x: [u, v], y: {range: {from: 0.5, step: -0.25, count: 2}}}}
  protein: {file: proteins.txt}
  point: {rows: points.tsv}
""",
    )
    assert len(bag.tasks) == 2 * 2 * 2 * 2
    assert commands(bag)[:5] == [
        "dock a 01 u0.50 p1 1 a\tb {} 0",
        "dock a 01 u0.50 p2 1 a\tb {} 1",
        "dock a 01 v0.25 p1 1 a\tb {} 2",
        "dock a 01 v0.25 p2 1 a\tb {} 3",
        "dock a 02 u0.50 p1 1 a\tb {} 4",
    ]
    assert bag.tasks[15].arguments[0] == "7"
    assert tasks_of(bag).expansion.parameters(8) == {
        "ligand": "7", "seed": "1", "x": "u", "y": "0.50", "protein": "p1", "lat": "1",
        "lon": "a\tb",
    }  # fmt: skip


def test_all_keys_of_a_bag(tmp_path: Path) -> None:
    bag = read(
        tmp_path,
        """
bag: docking
owner: alice
application: dock
priority: 3
command: [./dock, "--ligand {ligand}"]
parameters: {ligand: [a, b]}
estimate: 1.5 min
cores: 4
nodes: 2
memory: 2 GiB
gpus: 1
walltime: 1 h
inputs: [receptor, {name: ligand, from: "ligands/{ligand}"}, {from: lib/so, executable: true}]
outputs: [{name: out, to: "{ligand}.out"}, {name: "{ligand}.maybe", optional: true}]
stdin: receptor
stdout: "{ligand}.log"
stderr: "{ligand}.err"
env: {THREADS: 4, WHICH: "{ligand}"}
""",
    )
    task, files = bag.tasks[1], bag.files
    assert (bag.name, bag.owner, bag.priority, task.name) == ("docking", "alice", 3, "dock")
    assert (task.executable, task.arguments) == ("./dock", ("--ligand b",))
    assert task.runtime_s == 90
    assert task.resources == Resources(4, 2 << 30, 1, 3600, 2)
    assert [(files[f].name, files[f].url, files[f].executable) for f in task.inputs] == [
        ("receptor", None, False), ("ligand", "ligands/b", False), ("so", "lib/so", True),
    ]  # fmt: skip
    assert [(files[f].name, files[f].url) for f in task.outputs] == [
        ("out", "b.out"), ("b.maybe", None), ("b.log", None), ("b.err", None),
    ]  # fmt: skip
    assert [files[f].name for f in task.optional] == ["b.maybe"]
    streams = (task.stdin, task.stdout, task.stderr)
    assert [files[f].name for f in streams if f is not None] == ["receptor", "b.log", "b.err"]
    assert task.env == {"THREADS": "4", "WHICH": "b"}


def test_bags_share_what_stands_beside_them(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "owner: alice\nparameters: {n: {range: [1, 3]}}\ncommand: 'echo {n}'\nbags:\n"
        "  - {bag: one}\n  - {owner: bob, parameters: {n: [9]}}\n"
    )
    one, two = read_workflows(tmp_path / "x.yaml")
    assert (one.name, one.owner, len(one.tasks)) == ("one", "alice", 3)
    assert (two.name, two.owner, commands(two)) == ("x-2", "bob", ["echo 9"])
    with pytest.raises(InvalidError, match="has 2 bags"):
        read_workflow(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("estimate", "values", "seconds"),
    [
        ("90 s", "[1, 2]", [90, 90]),
        ("'{t}'", "[1, 2.5]", [1, 2.5]),
        ("'{t}'", "[1 min, '00:00:30']", [60, 30]),
        ("'{t} min'", "{range: [1, 2]}", [60, 120]),
        ("'{t}'", "{range: {from: 0.5, to: 1, step: 0.5}}", [0.5, 1]),
        ("'{t}'", "[1 s, 1 s, 1 s, 1 s, 2 s]", [1, 1, 1, 1, 2]),
    ],
)
def test_estimates(tmp_path: Path, estimate: str, values: str, seconds: list[float]) -> None:
    bag = read(
        tmp_path, f"command: 'echo {{t}}'\nestimate: {estimate}\nparameters: {{t: {values}}}"
    )
    assert [task.runtime_s for task in bag.tasks] == seconds


def test_shared_inputs_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ligand,seed\n" + "".join(f"l{n % 2},{n}\n" for n in range(10)))
    bag = read(
        tmp_path,
        "command: echo\nparameters: {t: {rows: t.csv}}\ninputs: ['{ligand}', all, '{seed}.in']",
    )
    assert [file.name for file in bag.files] == [
        "l0", "l1", "all", *(f"{n}.in" for n in range(10)),
    ]  # fmt: skip
    assert bag.tasks[3].inputs == (1, 2, 6)


# Tables and commands


def test_a_row_is_a_task(tmp_path: Path) -> None:
    path = tmp_path / "docking.csv"
    path.write_text('ligand,seed,what is left\r\na,1,"x, ""y"""\r\n\r\nb,2,\r\n')
    (bag,) = read_workflows(path, template=LineTemplate("./dock --ligand '{ligand} {seed}'"))
    assert [task.arguments for task in bag.tasks] == [("--ligand", "a 1"), ("--ligand", "b 2")]
    assert tasks_of(bag).expansion.parameters(0)["what is left"] == 'x, "y"'
    path.write_text("a;b\n1;2\n")
    (bag,) = read_workflows(path, template=LineTemplate("echo {b}", ";"))
    assert commands(bag) == ["echo 2"]


def test_a_line_is_a_command(tmp_path: Path) -> None:
    (tmp_path / "dock").write_text("")
    bag = read(tmp_path, "# comment\n./dock {a} | sort\n\necho b\n", "list.txt")
    assert [task.arguments for task in bag.tasks] == [("-c", "./dock {a} | sort"), ("-c", "echo b")]
    assert [(file.name, file.executable) for file in bag.files] == [("dock", True)]
    assert bag.tasks[1].id == "list-1"


def test_the_content_decides_before_the_name_does(tmp_path: Path) -> None:
    assert commands(read(tmp_path, "command: echo {x}\nparameters: {x: [1]}\n", "a.txt")) == [
        "echo 1"
    ]
    pegasus = (
        "pegasus: '5.0'\nname: p\njobs: [{type: job, id: a, name: x, arguments: [], uses: []}]"
    )
    assert read(tmp_path, pegasus, "b.txt").bag is None


# Columns


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4)))
def test_columns_give_back_their_values(values: list[str]) -> None:
    column = column_of(values)
    value = values_of(column)
    assert [value(place) for place in range(len(column))] == values
    few = len(set(values)) * 2 <= len(values)
    assert isinstance(column, DictionaryColumn if few else PackedColumn)


def test_a_long_column_changes_its_kind_as_late_as_it_has_to() -> None:
    different = [f"ä{n}" for n in range(100_000)]
    assert isinstance(column_of(different), PackedColumn)
    alike = [f"v{n % 3000}" for n in range(20_000)]
    column = column_of(alike)
    assert isinstance(column, DictionaryColumn)
    value = values_of(column)
    assert [value(n) for n in range(20_000)] == alike


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((1, 3, 1), ["1", "2", "3"]),
        ((0, 1, 0.3), ["0.0", "0.3", "0.6", "0.9"]),
        ((0.1, 0.3, 0.1), ["0.1", "0.2", "0.3"]),
        ((-1, -2, -0.5), ["-1.0", "-1.5", "-2.0"]),
        ((100, 1000, 450.0), ["100", "550", "1000"]),
        ((5, 5, 1), ["5"]),
        ((1e-07, 3e-07, 1e-07), ["0.0000001", "0.0000002", "0.0000003"]),
    ],
)
def test_ranges_are_exact(numbers: tuple[float, float, float], texts: list[str]) -> None:
    column = progression(*numbers)
    value = values_of(column)
    assert [value(n) for n in range(len(column))] == texts


@pytest.mark.parametrize(
    "numbers", [(1, 2, 0), (1, 2, -1), (0, float("inf"), 1), (0, 1e9, 1), (float("nan"), 1, 1),
                (0, 1e300, 1e299), (1e-30, 2e-30, 1e-30)],
)  # fmt: skip
def test_ranges_that_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"never ends|more than|too large|too many"):
        progression(*numbers)


# Names

PIECES = st.sampled_from(["a", "b", "-", ".", "/", "{x}", "{y}", "{z}", "{x:2}", "{n:02}", "{n}"])
TEMPLATES = st.lists(PIECES, min_size=1, max_size=5).map("".join)
VALUES = st.lists(st.sampled_from(["", "a", "b", "1", "11", "-", "a-", ".", "a/b"]), min_size=1,
                  max_size=3)  # fmt: skip


def is_path(name: str) -> bool:
    return all(part not in ("", ".", "..") for part in name.split("/"))


@given(st.lists(TEMPLATES, min_size=1, max_size=2), VALUES, VALUES, VALUES)
def test_names_are_refused_if_and_only_if_they_are_bad(
    outputs: list[str], x: list[str], y: list[str], z: list[str]
) -> None:
    """Against all names of all tasks."""
    size = min(len(y), len(z))
    bag = Bag(
        "b",
        "b",
        "true",
        axes=(
            Axis(("x",), (column_of(x),)),
            Axis(("y", "z"), (column_of(y[:size]), column_of(z[:size]))),
            Axis(("n",), (Progression(9, 1, 2),)),
        ),
        outputs=tuple(BagFile(name) for name in outputs),
    )
    names = [file.name for file in expand(bag).files]
    folders = {name[:n] for name in names for n, letter in enumerate(name) if letter == "/"}
    good = all(map(is_path, names)) and len(set(names)) == len(names) and folders.isdisjoint(names)
    try:
        build_bag(BagDraft(bag, lambda message, what, hint=None: InvalidError(message)))
    except InvalidError:
        assert not good, names
    else:
        assert good, names


def test_a_million_tasks_are_read_without_being_made(tmp_path: Path) -> None:
    before_s = time.process_time()
    bag = read(
        tmp_path,
        "command: 'true'\nparameters: {a: [x, y], n: {range: [1, 500000]}}\n"
        "outputs: ['{a}-{n:07}.txt', '{a}-{n:07}.log']\ninputs: ['{a}']",
    )
    assert len(bag.tasks) == 1_000_000
    assert len(bag.files) == 2 + 2_000_000
    assert bag.files[2_000_001].name == "y-0500000.log"
    assert time.process_time() - before_s < 2


def test_what_shells_would_understand_is_an_argument_where_it_is_quoted() -> None:
    command = r"""find . '>' ">x" \| -exec a 'b;' "c\" > d" \; x->y a=1;b {x:>5} '2>&1'"""
    assert words_of(command)[2:] == (
        ">", ">x", "|", "-exec", "a", "b;", 'c" > d', ";", "x->y", "a=1;b", "{x:>5}", "2>&1",
    )  # fmt: skip
