"""The page of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import claims_table, study_head, table
from wfrun.studies.common.verdict import Sample, Verdict
from wfrun.studies.optional import paper
from wfrun.studies.optional.claims import CLAIMS
from wfrun.studies.optional.differences import CAUSES, DIFFERENCES, FREE_CHOICES, REAL, SUMMARY
from wfrun.studies.optional.experiments import (
    BASE,
    BY_RATE,
    FAIR_QUEUE,
    NO_KILLS,
    OVERHEADS,
    RANDOM,
    RULES,
    OptionalSamples,
    OptionalScale,
)
from wfrun.studies.optional.scenarios import FIGURES, LARGE, REGULAR
from wfrun.studies.optional.systems import LEGACY, QUEUE, SERVERS

LENGTH = {True: "some 5 minutes of processor time", False: "some 20 minutes of processor time"}
NAMES = {SERVERS: "DIET-ethic, queue at each server", QUEUE: "DIET-ethic, one queue"}
MEASURES = {"unhappy": "unhappy users", "unfairness": "unfairness", "completed": "completed"}
MARKS = {Verdict.HOLDS: "+", Verdict.FAILS: "–", Verdict.UNCLEAR: "?"}
WORDS = """\
Words have these numbers: unfairness is "almost ideal" up to 0.1 and "low" up to 0.7, as the paper
says of Table 2; a number of requests is "maximized" from 98% of what it is compared with, and
"slightly" lower down to 95%, "as if" within 1%; the legacy system "behaves well" if nobody is
unhappy and at least 95% of DIET-ethic's requests are completed; a "blind guess" is the mean over
all n_submit of the tables below. A claim *holds* or *does not hold* with 95% confidence (paired t
test over the runs), and is *not distinguishable* otherwise. Tested is DIET-ethic with a queue at
each server."""


def optional_page(
    samples: OptionalSamples, scale: OptionalScale, found: Sequence[Answer],
    pictures: Sequence[str], *, quick: bool,
) -> str:  # fmt: skip
    """The page in Markdown."""
    parts = [
        *_head(scale, found, quick=quick),
        *_question(samples),
        *_large(samples),
        "", "## Claims", "", *WORDS.splitlines(),
        *claims_table(found, CAUSES),
        *DIFFERENCES.splitlines(),
        *_figures(samples, pictures),
        *_variants(samples, scale, found),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(scale: OptionalScale, found: Sequence[Answer], *, quick: bool) -> Iterator[str]:
    runs = (
        f"{scale.seeds} runs of DIET-ethic in each scenario, and {scale.legacy_seeds} of each "
        "point of the legacy system; the paper has at least 10."
    )
    source = (
        "Source: F. Camillo, E. Caron, R. Guivarch, A. Hurault, C. Klein, C. Pérez, *Diet-ethic: "
        "Fair Scheduling of Optional Computations in GridRPC Middleware*, INRIA RR-7959, 2012. Its "
        "Figures 4 to 9 are pictures without numbers; the claims have what the text states. Both "
        "kinds of DIET-ethic are the engine with [`--selection ethic`](optional.md), ten engines "
        "with a slot each or one with ten."
    )
    return study_head(
        "optional", "optional computations (DIET-ethic, RR-7959)", SUMMARY, runs, found,
        LENGTH[quick], source, quick=quick,
    )  # fmt: skip


def _question(samples: OptionalSamples) -> Iterator[str]:
    yield ""
    yield "## Which unfairness: 1.0, 0.6 or near-ideal?"
    yield ""
    yield (
        'Regular arrivals, a user every 10 s. The fourth rule of the queue prefers users "who had '
        'the fewest allocated resources so far"; the readings, each with the mean over the runs:'
    )
    rows = []
    for name in (BASE, BY_RATE, FAIR_QUEUE, RANDOM):
        cells = [
            f"{samples.of(REGULAR, measure, system, 0, name).mean:{style}}"
            for system in (SERVERS, QUEUE)
            for measure, style in (("unfairness", ".2f"), ("completed", ".0f"))
        ]
        rows.append(("as printed" if name == BASE else name, *cells))
    best = paper.BEST_REGULAR
    legacy = [samples.legacy(REGULAR, best, m).mean for m in ("unfairness", "completed")]
    rows.append((f"legacy, n_submit = {best}", f"{legacy[0]:.2f}", f"{legacy[1]:.0f}", "", ""))
    rows.append(("paper, DIET-ethic", "near-ideal", str(paper.ETHIC_REGULAR), "", ""))
    rows.append(("paper, legacy", "low", str(paper.LEGACY_REGULAR), "", ""))
    header = ("", "unfairness", "completed", "one queue: unfairness", "completed")
    yield from table(header, rows)


def _large(samples: OptionalSamples) -> Iterator[str]:
    yield ""
    yield "## Table 2, simulated and for real"
    rows = []
    for measure, name, theirs in (
        ("unhappy", "unhappy users", "0"),
        ("unfairness", "unfairness", f"{paper.LARGE_UNFAIRNESS:.2f}"),
        ("completed", "completed", f"{paper.LARGE_COMPLETED} of {paper.LARGE_POSSIBLE}"),
    ):
        found = (number(samples.of(LARGE, measure, system).mean) for system in (SERVERS, QUEUE))
        rows.append((name, theirs, *found, REAL[measure]))
    header = ("", "paper", "queue at each server", "one queue", "for real")
    yield from table(header, rows)
    yield ""
    yield from REAL["text"].splitlines()


def _figures(samples: OptionalSamples, pictures: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "## Details: Figures 4 to 8"
    yield ""
    yield "Medians over the runs, as in the paper; areas are from the least to the largest value."
    lines: list[tuple[str, str, int, str]] = [
        *((name, system, 0, BASE) for system, name in NAMES.items()),
        (f"queue at each server; {FAIR_QUEUE}", SERVERS, 0, FAIR_QUEUE),
    ]
    for place, (scenario, figure) in enumerate(FIGURES.items()):
        yield ""
        yield f"### Figure {figure}: {scenario}"
        if place < len(pictures):
            yield ""
            yield f"![Figure {figure}: {scenario}]({pictures[place]})"
        rows = []
        counts = samples.counts(scenario)
        legacy = [(f"legacy, n_submit = {n}", LEGACY, n, BASE) for n in counts]
        for name, system, submitted, variant in (*lines, *legacy):
            values = (samples.of(scenario, m, system, submitted, variant) for m in MEASURES)
            rows.append((name, *map(_median, values)))
        yield from table(("", *MEASURES.values()), rows)


def _median(sample: Sample) -> str:
    return number(sample.summary.median)


def _variants(
    samples: OptionalSamples, scale: OptionalScale, found: Sequence[Answer]
) -> Iterator[str]:
    yield ""
    yield "## Details: free choices"
    yield ""
    yield from FREE_CHOICES.splitlines()
    yield ""
    yield f"{scale.varied_seeds} runs of each. + holds, – does not hold, ? not distinguishable."
    rows = [_marks("as above", found)]
    rows.append(_marks("one queue", answer(CLAIMS, samples.in_core())))
    rows += [_marks(variant, answer(CLAIMS, samples.varied(variant))) for variant in RULES]
    yield from table(("", *(str(one.number) for one in found), "hold"), rows)
    yield ""
    yield "Completed for regular arrivals, by the overhead of a task, which is uniform from 0:"
    columns = ((SERVERS, 0), (QUEUE, 0), (LEGACY, paper.BEST_REGULAR))
    rows = []
    for name in ("up to 5 ms, as above", *OVERHEADS):
        variant = name if name in OVERHEADS else BASE
        values = [samples.of(REGULAR, "completed", s, n, variant) for s, n in columns]
        rows.append((name, *(number(value.mean) for value in values)))
    without = [samples.of(REGULAR, "completed", s, 0, NO_KILLS) for s in (SERVERS, QUEUE)]
    rows.append((f"{NO_KILLS}, up to 5 ms", *(number(value.mean) for value in without), ""))
    rows.append(("paper", str(paper.ETHIC_REGULAR), "", str(paper.LEGACY_REGULAR)))
    yield from table(("", *NAMES.values(), f"legacy, {paper.BEST_REGULAR}"), rows)


def _marks(name: str, found: Sequence[Answer]) -> tuple[str, ...]:
    held = sum(one.holds and not one.claim.always for one in found)
    return name, *(MARKS[one.verdict] for one in found), str(held)
