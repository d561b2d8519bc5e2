"""The section of the page on queue waits: Tables 7.2 and 7.3, Figure 7.7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions import paper
from wfrun.studies.predictions.part import Pictures
from wfrun.studies.predictions.waits.queue_waits import LOG_LOAD
from wfrun.studies.predictions.waits.wait_samples import WaitPlace, WaitSamples

_TITLES = {"bmbp": "BMBP", "chebyshev": "Chebyshev", "fcfs-estimates": "FCFS on estimates"}


def wait_page(samples: WaitSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "## Queue waits (section 7.3)"
    yield ""
    yield (
        "Waits are those of a simulated FCFS queue without backfilling, as in the thesis, at the "
        "two busiest sites of each generated grid and on the machines of the logs; for the bounds "
        f"also those in the logs. Logs are simulated at a load of {LOG_LOAD:.0%}, that of research "
        "grids, since a queue without backfilling cannot serve theirs. Point-valued predictions do "
        "not use the users' estimates, which the traces of the thesis lack. The first 10% of the "
        "jobs are for training. A burst is an interval of five minutes with as many "
        "submissions as less than one interval in 1,000 would have if they came at random. A "
        "prediction within half a second is perfect: the traces of the thesis have whole seconds."
    )
    yield from _points(samples)
    if "7.7" in pictures:
        yield ""
        yield "### Figure 7.7: distributions of the point-valued predictions"
        yield ""
        yield f"![Figure 7.7: point-valued predictions]({pictures['7.7']})"
        yield ""
        yield "Dashed: with correction."
    yield from _bounds(samples)


def _points(samples: WaitSamples) -> Iterator[str]:
    yield ""
    yield "### Table 7.2: point-valued predictions, jobs that waited"
    yield ""
    yield (
        "Run times by Last2 of (User + Application + Size) on Site; a run time that turns out to "
        "be under-predicted is doubled until it is larger. Gains by the correction: of the "
        "accuracy in points, of the AWPE (mean absolute error) in percent."
    )

    def thesis() -> Iterator[Sequence[str]]:
        for name, line in paper.TABLE_7_2.items():
            yield _point(
                f"{name}, thesis", line.nonzero, (line.accuracy, line.corrected_accuracy),
                (line.error_min, line.corrected_error_min),
            )  # fmt: skip

    def ours() -> Iterator[Sequence[str]]:
        for place in samples.of("fcfs", "point"):
            rows = [place.rows[name] for name in ("point", "point-corrected")]
            before, after = rows
            yield _point(
                place.title, before.nonzero, (before.nonzero_accuracy, after.nonzero_accuracy),
                (before.nonzero_error_s / 60, after.nonzero_error_s / 60),
            )  # fmt: skip

    header = ("site", "non-zero", "accuracy", "corrected", "gain", "AWPE [min]", "corrected",
              "gain")  # fmt: skip
    yield from table(header, (*thesis(), *ours()))
    idle = [p.title for p in samples.places if p.waits == "fcfs" and not p.some_wait]
    if idle:
        yield ""
        yield f"Left out, since no job of it waits: {', '.join(idle)}."


def _point(
    name: str, nonzero: float, accuracy: tuple[float, float], error_min: tuple[float, float]
) -> Sequence[str]:
    gain = 1 - error_min[1] / error_min[0] if error_min[0] else 0.0
    return (name, f"{nonzero:.0%}", f"{accuracy[0]:.2f}", f"{accuracy[1]:.2f}",
            f"{100 * (accuracy[1] - accuracy[0]):+.0f}", number(error_min[0]),
            number(error_min[1]), f"{gain:+.0%}")  # fmt: skip


def _bounds(samples: WaitSamples) -> Iterator[str]:
    yield ""
    yield "### Table 7.3: upper bounds"
    yield ""
    yield (
        "*In bursts* and *others* are the shares of the jobs that waited at most as long as "
        "predicted, which the bounds of BMBP and Chebyshev are to be for at least 95% of the jobs. "
        "FCFS on estimates is not in the thesis' table; estimates are those of the log, or uniform "
        "in [R, 5R] as in the thesis."
    )
    header = ("predictor", "site", "AWPE [min]", "accuracy", "under", "perfect", "over",
              "in bursts", "others")  # fmt: skip

    def rows() -> Iterator[Sequence[str]]:
        for name, title in _TITLES.items():
            for site, line in paper.TABLE_7_3.get(name, {}).items():
                yield (title, f"{site}, thesis", number(line.error_min), f"{line.accuracy:.2f}",
                       *(f"{x:.0%}" for x in (line.under, line.perfect, line.over)),
                       "", "")  # fmt: skip
            for place in samples.of(None, name):
                yield _bound(title, place, name)

    yield from table(header, rows())


def _bound(title: str, place: WaitPlace, name: str) -> Sequence[str]:
    row = place.rows[name]
    site = place.title + (", logged" if place.waits == "logged" else "")
    kept = (row.burst_within, row.other_within)
    return (title, site, number(row.error_s / 60), f"{row.accuracy:.2f}",
            *(f"{share:.0%}" for share in (row.under, row.perfect, row.over)),
            *("-" if share is None else f"{share:.1%}" for share in kept))  # fmt: skip
