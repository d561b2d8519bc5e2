"""Claims of thesis sections 5.4.1 to 5.4.3, in our words: policies, workloads, inaccurate
estimates.

The text has no number for "similar" and the like; `wfrun.studies.common.claim` has bounds for them.
A policy is *poor* or *good* in comparison with at least half of the other policies, because the
worst policies dominate a mean over the policies. The docstring of a test quotes the words of the
text that decide what is tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import log
from statistics import median

from wfrun.runners.experiments.cells import SIZES
from wfrun.studies.bags.compare import (
    MANY,
    MEASURES,
    SHOWN,
    by_policy,
    changes_of,
    in_both,
    loads_between,
    overall,
    percent,
    ratio_of,
)
from wfrun.studies.bags.experiments import BagSamples
from wfrun.studies.common.claim import (
    MUCH,
    SIMILAR,
    Claims,
    Finding,
    listed,
    ranked,
    spread,
    without,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    Decided,
    Sample,
    Statement,
    all_less,
    all_more,
    all_of,
    combine,
    less,
    lower_half,
    mean_of,
    near,
    similar,
    upper_half,
)

CLAIMS = Claims[BagSamples]()


# The task scheduling policy

_WHERE = "5.4.1, real load"


def _sizes(s: BagSamples, measure: str, policy: str) -> dict[str, Sample]:
    """A measure of a policy under real load, by class of bag size. Classes with fewer than MANY
    bags are absent."""
    real = {"workload": s.real, "load": 0.25}
    return {
        name: s.sample_of_size(size, measure, policy=policy, **real)
        for size, (_, name) in enumerate(SIZES)
        if size and s.bags_of_size(size, **real) >= MANY
    }


def _against_all_bags(s: BagSamples, names: Iterable[str], *, higher: bool) -> Finding:
    """The finding that with every policy, the NSL of each size class in ``names`` is higher (or
    lower, if not ``higher``) than the NSL of all bags."""
    statements: list[Statement] = []
    texts = []
    for policy in SHOWN:
        average = s.sample("nsl", policy=policy, workload=s.real, load=0.25)
        classes = _sizes(s, "nsl", policy)
        chosen = {name: classes[name] for name in names if name in classes}
        for value in chosen.values():
            statements.append(less(average, value) if higher else less(value, average))
        texts.append(f"{policy} {listed(chosen)}, all {number(average.mean)}")
    return all_of(statements) if statements else Decided(holds=False), "NSL " + "; ".join(texts)


@CLAIMS.add(_WHERE, "Bags of 5-9 and 10-19 tasks have a higher NSL than the average bag, with "
            "every policy")  # fmt: skip
def _bags_5_9_10(s: BagSamples) -> Finding:
    return _against_all_bags(s, ("5-9", "10-19"), higher=True)


@CLAIMS.add(_WHERE, "Bags of 2-4 and of over 200 tasks have a lower NSL than the average bag, with "
            "every policy")  # fmt: skip
def _bags_2_4_over(s: BagSamples) -> Finding:
    return _against_all_bags(s, ("2-4", "200-499", "500-999", "1000+"), higher=False)


@CLAIMS.add(_WHERE, "The makespan increases with the size of the bag, for the mean policy")
def _makespan_increases_size_bag(s: BagSamples) -> Finding:
    """*The average MS increases monotonically with the BoT size*."""
    tables = [_sizes(s, "makespan_s", policy) for policy in SHOWN]
    values = {name: mean_of(table[name] for table in tables) for name in tables[0]}
    known = list(values.values())
    statement = all_of(less(a, b) for a, b in pairwise(known))
    return statement, f"makespan {listed(values)}"


_WHERE = "5.4.1, loads 20-95%"


@CLAIMS.add(_WHERE, "ECT, FPLT and FPF have the best balance between makespan and NSL: the "
            "smallest products of the two")  # fmt: skip
def _ect_fplt_fpf_best(s: BagSamples) -> Finding:
    """*The (K, K) and the (K, U) policies have the best balance between MS and NSL*: policies are
    ranked by the product of makespan and NSL."""
    makespans, nsl = overall(s, "makespan_s"), overall(s, "nsl")
    values = {p: combine(lambda a, b: log(a * b), makespans[p], nsl[p]) for p in SHOWN}
    products = {p: makespans[p].mean * nsl[p].mean for p in SHOWN}
    return all_less(values, ["ect", "fplt", "fpf"]), f"makespan x NSL: {listed(products)}"


@CLAIMS.add(_WHERE, "STFR has the best NSL overall")
def _stfr_best_nsl_overall(s: BagSamples) -> Finding:
    values = overall(s, "nsl")
    return all_less(values, ["stfr"]), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "STFR has an average makespan",
            always="the makespans of all policies are within 25% of each other")  # fmt: skip
def _makespans_policies_within_25(s: BagSamples) -> Finding:
    values = overall(s, "makespan_s")
    mean = mean_of(values.values())
    return similar((values["stfr"], mean), SIMILAR), (
        f"{number(values['stfr'].mean)}, mean of the policies {number(mean.mean)}"
    )


@CLAIMS.add(_WHERE, "FPF has the lowest makespan overall")
def _fpf_lowest_makespan_overall(s: BagSamples) -> Finding:
    values = overall(s, "makespan_s")
    return all_less(values, ["fpf"]), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "FPF has a poor NSL")
def _fpf_poor_nsl(s: BagSamples) -> Finding:
    values = overall(s, "nsl")
    return upper_half(values, "fpf"), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "RR has a good makespan, but a poor NSL")
def _rr_good_makespan_but(s: BagSamples) -> Finding:
    makespans, nsl = overall(s, "makespan_s"), overall(s, "nsl")
    statement = all_of((lower_half(makespans, "rr"), upper_half(nsl, "rr")))
    return statement, f"makespan {listed(makespans)}; NSL {listed(nsl)}"


@CLAIMS.add(_WHERE, "WQR4x has a poor makespan and NSL, especially at high load: at 80% and more "
            "it is further from the median policy than at lower loads")  # fmt: skip
def _wqr_4_x_poor(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {load: by_policy(s, measure, load=load) for load in s.scale.loads}
        high_loads = loads_between(s, 0.8)
        high = [tables[load] for load in high_loads]
        values = {name: mean_of(table[name] for table in high) for name in SHOWN}
        excess = {load: _over_the_median(table, "wqr") for load, table in tables.items()}
        at_high = mean_of(excess[load] for load in high_loads)
        below = mean_of(value for load, value in excess.items() if load not in high_loads)
        statement = all_of((upper_half(values, "wqr"), less(below, at_high)))
        times = f"{number(at_high.mean)} times the median policy, below {number(below.mean)} times"
        return statement, f"{listed(values)}; {times}"

    return in_both({f"{name} at 80% and more": one(measure) for name, measure in MEASURES})


def _over_the_median(values: Mapping[str, Sample], policy: str) -> Sample:
    """A policy's value divided by the median of the other policies' values, in each repetition."""
    rest = without(values, policy).values()
    return combine(lambda own, *others: own / median(others), values[policy], *rest)


@CLAIMS.add(_WHERE, "ECT gets worse when run times are predicted (ECT-P)")
def _ect_gets_worse_when(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = overall(s, measure)
        change = percent(values["ect-p"].mean / values["ect"].mean)
        return less(values["ect"], values["ect-p"]), change

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add(_WHERE, "ECT-P is better than the policies that know nothing, RR and WQR4x", main=True)
def _ect_p_better_policies(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = overall(s, measure)
        three = {name: values[name] for name in ("ect-p", "rr", "wqr")}
        return all_less(three, ["ect-p"]), listed(three)

    return in_both({name: one(measure) for name, measure in MEASURES})


# The workload characteristics

_WHERE = "5.4.2, arrivals"


@CLAIMS.add(_WHERE, "With all bags at T=0, makespan and NSL are much higher than with other "
            "arrivals", always="all tasks wait for each other")  # fmt: skip
def _bags_t_0_makespan(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        at_once = by_policy(s, measure, arrival="at-once")
        others = [by_policy(s, measure, arrival=a) for a in ("realistic", "even")]
        statement = all_of(
            less(table[p], at_once[p], times=1 / MUCH, strict=False)
            for table in others
            for p in SHOWN
        )
        least = min(at_once[p].mean / table[p].mean for table in others for p in SHOWN)
        return statement, f"at least {number(least)} times"

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add(_WHERE, "Evenly spread and realistic arrivals give similar results")
def _evenly_spread_realistic_arrivals(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        real = by_policy(s, measure, arrival="realistic")
        even = by_policy(s, measure, arrival="even")
        ratios = {p: spread((real[p], even[p])) for p in SHOWN}
        most = ranked(ratios)[-1]
        statement = all_of(similar((real[p], even[p]), SIMILAR) for p in SHOWN)
        return statement, f"larger/smaller at most {number(ratios[most])} ({most})"

    return in_both({name: one(measure) for name, measure in MEASURES})


_WHERE = "5.4.2, size"


def _growth(s: BagSamples, measure: str) -> dict[str, Sample]:
    """The value for the largest median size divided by the value for the smallest, by policy."""
    sizes = s.scale.median_sizes
    first = by_policy(s, measure, median_size=sizes[0])
    last = by_policy(s, measure, median_size=sizes[-1])
    return {p: ratio_of(last[p], first[p]) for p in SHOWN}


@CLAIMS.add(_WHERE, "The makespan increases with the median size of the bags")
def _makespan_increases_median_size(s: BagSamples) -> Finding:
    growth = _growth(s, "makespan_s")
    statement = all_of(less(1.0, ratio) for ratio in growth.values())
    return statement, f"from 10 to 50 tasks: {changes_of(growth)}"


@CLAIMS.add(_WHERE, "The makespan increases least with ECT (by 37%) and FPLT (by 35%), and most "
            "with WQR4x (by over 80%)")  # fmt: skip
def _increases_least_ect_37(s: BagSamples) -> Finding:
    """*The MS increase ranges from 37% (35%) for ECT (FPLT) to over 80% for WQR4x*."""
    growth = _growth(s, "makespan_s")
    changes = changes_of({p: growth[p] for p in ("ect", "fplt", "wqr")})
    shares = {p: combine(lambda ratio: ratio - 1, growth[p]) for p in ("ect", "fplt", "wqr")}
    statement = all_of((
        all_less(growth, ["ect", "fplt"]), all_more(growth, ["wqr"]),
        near(shares["ect"], 0.37), near(shares["fplt"], 0.35),
        less(0.8, shares["wqr"]),
    ))  # fmt: skip
    return statement, f"{changes}; order {', '.join(ranked(growth))}"


@CLAIMS.add(_WHERE, "The NSL of STFR decreases with the median size of the bags; the NSL of no "
            "other policy does")  # fmt: skip
def _nsl_stfr_decreases_size(s: BagSamples) -> Finding:
    growth = _growth(s, "nsl")
    others = without(growth, "stfr").values()
    grows = [less(1.0, ratio, strict=False) for ratio in others]
    return all_of((less(growth["stfr"], 1.0), *grows)), changes_of(growth)


_WHERE = "5.4.2, run time"


@CLAIMS.add(_WHERE, "The NSL decreases as tasks run longer")
def _nsl_decreases_tasks_run(s: BagSamples) -> Finding:
    times = s.scale.mean_runtimes_s
    first = by_policy(s, "nsl", mean_runtime_s=times[0])
    last = by_policy(s, "nsl", mean_runtime_s=times[-1])
    changes = {p: ratio_of(last[p], first[p]) for p in SHOWN}
    statement = all_of(less(ratio, 1.0) for ratio in changes.values())
    return statement, (
        f"from {times[0] / 60:g} min to {times[-1] / 3600:g} h: {changes_of(changes)}"
    )


# The dynamic system information

_WHERE = "5.4.3"


@CLAIMS.add(_WHERE, "Makespan and NSL vary little with the inaccuracy of estimates", main=True)
def _makespan_nsl_vary_little(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        exact = by_policy(s, measure)
        found = {
            (p, i): (s.sample(measure, policy=p, inaccuracy=i), exact[p])
            for i in s.scale.inaccuracies
            for p in SHOWN
        }
        (policy, most), pair = max(found.items(), key=lambda item: spread(item[1]))
        numbers = f"larger/smaller at most {number(spread(pair))} ({policy} at {most:g}%)"
        return all_of(similar(pair, SIMILAR) for pair in found.values()), numbers

    return in_both({name: one(measure) for name, measure in MEASURES})
