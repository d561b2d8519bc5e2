"""Bags of tasks as a user runs them, and the tables of their results."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import count
from pathlib import Path

import pytest
from pyarrow import parquet

import wfrun
from tests.runners.harness import User, assert_refused, lines_of
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.events import Settings
from wfrun.engine.model import Access
from wfrun.parsers.bags import make
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.experiments.subjects.workloads import POLICIES
from wfrun.runners.inspect.failures.failures import nothing_succeeds
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.store.checkpoints import read_state

SWEEP = """\
owner: alice
command: ./dock --seed {seed:03} {ligand}
parameters:
  ligand: [a, 'b c']
  seed: {range: [1, 3]}
inputs: [receptor, {name: in/ligand, from: 'ligands/{ligand}.txt'}]
outputs: [{name: score, to: 'out/{ligand}-{seed}'}]
env: {FACTOR: '{seed}'}
"""
DOCK = """\
#!/bin/sh
cat receptor in/ligand > score; echo "$@" $FACTOR >> score
"""
SITES = "sites:\n  a: {slots: 1}\n  b: {slots: 1}\n"


@pytest.fixture
def sweep(user: User) -> User:
    (user.folder / "sweep.yaml").write_text(SWEEP)
    (user.folder / "receptor").write_text("R\n")
    (user.folder / "ligands").mkdir()
    for ligand in ("a", "b c"):
        (user.folder / f"ligands/{ligand}.txt").write_text(f"L {ligand}\n")
    (user.folder / "dock").write_text(DOCK)
    (user.folder / "dock").chmod(0o755)
    return user


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_sweep_runs_and_its_results_are_a_table(sweep: User) -> None:
    sweep.catalog(SITES)
    done = sweep.wfrun("sweep.yaml", "--sites", "sites.yaml", "--run-dir", "run", "-p", "rr")
    assert done.status == 0, done.text
    outputs = sweep.folder / "run/outputs/out"
    assert sorted(path.name for path in outputs.iterdir()) == [
        "a-1", "a-2", "a-3", "b c-1", "b c-2", "b c-3",
    ]  # fmt: skip
    assert (outputs / "b c-2").read_text() == "R\nL b c\n--seed 002 b c 2\n"
    rows = table(sweep.ask("results", "run").out)
    assert [(row["task"], row["ligand"], row["seed"]) for row in rows] == [
        (str(n), ligand, str(seed))
        for n, (ligand, seed) in enumerate((x, y) for x in ("a", "b c") for y in (1, 2, 3))
    ]
    for row in rows:
        assert (row["bag"], row["owner"], row["state"]) == ("sweep", "alice", "done")
        assert (row["exit_code"], row["attempts"]) == ("0", str(1 + int(row["replicas"])))
        assert row["site"] in ("a", "b")
        assert Path(row["outputs"]) == outputs / f"{row['ligand']}-{row['seed']}"
        assert 0 <= float(row["started_s"]) <= float(row["ended_s"])
        assert int(row["peak_memory_bytes"]) > 0


def test_a_table_with_a_command_and_the_kinds_of_files_of_results(user: User) -> None:
    (user.folder / "t.csv").write_text("state,n\nx,0\ny,3\nz,1\n")
    done = user.wfrun(
        "t.csv", "--command", "sh -c 'exit {n}'", "--run-dir", "run", "--retries", "1"
    )
    assert done.status == 1
    assert user.ask("results", "run", "-o", "r.parquet").text == ""
    rows = parquet.read_table(user.folder / "r.parquet").to_pylist()
    assert [
        (r["parameter_state"], r["n"], r["state"], r["exit_code"], r["attempts"]) for r in rows
    ] == [("x", 0, "done", 0, 1), ("y", 3, "failed", 3, 2), ("z", 1, "failed", 1, 2)]
    assert user.ask("results", "run", "-o", "r.tsv").status == 0
    assert (user.folder / "r.tsv").read_text().splitlines()[2].split("\t")[3:7] == [
        "sh-1", "failed", "y", "3",
    ]  # fmt: skip
    assert_refused(user.ask("results", "run", "-o", "r.xls"), 2, ["r.xls", ".parquet"])
    assert "(exit, exit code 1" in user.ask("logs", "run", "sh-2").out
    assert_refused(user.ask("logs", "run", "sh-3"), 2, ["no task 'sh-3'"])


def test_parameters_of_results_are_numbers_if_all_values_are(user: User) -> None:
    (user.folder / "t.csv").write_text("w,f,t,z,g\n1,1,1,01,1\n-2,.5,x,2,\n0,1e3,3,3,nan\n")
    words = ("--command", "true", "--run-dir", "run")
    assert user.wfrun("t.csv", *words).status == 0
    assert user.ask("results", "run", "-o", "r.parquet").status == 0
    table = parquet.read_table(user.folder / "r.parquet")
    assert [table[name].to_pylist() for name in "wftzg"] == [
        [1, -2, 0], [1.0, 0.5, 1000.0], ["1", "x", "3"], ["01", "2", "3"], ["1", "", "nan"],
    ]  # fmt: skip
    assert [str(table.schema.field(name).type) for name in "wf"] == ["int64", "double"]


def test_options_say_what_tables_and_lists_of_commands_read_and_write(user: User) -> None:
    (user.folder / "t.csv").write_text("n,file\n1,a\n2,b\n")
    (user.folder / "list.txt").write_text("cat a\ncat b | tr B C\n")
    for name in "ab":
        (user.folder / name).write_text(name.upper())
    done = user.wfrun(
        "t.csv", "--command", "sh -c 'cat {file}; touch {n}.out'", "--input", "{file}",
        "--output", "{n}.out", "--stdout", "{file}.txt", "--estimate", "{n}", "-p", "ect",
        "--run-dir", "run",
    )  # fmt: skip
    assert done.status == 0, done.text
    outputs = user.folder / "run/outputs"
    assert sorted(path.name for path in outputs.iterdir()) == ["1.out", "2.out", "a.txt", "b.txt"]
    assert (outputs / "b.txt").read_text() == "B"
    assert_refused(user.ask("list.txt", "-p", "ect"), 2, ["list.txt:1: ", "Add --estimate '90 s'"])
    words = ("--input", "a", "--input", "b", "--stdout", "{index}.txt", "--estimate", "1 s")
    done = user.wfrun("list.txt", *words, "-p", "ect", "--run-dir", "two")
    assert done.status == 0, done.text
    assert [(user.folder / f"two/outputs/{n}.txt").read_text() for n in (0, 1)] == ["A", "C"]


def test_failures_are_told_with_their_parameters(user: User) -> None:
    (user.folder / "x.yaml").write_text(
        "bag: all fail\ncommand: sh -c 'echo {word}; exit 4'\n"
        "parameters: {word: [ab], n: {range: [1, 20]}, t: [1 s]}\nestimate: '{t}'\n"
    )
    done = user.wfrun("x.yaml", "--retries", "0", "--quiet")
    assert done.status == 1
    assert "policy file-aware, selection s-bot" in done.out
    first = re.search(r"20 tasks × exit 4: .*, first: task sh-\d+ \((.*)\) at local", done.out)
    assert first is not None, done.out
    assert re.fullmatch(r"word=ab, n=\d+, t=1 s", first[1])
    assert "resume wfrun-runs/all-fail-1" in done.out
    state = read_state(RunDir(user.folder / "wfrun-runs/all-fail-1"))
    hopeless = nothing_succeeds(state, "all-fail-1")
    assert hopeless is not None
    reason = "most by exit 4: it printed nothing to stderr; `wfrun logs all-fail-1 sh-"
    assert f"20 attempts have failed, {reason}" in hopeless
    state.counts[TaskStatus.DONE] = 1
    assert nothing_succeeds(state, "all-fail-1") is None
    assert user.ask("logs", "last", "sh-3").out.startswith("--- sh-3: word=ab, n=4, t=1 s\n---")


def test_commands_and_bags_of_several_owners_in_one_run(user: User) -> None:
    (user.folder / "list.txt").write_text("./hello a | tr a-z A-Z\n# no\necho b\n")
    (user.folder / "hello").write_text("#!/bin/sh\necho hello $1\n")
    (user.folder / "hello").chmod(0o755)
    (user.folder / "two.yaml").write_text(
        "command: 'echo {n}'\nparameters: {n: [1, 2]}\nstdout: '{n}'\n"
        "bags: [{bag: p, owner: p}, {bag: q, owner: q}]\n"
    )
    done = user.wfrun("list.txt", "two.yaml", "--selection", "s-u-rr", "--run-dir", "run")
    assert done.status == 0, done.text
    assert ["q", "q", "2", "2", "0", "0"] in [line.split()[:6] for line in done.out.splitlines()]
    assert "HELLO A" in user.ask("logs", "run", "list-0").out
    outputs = user.folder / "run/outputs"
    assert {str(path.relative_to(outputs)) for path in outputs.rglob("?")} == {
        "1-p/1", "1-p/2", "2-q/1", "2-q/2",
    }  # fmt: skip
    rows = table(user.ask("results", "run").out)
    assert [(r["bag"], r["owner"], r["command"], r["n"]) for r in rows] == [
        ("list", user.folder.owner(), "./hello a | tr a-z A-Z", ""),
        ("list", user.folder.owner(), "echo b", ""),
        *((bag, bag, "", n) for bag in ("p", "q") for n in ("1", "2")),
    ]


def test_what_is_refused_before_anything_starts(sweep: User) -> None:
    sweep.catalog(SITES)
    there = set(sweep.folder.rglob("*"))
    sites = ("--sites", "sites.yaml")
    for words, told in (
        (("--replicas", "99"), ["sites.yaml:1: --replicas is 99", "cores in all", "at most"]),
        (
            ("--selection", "s-u-r"),
            ["--selection: there is no selection policy 's-u-r'", "did you mean 's-u-"],
        ),
        (("--policy", "fplt"), ["sweep.yaml:1: the policy 'fplt'", "Add 'estimate: 90 s'"]),
        (("--command", "echo"), ["--command is for the rows of tables"]),
        (("--delimiter", ";"), ["--delimiter has no effect without --command"]),
        (
            ("--stdout", "{index}"),
            ["--stdout and --estimate are for documents whose lines are tasks"],
        ),
    ):
        assert_refused(sweep.ask("sweep.yaml", *sites, *words), 2, told)
    told = ["sweep.yaml: --replicas is 9999", "cores in all", "at least a core each"]
    assert_refused(sweep.ask("sweep.yaml", "--replicas", "9999"), 2, told)
    document = sweep.folder / "sweep.yaml"
    document.write_text(f"{SWEEP}cores: 1\nmemory: 1 MiB\ngpus: 3\n")
    assert_refused(sweep.ask("sweep.yaml"), 2, ["sweep.yaml:11: task", "fits no site"])
    document.write_text(SWEEP)
    (sweep.folder / "ligands/b c.txt").rename(sweep.folder / "ligands/d")
    told = ["sweep.yaml:6: the input file 'ligands/b c.txt' is missing"]
    assert_refused(sweep.ask("sweep.yaml"), 2, told)
    (sweep.folder / "ligands/d").rename(sweep.folder / "ligands/b c.txt")
    (sweep.folder / "dock").chmod(0o644)
    assert_refused(
        sweep.ask("sweep.yaml"),
        2,
        ["sweep.yaml:2: the executable ", "dock may not be executed", "chmod +x "],
    )
    assert {path for path in sweep.folder.rglob("*") if path.name[0] != "."} == there


def test_programs_of_the_document_travel_to_clusters(sweep: User) -> None:
    cluster = wfrun.SiteSpec("far", slots=1, kind="slurm", access=Access())
    for sites, where in (((cluster,), "./.wfrun-1/dock"), ((), f"{sweep.folder}/dock")):
        here = wfrun.SiteSpec("here", slots=1)
        catalog = wfrun.Catalog((here, *sites))
        settings = Settings(policy="round-robin")
        (bag,) = prepare([sweep.folder / "sweep.yaml"], catalog, settings).workflows
        task = bag.tasks[4]
        assert task.executable == where
        programs = [bag.files[f] for f in task.inputs if bag.files[f].executable]
        assert [(file.name, file.url) for file in programs] == (
            [(".wfrun-1/dock", f"{sweep.folder}/dock")] if sites else []
        )
        assert bag.files[task.inputs[1]].url == f"{sweep.folder}/ligands/b c.txt"
        assert bag.files[task.inputs[1]].size_bytes == len("L b c\n")


def test_emulation_needs_neither_programs_nor_files(user: User) -> None:
    (user.folder / "x.yaml").write_text(
        SWEEP.replace("receptor,", "other,") + "estimate: 2 h\nwalltime: 1 h\n"
    )
    done = user.wfrun("x.yaml", "--emulate", "--time-scale", "1e-6", "--run-dir", "run")
    assert done.status == 0, done.text
    rows = table(user.ask("results", "run").out)
    assert all(0.007 < float(row["run_time_s"]) < 5 for row in rows)


def test_a_resumed_bag_goes_on_with_what_failed(user: User) -> None:
    ran, go = user.folder / "ran", user.folder / "go"
    (user.folder / "x.yaml").write_text(
        f"command: sh -c 'echo {{n}} | tee -a {ran}; test {{n}} -lt 3 || test -e {go}'\n"
        "parameters: {n: {range: [1, 5]}}\nstdout: '{n}.out'\n"
    )
    assert user.wfrun("x.yaml", "--retries", "0", "--run-dir", "run").status == 1
    states = [row["state"] for row in table(user.ask("results", "run").out)]
    assert states == ["done", "done", "failed", "failed", "failed"]
    go.touch()
    assert user.wfrun("resume", "run").status == 0
    assert sorted(lines_of(ran)) == ["1", "2", "3", "3", "4", "4", "5", "5"]
    rows = table(user.ask("results", "run").out)
    assert [(row["state"], row["attempts"]) for row in rows] == [
        *[("done", "1")] * 2, *[("done", "2")] * 3,
    ]  # fmt: skip
    assert [Path(row["outputs"]).read_text() for row in rows] == [f"{n}\n" for n in range(1, 6)]


def test_bags_are_simulated(user: User) -> None:
    user.catalog(SITES)
    (user.folder / "x.yaml").write_text(
        "command: 'true {n}'\nparameters: {n: {range: [1, 20]}}\nestimate: '{n} min'\n"
    )
    (user.folder / "times.yaml").write_text("'true': 30 s\n")
    simulated = ("simulate", "x.yaml", "--sites", "sites.yaml", "--policy", "ect")
    done = user.wfrun(*simulated)
    assert done.status == 0, done.text
    assert "6,600" in done.out  # 2 + 4 + … + 20 min on one of the two processors
    (user.folder / "x.yaml").write_text("command: 'true {n}'\nparameters: {n: [1, 2]}\n")
    assert_refused(user.ask(*simulated), 2, ["2 of 2 tasks have no run time"])
    assert user.wfrun(*simulated, "--runtimes", "times.yaml").status == 0
    assert user.wfrun("x.yaml", "--run-dir", "run").status == 0
    done = user.wfrun("simulate", "--from-run", "run")
    assert done.status == 0, done.text
    assert "stfr" in done.out  # those for bags
    assert "heft" not in done.out


def test_tables_and_lists_of_commands_are_simulated(user: User) -> None:
    (user.folder / "t.csv").write_text("n;file\n1;a\n2;b\n4;c\n")
    (user.folder / "list.txt").write_text("./x\n./y\n")
    user.catalog("sites:\n  a: {slots: 1}\n")
    words = ("--sites", "sites.yaml", "--policy", "ect")
    table = ("t.csv", "--command", "x {n}", "--delimiter", ";", "--input", "{file}")
    done = user.wfrun("simulate", *table, "--estimate", "{n} min", *words)
    assert done.status == 0, done.text
    assert done.out.splitlines()[1].split()[:2] == ["ect", "420"]
    done = user.wfrun("simulate", "list.txt", "--estimate", "50 s", *words)
    assert done.out.splitlines()[1].split()[:2] == ["ect", "100"]
    assert_refused(user.ask("simulate", *table, *words), 2, ["have no run time", "--estimate"])
    output = ("--estimate", "1 s", "--output", "{n}.txt")
    assert_refused(user.ask("simulate", *table, *output), 2, ["{n}.txt", "leave that out"])
    result = wfrun.simulate(
        user.folder / "t.csv", command="x {n}", delimiter=";", estimate="{n}", policy="ect"
    )
    assert [row.policy for row in result.rows] == ["ect"]


def test_bags_are_simulated_as_they_would_be_run(user: User) -> None:
    user.catalog("sites:\n  a: {slots: 1}\n  b: {slots: 1}\n")
    for name, times in (("long", "[40, 50, 60]"), ("short", "[1, 2]")):
        (user.folder / f"{name}.yaml").write_text(
            f"owner: {name}\ncommand: 'true {{n}}'\n"
            f"parameters: {{n: {times}}}\nestimate: '{{n}} s'\n"
        )
    both = ("simulate", "long.yaml", "short.yaml", "--sites", "sites.yaml")
    done = user.wfrun(*both, "--selection", "s-u-rr", "--replicas", "0")
    assert done.status == 0, done.text
    first, second = done.out.split("makespan s of each workflow")
    policies = {*POLICIES, "file-aware"}
    assert {line.split()[0] for line in first.splitlines()[1:10]} == policies
    assert {line.split()[0] for line in second.splitlines()[2:]} == policies

    def short_s(*words: str) -> float:
        out = user.wfrun(*both, "--policy", "fpf", *words).out
        return float(out.split()[-1])

    # s-bot: 40 and 50 from 0 on, 60 from 40 on, 1 from 50 on, then 2.
    # s-u-rr: 40 and 1 from 0 on, 50 from 1 on, 2 from 40 on.
    assert short_s() == short_s("--selection", "s-bot") == 53
    assert short_s("--selection", "s-u-rr") == 42
    assert_refused(user.ask(*both, "--selection", "s-bto"), 2, ["did you mean 's-bot'"])
    assert_refused(user.ask(*both, "--replicas", "9999"), 2, ["--replicas is 9999", "cores in all"])
    write_dax(generate("montage", 20, 1), user.folder / "montage.dax")
    mixed = user.wfrun(*both, "montage.dax")
    assert "heft" in mixed.out, mixed.text
    assert "fpf" not in mixed.out


# From Python


@pytest.mark.slow
def test_bags_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    points = ({"x": n, "name": f"n{n}"} for n in range(3))
    bag = wfrun.bag(
        "echoes",
        "echo {x} {name} {a}{b} {s}",
        points=points,
        parameters={("a", "b"): [(1, "u v"), (2.5, "w")], "s": range(0, 4, 2)},
        stdout="{x}-{a}-{s}",
        estimate="1 s",
    )
    assert len(bag.tasks) == 12
    result = wfrun.run(bag, run_dir="run")
    assert result.outcome == "done"
    assert (result.outputs / "2-1-2").read_text() == "2 n2 1u v 2\n"


@pytest.mark.slow
def test_calls_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def energy(seed, word, of=None):\n    return [seed, word, of]\n")
    bag = wfrun.function_bag(
        "energies", "model.py", "energy",
        parameters={"seed": range(2), ("word", "of"): [('a"{', {"k": [1]}), ("b", None)]},
    )  # fmt: skip
    result = wfrun.run(bag, run_dir="run")
    assert result.outcome == "done", result.failures
    found = [json.loads((result.outputs / f"energy-{n}.json").read_text()) for n in range(4)]
    assert found == [[0, 'a"{', {"k": [1]}], [0, "b", None], [1, 'a"{', {"k": [1]}], [1, "b", None]]


def test_what_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "MAX_POINTS", 10_000)
    for words, message in (
        ({"parameters": {"x": count()}}, "more than 10,000 values, or no end"),
        ({"points": ({"x": n} for n in count())}, "more than 10,000 values, or no end"),
        ({"points": []}, "there are no points"),
        ({"points": [{"x": 1}, {"y": 1}]}, "point 1 has the keys y"),
        ({"parameters": {"x": [True]}}, "text or a number"),
        ({"parameters": {"x": "abc"}}, "are text; give a list"),
        ({"parameters": {"x": range(0)}}, "the product is empty"),
        ({"parameters": {"y": [1]}}, "there is no parameter 'x'"),
    ):
        with pytest.raises(wfrun.InvalidError, match=message):
            wfrun.bag("b", "true {x}", **words)


def test_safe_csv_has_no_formulas(user: User) -> None:
    """Spreadsheets evaluate cells that begin with these characters; numbers are harmless."""
    cells = ["=1+1", "+x", "-2+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "-5", "+.5e-3", "a=b", ""]
    with (user.folder / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["cell", "n"], *([cell, n] for n, cell in enumerate(cells))])
    done = user.wfrun("t.csv", "--command", "true {n}", "--run-dir", "run")
    assert done.status == 0, done.text
    assert user.ask("results", "run", "--safe-csv", "-o", "r.tsv").text == ""
    with (user.folder / "r.tsv").open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert [row["cell"] for row in rows] == [f"'{cell}" for cell in cells[:5]] + cells[5:]
    plain = table(user.ask("results", "run").out)
    assert [row["cell"] for row in plain] == cells
