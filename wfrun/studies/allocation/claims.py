"""The claims of the paper's section 6.1, in our words.

Claims are tested in each grid. The repetitions of a test are the weeks: the value of a week is its
contribution to a metric of the whole period. Weeks are paired, since all strategies have the same
jobs. Degradations are relative to the best strategy of the whole period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wfrun.studies.allocation import paper
from wfrun.studies.allocation.experiments import BY_NAME, NAMES
from wfrun.studies.allocation.samples import DETAILED, AllocationSamples
from wfrun.studies.common.claim import Claims, Finding, both, ranked
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    AtLeast,
    Sample,
    Statement,
    all_less,
    all_of,
    combine,
    less,
    mean_of,
    near,
    similar,
)

CLAIMS = Claims[AllocationSamples]()
_WHERE = "JGC 6.1"
NEGLIGIBLE = 1.01
"""Maximum ratio of makespans whose difference is negligible."""
SPREAD = 1.0004
"""Maximum ratio of sums of weighted completion times that are similar: the paper's 0.04%."""

Values = dict[str, Sample]


def _each(s: AllocationSamples, test: Callable[[str], Finding]) -> Finding:
    return both((grid, test(grid)) for grid in s.grids)


def _first(values: Values, count: int = 6, unit: str = "%") -> str:
    return ", ".join(f"{name} {number(values[name].mean)}{unit}" for name in ranked(values)[:count])


def _best(s: AllocationSamples, symbol: str) -> Finding:
    def test(grid: str) -> Finding:
        values = s.degraded_shares(grid, symbol)
        return all_less(values, paper.BEST), _first(values)

    return _each(s, test)


@CLAIMS.add(_WHERE, "MPL and LBal_S have the smallest mean waits", main=True)
def _mpl_lbal_s_smallest(s: AllocationSamples) -> Finding:
    return _best(s, "t_w")


@CLAIMS.add(_WHERE, "MPL and LBal_S have the smallest mean bounded slowdowns", main=True)
def _mpl_lbal_s_smallest_mean(s: AllocationSamples) -> Finding:
    return _best(s, "SD_b")


@CLAIMS.add(_WHERE, "MPL and LBal_S have the smallest sums of weighted completion times", main=True)
def _mpl_lbal_s_smallest_sums(s: AllocationSamples) -> Finding:
    return _best(s, "SWCT_w")


