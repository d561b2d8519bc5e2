"""The section of the page on run time predictions: Figures 7.2 to 7.6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.registry import PREDICTORS
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions.part import Pictures
from wfrun.studies.predictions.runtimes.runtime_claims import high_share
from wfrun.studies.predictions.runtimes.runtime_samples import TITLES, Choice, RuntimeSamples
from wfrun.studies.predictions.runtimes.runtimes import CHAIN, GENERAL, SPECIFIC
from wfrun.studies.predictions.workloads import Workload


def runtime_page(samples: RuntimeSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "## Run time predictions (section 7.2)"
    yield ""
    yield (
        "Mean accuracy (eq. 7.1: the smaller of prediction and run time over the larger; 1 is "
        "perfect) of the jobs that have a prediction. The history holds the jobs that had ended "
        "when a job was submitted. The highest value of each line is in bold. The figures of the "
        "thesis have no numbers in the text; what the text says about them is among the claims."
    )
    for figure, classification in zip(("7.2", "7.3", "7.4"), GENERAL, strict=True):
        yield from _figure(figure, CLASSIFICATIONS[classification].title, pictures)
        served = [w for w in samples.workloads() if samples.serves(w, classification)]
        rows = (_methods(samples, w, classification) for w in served)
        yield from table(("workload", "kind", "jobs", "no history", *TITLES.values()), rows)
        yield from _left_out(samples, served, "users")
    yield from _figure("7.5", CLASSIFICATIONS[SPECIFIC].title, pictures)
    yield from _specific(samples)
    yield from _figure("7.6", "distributions of the best results", pictures)
    header = ("workload", "method and class", "accuracy", "above 0.9", "mean error [s]")
    yield from table(header, (_best(samples, w) for w in samples.workloads()))
    yield from _chains(samples)


def _figure(name: str, what: str, pictures: Pictures) -> Iterator[str]:
    yield ""
    yield f"### Figure {name}: {what}"
    if name in pictures:
        yield ""
        yield f"![Figure {name}: {what}]({pictures[name]})"


def _methods(samples: RuntimeSamples, workload: Workload, classification: str) -> Sequence[str]:
    row = samples.row(workload, Choice("last2", classification))
    values = samples.accuracies(workload, classification)
    best = max(values.values(), default=0.0)
    cells = (_marked(value, best) for value in values.values())
    jobs = row.predicted + row.unknown
    return (workload.title, workload.kind, f"{jobs:,}", f"{row.unknown / jobs:.1%}", *cells)


def _specific(samples: RuntimeSamples) -> Iterator[str]:
    yield ""
    yield (
        "*Without*: the best result of the other classifications. *With*: the same method under "
        "this one, as in the thesis."
    )
    served = [w for w in samples.workloads() if samples.serves(w, SPECIFIC)]

    def rows() -> Iterator[Sequence[str]]:
        for workload in served:
            before = samples.best(workload, GENERAL)
            row = samples.row(workload, Choice(before.method, SPECIFIC))
            without = samples.row(workload, before).accuracy
            share = row.unknown / (row.predicted + row.unknown)
            yield (workload.title, str(before), f"{without:.3f}", f"{row.accuracy:.3f}",
                   f"{row.accuracy - without:+.3f}", f"{share:.1%}")  # fmt: skip

    header = ("workload", "best of the others", "without", "with", "change", "no history")
    yield from table(header, rows())
    yield from _left_out(samples, served, "applications")


def _left_out(samples: RuntimeSamples, served: Sequence[Workload], what: str) -> Iterator[str]:
    left_out = [w.title for w in samples.workloads() if w not in served]
    if left_out:
        yield ""
        yield f"Left out, since their logs do not state {what}: {', '.join(left_out)}."


def _best(samples: RuntimeSamples, workload: Workload) -> Sequence[str]:
    choice = samples.best(workload)
    row = samples.row(workload, choice)
    return (workload.title, str(choice), f"{row.accuracy:.3f}",
            f"{high_share(samples, workload):.0%}", number(row.error_s))  # fmt: skip


def _chains(samples: RuntimeSamples) -> Iterator[str]:
    """The predictors that choose classes themselves, which the thesis does not have."""
    yield ""
    yield "### Beyond the thesis: chains of classes, and `auto`"
    yield ""
    yield (
        "Each method applied to the most specific class of a job that has a history, so that "
        "nearly every job is predicted; the user's estimate; and `auto`, the method and class with "
        "the best record so far, as in the Network Weather Service. Mean accuracy."
    )

    def rows() -> Iterator[Sequence[str]]:
        for workload in samples.workloads():
            found = {name: row.accuracy for name, row in samples.chained(workload).items()}
            best = max(found.values())
            unknown = samples.row(workload, Choice("last2", CHAIN)).unknown
            cells = (_marked(found.get(name), best) for name in PREDICTORS)
            yield (workload.title, f"{unknown:,}", *cells)

    names = (TITLES.get(name, f"`{name}`") for name in PREDICTORS)
    yield from table(("workload", "without history", *names), rows())


def _marked(value: float | None, best: float) -> str:
    if value is None:
        return "-"
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"
