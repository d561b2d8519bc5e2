"""Grids of simulated runs: what comes of them, and the file that keeps it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.model import Catalog, LinkSpec, NodeGroup, SiteSpec, Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.display.parquet import check_parquet, write_parquet
from wfrun.runners.display.pictures import check_picture
from wfrun.runners.experiments.plots import plot_makespans
from wfrun.runners.experiments.results import Cell, Results, Row, short_names
from wfrun.runners.experiments.table import ResultTable, WorkflowTable
from wfrun.runners.experiments.workflows import Grid, open_results, run_cell, run_grid
from wfrun.runners.simulate.background import HORIZON_S, WARM_UP_S, background_of, unfit
from wfrun.sites.simulated.site import SiteModel

SITES = (SiteSpec("near", slots=4), SiteSpec("far", slots=8, speed_ratio=2.0))
ON_NODES = msgspec.structs.replace(SITES[0], nodes=(NodeGroup(2, 2),))
CATALOG = Catalog(SITES, (LinkSpec("near", "far", 1e7, 0.01), LinkSpec("far", "near", 1e7, 0.01)))


def grid_of(*workflows: Workflow, **changes: object) -> Grid:
    grid = Grid(
        workflows=list(workflows) or [generate("montage", 30, 1)],
        catalog=CATALOG,
        policies=("heft", "round-robin"),
        throttles=(None, 3),
        seeds=(0, 1),
    )
    return msgspec.structs.replace(grid, **changes)


def finished(grid: Grid, path: Path | None = None, processes: int = 1) -> Results[Cell, Row]:
    results = open_results(grid, path)
    run_grid(grid, results, processes=processes)
    results.close()
    return results


def row_of(makespan_s: float, policy: str = "heft", **changes: object) -> Row:
    row = Row(
        None, policy, None, None, 0, makespan_s, 1.0, 0.0, 0.0, 3, 10**6, 3600.0, 0, (makespan_s,)
    )
    return msgspec.structs.replace(row, **changes)


def shown(table: object, columns: int = 200) -> list[str]:
    console = Console(width=columns, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


# Running


def test_several_processes_give_the_same_rows_as_one() -> None:
    grid = grid_of()
    alone, together = finished(grid), finished(grid, processes=2)
    assert alone.of(grid.cells()) == together.of(grid.cells())
    assert len(alone.rows) == 8


def test_a_row_has_the_makespan_of_every_workflow() -> None:
    grid = grid_of(generate("montage", 30, 1), generate("bag", 5, 1))
    row = run_cell(grid, grid.cells()[0])
    assert len(row.makespans_s) == 2
    assert max(row.makespans_s) == row.makespan_s
    assert min(row.makespans_s) < row.makespan_s


def test_failed_tasks_are_counted() -> None:
    grid = grid_of(model=SiteModel(failure_rate=1.0))
    row = run_cell(grid, grid.cells()[0])
    assert row.failed == len(grid.workflows[0].tasks)


def test_each_on_its_own_is_as_a_grid_of_one_workflow(tmp_path: Path) -> None:
    workflows = (generate("montage", 30, 1), generate("bag", 5, 1))
    path = tmp_path / "out.csv"
    finished(grid_of(workflows[1], each=True), path)
    grid = grid_of(*workflows, each=True)
    results = open_results(grid, path)
    assert len(results.missing(grid.cells())) == 8  # one workflow more: the others' rows count
    run_grid(grid, results, processes=2)
    results.close()
    replace = msgspec.structs.replace
    for workflow, label in zip(workflows, grid.labels, strict=True):
        alone = grid_of(workflow)
        rows = results.of([replace(cell, workflow=label) for cell in alone.cells()])
        assert [replace(row, workflow=None) for row in rows] == finished(alone).rows


def test_workflows_of_one_name_are_called_as_their_documents() -> None:
    replace = msgspec.structs.replace
    workflows = [
        replace(generate("bag", n, 1), name="test", source=f"some/place/{stem}.dax")
        for n, stem in ((5, "first"), (6, "second"))
    ]
    grid = grid_of(*workflows, workflows[0], each=True)
    rows = [row_of(1, workflow=cell.workflow) for cell in grid.cells()]
    assert list(short_names(rows).values()) == ["first", "second"]  # and the same one but once


# The file of results


def test_a_grid_goes_on_where_its_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    whole = finished(grid_of(), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:-7])  # three rows, and one cut off
    grid = grid_of()
    results = open_results(grid, path)
    assert results.torn
    assert len(results.missing(grid.cells())) == 5
    run_grid(grid, results, processes=1)
    results.close()
    assert results.of(grid.cells()) == whole.of(grid.cells())
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)


@pytest.mark.parametrize("kept", [0, 1, 30])
def test_a_torn_first_line_is_written_anew(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "out.csv"
    whole = finished(grid_of(), path)
    path.write_text(path.read_text()[:kept])
    assert finished(grid_of(), path).rows == whole.rows


def test_a_larger_grid_takes_over_the_rows_of_a_smaller_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    finished(grid_of(policies=("heft",)), path)
    results = open_results(grid_of(), path)
    assert len(results.missing(grid_of().cells())) == 4
    results.close()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"workflows": [generate("montage", 30, 2)]}, "workflows"),
        ({"catalog": Catalog(SITES[::-1], CATALOG.links)}, "sites"),
        ({"catalog": Catalog(SITES)}, "sites"),
        ({"catalog": Catalog((ON_NODES, SITES[1]), CATALOG.links)}, "sites"),
        ({"model": SiteModel(poll_s=5.0)}, "world"),
        ({"sharing": "serial"}, "world"),
        ({"selection": "s-t"}, "world"),
        ({"replicas": 0}, "world"),
        ({"head_bytes_per_s": 1e6}, "world"),
    ],
)
def test_results_of_another_grid_are_refused(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    path = tmp_path / "out.csv"
    finished(grid_of(), path)
    before = path.read_bytes()
    with pytest.raises(InvalidError, match=rf"out.csv:2: .*{named}.*\n.*--output"):
        open_results(grid_of(**changes), path)
    assert path.read_bytes() == before


def test_where_a_document_was_found_does_not_matter() -> None:
    workflow = generate("montage", 30, 1)
    moved = msgspec.structs.replace(workflow, source="elsewhere/montage.dax")
    assert grid_of(workflow).identity() == grid_of(moved).identity()


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
    grid = grid_of(policies=("heft",), throttles=(None,), seeds=(0,))
    finished(grid, path)
    header, line = path.read_text().splitlines(keepends=True)
    assert callable(damage)
    path.write_text(header + damage(line))
    with pytest.raises(InvalidError, match=message):
        open_results(grid, path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\n", b"no newline"])
def test_files_of_others_are_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match="not a file of results"):
        open_results(grid_of(), path)
    assert path.read_bytes() == content


def test_devices_are_refused() -> None:
    with pytest.raises(InvalidError, match="it is no file"):
        Results(Path("/dev/zero"), Cell, Row)


def test_a_file_is_written_by_one_simulation_at_a_time(tmp_path: Path) -> None:
    first = Results(tmp_path / "out.csv", Cell, Row)
    with pytest.raises(InvalidError, match="another simulation writes"):
        Results(tmp_path / "out.csv", Cell, Row)
    first.close()
    Results(tmp_path / "out.csv", Cell, Row).close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="can't be written: No such file"):
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
    rows = [row_of(130, "heft"), row_of(10, "heft-p", failed=3)]
    lines = shown(ResultTable(rows))
    assert lines[1].split()[:3] == ["heft", "130", "best"]
    assert lines[2].split()[:3] == ["heft-p", "10", "-"]
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
    assert lines[0].split()[:4] == ["policy", "throttle", "load", "makespan"]
    assert ("no room for" in " ".join(lines)) == (columns < 200)


def test_each_workflow_has_a_column_where_there_is_room() -> None:
    rows = [row_of(m, p, makespans_s=(1.0 * i, m)) for i, (p, m) in
            enumerate([("heft", 50.0), ("heft-p", 40.0)], 1)]  # fmt: skip
    lines = shown(WorkflowTable(rows, ["small", "large"]))
    assert lines[1].split() == ["policy", "small", "large"]
    assert lines[2].split() == ["heft-p", "2", "40"]
    narrow = shown(WorkflowTable(rows, ["small", "large"]), 16)
    assert "no room for 1 of 2 workflows" in " ".join(" ".join(narrow).split())


def test_every_workflow_on_its_own_has_its_best() -> None:
    rows = [
        row_of(m, policy, workflow=f"{name} #1")
        for name, makespans in (("small", (3, 2)), ("large", (50, 60)))
        for policy, m in zip(("heft", "heft-p"), makespans, strict=True)
    ]
    lines = shown(ResultTable(rows))
    assert [line.split()[:4] for line in lines[:5]] == [
        ["workflow", "policy", "makespan", "s"],
        ["small", "heft-p", "2", "best"],
        ["small", "heft", "3", "+50%"],
        ["large", "heft", "50", "best"],
        ["large", "heft-p", "60", "+20%"],
    ]


# Parquet


def test_parquet_has_the_rows_with_their_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    grid = grid_of(throttles=(None, 3), loads=(None,))
    rows = finished(grid).rows
    write_parquet(rows, grid.identity(), tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == [*grid.identity(), *Row.__struct_fields__]
    for record, row in zip(table.to_pylist(), rows, strict=True):
        assert record["sites"] == grid.identity()["sites"]
        assert Row(**{name: record[name] for name in Row.__struct_fields__}) == (
            msgspec.structs.replace(row, makespans_s=list(row.makespans_s))
        )
    assert {str(table.schema.field(name).type) for name in ("throttle", "seed")} == {"int64"}
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_without_pyarrow_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InfeasibleError, match=r"pip install 'wfrun\[parquet\]'"):
        check_parquet(tmp_path / "out.parquet")


# Plots


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    rows = finished(grid_of()).rows
    for name in ("out.png", "out.pdf"):
        path = tmp_path / name
        check_picture(path)
        plot_makespans(rows, path)
        assert path.stat().st_size > 5000
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_plots_of_wide_ranges_and_of_zero_can_be_drawn(tmp_path: Path) -> None:
    plot_makespans([row_of(5, "heft"), row_of(5000, "heft-p")], tmp_path / "wide.png")
    plot_makespans([row_of(0, "heft")], tmp_path / "zero.png")
    plot_makespans([row_of(n, workflow=f"w{n} #1") for n in range(9)], tmp_path / "each.png")
    assert (tmp_path / "each.png").exists()
    assert (tmp_path / "zero.png").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out", "its name does not say"),
        ("out.xyz", "no kind of picture 'xyz'"),
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
    with pytest.raises(InfeasibleError, match=r"pip install 'wfrun\[plots\]'"):
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
    cell = Cell(None, "single-cluster", None, 0.9, 0)
    path = Path(__file__).with_name("absent.swf")
    with pytest.raises(InvalidError, match=r"absent\.swf"):
        run_cell(grid_of(background=str(path)), cell)
