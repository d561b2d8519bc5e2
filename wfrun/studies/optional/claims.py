"""The claims of the paper (INRIA RR-7959, abstract, sections 5 and 7), each with a test.

"Almost ideal" unfairness is at most 0.1, "low" at most 0.7, as the paper says of its Table 2;
"maximizes" and "optimal" at least 98% of what is compared, "slightly" at most 5%, "as if" within
1%; "behaves well" is that nobody is unhappy and at least 95% of DIET-ethic's tasks are completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from wfrun.studies.common.claim import Claims, Finding, listed
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    Sample,
    Statement,
    all_of,
    any_of,
    combine,
    less,
    mean_of,
    similar,
)
from wfrun.studies.optional import paper
from wfrun.studies.optional.experiments import BASE, NO_KILLS, OptionalSamples
from wfrun.studies.optional.scenarios import (
    CONSECUTIVE,
    DIURNAL,
    LARGE,
    REGULAR,
    SCENARIOS,
    SIMULTANEOUS,
    VARIED,
)

CLAIMS: Claims[OptionalSamples] = Claims()
IDEAL, LOW = 0.1, 0.7
OPTIMAL, SLIGHTLY, AS_IF, WELL = 0.98, 0.95, 1.01, 0.95
TITLES = {DIURNAL: "Diurnal", VARIED: "Diurnal, T varies"}


def _ethic(s: OptionalSamples, measure: str, scenarios: Iterable[str] = SCENARIOS) -> str:
    return listed({scenario: s.ethic(scenario, measure) for scenario in scenarios})


def _legacy(s: OptionalSamples, scenario: str, measure: str, counts: Iterable[int]) -> str:
    return listed({f"n={n}": s.legacy(scenario, n, measure) for n in counts})


def _guessed(s: OptionalSamples, scenario: str, measure: str) -> Sample:
    """The mean of a measure over all values of n_submit, as for a client who guesses n_submit
    blindly."""
    return mean_of(s.legacy(scenario, n, measure) for n in s.counts(scenario))


@CLAIMS.add("abstract, 7", "User unhappiness can be reduced to 0", main=True)
def _nobody_unhappy(s: OptionalSamples) -> Finding:
    """Tested on the number of unhappy users, which must be 0 in each of the five scenarios."""
    statement = all_of(
        less(s.ethic(scenario, "unhappy"), 0.0, strict=False) for scenario in SCENARIOS
    )
    worst = {sc: max(s.legacy(sc, n, "unhappy").mean for n in s.counts(sc)) for sc in SCENARIOS}
    return statement, f"{_ethic(s, 'unhappy')}; legacy up to {listed(worst)}"


@CLAIMS.add("abstract, 5.1.2, 7", "Unfairness can be decreased up to 150 times: consecutive "
            "submissions, n_submit up to n_max = 1,000", main=True)  # fmt: skip
def _times_fairer(s: OptionalSamples) -> Finding:
    ethic = s.ethic(CONSECUTIVE, "unfairness")
    counts = [*s.counts(CONSECUTIVE), paper.MOST]
    statement = any_of(
        less(
            ethic,
            s.legacy(CONSECUTIVE, n, "unfairness"),
            times=1 / paper.TIMES_FAIRER,
            strict=False,
        )
        for n in counts
    )
    most = max(s.legacy(CONSECUTIVE, n, "unfairness").mean for n in counts)
    return statement, f"{number(ethic.mean)} and up to {number(most)}: {number(most / ethic.mean)}"


@CLAIMS.add("abstract", "Fairness is improved in each scenario: over a blind guess", main=True)
def _fairer(s: OptionalSamples) -> Finding:
    guessed = {sc: _guessed(s, sc, "unfairness") for sc in SCENARIOS}
    statement = all_of(less(s.ethic(sc, "unfairness"), guess) for sc, guess in guessed.items())
    return statement, f"{_ethic(s, 'unfairness')}; legacy {listed(guessed)}"


@CLAIMS.add("abstract", "The number of completed requests is improved in each scenario: over a "
            "blind guess", main=True)  # fmt: skip
def _more_completed(s: OptionalSamples) -> Finding:
    guessed = {sc: _guessed(s, sc, "completed") for sc in SCENARIOS}
    statement = all_of(less(guess, s.ethic(sc, "completed")) for sc, guess in guessed.items())
    return statement, f"{_ethic(s, 'completed')}; legacy {listed(guessed)}"


@CLAIMS.add("5.1.1", "Simultaneous: good, almost ideal fairness")
def _almost_ideal(s: OptionalSamples) -> Finding:
    value = s.ethic(SIMULTANEOUS, "unfairness")
    return less(value, IDEAL, strict=False), number(value.mean)


@CLAIMS.add("5.1.1", "Simultaneous: the number of completed requests is maximized")
def _maximized(s: OptionalSamples) -> Finding:
    value = s.ethic(SIMULTANEOUS, "completed")
    possible = paper.SERVERS * paper.DEADLINE_S / paper.TASK_S
    return less(OPTIMAL * possible, value, strict=False), f"{number(value.mean)} of {possible:.0f}"


def _suboptimal(s: OptionalSamples, scenario: str, below: int) -> Finding:
    counts = [n for n in s.counts(scenario) if n < below]
    ethic = s.ethic(scenario, "completed")
    statement = all_of(less(s.legacy(scenario, n, "completed"), ethic) for n in counts)
    return statement, f"{number(ethic.mean)}; {_legacy(s, scenario, 'completed', counts)}"


@CLAIMS.add("5.1.1", "Simultaneous: with a small n_submit (each below 100), the legacy system "
            "completes fewer")  # fmt: skip
def _small_is_suboptimal(s: OptionalSamples) -> Finding:
    return _suboptimal(s, SIMULTANEOUS, paper.IDEAL)


@CLAIMS.add("5.1.1", "Simultaneous: with a high enough n_submit it behaves fairly well")
def _fairly_well(s: OptionalSamples) -> Finding:
    """For each n_submit from 100 on: nobody is unhappy, the unfairness is almost ideal, and at
    least 98% as many tasks are completed as with DIET-ethic."""
    counts = [n for n in s.counts(SIMULTANEOUS) if n >= paper.IDEAL]
    parts: list[Statement] = []
    for n in counts:
        parts.append(less(s.legacy(SIMULTANEOUS, n, "unhappy"), 0.0, strict=False))
        parts.append(less(s.legacy(SIMULTANEOUS, n, "unfairness"), IDEAL, strict=False))
        parts.append(
            less(s.ethic(SIMULTANEOUS, "completed"), s.legacy(SIMULTANEOUS, n, "completed"),
                 times=1 / OPTIMAL, strict=False)
        )  # fmt: skip
    return all_of(parts), f"unfairness {_legacy(s, SIMULTANEOUS, 'unfairness', counts)}"


@CLAIMS.add("5.1.2", "Consecutive: below n_ideal = 100 the legacy system completes fewer")
def _below_ideal(s: OptionalSamples) -> Finding:
    return _suboptimal(s, CONSECUTIVE, paper.IDEAL)


@CLAIMS.add("5.1.2", "Consecutive: above n_ideal it makes users unhappy (each n_submit)")
def _above_ideal(s: OptionalSamples) -> Finding:
    counts = [n for n in s.counts(CONSECUTIVE) if n > paper.IDEAL]
    statement = all_of(less(0.0, s.legacy(CONSECUTIVE, n, "unhappy")) for n in counts)
    return statement, _legacy(s, CONSECUTIVE, "unhappy", counts)


@CLAIMS.add("5.1.2", "Consecutive: above n_ideal its unfairness is larger (each n_submit)")
def _above_ideal_unfair(s: OptionalSamples) -> Finding:
    counts = [n for n in s.counts(CONSECUTIVE) if n > paper.IDEAL]
    ethic = s.ethic(CONSECUTIVE, "unfairness")
    statement = all_of(less(ethic, s.legacy(CONSECUTIVE, n, "unfairness")) for n in counts)
    return statement, f"{number(ethic.mean)}; {_legacy(s, CONSECUTIVE, 'unfairness', counts)}"


@CLAIMS.add("5.1.2", "Consecutive: DIET-ethic behaves as if all users chose n_ideal")
def _as_if_ideal(s: OptionalSamples) -> Finding:
    """As many tasks are completed as with n_submit = n_ideal in the legacy system, and the
    unfairness is almost ideal."""
    pair = [s.ethic(CONSECUTIVE, "completed"), s.legacy(CONSECUTIVE, paper.IDEAL, "completed")]
    unfair = s.ethic(CONSECUTIVE, "unfairness")
    statement = all_of([similar(pair, AS_IF), less(unfair, IDEAL, strict=False)])
    return statement, (
        f"{number(pair[0].mean)} and {number(pair[1].mean)}; unfairness {number(unfair.mean)} and "
        f"{number(s.legacy(CONSECUTIVE, paper.IDEAL, 'unfairness').mean)}"
    )


BEST = paper.BEST_REGULAR


@CLAIMS.add("5.1.3", "Regular: the legacy system is the best with n_submit = 190: nobody is "
            "unhappy, and most are completed")  # fmt: skip
def _best_with_190(s: OptionalSamples) -> Finding:
    parts: list[Statement] = [less(s.legacy(REGULAR, BEST, "unhappy"), 0.0, strict=False)]
    best = s.legacy(REGULAR, BEST, "completed")
    parts += [less(s.legacy(REGULAR, n, "completed"), best) for n in s.counts(REGULAR) if n != BEST]
    return all_of(parts), _legacy(
        s, REGULAR, "completed", [n for n in s.counts(REGULAR) if n >= 150]
    )


@CLAIMS.add("5.1.3", "Regular: its unfairness is low then")
def _low_with_190(s: OptionalSamples) -> Finding:
    value = s.legacy(REGULAR, BEST, "unfairness")
    return less(value, LOW, strict=False), number(value.mean)


@CLAIMS.add("5.1.3", "Regular: it completes 1,890 then (within 1%)",
            always="the overhead of a request is chosen by this number")  # fmt: skip
def _legacy_completes(s: OptionalSamples) -> Finding:
    return _near(s.legacy(REGULAR, BEST, "completed"), paper.LEGACY_REGULAR)


@CLAIMS.add("5.1.3", "Regular: DIET-ethic completes 1,842 (within 1%)")
def _ethic_completes(s: OptionalSamples) -> Finding:
    return _near(s.ethic(REGULAR, "completed"), paper.ETHIC_REGULAR)


def _near(value: Sample, of: float) -> Finding:
    parts = [less(value, of * AS_IF, strict=False), less(of / AS_IF, value, strict=False)]
    return all_of(parts), number(value.mean)


@CLAIMS.add("5.1.3", "Regular: that is 2.5% less (2 to 3%)")
def _less_by(s: OptionalSamples) -> Finding:
    pair = (s.ethic(REGULAR, "completed"), s.legacy(REGULAR, BEST, "completed"))
    share = combine(lambda one, other: 1 - one / other, *pair)
    return all_of([less(0.02, share), less(share, 0.03)]), f"{share.mean:.1%}"


@CLAIMS.add("5.1.3", "Regular: it is less because mandatory tasks kill optional ones (at least "
            "half of the difference)")  # fmt: skip
def _because_of_kills(s: OptionalSamples) -> Finding:
    without = s.of(REGULAR, "completed", s.system, 0, NO_KILLS)
    ethic = s.of(REGULAR, "completed", s.system, 0, BASE)
    legacy = s.legacy(REGULAR, BEST, "completed")
    share = combine(lambda w, e, one: (w - e) / (one - e), without, ethic, legacy)
    return less(0.5, share, strict=False), f"{share.mean:.0%}, without kills {number(without.mean)}"


@CLAIMS.add("5.1.3", "Regular: DIET-ethic has a lower unfairness than the legacy system with 190")
def _fairer_than_190(s: OptionalSamples) -> Finding:
    pair = (s.ethic(REGULAR, "unfairness"), s.legacy(REGULAR, BEST, "unfairness"))
    return less(*pair), f"{number(pair[0].mean)} and {number(pair[1].mean)}"


@CLAIMS.add("5.1.3", "Regular: its unfairness is near-ideal")
def _near_ideal(s: OptionalSamples) -> Finding:
    value = s.ethic(REGULAR, "unfairness")
    return less(value, IDEAL, strict=False), number(value.mean)


@CLAIMS.add("5.1.3", "Regular: with each n_submit below 190 that is tried (up to 150) the legacy "
            "system completes fewer")  # fmt: skip
def _below_190(s: OptionalSamples) -> Finding:
    return _suboptimal(s, REGULAR, BEST)


@CLAIMS.add("5.1.3", "Regular: above 190 its unfairness increases (each step)")
def _increases(s: OptionalSamples) -> Finding:
    counts = [n for n in s.counts(REGULAR) if n >= BEST]
    values = [s.legacy(REGULAR, n, "unfairness") for n in counts]
    statement = all_of(less(a, b) for a, b in pairwise(values))
    return statement, _legacy(s, REGULAR, "unfairness", counts)


@CLAIMS.add(
    "5.1.3", "Regular: DIET-ethic outperforms it there in fairness (each n_submit above 190)"
)
def _outperformed(s: OptionalSamples) -> Finding:
    counts = [n for n in s.counts(REGULAR) if n > BEST]
    ethic = s.ethic(REGULAR, "unfairness")
    statement = all_of(less(ethic, s.legacy(REGULAR, n, "unfairness")) for n in counts)
    return statement, f"{number(ethic.mean)}; {_legacy(s, REGULAR, 'unfairness', counts)}"


@CLAIMS.add("5.1.3", "Regular: above 190 the number of completed requests slightly decreases "
            "(each step)")  # fmt: skip
def _slightly_decreases(s: OptionalSamples) -> Finding:
    counts = [n for n in s.counts(REGULAR) if n >= BEST]
    values = [s.legacy(REGULAR, n, "completed") for n in counts]
    slightly = less(values[0], values[-1], times=1 / SLIGHTLY, strict=False)
    statement = all_of([slightly, *(less(after, before) for before, after in pairwise(values))])
    return statement, _legacy(s, REGULAR, "completed", counts)


def _good_guess(s: OptionalSamples, scenario: str) -> dict[int, int]:
    """By seed, the n_submit with which the legacy system completes the most tasks while nobody is
    unhappy. If somebody is always unhappy, it is the smallest n_submit."""
    counts = s.counts(scenario)
    unhappy = {n: s.legacy(scenario, n, "unhappy").values for n in counts}
    completed = {n: s.legacy(scenario, n, "completed").values for n in counts}
    found = {}
    for seed in completed[counts[0]]:
        fine = [n for n in counts if not unhappy[n][seed]]
        found[seed] = max(fine or counts[:1], key=lambda n: completed[n][seed])
    return found


def _at_guess(s: OptionalSamples, scenario: str, measure: str) -> Sample:
    guess = _good_guess(s, scenario)
    return Sample({seed: s.legacy(scenario, n, measure).values[seed] for seed, n in guess.items()})


for _day in TITLES:

    @CLAIMS.add("5.1.4", f"{TITLES[_day]}: with some n_submit the legacy system behaves well")
    def _some_value(s: OptionalSamples, day: str = _day) -> Finding:
        best, ethic = _at_guess(s, day, "completed"), s.ethic(day, "completed")
        guess = sorted(_good_guess(s, day).values())
        return less(ethic, best, times=1 / WELL, strict=False), (
            f"{number(best.mean)} with n={guess[0]} to {guess[-1]}; {number(ethic.mean)}"
        )

    @CLAIMS.add("5.1.4", f"{TITLES[_day]}: DIET-ethic has a lower unfairness than that")
    def _fairer_by_day(s: OptionalSamples, day: str = _day) -> Finding:
        pair = (s.ethic(day, "unfairness"), _at_guess(s, day, "unfairness"))
        return less(*pair), f"{number(pair[0].mean)} and {number(pair[1].mean)}"

    @CLAIMS.add("5.1.4", f"{TITLES[_day]}: DIET-ethic maximizes the number of completed requests: "
                "at least 98% of that")  # fmt: skip
    def _most_by_day(s: OptionalSamples, day: str = _day) -> Finding:
        pair = (_at_guess(s, day, "completed"), s.ethic(day, "completed"))
        return less(*pair, times=1 / OPTIMAL, strict=False), (
            f"{number(pair[1].mean)} and {number(pair[0].mean)}"
        )


_NO_COSTS = "the simulation has no messages; see *Table 2 for real*"


@CLAIMS.add("5.2", "Table 2: nobody of 100 users is unhappy", always=_NO_COSTS)
def _large_unhappy(s: OptionalSamples) -> Finding:
    value = s.of(LARGE, "unhappy", s.system)
    return less(value, 0.0, strict=False), number(value.mean)


@CLAIMS.add("5.2", "Table 2: unfairness 0.70", always=_NO_COSTS)
def _large_unfairness(s: OptionalSamples) -> Finding:
    value = s.of(LARGE, "unfairness", s.system)
    return less(value, paper.LARGE_UNFAIRNESS, strict=False), number(value.mean)


@CLAIMS.add("5.2", "Table 2: 13,605 of 13,800 requests completed", always=_NO_COSTS)
def _large_completed(s: OptionalSamples) -> Finding:
    value = s.of(LARGE, "completed", s.system)
    return less(paper.LARGE_COMPLETED, value, strict=False), number(value.mean)