@CLAIMS.add(_WHERE, "MPL and LBal_S are the best in the mean of the three metrics", main=True)
def _mpl_lbal_s_best(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = s.mean_degraded_shares(grid)
        return all_less(values, paper.BEST), _first(values)

    return _each(s, test)


@CLAIMS.add(_WHERE, "LBal_S is worse than MPL by 19%, in the mean of the metrics and of the grids")
def _mpl_better_lbal_s(s: AllocationSamples) -> Finding:
    """*The difference in the relative performance is 19% when considering all metrics average*;
    their mean degradations in Table 4 are 0% and 19.5%."""
    return _worse_by(s, {"LBal_S": paper.WORSE_THAN_MPL["LBal_S"]})


@CLAIMS.add(
    _WHERE, "MLp and MST come next: better than the other ten in the mean of the metrics", main=True
)
def _mlp_mst_come_next(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = s.mean_degraded_shares(grid)
        rest = [name for name in values if name not in (*paper.BEST, *paper.NEXT)]
        return all_less(values, paper.NEXT, than=rest), _first(values)

    return _each(s, test)


@CLAIMS.add(
    _WHERE,
    "MWT and MLB are more than 300% worse than MPL in the mean of the metrics and of the grids",
)
def _mwt_mlb_more_300(s: AllocationSamples) -> Finding:
    """The mean "when considering all metrics average" is taken over both grids, as are the text's
    69.67% for MLp and 90.43% for MST."""
    statement = all_of(less(0.0, _above_mpl(s, name, 4.0)) for name in ("MWT", "MLB"))
    return statement, ", ".join(f"{n} {number(_above_mpl(s, n).mean)}%" for n in ("MWT", "MLB"))


def _above_mpl(s: AllocationSamples, name: str, times: float = 1.0) -> Sample:
    """``name`` less ``times`` MPL, in percent of MPL: the mean over metrics and grids."""
    tables = [s.shares(grid, symbol) for grid in s.grids for symbol in DETAILED]
    return mean_of(
        combine(lambda a, b, whole=one["MPL"].mean: 100 * (a - times * b) / whole,
                one[name], one["MPL"])
        for one in tables
    )  # fmt: skip


def _worse_by(s: AllocationSamples, claimed: Mapping[str, float]) -> Finding:
    """The finding that each strategy in ``claimed`` is worse than MPL by half to twice its claimed
    percentage."""
    found = {name: _above_mpl(s, name) for name in claimed}
    statement = all_of(near(found[name], percent) for name, percent in claimed.items())
    return statement, ", ".join(f"{name} {number(value.mean)}%" for name, value in found.items())


@CLAIMS.add(_WHERE, "Strategies with weights are on positions 9 to 14 in the mean of the metrics")
def _strategies_weights_positions_9(s: AllocationSamples) -> Finding:
    """For each of LBal_T, LBal_W, MWWT_T, MWWT_W, MWWT_S and MSWCT_W at least eight other
    strategies are better."""

    def test(grid: str) -> Finding:
        values = s.mean_degraded_shares(grid)

        def late(name: str) -> Statement:
            others = [other for other in values if other != name]
            return AtLeast(8, [less(values[other], values[name]) for other in others])

        places = ranked(values)
        where = ", ".join(f"{name} {places.index(name) + 1}" for name in paper.WEIGHTED)
        return all_of(late(name) for name in paper.WEIGHTED), f"positions of the means: {where}"

    return _each(s, test)


@CLAIMS.add(_WHERE, "Random is worse than MPL, LBal_S, MLp, MST, MWT and MLB in the mean")
def _random_worse_mpl_lbal(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = s.mean_degraded_shares(grid)
        better = (*paper.BEST, *paper.NEXT, "MWT", "MLB")
        return (
            all_of(less(values[name], values["Random"]) for name in better),
            f"Random {number(values['Random'].mean)}%",
        )

    return _each(s, test)


@CLAIMS.add(_WHERE, "MCT and MST have the smallest makespans (or equal ones)")
def _mct_mst_smallest_makespans(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = _makespans(s, grid)
        rest = [name for name in values if name not in paper.EFFICIENT]
        statement = all_of(
            less(values[a], values[b], strict=False) for a in paper.EFFICIENT for b in rest
        )
        return statement, _ratios(values, paper.EFFICIENT)

    return _each(s, test)


@CLAIMS.add(
    _WHERE,
    "Makespans of MLB, LBal_S, MLp, MPL and MWT differ from those of MCT and MST by at most 1%",
)
def _makespans_mlb_lbal_s(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = _makespans(s, grid)
        alike = (*paper.EFFICIENT, *paper.AS_EFFICIENT)
        return similar([values[name] for name in alike], NEGLIGIBLE), _ratios(values, alike)

    return _each(s, test)


def _makespans(s: AllocationSamples, grid: str) -> Values:
    """The ratio ρ of each week, by strategy: end of the last job relative to its earliest possible
    end."""
    return {name: s.week(grid, name, "ρ") for name in NAMES}


def _ratios(values: Values, names: tuple[str, ...]) -> str:
    listed = ", ".join(f"{name} {values[name].mean:.5f}" for name in names)
    return f"ρ: {listed}, least {min(v.mean for v in values.values()):.5f}"


@CLAIMS.add(
    _WHERE,
    "Sums of weighted completion times of the seven strategies with the smallest makespans differ "
    "by at most 0.04%",
)
def _sums_weighted_completion_times(s: AllocationSamples) -> Finding:
    """Tested for seven strategies only. The text states it of all strategies, but Table 4 has
    degradations of up to 28% for the others."""

    def test(grid: str) -> Finding:
        values = s.shares(grid, "SWCT_w")
        some = {name: values[name] for name in (*paper.EFFICIENT, *paper.AS_EFFICIENT)}
        means = [sample.mean for sample in some.values()]
        return similar(some.values(), SPREAD), f"{100 * (max(means) / min(means) - 1):.3f}%"

    return _each(s, test)


@CLAIMS.add(
    _WHERE, "More information does not help: MPL is not worse than any of levels 2 and 3", main=True
)
def _more_information_does_not(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        values = s.mean_degraded_shares(grid)
        informed = [name for name, policy in BY_NAME.items() if policy.level > 1]
        statement = all_of(less(values["MPL"], values[n], strict=False) for n in informed)
        return statement, _first({name: values[name] for name in ("MPL", *informed)}, 4)

    return _each(s, test)


@CLAIMS.add(
    _WHERE,
    "Distributing processor requirements gives smaller waits than distributing estimated run times "
    "or work: MPL is better than MLB, LBal_T and LBal_W",
    main=True,
)
def _distributing_processor_requirements_gives(s: AllocationSamples) -> Finding:
    def test(grid: str) -> Finding:
        waits = s.shares(grid, "t_w")
        names = ("MLB", "LBal_T", "LBal_W")
        listed = ", ".join(f"{name} {number(waits[name].mean)} s" for name in ("MPL", *names))
        return all_of(less(waits["MPL"], waits[name]) for name in names), listed

    return _each(s, test)


@CLAIMS.add(
    _WHERE,
    "MLp is worse than MPL by 69.67%, and MST by 90.43%, in the mean of the metrics and of the "
    "grids",
)
def _mlp_mst_worse_than_mpl(s: AllocationSamples) -> Finding:
    return _worse_by(s, {name: paper.WORSE_THAN_MPL[name] for name in paper.NEXT})
