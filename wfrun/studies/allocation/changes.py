"""The part of the page about changed simulations: one change at a time, and another reading of the
paper's Table 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.allocation import paper
from wfrun.studies.allocation.claims import CLAIMS
from wfrun.studies.allocation.experiments import NAMES
from wfrun.studies.allocation.samples import DETAILED, AllocationSamples
from wfrun.studies.allocation.variants import READING, VARIANTS
from wfrun.studies.common.claim import Answer, answer, tally
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table


def percent(value: float) -> str:
    """A percentage as text as in the paper: with decimals only below 10."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def one_change(samples: AllocationSamples) -> Iterator[str]:
    """The section of the page in which one thing at a time is changed."""
    yield ""
    yield "## One change at a time"
    yield ""
    yield (
        "Grid1: mean wait in seconds as it is and with one thing changed, the same relative to MPL "
        "without changes, and the paper's; then the mean bounded slowdown."
    )
    mpl_s = samples.changed("MPL", "t_w", None)

    def times(value: float) -> str:
        return f"{number(value)}×"

    def rows() -> Iterator[Sequence[str]]:
        for variant, change in VARIANTS.items():
            for name in change.strategies:
                waits_s = [samples.changed(name, "t_w", which) for which in (None, variant)]
                yield (
                    change.text,
                    name,
                    *map(number, waits_s),
                    *(times(wait_s / mpl_s) for wait_s in waits_s),
                    times(1 + paper.TABLE_4["Grid1"][name].wait / 100),
                    *(number(samples.changed(name, "SD_b", which)) for which in (None, variant)),
                )

    header = (
        "change", "strategy", "t_w [s]", "changed", "of MPL", "changed", "paper", "SD_b", "changed",
    )  # fmt: skip
    yield from table(header, rows())


def other_reading(samples: AllocationSamples, found: Sequence[Answer]) -> Iterator[str]:
    """The section of the page on the other reading of Table 1. ``found`` are the answers without
    that reading."""
    changed = samples.read(READING)
    again = answer(CLAIMS, changed)
    yield ""
    yield "## Another reading of the paper"
    yield ""
    used = dict.fromkeys(READING.values())
    which = "; ".join(
        f"*{VARIANTS[variant].text}* ({', '.join(n for n, v in READING.items() if v == variant)})"
        for variant in used
    )
    yield (
        f"All grids with changes from the section before: {which}. The paper does not exclude "
        "them. They were chosen by the results, as those that could explain the paper's, so that "
        "the verdicts of this section are no confirmation."
    )
    yield ""
    yield (
        "Degradation in percent of the best strategy; LBal_s, LBal_t and LBal_w (deviations of the "
        "sites' sizes, run times and work per processor) are means of the grids, as in Table 6."
    )
    deviations = ("LBal_s", "LBal_t", "LBal_w")
    ours = [changed.degraded(grid, symbol) for grid in changed.grids for symbol in DETAILED[:2]]
    theirs = [
        {name: line[place] for name, line in paper.TABLE_4[grid].items()}
        for grid in changed.grids
        for place in (0, 1)
    ]
    ours += [changed.overall(), *(changed.table_6()[symbol] for symbol in deviations)]
    whole = {
        name: sum(paper.TABLE_4[grid][name].mean for grid in changed.grids) / len(changed.grids)
        for name in NAMES
    }
    theirs += [whole, *(paper.TABLE_6[symbol] for symbol in deviations)]
    columns = [f"{grid} {symbol}" for grid in changed.grids for symbol in DETAILED[:2]]
    yield from table(
        ("", *columns, "mean of all", *deviations),
        (
            (
                name,
                *(
                    f"{percent(one[name])} ({percent(other[name])})"
                    for one, other in zip(ours, theirs, strict=True)
                ),
            )
            for name in NAMES
        ),
    )
    yield ""
    yield f"With it, {tally(again)}:"
    yield from table(
        ("", "claim", "verdict", "with the other reading", "means"),
        (
            (str(b.number), b.claim.text, a.verdict.value, b.verdict.value, b.evidence)
            for a, b in zip(found, again, strict=True)
        ),
    )
