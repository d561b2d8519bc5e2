"""The section of the page on the JGC paper: Figures 6 to 8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from wfrun.engine.prediction.estimates import HISTORY_MODELS
from wfrun.studies.common.figures import save
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions.jgc.jgc import ACTUAL, ESTIMATE, FIGURES
from wfrun.studies.predictions.jgc.jgc_samples import JgcSamples
from wfrun.studies.predictions.part import Pictures
from wfrun.studies.predictions.runtimes.runtime_figures import wide

_FIGURES = {"MST": "JGC 6", "MWT": "JGC 7"}
MODELS = {name: HISTORY_MODELS[name].title for name in FIGURES}
"""Titles of the models of the figures."""


def jgc_page(samples: JgcSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "## Allocation strategies with predictions (JGC paper, section 6.2)"
    yield ""
    if not samples.rows:
        yield "Left out: Grid1 needs its seven logs (`--corpus`)."
        return
    some = next(iter(samples.rows.values()))
    yield (
        "MST sends a job to the site that starts it first, MWT to the one whose jobs wait least on "
        "average; sites schedule with EASY backfilling. Both use a prediction that is made once, "
        f"when the job is submitted. Grid1 has the seven logs and machines of Table 2, filtered "
        f"and aligned as in section 5.2: here {_weeks(some.weeks)}, {some.jobs:,} jobs, "
        f"which use {some.utilization:.0%} of the processors. The trace of most of Grid2 is not "
        "public here. Mean degradation of the mean wait, the mean bounded slowdown and the sum of "
        "weighted completion times, in percent of the results with known run times. The figures "
        "of the paper have no numbers."
    )
    for strategy, figure in _FIGURES.items():
        yield from _figure(figure, f"{strategy} by the history window", pictures)
        yield from _windows(samples, strategy)
    yield from _figure("JGC 8", "mean degradation of all test cases", pictures)
    yield from table(("prediction", *samples.cases, "mean"), _overall(samples))
    yield ""
    yield "The paper has no results of the other models of its Table 5:"
    yield from table(("prediction", *samples.cases, "mean"), _others(samples))


def _weeks(weeks: int) -> str:
    return "the first week" if weeks == 1 else f"the first {weeks} weeks"


def _figure(name: str, what: str, pictures: Pictures) -> Iterator[str]:
    yield ""
    yield f"### Figure {name}: {what}"
    if name in pictures:
        yield ""
        yield f"![Figure {name}: {what}]({pictures[name]})"


def _windows(samples: JgcSamples, case: str) -> Iterator[str]:
    def rows() -> Iterator[Sequence[str]]:
        exact = samples.rows[case, ACTUAL, 0]
        yield ("known run time", *("0" for _ in samples.windows), number(exact.wait_s),
               number(exact.slowdown))  # fmt: skip
        estimated = samples.rows[case, ESTIMATE, 0]
        value = number(samples.degradation(case, ESTIMATE))
        yield ("user's estimate", *(value for _ in samples.windows), number(estimated.wait_s),
               number(estimated.slowdown))  # fmt: skip
        for model, title in MODELS.items():
            last = samples.rows[case, model, samples.windows[-1]]
            yield (f"{model}: {title}", *map(number, samples.by_window(case, model)),
                   number(last.wait_s), number(last.slowdown))  # fmt: skip

    header = (f"{case}: degradation [%]", *(f"k = {k}" for k in samples.windows),
              "wait [s], largest k", "slowdown")  # fmt: skip
    yield from table(header, rows())


def _overall(samples: JgcSamples) -> Iterator[Sequence[str]]:
    estimates = [samples.degradation(case, ESTIMATE) for case in samples.cases]
    yield ("user's estimate", *map(number, estimates), number(fmean(estimates)))
    for model, title in MODELS.items():
        values = [samples.of_models(case)[model] for case in samples.cases]
        yield (f"{model}: {title}", *map(number, values), number(fmean(values)))


OTHER_MODELS = {
    **{name: model.title for name, model in HISTORY_MODELS.items() if name not in FIGURES},
    "M9": "C1, mean accuracy of all estimates",
    "M10": "C2, half of the estimate",
    "M11": "U1, between the extreme accuracies",
    "M12": "U2, between the means of their halves",
}


def _others(samples: JgcSamples) -> Iterator[Sequence[str]]:
    found = {case: samples.of_others(case) for case in samples.cases}
    for model, title in OTHER_MODELS.items():
        values = [of_case[model] for of_case in found.values()]
        yield (f"{model}: {title}", *map(number, values), number(fmean(values)))


def draw_jgc(samples: JgcSamples, folder: Path) -> dict[str, str]:
    """Write the figures as PNG and return their file names by figure number. The numbers have the
    prefix ``JGC``, since the thesis has figures with similar numbers."""
    if not samples.rows:
        return {}
    found = {
        figure: _by_window(samples, folder, strategy, f"figure-jgc-{figure[-1]}.png")
        for strategy, figure in _FIGURES.items()
    }
    return {**found, "JGC 8": _bars(samples, folder)}


def _by_window(samples: JgcSamples, folder: Path, strategy: str, name: str) -> str:
    drawn = wide(6.5, 3.6)
    axes = drawn.subplots()
    for model, title in MODELS.items():
        axes.plot(samples.windows, samples.by_window(strategy, model), marker="o", label=title)
    axes.axhline(samples.degradation(strategy, ESTIMATE), color="black", label="user's estimate")
    axes.axhline(0, color="grey", linestyle="--", label="known run time")
    axes.set_title(f"{strategy}, Grid1", fontsize=9)
    axes.set_xlabel("history window k")
    axes.set_ylabel("mean degradation [%]")
    axes.grid(alpha=0.3)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3)
    return save(drawn, folder, name)


def _bars(samples: JgcSamples, folder: Path) -> str:
    means = {title: fmean(samples.of_models(case)[model] for case in samples.cases)
             for model, title in MODELS.items()}  # fmt: skip
    means["user's estimate"] = fmean(samples.degradation(c, ESTIMATE) for c in samples.cases)
    drawn = wide(6.0, 3.0)
    axes = drawn.subplots()
    names = sorted(means, key=lambda name: means[name])
    axes.bar(names, [means[name] for name in names])
    axes.tick_params(axis="x", labelrotation=20, labelsize=8)
    axes.set_ylabel("mean degradation [%]")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return save(drawn, folder, "figure-jgc-8.png")
