"""The claims of RR-7365, sections 5 and 6, and their tests.

A *case* is an algorithm on a trace, one box of a figure of the paper. Its value is the mean over
the seeds. Statements are tested by their words:

- about *all* cases, or about *always*: on each case;
- about *almost all* (90%) or *most* (more than half) of the cases: on the share of the cases for
  which the statement is true, which has a value for each seed;
- about averages: on the mean over the traces, which has a value for each seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.studies.common.claim import SIMILAR, Claims, Finding, as_statement, listed
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    MeanComparison,
    Sample,
    all_of,
    any_of,
    combine,
    less,
    mean_of,
    similar,
)
from wfrun.studies.reallocation.samples import (
    CANCELLING,
    HETEROGENEOUS,
    HOMOGENEOUS,
    MIXED,
    PLATFORMS,
    REGULAR,
    SHARED,
    TITLES,
    GridCase,
    GridPlatform,
    ReallocationSamples,
)
from wfrun.studies.reallocation.traces import PWA

CLAIMS: Claims[ReallocationSamples] = Claims()
_PAIRS = (("mct-reg", "mct-can"), ("minmin-reg", "minmin-can"))
ALMOST_ALL, MOST, A_LOT = 90.0, 50.0, 25.0
"""Minimum percentage of the cases for which a statement with these words is true. For *most* it
must be exceeded."""
BY_FAR = 2.0
"""Minimum ratio of two numbers of which one is larger *by far*."""
CLOSE = 10.0
"""Maximum difference in percentage points between two percentages that are *close*, or that differ
*by a few percents*."""
_NO_CASE = "no trace of these cases is simulated"
_NO_DIFFERENCE = 1.1
"""Maximum ratio of two numbers with *no notable difference*. The smallest difference that the text
mentions is "a few percent"."""
DEDICATED, OTHERS = PLATFORMS[:2], PLATFORMS[2:]
NOT_MINMIN_REG = ("mct-reg", *CANCELLING)


def _means(
    samples: ReallocationSamples,
    platform: GridPlatform,
    measure: str,
    names: Iterable[str] = ALGORITHMS,
) -> dict[str, Sample]:
    return {TITLES[name]: samples.mean(platform, measure, name) for name in names}


def _cases(
    samples: ReallocationSamples,
    platforms: Sequence[GridPlatform],
    measure: str,
    names: Sequence[str] = ALGORITHMS,
    *,
    without: Sequence[str] = (),
) -> dict[GridCase, Sample]:
    """A measure by case, for all platforms and algorithms given. The traces ``without`` are left
    out."""
    return {
        GridCase(platform, trace, name): samples.case(platform, trace, measure, name)
        for platform in platforms
        for trace in samples.traces
        if trace not in without
        for name in names
    }


def _each(
    found: dict[GridCase, Sample], test: Callable[[Sample], Iterable[MeanComparison]]
) -> Finding:
    """The finding that in each case all statements that ``test`` makes from the measure are
    true."""
    statement = all_of(one for value in found.values() for one in test(value))
    false = [
        f"{case.title} {number(value.mean)}"
        for case, value in found.items()
        if any(one.difference.mean > 0 for one in test(value))
    ]
    return statement, _counted(len(found), false)


def _each_pair(
    samples: ReallocationSamples,
    platform: GridPlatform,
    measure: str,
    test: Callable[[Sample, Sample], MeanComparison],
    *,
    without: Sequence[tuple[str, str]] = (),
) -> Finding:
    """The finding that ``test`` is true on each trace for each pair of a regular algorithm and its
    all-cancellation variant. The (trace, regular algorithm) pairs in ``without`` are left out."""
    tested = {
        (trace, a, b): test(*(samples.case(platform, trace, measure, n) for n in (a, b)))
        for trace in samples.traces
        for a, b in _PAIRS
        if (trace, a) not in without
    }
    false = [
        f"{trace} {TITLES[a]} {number(samples.case(platform, trace, measure, a).mean)}, "
        f"{TITLES[b]} {number(samples.case(platform, trace, measure, b).mean)}"
        for (trace, a, b), one in tested.items()
        if one.difference.mean >= 0
    ]
    return all_of(tested.values()), _counted(len(tested), false)


def _counted(count: int, false: Sequence[str]) -> str:
    text = f"by the means true in {count - len(false)} of {count} cases"
    return text + (f"; not {'; '.join(false)}" if 0 < len(false) <= 6 else "")


def share(found: dict[GridCase, Sample], test: Callable[[float], bool]) -> Sample:
    """Percentage of the cases for which the test is true, in each repetition."""
    return combine(lambda *values: 100 * sum(map(test, values)) / len(values), *found.values())


def _almost_all(found: dict[GridCase, Sample], test: Callable[[float], bool]) -> Finding:
    if not found:
        return False, _NO_CASE
    true = share(found, test)
    return less(ALMOST_ALL, true, strict=False), _shared(true, len(found))


def _most(found: dict[GridCase, Sample], test: Callable[[float], bool]) -> Finding:
    if not found:
        return False, _NO_CASE
    true = share(found, test)
    return less(MOST, true), _shared(true, len(found))


def _shared(true: Sample, count: int) -> str:
    return f"true in {number(true.mean)}% of {count} cases"


_WHERE = "6"


@CLAIMS.add("abstract", "In most cases the gain of the mean response time is from 10% to 40%",
            main=True)  # fmt: skip
def _most_cases_gain_mean(samples: ReallocationSamples) -> Finding:
    return _most(_cases(samples, PLATFORMS, "response"), lambda value: 0.6 <= value <= 0.9)


@CLAIMS.add("abstract", "The simple heuristic, MCT, is often the best: by response time in at "
            "least half of the traces and platforms", main=True)  # fmt: skip
def _simple_heuristic_mct_often(samples: ReallocationSamples) -> Finding:
    groups = [_cases(samples, [p], "response") for p in PLATFORMS]
    won = [
        combine(
            lambda *values: 100.0 * (min(values[0::2]) < min(values[1::2])),
            *(groups[place][GridCase(platform, trace, name)]
              for name in ("mct-reg", "minmin-reg")),
            *(groups[place][GridCase(platform, trace, name)]
              for name in ("mct-can", "minmin-can")),
        )
        for place, platform in enumerate(PLATFORMS)
        for trace in samples.traces
    ]  # fmt: skip
    true = mean_of(won)
    return less(50.0, true, strict=False), _shared(true, len(won))


@CLAIMS.add(_WHERE, "Dedicated platforms: the cancellation of all waiting jobs is very efficient "
            "to improve the response time: a lower mean than without it", main=True)  # fmt: skip
def _dedicated_platforms_cancellation_waiting(samples: ReallocationSamples) -> Finding:
    return _pairs(samples, DEDICATED, "response", lambda regular, all_: less(all_, regular))


@CLAIMS.add(_WHERE, "Platforms that are not dedicated: the algorithm that does not cancel waiting "
            "jobs behaves better: a lower mean response time", main=True)  # fmt: skip
def _platforms_not_dedicated_algorithm(samples: ReallocationSamples) -> Finding:
    return _pairs(samples, OTHERS, "response", less)


@CLAIMS.add(_WHERE, "Users can expect more jobs finishing sooner: more early ones than late ones, "
            "with each algorithm on each platform", main=True)  # fmt: skip
def _users_can_expect_more(samples: ReallocationSamples) -> Finding:
    found = {p.title: _means(samples, p, "early") for p in PLATFORMS}
    statement = all_of(less(50.0, one) for values in found.values() for one in values.values())
    return statement, "; ".join(f"{title}: {listed(one)}" for title, one in found.items()) + " %"


@CLAIMS.add(_WHERE, "The improvement of the response time reaches more than 50%: in one case, at "
            "least", main=True)  # fmt: skip
def _improvement_response_time_reaches(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, PLATFORMS, "response")
    case = min(found, key=lambda one: found[one].mean)
    statement = any_of(less(value, 0.5) for value in found.values())
    return statement, f"largest: {case.platform.title}, {case.title} {number(found[case].mean)}"


@CLAIMS.add(_WHERE, "Only a few cases lead to an increase of the average response time: at most "
            "one in ten", main=True)  # fmt: skip
def _only_few_cases_lead(samples: ReallocationSamples) -> Finding:
    return _almost_all(_cases(samples, PLATFORMS, "response"), lambda value: value <= 1.0)


@CLAIMS.add("5.1, 6", "The percentage of impacted jobs is high: almost always more than half on "
            "the homogeneous dedicated platform", main=True)  # fmt: skip
def _percentage_impacted_jobs_high(samples: ReallocationSamples) -> Finding:
    return _almost_all(_cases(samples, [HOMOGENEOUS], "impacted"), lambda value: value > 50)


@CLAIMS.add("5.1", "Except February, all experiments have an average close to 80% or 90% of jobs "
            "impacted (from 70% to 100%)")  # fmt: skip
def _except_february_experiments_average(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [HOMOGENEOUS], "impacted", without=["February"])
    return _each(found, lambda value: [less(80 - CLOSE, value, strict=False)])


@CLAIMS.add("5.1", "All-cancellation always makes more than twice the moves of the regular "
            "algorithm")  # fmt: skip
def _cancellation_always_makes_more(samples: ReallocationSamples) -> Finding:
    return _each_pair(
        samples, HOMOGENEOUS, "moves", lambda regular, all_: less(regular, all_, times=0.5)
    )


@CLAIMS.add("5.1", "MinMin-can moves the most jobs, but only a few more than MCT-can (up to 25%)")
def _minmin_can_moves_most(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "moves")
    most = found["MinMin-can"]
    few = less(most, found["MCT-can"], times=SIMILAR, strict=False)
    return all_of([few, *(less(v, most) for v in found.values() if v is not most)]), _percent(found)


@CLAIMS.add("5.1", "MCT-reg moves more jobs than MinMin-reg, which looks at 20 jobs only")
def _mct_reg_moves_more(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "moves", REGULAR)
    return less(found["MinMin-reg"], found["MCT-reg"]), _percent(found)


@CLAIMS.add("5.1", "In almost all cases more of the impacted jobs are early than late")
def _almost_cases_more_impacted(samples: ReallocationSamples) -> Finding:
    return _almost_all(_cases(samples, [HOMOGENEOUS], "early"), lambda value: value > 50)


@CLAIMS.add("5.1", "All-cancellation makes more jobs early than the regular algorithm, except in "
            "January for MCT-reg")  # fmt: skip
def _cancellation_makes_more_jobs(samples: ReallocationSamples) -> Finding:
    return _each_pair(samples, HOMOGENEOUS, "early", less, without=[("January", "mct-reg")])


@CLAIMS.add("5.1", "MinMin-reg makes the fewest jobs early")
def _minmin_reg_makes_fewest(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "early")
    fewest = found["MinMin-reg"]
    return all_of(less(fewest, v) for v in found.values() if v is not fewest), _percent(found)


@CLAIMS.add("5.1", "The mean response time falls by 20% to 40%, except with MinMin-reg")
def _mean_response_time_falls(samples: ReallocationSamples) -> Finding:
    return _between(_means(samples, HOMOGENEOUS, "response", NOT_MINMIN_REG), 0.6, 0.8)


@CLAIMS.add("5.1", "With MCT-reg the minimum gain of the response time is 10%")
def _mct_reg_minimum_gain(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [HOMOGENEOUS], "response", ["mct-reg"])
    return _each(found, lambda value: [less(value, 0.9, strict=False)])


@CLAIMS.add("5.1", "MinMin-reg always has the highest mean response time")
def _minmin_reg_always_highest(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [HOMOGENEOUS], "response")
    worst = {t: found[GridCase(HOMOGENEOUS, t, "minmin-reg")] for t in samples.traces}
    tested = {c: less(v, worst[c.trace]) for c, v in found.items() if v is not worst[c.trace]}
    false = [f"{case.title} {number(found[case].mean)}, MinMin-reg {number(worst[case.trace].mean)}"
             for case, one in tested.items() if one.difference.mean >= 0]  # fmt: skip
    return all_of(tested.values()), _counted(len(tested), false)


@CLAIMS.add("5.2", "Fewer jobs are impacted on the heterogeneous platform, which is faster")
def _fewer_jobs_impacted_heterogeneous(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "impacted", HETEROGENEOUS, HOMOGENEOUS)


@CLAIMS.add("5.2", "The number of moves is smaller there by a factor close to 2 (1.6 to 2.5)")
def _number_moves_smaller_there(samples: ReallocationSamples) -> Finding:
    few, many = (_means(samples, p, "moves") for p in (HETEROGENEOUS, HOMOGENEOUS))
    statement = all_of(
        one
        for name in few
        for one in (
            less(few[name], many[name], times=SIMILAR / 2, strict=False),
            less(many[name], few[name], times=2 * SIMILAR, strict=False),
        )
    )
    factors = {name: many[name].mean / one.mean for name, one in few.items() if one.mean}
    return statement, f"factors {listed(factors)}"


@CLAIMS.add("5.2", "The regular algorithms move less than 15% of the jobs there, in each case")
def _regular_algorithms_move_less(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [HETEROGENEOUS], "moves", REGULAR)
    return _each(found, lambda value: [less(value, 15.0)])


@CLAIMS.add("5.2", "By jobs early the order is MCT-can, MinMin-can, MCT-reg, MinMin-reg")
def _jobs_early_order_mct(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "early")
    order = [found[name] for name in ("MinMin-reg", "MCT-reg", "MinMin-can", "MCT-can")]
    return all_of(less(a, b) for a, b in pairwise(order)), _percent(found)


@CLAIMS.add("5.2", "Excluding MinMin-reg, most gains of the response time are from 10% to 40%")
def _excluding_minmin_reg_most(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [HETEROGENEOUS], "response", NOT_MINMIN_REG)
    return _most(found, lambda value: 0.6 <= value <= 0.9)


@CLAIMS.add("5.2", "All-cancellation always has a lower mean response time than its regular "
            "algorithm, except in February for MCT-reg")  # fmt: skip
def _cancellation_always_lower_mean(samples: ReallocationSamples) -> Finding:
    return _each_pair(
        samples, HETEROGENEOUS, "response", lambda regular, all_: less(all_, regular),
        without=[("February", "mct-reg")],
    )  # fmt: skip


@CLAIMS.add("5.2", "On average, MCT-can is the best heuristic by response time")
def _average_mct_can_best(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "response")
    best = found["MCT-can"]
    return all_of(less(best, v) for v in found.values() if v is not best), listed(found)


@CLAIMS.add("5.3", "The percentage of impacted jobs usually is below 60%")
def _percentage_impacted_jobs_usually(samples: ReallocationSamples) -> Finding:
    return _most(_cases(samples, [SHARED], "impacted"), lambda value: value < 60)


@CLAIMS.add("5.3", "Fewer are impacted than on the dedicated platform")
def _fewer_impacted_dedicated_platform(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "impacted", SHARED, HOMOGENEOUS)


@CLAIMS.add("5.3", "All-cancellation moves more jobs; the difference (ratio) to the regular "
            "algorithm is smaller than on the dedicated platform")  # fmt: skip
def _cancellation_moves_more_jobs(samples: ReallocationSamples) -> Finding:
    here, there = (_ratios(samples, platform) for platform in (SHARED, HOMOGENEOUS))
    statement = all_of(
        one for name in here for one in (less(here[name], there[name]), less(1.0, here[name]))
    )
    return statement, f"{listed(here)} times; dedicated {listed(there)} times"


@CLAIMS.add("5.3", "The mean percentage of jobs early is higher than 65%")
def _mean_percentage_jobs_early(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "early")
    return less(65.0, mean_of(found.values())), _percent(found)


@CLAIMS.add("5.3", "All-cancellation makes fewer jobs early than the regular algorithms, by a few "
            "percents (up to 10)")  # fmt: skip
def _cancellation_makes_fewer_jobs(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "early")
    statement = all_of(
        one
        for a, b in _PAIRS
        for behind in [combine(lambda regular, all_: regular - all_, found[TITLES[a]],
                               found[TITLES[b]])]
        for one in (less(0.0, behind), less(behind, CLOSE, strict=False))
    )  # fmt: skip
    return statement, _percent(found)


@CLAIMS.add("5.3", "The average response time is longer than without reallocation only with June, "
            "and only by a few percents (up to 10)")  # fmt: skip
def _average_response_time_worse(samples: ReallocationSamples) -> Finding:
    rest = _each(
        _cases(samples, [SHARED], "response", without=["June"]),
        lambda value: [less(value, 1.0, strict=False)],
    )
    june = _cases(samples, [SHARED], "response", without=[t for t in samples.traces if t != "June"])
    few = _each(june, lambda value: [less(value, 1 + CLOSE / 100, strict=False)])
    return all_of(as_statement(one[0]) for one in (rest, few)), f"{rest[1]}; June: {few[1]}"


@CLAIMS.add("5.3", "In the other cases the gains are usually between 5% and 50%")
def _other_cases_gains_usually(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [SHARED], "response", without=["June"])
    return _most(found, lambda value: 0.5 <= value <= 0.95)


@CLAIMS.add("5.3", "There is no notable difference between MinMin-reg and MCT-reg")
def _there_no_notable_difference(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "response", REGULAR)
    return similar(found.values(), _NO_DIFFERENCE), listed(found)


@CLAIMS.add("5.4", "All-cancellation always moves more jobs than the regular algorithms")
def _cancellation_always_moves_more(samples: ReallocationSamples) -> Finding:
    return _each_pair(samples, MIXED, "moves", less)


@CLAIMS.add("5.4", "… but not by far: less than twice as many")
def _but_not_far_less(samples: ReallocationSamples) -> Finding:
    found = _means(samples, MIXED, "moves")
    return (
        all_of(less(found[TITLES[b]], found[TITLES[a]], times=BY_FAR) for a, b in _PAIRS),
        _percent(found),
    )


@CLAIMS.add("5.4", "In a lot of cases (a quarter, at least) less than 1% of the jobs are moved")
def _lot_cases_quarter_least(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [MIXED], "moves")
    true = share(found, lambda value: value < 1)
    return less(A_LOT, true, strict=False), _shared(true, len(found))


@CLAIMS.add("5.4", "Most experiments, except the worst one of PWA-G5K and March with MinMin-reg, "
            "have more than half of the impacted jobs early")  # fmt: skip
def _most_experiments_except_two(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [MIXED], "early")
    found.pop(GridCase(MIXED, "March", "minmin-reg"), None)
    long = [case for case in found if case.trace == PWA]
    if long:
        del found[min(long, key=lambda case: found[case].mean)]
    return _most(found, lambda value: value > 50)


@CLAIMS.add("5.4", "Most experiments have close to 70% of the impacted jobs early (60% to 80%)")
def _most_experiments_close_70(samples: ReallocationSamples) -> Finding:
    found = _cases(samples, [MIXED], "early")
    return _most(found, lambda value: abs(value - 70) <= CLOSE)


@CLAIMS.add("5.4", "All-cancellation makes fewer jobs early than the regular algorithms")
def _cancellation_makes_fewer_jobs_early(samples: ReallocationSamples) -> Finding:
    return _pairs(samples, [MIXED], "early", lambda regular, all_: less(all_, regular))


@CLAIMS.add("5.4", "On all experiments the average gain of the response time is positive")
def _experiments_average_gain_response(samples: ReallocationSamples) -> Finding:
    return _each(_cases(samples, [MIXED], "response"), lambda value: [less(value, 1.0)])


@CLAIMS.add("5.5", "With the regular algorithm MCT is clearly better than MinMin on dedicated "
            "platforms: a response time that is lower by more than a tenth")  # fmt: skip
def _regular_algorithm_mct_lower(samples: ReallocationSamples) -> Finding:
    found = {p.title: _means(samples, p, "response", REGULAR) for p in DEDICATED}
    return (
        all_of(
            less(one["MCT-reg"], one["MinMin-reg"], times=1 / _NO_DIFFERENCE)
            for one in found.values()
        ),
        "; ".join(f"{title}: {listed(one)}" for title, one in found.items()),
    )


def _percent(found: dict[str, Sample]) -> str:
    return f"{listed(found)} %"


def _ratios(samples: ReallocationSamples, platform: GridPlatform) -> dict[str, Sample]:
    """Number of moves of the all-cancellation algorithm divided by that of the regular algorithm,
    for MCT and MinMin."""
    return {
        name: combine(
            lambda regular, all_: all_ / regular if regular else 1.0,
            samples.mean(platform, "moves", a),
            samples.mean(platform, "moves", b),
        )
        for name, (a, b) in zip(("MCT", "MinMin"), _PAIRS, strict=True)
    }


def _pairs(
    samples: ReallocationSamples,
    platforms: Sequence[GridPlatform],
    measure: str,
    test: Callable[[Sample, Sample], MeanComparison],
) -> Finding:
    """The finding that ``test`` is true on each platform for each pair of a regular algorithm and
    its all-cancellation variant, on the means over the traces."""

    def statements() -> Iterator[MeanComparison]:
        for platform in platforms:
            for a, b in _PAIRS:
                yield test(*(samples.mean(platform, measure, name) for name in (a, b)))

    texts = [f"{p.title}: {listed(_means(samples, p, measure))}" for p in platforms]
    return all_of(statements()), "; ".join(texts)


def _between(found: dict[str, Sample], low: float, high: float) -> Finding:
    return (
        all_of(
            bound
            for one in found.values()
            for bound in (less(low, one, strict=False), less(one, high, strict=False))
        ),
        listed(found),
    )


def _fewer(
    samples: ReallocationSamples, measure: str, one: GridPlatform, other: GridPlatform
) -> Finding:
    fewer, more = _means(samples, one, measure), _means(samples, other, measure)
    return (
        all_of(less(fewer[name], more[name]) for name in fewer),
        f"{_percent(fewer)} after {_percent(more)}",
    )
