"""The page of the study: the paper's tables and figures beside our results, and its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wfrun.studies.allocation import paper
from wfrun.studies.allocation.changes import one_change, other_reading, percent
from wfrun.studies.allocation.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.allocation.experiments import FULL_WEEKS, NAMES
from wfrun.studies.allocation.samples import DETAILED, AllocationSamples, order
from wfrun.studies.common.claim import Answer, tally
from wfrun.studies.common.numbers import shown
from wfrun.studies.common.page import DETAILS, VERDICTS, claims_table, opening, table
from wfrun.studies.grids.jgc_grids import GRIDS, MACHINES

LENGTH = {
    True: "about four minutes of processor time",
    False: "about eight minutes of processor time",
}
"""Processor time of the study with both grids, by whether the study is quick."""
BEST_OF = 6
"""Number of strategies in Figures 1 to 3."""
_FIGURES = {"1": "t_w", "2": "SD_b", "3": "SWCT_w"}


def allocation_page(
    samples: AllocationSamples, found: Sequence[Answer], pictures: Mapping[str, str], *, quick: bool
) -> str:
    """The page of the study, in Markdown. ``pictures`` has, by number of the figure, the name of
    its file, which is beside the page."""
    parts = [
        *_head(samples, found, quick),
        *_setting(samples),
        *_table_4(samples),
        *_by_week(samples),
        *_claims(found),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *(line for name in _FIGURES for line in _best_six(samples, name, pictures)),
        *_figure_4(samples, pictures),
        *_figure_5(samples, pictures),
        *_table_6(samples),
        *one_change(samples),
        *other_reading(samples, found),
    ]
    return "\n".join(parts) + "\n"


def _head(samples: AllocationSamples, found: Sequence[Answer], quick: bool) -> Iterator[str]:
    option = " --quick" if quick else ""
    yield "# Study `allocation`: 14 ways to send parallel jobs to clusters"
    yield ""
    yield from opening(SUMMARY, found)
    yield (
        "Source: J. M. Ramírez-Alcaraz et al., *Job Allocation Strategies with User Run Time "
        "Estimates for Online Scheduling in Hierarchical Grids*, Journal of Grid Computing 9, "
        "2011, sections 5 and 6.1. The strategies are the "
        "[policies](policies.md#allocation-strategies) of `wfrun run` and `wfrun jobs`. One "
        "command makes this page:"
    )
    yield ""
    yield f"    wfrun study allocation{option} --corpus DIR --output study"
    yield ""
    yield (
        f"It takes {LENGTH[quick]}, and keeps every simulation in `study/results.csv`, so that an "
        "interrupted study is continued. `--corpus` is a folder with the logs of the Parallel "
        "Workloads Archive that are named below; `--on CATALOG` simulates "
        "[at the sites of a catalog](simulate.md)."
    )
    yield ""
    yield f"**Of section 6.1, {tally(found)}.**"


def _setting(samples: AllocationSamples) -> Iterator[str]:
    yield ""
    yield "## What is simulated"
    yield ""
    for grid in samples.grids:
        machines = ", ".join(f"{name} {MACHINES[name]}" for name in GRIDS[grid])
        total = sum(MACHINES[name] for name in GRIDS[grid])
        count = samples.jobs(grid)
        a_site = count // len(GRIDS[grid])
        yield f"- {grid}: {machines}; {total:,} processors; {count:,} jobs, {a_site:,} a site."
    yield ""
    yield (
        "Each site schedules with EASY backfilling by the users' estimates, which are also the run "
        "times that strategies of levels 2 and 3 know. Strategies of level 3 ask each site for a "
        "plan with a reservation for every waiting job (conservative backfilling); a dry run of "
        "EASY is among the changes below. Jobs are filtered, aligned on a Monday at "
        "midnight with the differences between the time zones, and merged (section 5.2). Grid2 has "
        "the five clusters of the DAS-2 in the paper, whose trace is not public here, and is "
        "simulated without them. Thanks to all who gave their logs to the archive."
    )
    yield ""
    text = (
        f"Each strategy has one simulation, as in the paper, of the first {samples.weeks} weeks, "
        "and all have the same jobs."
    )
    if samples.weeks == FULL_WEEKS:
        text += " The paper does not give its period; its Grid1 has 22,770 jobs a site."
    yield (
        f"{text} Tables and figures are of all jobs. Confidence intervals and verdicts are those "
        "of the weeks: what the jobs submitted in each week contribute to a metric of all jobs."
    )


def _table_4(samples: AllocationSamples) -> Iterator[str]:
    yield ""
    yield "## Table 4: degradation in percent of the best strategy"
    yield ""
    yield (
        "Mean wait, mean bounded slowdown, sum of completion times weighted by work, and the mean "
        "of the three: ours, the paper's in brackets."
    )
    for grid in samples.grids:
        ours = [samples.degraded(grid, symbol) for symbol in DETAILED]
        ours.append(samples.mean_degraded(grid))
        theirs = paper.TABLE_4[grid]
        rows = (
            (
                name,
                *(
                    f"{percent(one[name])} ({percent(value)})"
                    for one, value in zip(ours, theirs[name], strict=True)
                ),
            )
            for name in NAMES
        )
        yield from table((grid, *DETAILED, "mean"), rows)


def _by_week(samples: AllocationSamples) -> Iterator[str]:
    yield ""
    yield "### Confidence"
    yield ""
    yield (
        "Mean wait in seconds, mean bounded slowdown, and degradation in percent in the mean of "
        "the three metrics, with 95% confidence intervals by what the weeks contribute. Waits "
        "differ between weeks, so that intervals overlap where paired differences do not. Queues "
        "that last for weeks, as with Random, make weeks alike, and their intervals too narrow."
    )
    for grid in samples.grids:
        waits, slowdowns = samples.shares(grid, "t_w"), samples.shares(grid, "SD_b")
        mean = samples.mean_degraded_shares(grid)
        rows = (
            (name, shown(waits[name]), shown(slowdowns[name]), shown(mean[name])) for name in NAMES
        )
        yield from table((grid, "t_w [s]", "SD_b", "mean degradation [%]"), rows)


def _picture(name: str, what: str, pictures: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield f"## Figure {name}: {what}"
    if name in pictures:
        yield ""
        yield f"![Figure {name}: {what}]({pictures[name]})"


def _best_six(
    samples: AllocationSamples, figure: str, pictures: Mapping[str, str]
) -> Iterator[str]:
    symbol = _FIGURES[figure]
    yield from _picture(figure, f"the best six strategies by {symbol}", pictures)

    def rows() -> Iterator[Sequence[str]]:
        for grid in samples.grids:
            ours = samples.degraded(grid, symbol)
            place = DETAILED.index(symbol)
            theirs = {name: line[place] for name, line in paper.TABLE_4[grid].items()}
            yield (grid, *_listed(ours))
            yield (f"{grid}, paper", *_listed(theirs))

    yield from table(("", *map(str, range(1, BEST_OF + 1))), rows())


def _listed(values: Mapping[str, float], count: int = BEST_OF) -> Iterator[str]:
    for name in order(values)[:count]:
        yield f"{name} {percent(values[name])}"


def _figure_4(samples: AllocationSamples, pictures: Mapping[str, str]) -> Iterator[str]:
    yield from _picture("4", "mean degradation of the strategies", pictures)
    yield ""
    yield "Column *mean* of Table 4."


def _figure_5(samples: AllocationSamples, pictures: Mapping[str, str]) -> Iterator[str]:
    yield from _picture("5", "ranking by the mean degradation of all test cases", pictures)
    ours = samples.overall()
    theirs = {
        name: sum(paper.TABLE_4[grid][name].mean for grid in samples.grids) / len(samples.grids)
        for name in NAMES
    }
    first, second = list(_listed(ours, len(ours))), list(_listed(theirs, len(theirs)))
    rows = ((str(n + 1), a, b) for n, (a, b) in enumerate(zip(first, second, strict=True)))
    yield from table(("rank", "ours [%]", "paper [%]"), rows)


def _table_6(samples: AllocationSamples) -> Iterator[str]:
    yield ""
    yield "## Table 6: all metrics"
    yield ""
    grids = " and ".join(samples.grids)
    yield (
        f"Degradation in percent, mean of {grids}: ours, the paper's in brackets, which are of "
        "both grids. Of throughput and utilization, of which more is better, the loss."
    )
    ours = samples.table_6()
    rows: list[tuple[str, ...]] = [
        (
            symbol,
            *(f"{percent(ours[symbol][n])} ({percent(paper.TABLE_6[symbol][n])})" for n in NAMES),
        )
        for symbol in ours
    ]
    average = {name: sum(line[name] for line in ours.values()) / len(ours) for name in NAMES}
    rows.append(
        (
            "average",
            *(f"{percent(average[n])} ({percent(paper.TABLE_6_AVERAGE[n])})" for n in NAMES),
        )
    )
    yield from table(("", *NAMES), rows)


def _claims(found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## The claims of section 6.1"
    yield ""
    yield (
        "The claims are in our words. They are tested on the contributions of the weeks, and have "
        "to hold in each grid, unless they name the mean of the grids. *Negligible* differences of "
        "makespans are at most 1%. *Worse by* a percentage means from half to twice the "
        "percentage. No bound was chosen by the results."
    )
    yield ""
    yield VERDICTS
    yield from claims_table(found, CAUSES)
