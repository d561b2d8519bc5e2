"""The page of the study: the experiments of the thesis, simulated again, and all claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from wfrun.runners.experiments.cells import SIZES
from wfrun.runners.metrics.samples import Summary
from wfrun.studies.bags.compare import SHOWN
from wfrun.studies.bags.contradictions import CONTRADICTIONS, contradicted
from wfrun.studies.bags.differences import CAUSES, DIFFERENCES, ON_REAL_CLUSTERS, SUMMARY
from wfrun.studies.bags.experiments import (
    ARCHITECTURES,
    ARRIVALS,
    FULL,
    MONITORING_S,
    QUICK,
    REAL_LOAD,
    SELECTIONS,
    STAND_IN,
    BagSamples,
    BagsScale,
    cells,
)
from wfrun.studies.bags.readings import readings
from wfrun.studies.common.claim import Answer, tally
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import DETAILS, VERDICTS, claims_table, opening, table

WITH_DFPLT = (*SHOWN[:2], "dfplt", *SHOWN[2:])
"""The policies of the thesis's figures, and DFPLT, which here learns the speeds and so differs from
FPLT."""


def bags_page(
    samples: BagSamples,
    found: Sequence[Answer],
    pictures: Sequence[str],
    causes: Iterable[str] = (),
) -> str:
    """The page in Markdown. ``pictures`` are the names of files beside the page, in the order of
    the figures; ``causes`` are the lines of the section on causes."""
    figures = dict(zip(("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8"), pictures,
                       strict=False))  # fmt: skip
    scale = samples.scale
    loads = [(f"{load:.0%}", {"load": load}) for load in scale.loads]
    sizes = [(f"{size:g}", {"median_size": size}) for size in scale.median_sizes]
    times = [(f"{t / 60:g} min", {"mean_runtime_s": t}) for t in scale.mean_runtimes_s]
    wrong = [(f"{i:g}%", {"inaccuracy": i}) for i in (0.0, *scale.inaccuracies)]
    arrivals = [(name, {"arrival": name}) for name in ARRIVALS]
    parts = [
        *_head(samples, found),
        *_setting(samples),
        *_figure("5.2", "the policies under realistic load", figures),
        *_tables(samples, "policy", WITH_DFPLT, loads),
        *_claims(found, scale),
        *CONTRADICTIONS.splitlines(),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *ON_REAL_CLUSTERS.splitlines(),
        *_figure("5.1", "by the size of the bag, under real load", figures),
        *_by_size(samples),
        *_figure("5.3", "patterns of arrival, at a load of 60%", figures),
        *_tables(samples, "policy", SHOWN, arrivals),
        *_figure("5.4", "by the median size of the bags, at 60%", figures),
        *_tables(samples, "policy", SHOWN, sizes),
        *_figure("5.5", "by the mean run time of the tasks, at 60%", figures),
        *_tables(samples, "policy", SHOWN, times),
        *_figure("5.6", "by the inaccuracy of the estimates, at 60%", figures),
        *_tables(samples, "policy", SHOWN, wrong),
        *_systems(samples),
        *_figure("5.7", "the selection policies, with FPLT", figures),
        *_tables(samples, "selection", SELECTIONS, loads),
        *_figure("5.8", "the architectures, with S-T and FPLT", figures),
        *_tables(samples, "architecture", ARCHITECTURES, loads),
        *_done(samples, "tasks done when the last bag arrives", "completed_share", loads),
        *_done(samples, "tasks done by twice that time", "completed_later_share", loads),
        *causes,
        *readings(),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(samples: BagSamples, found: Sequence[Answer]) -> Iterator[str]:
    scale = samples.scale
    yield "# Study `bags`: chapter 5 of the thesis, simulated again"
    yield ""
    yield from opening(SUMMARY, found)
    yield (
        "This page compares simulations by wfrun with chapter 5 of a thesis, on bags of tasks. One "
        "command makes it:"
    )
    yield ""
    quick = "" if samples.scale is FULL else " --quick"
    corpus = "" if samples.real == STAND_IN else " --corpus DIR"
    yield f"    wfrun study bags{quick}{corpus} --output study"
    yield ""
    yield (
        "It writes page.md and figures 5.1 to 5.8, and keeps every simulated run in `results.csv` "
        "and `causes.csv`, so that an interrupted study is continued. DIR has the log "
        "`LPC-EGEE-2004-1.2-cln.swf.gz` of the Parallel Workloads Archive; without `--corpus`, "
        f"real load is generated, too. The full study simulates {len(cells(FULL, STAND_IN)):,} "
        "workloads of 60,000 tasks and takes hours of processor time; `--quick` simulates "
        f"{len(cells(QUICK, STAND_IN))}, each once and of {QUICK.tasks:,} tasks, in five minutes. "
        "`--jobs` limits the number of processes, `--on` simulates at "
        "[clusters](simulate.md#over-several-clusters). The command exits with 0 whatever holds."
    )
    yield ""
    yield (
        'Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft '
        "2010, sections 5.3 and 5.4. The policies and the engine are those of `wfrun run`."
    )
    yield ""
    repeated = (
        "each combination simulated once"
        if scale.seeds == 1
        else f"means over {scale.seeds} repetitions with other workloads, with 95% confidence "
        "intervals (Student's t)"
    )
    yield (
        f"**Of section 5.4, {tally(found)}; {contradicted(found)} of those that do not hold "
        f"contradict the thesis' own numbers or model (see below).** Workloads of {scale.tasks:,} "
        f"tasks, {repeated}; policies are compared on the same workloads. The figures of the "
        "thesis have no numbers in the text; what the text says about them is among the claims."
    )


def _setting(samples: BagSamples) -> Iterator[str]:
    yield ""
    yield "## What is simulated"
    yield ""
    yield (
        "The DAS-3 and Grid'5000 together: 20 clusters, 3,568 processors, speeds from 1.0 to 1.75 "
        "(section 5.3.1; `wfrun/runners/simulate/das3_grid5000.py` lists the clusters that are "
        "assumed, since the thesis has no list). Queues are FCFS, transfers take no time, and "
        "nothing fails. Each cluster has a stream of bags of its own, drawn from row *Avg* of "
        "Table 5.3. The load is the busy share of the sites until the last bag arrives, if each "
        "task starts when it arrives; times between arrivals are scaled to it. Run times are cut "
        "to half of the time in which the sites could do all tasks. Bags are drawn independently, "
        "also the bags of one application. With csp, the monitoring service of section 5.1.2 "
        f"reports ends of tasks every {MONITORING_S:g} s; the thesis does not give this period."
    )
    yield ""
    if samples.real == STAND_IN:
        yield (
            f"Real load is that of row `{STAND_IN}` of Table 5.3 here, since no log was given "
            "(`--corpus`)."
        )
    else:
        yield (
            f"Real load is the log {samples.real.partition(' #')[0]} of the Parallel Workloads "
            "Archive, with the bags of a site of the EGEE grid; the traces of the thesis are not "
            "public."
        )
    yield ""
    yield (
        "Makespan (MS): from the arrival of a bag to the end of its last task. NSL: makespan over "
        "the sum of the bag's run times on a processor of speed 1. Both are means of the bags."
    )


def _figure(name: str, what: str, pictures: dict[str, str]) -> Iterator[str]:
    yield ""
    yield f"## Figure {name}: {what}"
    if name in pictures:
        yield ""
        yield f"![Figure {name}: {what}]({pictures[name]})"


def _systems(samples: BagSamples) -> Iterator[str]:
    yield ""
    yield "## Table 5.3: the workloads of single systems, at a load of 60%"
    yield ""
    yield (
        "All other tables use row *Avg*. Here bags, their sizes and their run times are drawn from "
        "the named row; the 20 clusters and the load are the same."
    )
    rows = [(name, {"workload": name}) for name in ("average", *samples.scale.rows)]
    yield from _tables(samples, "policy", SHOWN, rows)


Places = Sequence[tuple[str, Mapping[str, object]]]
"""Headings of columns, each with the varied fields of `Cell`."""


def _tables(samples: BagSamples, field: str, names: Sequence[str], places: Places) -> Iterator[str]:
    """Two tables, of makespan and of NSL. They have a row for each of ``names``, which are values
    of ``field``, and a column for each of ``places``."""
    for title, measure in (("MS [s]", "makespan_s"), ("NSL", "nsl")):
        yield from _one_table(samples, title, field, names, places, _summary(samples, measure))


def _done(samples: BagSamples, title: str, measure: str, loads: Places) -> Iterator[str]:
    def cell(**changes: object) -> str:
        return f"{samples.mean(measure, **changes):.0%}"

    yield from _one_table(samples, title, "architecture", ARCHITECTURES, loads, cell)


def _summary(samples: BagSamples, measure: str) -> Callable[..., str]:
    def cell(**changes: object) -> str:
        summary: Summary = samples.of(measure, **changes)
        return shown(summary)

    return cell


def _one_table(
    samples: BagSamples,
    title: str,
    field: str,
    names: Sequence[str],
    places: Places,
    cell: Callable[..., str],
) -> Iterator[str]:
    rows = ((name, *(cell(**{**changes, field: name}) for _, changes in places)) for name in names)
    yield from table((title, *(heading for heading, _ in places)), rows)


def _by_size(samples: BagSamples) -> Iterator[str]:
    real = {"workload": samples.real, "load": REAL_LOAD}
    sizes = [n for n in range(len(SIZES)) if samples.bags_of_size(n, **real)]

    def rows(measure: str) -> Iterator[Sequence[str]]:
        for name in WITH_DFPLT:
            values = [samples.of_size(n, measure, policy=name, **real) for n in sizes]
            yield (
                name,
                *("-" if value is None else number(value) for value in values),
                number(samples.mean(measure, policy=name, **real)),
            )

    headings = [SIZES[n][1] for n in sizes]
    counts = ("bags", *(f"{samples.bags_of_size(n, **real):,.0f}" for n in sizes), "")
    yield from table(("MS [s]", *headings, "all"), [counts, *rows("makespan_s")])
    yield from table(("NSL", *headings, "all"), rows("nsl"))


def _claims(found: Sequence[Answer], scale: BagsScale) -> Iterator[str]:
    yield ""
    yield "## The claims of section 5.4"
    yield ""
    yield (
        "The claims are in our words. *Similar* and *little* mean within 25%, *almost identical* "
        "within 2%, *much* at least 50% more. *Poor* means worse, and *good* better, than at least "
        "half of the other policies, so that an extreme value of one policy does not count. *Up "
        "to* a number, and an increase by a number, mean between half and twice that number. "
        "Shares of tasks are equal within 10 points. *Best* and *not better* allow 2% between "
        "selection policies. No bound was chosen by the results."
    )
    yield ""
    if scale.seeds == 1:
        yield "With one repetition there are no intervals: the verdicts are by the values alone."
    else:
        yield VERDICTS
    yield from claims_table(found, CAUSES)
