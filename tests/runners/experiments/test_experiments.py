"""Grids of simulated runs: what comes of them, and the file that keeps it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, LinkSpec, NodeGroup, SiteSpec, Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.display.parquet import check_parquet, write_parquet
from wfrun.runners.display.pictures import check_picture
from wfrun.runners.experiments.cells import Cell, Row, short_names
from wfrun.runners.experiments.command import open_results
from wfrun.runners.experiments.experiment import Background, Experiment
from wfrun.runners.experiments.subjects.documents import Documents
from wfrun.runners.experiments.tables.parts import workflow_table
from wfrun.runners.experiments.tables.plot import plot
from wfrun.runners.experiments.tables.results import Results
from wfrun.runners.experiments.tables.table import ResultTable
from wfrun.runners.simulate.background import HORIZON_S, WARM_UP_S, background_of, unfit
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.model import SiteModel

SITES = (SiteSpec("near", slots=4), SiteSpec("far", slots=8, speed_ratio=2.0))
ON_NODES = msgspec.structs.replace(SITES[0], nodes=(NodeGroup(2, 2),))
CATALOG = Catalog(SITES, (LinkSpec("near", "far", 1e7, 0.01), LinkSpec("far", "near", 1e7, 0.01)))


def experiment_of(
    *workflows: Workflow,
    separately: bool = False,
    platform: Platform | None = None,
    **changes: object,
) -> Experiment:
    experiment = Experiment(
        subject=Documents(list(workflows) or [generate("montage", 30, 1)], separately),
        platform=platform or Platform(CATALOG),
        policies=("heft", "round-robin"),
        throttles=(None, 3),
        seeds=(0, 1),
    )
    return msgspec.structs.replace(experiment, **changes)


def finished(
    experiment: Experiment, path: Path | None = None, processes: int = 1
) -> Results[Cell, Row]:
    results = open_results(experiment, path)
    experiment.run(results, processes)
    results.close()
    return results


def row_of(makespan_s: float, policy: str = "heft", **changes: object) -> Row:
    row = Row(
        policy=policy,
        makespan_s=makespan_s,
        nsl=1.0,
        qwt_s=0.0,
        ftd_s=0.0,
        transfers=3,
        moved_bytes=10**6,
        core_s=3600.0,
        makespans_s=(makespan_s,),
    )
    return msgspec.structs.replace(row, **changes)


def shown(table: object, columns: int = 200) -> list[str]:
    console = Console(width=columns, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


# Running


def test_several_processes_give_the_same_rows_as_one() -> None:
    experiment = experiment_of()
    alone, together = finished(experiment), finished(experiment, processes=2)
    assert alone.of(experiment.cells()) == together.of(experiment.cells())
    assert len(alone.rows) == 8


def test_a_row_has_the_makespan_of_every_workflow() -> None:
    experiment = experiment_of(generate("montage", 30, 1), generate("bag", 5, 1))
    row = experiment.simulate(experiment.cells()[0])
    assert len(row.makespans_s) == 2
    assert max(row.makespans_s) == row.makespan_s
    assert min(row.makespans_s) < row.makespan_s


def test_failed_tasks_are_counted() -> None:
    experiment = experiment_of(platform=Platform(CATALOG, SiteModel(failure_rate=1.0)))
    row = experiment.simulate(experiment.cells()[0])
    assert row.failed == len(generate("montage", 30, 1).tasks)


def test_each_on_its_own_is_as_an_experiment_with_one_workflow(tmp_path: Path) -> None:
    workflows = (generate("montage", 30, 1), generate("bag", 5, 1))
    path = tmp_path / "out.csv"
    finished(experiment_of(workflows[1], separately=True), path)
    experiment = experiment_of(*workflows, separately=True)
    results = open_results(experiment, path)
    assert (
        len(results.missing(experiment.cells())) == 8
    )  # one workflow more: the others' rows count
    experiment.run(results, processes=2)
    results.close()
    replace = msgspec.structs.replace
    for workflow, label in zip(workflows, experiment.subject.labels, strict=True):
        alone = experiment_of(workflow)
        rows = results.of([replace(cell, workload=label) for cell in alone.cells()])
        assert [replace(row, workload=None) for row in rows] == finished(alone).rows


def test_workflows_of_one_name_are_called_as_their_documents() -> None:
    replace = msgspec.structs.replace
    workflows = [
        replace(generate("bag", n, 1), name="test", source=f"some/place/{stem}.dax")
        for n, stem in ((5, "first"), (6, "second"))
    ]
    experiment = experiment_of(*workflows, workflows[0], separately=True)
    rows = [row_of(1, workload=cell.workload) for cell in experiment.cells()]
    assert list(short_names(rows).values()) == ["first", "second"]  # and the same one but once


# The file of results


def test_an_experiment_is_continued_where_its_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    whole = finished(experiment_of(), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:-7])  # three rows, and one cut off
    experiment = experiment_of()
    results = open_results(experiment, path)
    assert results.torn
    assert len(results.missing(experiment.cells())) == 5
    experiment.run(results, processes=1)
    results.close()
    assert results.of(experiment.cells()) == whole.of(experiment.cells())
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)


@pytest.mark.parametrize("kept", [0, 1, 30])
def test_a_torn_first_line_is_written_anew(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "out.csv"
    whole = finished(experiment_of(), path)
    path.write_text(path.read_text()[:kept])
    assert finished(experiment_of(), path).rows == whole.rows


def test_a_larger_experiment_takes_over_the_rows_of_a_smaller_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    finished(experiment_of(policies=("heft",)), path)
    results = open_results(experiment_of(), path)
    assert len(results.missing(experiment_of().cells())) == 4
    results.close()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"subject": Documents([generate("montage", 30, 2)])}, "subject"),
        ({"platform": Platform(Catalog(SITES[::-1], CATALOG.links))}, "sites"),
        ({"platform": Platform(Catalog(SITES))}, "sites"),
        ({"platform": Platform(Catalog((ON_NODES, SITES[1]), CATALOG.links))}, "sites"),
        ({"platform": Platform(CATALOG, SiteModel(poll_s=5.0))}, "settings"),
        ({"platform": Platform(CATALOG, sharing="serial")}, "settings"),
        ({"platform": Platform(CATALOG, head_bytes_per_s=1e6)}, "settings"),
        ({"settings": Settings("", replicas=0)}, "settings"),
        ({"settings": Settings("", retries=0)}, "settings"),
    ],
)
def test_results_of_another_experiment_are_refused(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    path = tmp_path / "out.csv"
    finished(experiment_of(), path)
    before = path.read_bytes()
    with pytest.raises(InvalidError, match=rf"out.csv:2: .*{named}.*\n.*--output"):
        open_results(msgspec.structs.replace(experiment_of(), **changes), path)
    assert path.read_bytes() == before


def test_where_a_document_was_found_does_not_matter() -> None:
    workflow = generate("montage", 30, 1)
    moved = msgspec.structs.replace(workflow, source="elsewhere/montage.dax")
    assert experiment_of(workflow).identity() == experiment_of(moved).identity()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line.replace("heft", "heft,", 1), ":2: the line has"),
        (lambda line: line.replace(",0,", ",x,", 1), ":2: not a row of results: .*seed"),
        (lambda line: line + line, ":3: the run on line 2 is here again"),
    ],
)
def test_damaged_results_are_refused_with_the_line(
    tmp_path: Path, damage: object, message: str
) -> None:
    path = tmp_path / "out.csv"
    experiment = experiment_of(policies=("heft",), throttles=(None,), seeds=(0,))
    finished(experiment, path)
    header, line = path.read_text().splitlines(keepends=True)
    assert callable(damage)
    path.write_text(header + damage(line))
    with pytest.raises(InvalidError, match=message):
        open_results(experiment, path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\n", b"no newline"])
def test_files_of_others_are_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match="not a file of results"):
        open_results(experiment_of(), path)
    assert path.read_bytes() == content


def test_devices_are_refused() -> None:
    with pytest.raises(InvalidError, match="not a regular file"):
        Results(Path("/dev/zero"), Cell, Row)


def test_a_file_is_written_by_one_simulation_at_a_time(tmp_path: Path) -> None:
    first = Results(tmp_path / "out.csv", Cell, Row)
    with pytest.raises(InvalidError, match="another simulation writes"):
        Results(tmp_path / "out.csv", Cell, Row)
    first.close()
    Results(tmp_path / "out.csv", Cell, Row).close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="cannot be written: No such file"):
        Results(tmp_path / "absent" / "out.csv", Cell, Row)


# Tables


def test_the_best_comes_first_and_the_others_are_compared_with_it() -> None:
    rows = [row_of(130, "heft"), row_of(100, "heft-p"), row_of(104.2, "coarsening"),
            row_of(1200, "round-robin")]  # fmt: skip
    lines = shown(ResultTable(rows))
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["heft-p", "100", "best"],
        ["coarsening", "104", "+4.2%"],
        ["heft", "130", "+30%"],
        ["round-robin", "1,200", "12×"],
    ]


def test_a_run_with_failed_tasks_never_wins() -> None:
    changes = {"makespan_s": None, "nsl": None, "makespans_s": (), "failed": 3}
    rows = [row_of(130, "heft"), msgspec.structs.replace(row_of(10, "heft-p"), **changes)]
    lines = shown(ResultTable(rows))
    assert lines[1].split()[:3] == ["heft", "130", "best"]
    assert lines[2].split()[:3] == ["heft-p", "-", "-"]
    assert lines[2].split()[-1] == "3"


def test_every_load_has_its_best() -> None:
    rows = [
        row_of(10, "heft", load=0.3),
        row_of(20, "heft-p", load=0.3),
        row_of(50, "heft", load=0.6),
        row_of(40, "heft-p", load=0.6),
    ]
    best = [line.split()[:2] for line in shown(ResultTable(rows))[1:] if " best " in line]
    assert best == [["heft", "0.3"], ["heft-p", "0.6"]]


def test_seeds_become_means_with_confidence_intervals() -> None:
    rows = [row_of(m, seed=seed) for seed, m in enumerate((10.0, 12.0, 14.0))]
    text = "\n".join(shown(ResultTable(rows)))
    assert "12.0 ±5.0" in text  # t(0.95, 2) · 2/√3 = 4.97
    assert "means of 3 seeds" in text


def test_whole_numbers_have_no_decimals() -> None:
    lines = shown(ResultTable([row_of(100)]))
    assert lines[1].split() == ["heft", "100", "best", "1", "0", "0", "3", "1", "1"]


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_on_narrow_terminals_columns_are_left_out_and_not_cut(columns: int) -> None:
    rows = [
        row_of(m * (1 + seed), p, throttle=t, load=0.3, seed=seed)
        for p, m in (("single-cluster", 94733), ("heft", 4339))
        for t in (50, 100)
        for seed in (0, 1)
    ]
    lines = shown(ResultTable(rows), columns)
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert "…" not in "".join(lines)
    assert lines[0].split()[:3] == ["policy", "throttle", "makespan"]
    assert ("no room for" in " ".join(lines)) == (columns < 100)


def test_each_workflow_has_a_column_where_there_is_room() -> None:
    rows = [row_of(m, p, makespans_s=(1.0 * i, m)) for i, (p, m) in
            enumerate([("heft", 50.0), ("heft-p", 40.0)], 1)]  # fmt: skip
    lines = shown(workflow_table(rows, ["small", "large"]))
    assert lines[1].split() == ["policy", "small", "large"]
    assert lines[2].split() == ["heft-p", "2", "40"]
    narrow = shown(workflow_table(rows, ["small", "large"]), 16)
    assert "no room for 1 of 2 workflows" in " ".join(" ".join(narrow).split())


def test_every_workflow_on_its_own_has_its_best() -> None:
    rows = [
        row_of(m, policy, workload=f"{name} #1")
        for name, makespans in (("small", (3, 2)), ("large", (50, 60)))
        for policy, m in zip(("heft", "heft-p"), makespans, strict=True)
    ]
    lines = shown(ResultTable(rows))
    assert [line.split()[:4] for line in lines[:5]] == [
        ["workload", "policy", "makespan", "s"],
        ["small", "heft-p", "2", "best"],
        ["small", "heft", "3", "+50%"],
        ["large", "heft", "50", "best"],
        ["large", "heft-p", "60", "+20%"],
    ]


# Parquet


def test_parquet_has_the_rows_with_their_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    experiment = experiment_of(throttles=(None, 3, "auto"), loads=(None,))
    rows = finished(experiment).rows
    write_parquet(rows, experiment.identity(), tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == [*experiment.identity(), *Row.__struct_fields__]
    for record, row in zip(table.to_pylist(), rows, strict=True):
        assert record["sites"] == experiment.identity()["sites"]
        found = {name: record[name] for name in Row.__struct_fields__}
        assert msgspec.convert(found, Row, strict=False) == row
    assert str(table.schema.field("seed").type) == "int64"
    assert str(table.schema.field("throttle").type) == "string"
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_without_pyarrow_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InfeasibleError, match=r"pip install pyarrow"):
        check_parquet(tmp_path / "out.parquet")


def test_without_throttles_each_policy_has_its_own(tmp_path: Path) -> None:
    """A file of results holds words and numbers, and is continued."""
    experiment = experiment_of(policies=("heft", "file-aware"), throttles=(), loads=(None,))
    assert {(c.policy, c.throttle) for c in experiment.cells()} == {
        ("heft", "auto"),
        ("file-aware", None),
    }
    cell = next(c for c in experiment.cells() if c.policy == "file-aware")
    assert experiment.settings_of(cell).throttle == "none"
    path = tmp_path / "out.csv"
    for throttles in ((), (None, 3, "auto")):
        varied = experiment_of(policies=("heft",), throttles=throttles, loads=(None,), seeds=(0,))
        rows = finished(varied, path).rows
    assert {row.throttle for row in rows} == {None, 3, "auto"}


# Plots


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    rows = finished(experiment_of()).rows
    for name in ("out.png", "out.pdf"):
        path = tmp_path / name
        check_picture(path)
        plot(rows, path)
        assert path.stat().st_size > 5000
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_plots_of_wide_ranges_and_of_zero_can_be_drawn(tmp_path: Path) -> None:
    plot([row_of(5, "heft"), row_of(5000, "heft-p")], tmp_path / "wide.png")
    plot([row_of(0, "heft")], tmp_path / "zero.png")
    plot([row_of(n, workload=f"w{n} #1") for n in range(9)], tmp_path / "each.png")
    assert (tmp_path / "each.png").exists()
    assert (tmp_path / "zero.png").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out", "without an ending"),
        ("out.xyz", "'xyz' is not a format of pictures"),
        ("absent/out.png", "no folder"),
    ],
)
def test_plots_that_cannot_be_drawn_are_known_beforehand(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises((InvalidError, InfeasibleError), match=message):
        check_picture(tmp_path / name)


def test_without_matplotlib_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(InfeasibleError, match=r"pip install matplotlib"):
        check_picture(tmp_path / "out.png")


# Background


def log_of(count: int, every_s: float, size: int = 2, runtime_s: float = 500.0) -> list[LoggedJob]:
    return [
        LoggedJob(
            id=i, submit_s=1000 + i * every_s, runtime_s=runtime_s, processors=size,
            requested_processors=size, requested_s=2 * runtime_s,
        )
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("load", [0.1, 0.3, 0.9])
def test_the_background_has_the_load_that_was_asked_for(load: float) -> None:
    for jobs in (log_of(50, 600.0), log_of(20000, 60.0)):  # a short log goes round
        found = background_of(jobs, SITES, load, seed=3)
        for site in SITES:
            work = sum(job.cores * job.runtime_s for job in found[site.name])
            assert work / (site.slots * (WARM_UP_S + HORIZON_S)) == pytest.approx(load, rel=0.03)
            times = [job.submit_s for job in found[site.name]]
            assert times == sorted(times)
            assert times[0] >= 0


def test_sites_and_seeds_have_different_backgrounds() -> None:
    jobs = log_of(5000, 60.0)
    one, other = (background_of(jobs, SITES, 0.3, seed) for seed in (1, 2))
    starts = {found[s.name][0].submit_s for found in (one, other) for s in SITES}
    assert len(starts) == 4
    assert one == background_of(jobs, SITES, 0.3, 1)


def test_jobs_that_fit_nowhere_are_told_and_make_no_load() -> None:
    jobs = log_of(10, 60.0, size=6)
    assert unfit(jobs, SITES) == [
        "site near: 10 of 10 background jobs are larger than its 4 slots and left out"
    ]
    with pytest.raises(InvalidError, match=r"0 of the 10 jobs .* fit site 'near'"):
        background_of(jobs, SITES, 0.3, 0)


def test_a_cell_with_background_waits_for_others() -> None:
    cell = Cell(policy="single-cluster", load=0.9)
    path = Path(__file__).with_name("absent.swf")
    with pytest.raises(InvalidError, match=r"absent\.swf"):
        experiment_of(background=Background(str(path))).simulate(cell)
