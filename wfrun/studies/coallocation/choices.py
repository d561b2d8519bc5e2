"""The effects of free choices (parameters and criteria that the thesis leaves open) on verdicts,
saturation and changes of the response time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from wfrun.studies.coallocation import paper
from wfrun.studies.coallocation.claims import CLAIMS, LOADED, interval
from wfrun.studies.coallocation.experiments import (
    CA,
    FCM,
    MPI,
    POISSON,
    PRIME,
    REAL,
    REAL_WITH,
    REAL_WITHOUT,
    WAVES,
    WF,
    WITH,
    WITHOUT,
    CoallocationScale,
)
from wfrun.studies.coallocation.samples import (
    READINGS,
    RESPONSE,
    CoallocationSamples,
    is_changed,
)
from wfrun.studies.coallocation.workloads import POLICIES
from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.common.verdict import Verdict

MARKS = {Verdict.HOLDS: "+", Verdict.FAILS: "–", Verdict.UNCLEAR: "?"}

_LARGE = ((WITHOUT, "without"), (WITH, "with"))
SATURATING = (
    *((MPI, workload, policy) for workload, policy in paper.SATURATION),
    *((experiment, WAVES, policy) for experiment, _ in _LARGE for policy in (FCM, CA)),
)
"""(experiment, workload, policy) for which the thesis states the saturation."""
SATURATING_NAMES = (
    *(f"{POLICIES[p]}: {'all' if p == WF else w.capitalize()}" for w, p in paper.SATURATION),
    *(f"{p.upper()}: Wave of 32 to 64 {place} Delft" for _, place in _LARGE for p in (FCM, CA)),
)
THESIS = (
    *paper.SATURATION.values(),
    *(paper.SATURATION_LARGE[place] for _, place in _LARGE for _ in (FCM, CA)),
)
"""The thesis's saturation intervals, as net utilizations in percent, in the order of
`SATURATING`."""


class FreeChoice(NamedTuple):
    """One choice that the thesis leaves open, and the results with it."""

    letter: str
    name: str
    samples: CoallocationSamples
    found: Sequence[Answer]
    """The answers to the claims with this choice."""

    @property
    def changes_responses(self) -> bool:
        """Whether the choice changes response times. A choice that changes only the criterion of
        saturation does not."""
        return self.name not in READINGS or self.samples.reading.response != RESPONSE

    @property
    def changes_saturation(self) -> bool:
        """Whether the choice may change the utilizations at which runs are saturated."""
        if self.name in READINGS:
            return not self.changes_responses
        return any(is_changed(self.name, experiment) for experiment in (MPI, WITHOUT, WITH))


def choices(s: CoallocationSamples, scale: CoallocationScale) -> list[FreeChoice]:
    """The results with each free choice: the variants of the simulation, then the readings of its
    runs."""
    known = [(variant, s.varied(variant)) for variant in scale.variants]
    known += [(name, s.read(reading)) for name, reading in READINGS.items()]
    return [
        FreeChoice(letter, name, samples, answer(CLAIMS, samples))
        for letter, (name, samples) in zip(ascii_lowercase, known, strict=False)
    ]


def causes(known: Sequence[FreeChoice], by_hand: dict[int, str]) -> dict[int, str]:
    """The cause of each claim's verdict, by the number of the claim: the free choices with which
    the claim holds, and the text in ``by_hand``. Claims without either are absent."""
    found = {}
    for number_ in range(1, len(CLAIMS) + 1):
        holding = [one.letter for one in known if one.found[number_ - 1].holds]
        parts = [f"free choice: holds with {', '.join(holding)}"] if holding else []
        parts += [by_hand[number_]] if number_ in by_hand else []
        if parts:
            found[number_] = "; ".join(parts)
    return found


def choices_section(
    s: CoallocationSamples, scale: CoallocationScale, found: Sequence[Answer],
    known: Sequence[FreeChoice],
) -> Iterator[str]:  # fmt: skip
    """The section of the page on verdicts and saturation by free choice."""
    yield from ("", "## Free choices", "")
    yield (
        "Each changes one thing, but one that is named after two. + holds, – does not hold, ? not "
        f"distinguishable. {scale.varied_seeds or 'No'} runs of each, at "
        f"{_steps(s, scale, MPI)} (Figure 2.7), {_steps(s, scale, WITH)} (2.10); the last "
        f"{len(READINGS)} measure the same runs in another way. What a choice does not change is "
        "as above. *Slowest link alone*: the communication time is in proportion to the slowest "
        "link, which gives f(2) = 2.7 and f(3) = 3.6 on average."
    )
    counted = [one for one in found if not one.claim.always]
    rows = [("", "as above", *_marks(found))]
    rows += [(one.letter, one.name, *_marks(one.found)) for one in known]
    yield from table(("", "", *(str(one.number) for one in counted), "hold"), rows)
    yield from ("", "Where half of the runs are saturated:")
    rows = [("", "thesis", *(f"{low}–{high}%" for low, high in THESIS))]
    rows += [("", "as above", *_saturations(s))]
    for one in known:
        if one.changes_saturation:
            rows.append((one.letter, one.name, *_saturations(one.samples)))
    yield from table(("", "", *SATURATING_NAMES), rows)


def _steps(s: CoallocationSamples, scale: CoallocationScale, experiment: str) -> str:
    if not scale.variants:
        return "no utilization"
    steps = s.varied(scale.variants[0]).steps(experiment, high=100)
    return ", ".join(map(str, steps)) + "%"


def _marks(found: Sequence[Answer]) -> tuple[str, ...]:
    counted = [one for one in found if not one.claim.always]
    held = sum(one.holds for one in counted)
    return *(MARKS[one.verdict] for one in counted), str(held)


def _saturations(s: CoallocationSamples) -> tuple[str, ...]:
    return tuple(interval(*s.majority(*case)) for case in SATURATING)


def changes_by_choice(s: CoallocationSamples, known: Sequence[FreeChoice]) -> Iterator[str]:
    """The table of changes of the response time by free choice, beside those of the thesis."""
    cases = [
        *((f"2.6 {w.capitalize()}", f"{paper.CHANGES[w][0]:+g}%", REAL, w, LOADED, WF, FCM)
          for w in (PRIME, POISSON, WAVES)),
        ("2.7 Prime at 75%", "above -16%", MPI, PRIME, 75, WF, FCM),
        ("2.7 Prime at 80%", "below -16%", MPI, PRIME, 80, WF, FCM),
        ("2.7 Poisson at 65%", "-5%", MPI, POISSON, 65, WF, FCM),
        ("2.7 Wave at 70%", "+50%", MPI, WAVES, 70, WF, FCM),
        *((f"CA to FCM {place} Delft at {u}%", "", experiment, WAVES, u, FCM, CA)
          for experiment, place in _LARGE for u in (40, 60)),
    ]  # fmt: skip
    yield from ("", "### Changes of the response time by free choice", "")
    yield "In percent; of Figure 2.9 the gap between FCM and CA in seconds."
    gaps = ((REAL_WITHOUT, "without"), (REAL_WITH, "with"))
    header = ["", "", *(name for name, *_ in cases)]
    header += [f"2.9 {place} Delft [s]" for _, place in gaps]
    rows = [["", "thesis", *(thesis for _, thesis, *_ in cases)]]
    rows[0] += [f"{paper.GAPS_S[place]:g}" for _, place in gaps]
    for letter, name, samples in (
        ("", "as above", s),
        *((one.letter, one.name, one.samples) for one in known if one.changes_responses),
    ):  # fmt: skip
        values = [
            number(samples.change(experiment, workload, u, after, before).mean)
            for _, _, experiment, workload, u, before, after in cases
        ]
        values += [number(samples.gap(experiment, LOADED).mean) for experiment, _ in gaps]
        rows.append([letter, name, *values])
    yield from table(header, rows)
