"""The tables of the page that show the causes of differences, one change a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from wfrun.runners.experiments.cells import SIZES, makespan_of, nsl_of
from wfrun.runners.experiments.subjects.workloads import TASKS
from wfrun.runners.metrics.samples import summarize
from wfrun.studies.bags.causes import CHANGES, BagCauseCell, BagCauseRow
from wfrun.studies.bags.compare import SHOWN
from wfrun.studies.bags.experiments import (
    BASE,
    BASE_LOAD,
    MONITORING_S,
    REAL_LOAD,
    SELECTIONS,
    BagsScale,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table

Fields = Mapping[str, object]
"""Values of fields of `Cell`; all other fields have the values of BASE."""


class CauseLine(NamedTuple):
    """A line of a table: a change (a key of `CHANGES`), and values of fields of `Cell`."""

    change: str
    fields: Mapping[str, object] = {}
    title: str = ""
    """Title of the line; if empty, it is the title of the change."""


class CauseColumn(NamedTuple):
    """A column of a table: values of fields of `Cell`, and the measure that is shown."""

    title: str
    fields: Fields
    measure: Callable[[BagCauseRow], float] = nsl_of


class CauseTable(NamedTuple):
    """A table of simulations with changes. ``text`` says which claims it is about."""

    title: str
    text: str
    lines: Sequence[CauseLine]
    columns: Sequence[CauseColumn]


def _nsl_of_size(size: int) -> Callable[[BagCauseRow], float]:
    return lambda row: row.class_nsl[size]


def _makespan_of_size(size: int) -> Callable[[BagCauseRow], float]:
    return lambda row: row.class_makespan_s[size]


def _share(load: float) -> str:
    return f"{load:.0%}"


_SIZES = range(1, 8)
"""The classes of section 5.4.1 that the log has, from 2-4 tasks to 200-499."""
MOST_TASKS = 175_000
"""Number of tasks of the largest workloads of section 5.3.3."""
_CHOSEN = ("s-t", "s-bot", "s-u-t", "s-u-rr")


def tables_of(scale: BagsScale, real: str) -> list[CauseTable]:
    """All tables. ``real`` is the name of the workload that gives the real load."""
    return [
        _of_real_load({"workload": real, "load": REAL_LOAD, "tasks": scale.tasks}),
        *(_ORDER, _SPEEDS, _SIZE, _MONITORING, _WRONG, _BURSTS),
        _of_numbers(scale),
        _of_days(scale.tasks),
        *(_FAIR, _ROUTES, _DONE),
    ]


def _of_real_load(real: Fields) -> CauseTable:
    return CauseTable(
        "The size of a bag, under real load (claims 1 to 3)",
        "With FPLT. In the log the tasks of a bag are submitted one after another; the makespan of "
        "a bag includes the time of its submission.",
        [CauseLine("base"), CauseLine("whole"), CauseLine("shuffled")],
        [
            *(CauseColumn(f"NSL, {SIZES[n][1]}", real, _nsl_of_size(n)) for n in _SIZES),
            CauseColumn("NSL, all", real),
            *(CauseColumn(f"MS, {SIZES[n][1]}", real, _makespan_of_size(n)) for n in _SIZES),
        ],
    )


_ORDER = CauseTable(
    "The order of tasks (claims 4 and 8 against 23 and 24)",
    "NSL of FPLT and FPF, which choose the same processors and differ only in the order of the "
    "tasks.",
    [
        CauseLine("base", {"policy": policy, "selection": selection}, f"{policy} with {selection}")
        for policy in ("fplt", "fpf")
        for selection in ("s-t", "s-bot")
    ],
    [CauseColumn(_share(load), {"load": load}) for load in (0.6, 0.8, 0.95)],
)

_SPEEDS = CauseTable(
    "Policies that know nothing (claim 9)",
    "Makespan in seconds. RR, WQR4x and STFR ignore speeds, and have replicas.",
    [
        CauseLine(change, {"policy": policy}, f"{policy}, {CHANGES[change].title}")
        for change in ("base", "speeds", "replicas", "monitoring 0")
        for policy in ("fplt", "fpf", "rr", "wqr", "stfr")
        if change != "replicas" or policy not in ("fplt", "fpf")
    ],
    [CauseColumn(_share(load), {"load": load}, makespan_of) for load in (0.6, 0.95)],
)

_WRONG = CauseTable(
    "Wrong estimates (claim 19)",
    "NSL by the inaccuracy of the estimates.",
    [
        CauseLine(change, {"policy": policy}, f"{policy}, {CHANGES[change].title}")
        for change in ("base", "speeds", "monitoring 0")
        for policy in ("ect", "stfr")
    ],
    [CauseColumn(f"{wrong:g}%", {"inaccuracy": wrong}) for wrong in (0.0, 100.0, 10_000.0)],
)

_BURSTS = CauseTable(
    "From which load on tasks wait (claims 21 to 24)",
    "NSL of selection policies with FPLT.",
    [
        CauseLine("base", {"load": 0.6, "arrival": "even"}, "load of 60%, evenly spread"),
        CauseLine("base", {"load": 0.6}, "load of 60%"),
        CauseLine("base", {"load": 0.7}, "load of 70%"),
        CauseLine("base", {"load": 0.8}, "load of 80%"),
        CauseLine("bursts", {"load": 0.5}, "load of 50%, in bursts"),
        CauseLine("bursts", {"load": 0.6}, "load of 60%, in bursts"),
    ],
    [CauseColumn(name, {"selection": name}) for name in _CHOSEN],
)


def _of_numbers(scale: BagsScale) -> CauseTable:
    """The table of numbers of tasks. The numbers are the smallest of section 5.3.3, that of the
    study, that of the study multiplied by 95% / `BASE_LOAD` (as if numbers grew with the load), and
    the largest of section 5.3.3."""
    larger = (TASKS, round(TASKS * 0.95 / BASE_LOAD), MOST_TASKS)
    numbers = (scale.cause_tasks, *(scale.tasks * number // TASKS for number in larger))
    return CauseTable(
        "The number of tasks (claim 23)",
        "At a load of 95%, with FPLT. Larger workloads also have longer tasks: run times are cut "
        "to half of the time in which the sites could do all tasks.",
        [
            CauseLine("base", {"load": 0.95, "tasks": tasks}, f"{tasks:,} tasks")
            for tasks in dict.fromkeys(numbers)
        ],
        [
            CauseColumn(f"{measure}, {name}", {"selection": name}, value)
            for measure, value in (
                ("NSL", lambda row: row.nsl),
                ("MS", lambda row: row.makespan_s),
            )
            for name in ("s-t", "s-bot")
        ],
    )


def _of_days(tasks: int) -> CauseTable:
    return CauseTable(
        "The length of a day (claims 5 and 21 to 24)",
        f"NSL. The load changes how often bags arrive, but not the length of a day. The number of "
        f"tasks is {tasks:,} at a load of {_share(BASE_LOAD)}, and in proportion to the load "
        "otherwise.",
        [
            CauseLine(
                change,
                {"load": load, "tasks": round(tasks * load / BASE_LOAD)},
                f"{CHANGES[change].title}, load of {_share(load)}",
            )
            for change, load in (("days", 0.8), ("days", 0.95), ("one day", 0.6))
        ],
        [
            *(CauseColumn(f"fplt with {name}", {"selection": name}) for name in ("s-t", "s-bot")),
            *(CauseColumn(f"{name} with s-t", {"policy": name}) for name in ("fpf", "stfr")),
        ],
    )


_SIZE = CauseTable(
    "The size of bags (claims 16 and 17)",
    "Makespan in seconds and NSL, by the median size of the bags.",
    [
        CauseLine("base", {"load": load, "policy": policy}, f"{policy}, load of {load:.0%}")
        for load in (0.6, 0.8)
        for policy in SHOWN
    ],
    [
        CauseColumn("MS, 10", {"median_size": 10}, makespan_of),
        CauseColumn("MS, 50", {"median_size": 50}, makespan_of),
        CauseColumn("NSL, 10", {"median_size": 10}),
        CauseColumn("NSL, 50", {"median_size": 50}),
    ],
)

_FAIR = CauseTable(
    "Fair selection policies (claims 22 and 25 to 31)",
    "NSL at a load of 95%, with FPLT.",
    [CauseLine("base"), CauseLine("likeness"), CauseLine("users"), CauseLine("monitoring 0")],
    [CauseColumn(name, {"selection": name, "load": 0.95}) for name in SELECTIONS],
)

_LOADS = (0.4, 0.6, 0.95)
_PLACES = (
    ("base", "csp", "csp"),
    ("base", "sep-c", "sep-c"),
    ("base", "fcondor", "fcondor"),
    ("base", "fcondor-bag", "fcondor, users change after whole bags"),
    ("streams", "sep-c", "sep-c, streams in proportion to the clusters"),
    ("streams", "fcondor", "fcondor, streams in proportion to the clusters"),
)
_ROUTES = CauseTable(
    "Architectures (claims 34 and 35)",
    "NSL with S-T and FPLT.",
    [CauseLine(change, {"architecture": name}, title) for change, name, title in _PLACES],
    [CauseColumn(_share(load), {"load": load}) for load in _LOADS],
)
_DONE = CauseTable(
    "Tasks done (claims 36 and 37)",
    "Share of the tasks that are done when the last bag arrives, and by twice that time.",
    _ROUTES.lines,
    [
        CauseColumn(f"{load:.0%}, {title}", {"load": load}, measure)
        for load in _LOADS
        for title, measure in (
            ("last arrival", lambda row: row.completed_share or 0.0),
            ("twice", lambda row: row.completed_later_share or 0.0),
        )
    ],
)

_MONITORING = CauseTable(
    "The period of the monitoring service (claims 5 and 18)",
    "NSL at a load of 60%, by the mean run time of the tasks.",
    [
        CauseLine(change, {"policy": policy}, f"{policy}, {title}")
        for policy in ("fplt", "rr", "stfr")
        for change, title in (
            ("monitoring 0", "0 s"),
            ("monitoring 5", "5 s"),
            ("base", f"{MONITORING_S:g} s"),
            ("monitoring 30", "30 s"),
        )
    ],
    [CauseColumn(f"{s / 60:g} min", {"mean_runtime_s": s}) for s in (180, 1800, 10800)],
)


def cells_of(table: CauseTable, scale: BagsScale) -> list[list[list[BagCauseCell]]]:
    """The runs of a table, by line, column and repetition."""
    return [
        [
            [
                BagCauseCell(
                    **{
                        **msgspec.structs.asdict(BASE),
                        "tasks": scale.cause_tasks,
                        "seed": seed,
                        "change": line.change,
                        **line.fields,
                        **column.fields,
                    }
                )
                for seed in range(scale.cause_seeds)
            ]
            for column in table.columns
        ]
        for line in table.lines
    ]


def all_cells(tables: Sequence[CauseTable], scale: BagsScale) -> list[BagCauseCell]:
    """The runs of all tables, each once."""
    return list(
        dict.fromkeys(
            cell
            for table in tables
            for line in cells_of(table, scale)
            for column in line
            for cell in column
        )
    )


def cause_page(
    tables: Sequence[CauseTable], rows: Mapping[BagCauseCell, BagCauseRow], scale: BagsScale
) -> Iterator[str]:
    """The section of the page with all tables, in Markdown."""
    yield ""
    yield "## Causes: one thing changed at a time"
    yield ""
    once = (
        "simulated once" if scale.cause_seeds == 1 else f"means of {scale.cause_seeds} repetitions"
    )
    yield (
        f"Smaller simulations of {scale.cause_tasks:,} tasks at a load of {BASE.load:.0%}, unless "
        f"a table says otherwise; {once}. Each line has one change of the model. *What differs, "
        "and why* relates the tables to the claims."
    )
    for one in tables:
        yield ""
        yield f"### {one.title}"
        yield ""
        yield one.text
        wanted = cells_of(one, scale)
        yield from table(
            ("", *(column.title for column in one.columns)),
            (
                (
                    line.title or CHANGES[line.change].title,
                    *(
                        number(summarize(column.measure(rows[cell]) for cell in cells).mean)
                        for column, cells in zip(one.columns, of_line, strict=True)
                    ),
                )
                for line, of_line in zip(one.lines, wanted, strict=True)
            ),
        )
