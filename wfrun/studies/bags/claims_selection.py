"""Claims of thesis sections 5.4.4 and 5.4.5, in our words: selection policies, architectures.

The text has no number for "similar" and the like; `wfrun.studies.common.claim` has bounds for them.
If the text says that a value is "up to" a number, ours must be between half and twice that number.
The docstring of a test quotes the words of the text that decide what is tested.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from wfrun.studies.bags.compare import (
    FAIR,
    MEASURES,
    SELECTIONS,
    by_architecture,
    by_selection,
    changes_of,
    in_both,
    loads_between,
    percent,
    ratio_of,
)
from wfrun.studies.bags.experiments import BagSamples
from wfrun.studies.common.claim import (
    IDENTICAL,
    MUCH,
    SIMILAR,
    Claims,
    Finding,
    both,
    listed,
    spread,
    without,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    Sample,
    all_less,
    all_more,
    all_of,
    combine,
    less,
    mean_of,
    near,
    similar,
)

CLAIMS = Claims[BagSamples]()


# The task selection policy

_WHERE = "5.4.4"


@CLAIMS.add(_WHERE, "Up to a load of 50% the selection policies are almost identical",
            always="no task waits up to this load, so that there is nothing to select")  # fmt: skip
def _no_task_waits_up(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = [by_selection(s, measure, load) for load in loads_between(s, 0, 0.5)]
        most = max(spread(table.values()) for table in tables)
        statement = all_of(similar(table.values(), IDENTICAL) for table in tables)
        return statement, f"largest/smallest at most {number(most)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add(_WHERE, "For loads of more than 50% the selection policies have an important impact, "
            "which increases with the load", main=True)  # fmt: skip
def _loads_more_50_they(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        ratios = {
            f"{load:.0%}": combine(
                lambda *values: max(values) / min(values), *by_selection(s, measure, load).values()
            )
            for load in loads_between(s, 0.51)
        }
        known = list(ratios.values())
        statement = all_of((
            less(IDENTICAL, known[0]),
            less(MUCH, known[-1], strict=False),
            *(less(a, b) for a, b in pairwise(known)),
        ))  # fmt: skip
        return statement, f"largest/smallest {listed(ratios)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add("5.4.4, 5.6", "For loads of 60% and more S-BoT is much better than each other "
            "selection policy", main=True)  # fmt: skip
def _loads_60_more_s(s: BagSamples) -> Finding:
    """*Select-BoT policy has much better performance than the other task selection policies*."""

    def one(measure: str) -> Finding:
        tables = {f"{load:.0%}": by_selection(s, measure, load) for load in loads_between(s, 0.6)}
        statement = all_of(
            less(t["s-bot"], other, times=1 / MUCH, strict=False)
            for t in tables.values()
            for other in without(t, "s-bot").values()
        )
        ratios = {
            load: t["s-bot"].mean / min(value.mean for value in t.values())
            for load, t in tables.items()
        }
        return statement, f"S-BoT/best {listed(ratios)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


def _most(s: BagSamples, measure: str, one: str, others: Iterable[str]) -> Sample:
    """The largest factor by which one of ``others``, at any load of 60% or more, is worse than the
    selection policy ``one``; in each repetition."""
    names = list(others)
    tables = [by_selection(s, measure, load) for load in loads_between(s, 0.6)]
    ratios = [ratio_of(t[name], t[one]) for t in tables for name in names]
    return combine(lambda *values: max(values), *ratios)


@CLAIMS.add(_WHERE, "For loads of 60% and more, the NSL (makespan) of S-BoT is up to 16 (2) times "
            "lower than that of other selection policies")  # fmt: skip
def _loads_60_more_nsl(s: BagSamples) -> Finding:
    nsl, makespan = (
        _most(s, measure, "s-bot", without(dict.fromkeys(SELECTIONS), "s-bot"))
        for measure in ("nsl", "makespan_s")
    )
    statement = all_of((near(nsl, 16), near(makespan, 2), less(1.0, makespan)))
    return statement, f"NSL {number(nsl.mean)} times, makespan {number(makespan.mean)} times"


@CLAIMS.add(_WHERE, "For loads of 60% and more S-BoT outperforms S-T")
def _loads_60_more_s_bot(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {f"{load:.0%}": by_selection(s, measure, load) for load in loads_between(s, 0.6)}
        ratios = {load: t["s-t"].mean / t["s-bot"].mean for load, t in tables.items()}
        statement = all_of(less(t["s-bot"], t["s-t"]) for t in tables.values())
        return statement, f"S-T/S-BoT {listed(ratios)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


_WHERE = "5.4.4, fairness"


def _busy(s: BagSamples, measure: str) -> dict[str, Sample]:
    """The mean over the loads of 60% and more, by selection policy."""
    tables = [by_selection(s, measure, load) for load in loads_between(s, 0.6)]
    return {name: mean_of(table[name] for table in tables) for name in SELECTIONS}


@CLAIMS.add(_WHERE, "Of the four fair policies S-U-T performs best", main=True)
def _four_fair_policies_s(s: BagSamples) -> Finding:
    values = {name: value for name, value in _busy(s, "nsl").items() if name in FAIR}
    statement = all_of(
        less(values["s-u-t"], other, times=IDENTICAL, strict=False)
        for other in without(values, "s-u-t").values()
    )
    return statement, f"NSL, loads of 60% and more: {listed(values)}"


@CLAIMS.add(_WHERE, "S-U-BoT, which orders bags by arrival time, is not better than S-U-T")
def _s_u_bot_bags(s: BagSamples) -> Finding:
    values = _busy(s, "nsl")
    change = percent(values["s-u-bot"].mean / values["s-u-t"].mean)
    statement = less(values["s-u-t"], values["s-u-bot"], times=IDENTICAL, strict=False)
    return statement, f"NSL {change}"


def _up_to(s: BagSamples, one: str, others: Iterable[str], claimed: float) -> Finding:
    """The finding that the NSL of the selection policies ``others`` exceeds that of ``one`` by up
    to the share ``claimed``, at loads of 60% and more. The largest excess must be between half and
    twice this share."""
    most = combine(lambda ratio: ratio - 1, _most(s, "nsl", one, others))
    return near(most, claimed), f"up to {percent(1 + most.mean)}"


@CLAIMS.add(_WHERE, "S-U-GRR has an NSL that is up to 15% higher than that of S-U-T")
def _s_u_grr_nsl(s: BagSamples) -> Finding:
    return _up_to(s, "s-u-t", ["s-u-grr"], 0.15)


@CLAIMS.add(_WHERE, "S-U-RR has an NSL that is up to 45% higher than that of S-U-T")
def _s_u_rr_nsl(s: BagSamples) -> Finding:
    return _up_to(s, "s-u-t", ["s-u-rr"], 0.45)


@CLAIMS.add(_WHERE, "Fairness costs performance: all fair policies are worse than S-BoT")
def _fairness_costs_performance_fair(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = _busy(s, measure)
        fair = {name: ratio_of(values[name], values["s-bot"]) for name in FAIR}
        statement = all_of(less(values["s-bot"], values[name]) for name in FAIR)
        return statement, f"over S-BoT: {changes_of(fair)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


_WHERE = "5.4.4, QoS"


@CLAIMS.add(_WHERE, "S-U-Prio and S-U-RR have similar performance")
def _s_u_prio_s(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = _busy(s, measure)
        pair = (values["s-u-prio"], values["s-u-rr"])
        return similar(pair, SIMILAR), f"larger/smaller {number(spread(pair))}"

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add(_WHERE, "S-U-Prio and S-U-RR are worse than S-U-GRR, by up to 20%")
def _s_u_prio_s_u(s: BagSamples) -> Finding:
    return _up_to(s, "s-u-grr", ("s-u-prio", "s-u-rr"), 0.2)


# The resource management architecture

_WHERE = "5.4.5"


@CLAIMS.add(_WHERE, "The centralized architecture csp is the best", main=True)
def _centralized_architecture_csp_best(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {f"{load:.0%}": by_architecture(s, measure, load) for load in s.scale.loads}
        ratios = {
            load: min(t["sep-c"].mean, t["fcondor"].mean) / t["csp"].mean
            for load, t in tables.items()
        }
        return all_of(all_less(t, ["csp"]) for t in tables.values()), f"next/csp {listed(ratios)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


@CLAIMS.add(_WHERE, "The independent clusters of sep-c are the worst", main=True)
def _independent_clusters_sep_c(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {f"{load:.0%}": by_architecture(s, measure, load) for load in s.scale.loads}
        ratios = {
            load: t["sep-c"].mean / max(t["csp"].mean, t["fcondor"].mean)
            for load, t in tables.items()
        }
        statement = all_of(all_more(t, ["sep-c"]) for t in tables.values())
        return statement, f"sep-c/next {listed(ratios)}"

    return in_both({name: one(measure) for name, measure in MEASURES})


def _like(s: BagSamples, loads: Iterable[float], other: str) -> Finding:
    """The finding that the NSL of fcondor is similar to that of the architecture ``other`` at each
    of the loads."""
    tables = {f"{load:.0%}": by_architecture(s, "nsl", load) for load in loads}
    ratios = {load: t["fcondor"].mean / t[other].mean for load, t in tables.items()}
    statement = all_of(similar((t["fcondor"], t[other]), SIMILAR) for t in tables.values())
    return statement, f"fcondor/{other} {listed(ratios)}"


@CLAIMS.add(_WHERE, "The NSL of fcondor is similar to that of csp for loads below 50% (the text "
            "names sep-c, probably by mistake)")  # fmt: skip
def _nsl_fcondor_similar_csp(s: BagSamples) -> Finding:
    return _like(s, loads_between(s, 0, 0.49), "csp")


@CLAIMS.add(_WHERE, "The NSL of fcondor is similar to that of sep-c for loads of 50% and more")
def _nsl_fcondor_similar_sep(s: BagSamples) -> Finding:
    return _like(s, loads_between(s, 0.5), "sep-c")


@CLAIMS.add(_WHERE, "For loads of 50% and more fcondor and sep-c cannot complete all tasks in "
            "time: they complete fewer than csp")  # fmt: skip
def _loads_50_more_fcondor(s: BagSamples) -> Finding:
    def one(load: float) -> Finding:
        shares = by_architecture(s, "completed_share", load)
        statement = all_of(
            less(shares[name], shares["csp"], times=1 / IDENTICAL) for name in ("sep-c", "fcondor")
        )
        return statement, ", ".join(f"{name} {share.mean:.0%}" for name, share in shares.items())

    return both((f"{load:.0%}", one(load)) for load in loads_between(s, 0.5))


@CLAIMS.add(_WHERE, "At a load of 95% fcondor completes only 44% and sep-c only 53% of the tasks")
def _95_they_complete_only(s: BagSamples) -> Finding:
    shares = by_architecture(s, "completed_share", 0.95)
    statement = all_of(
        side
        for name, claimed in (("fcondor", 0.44), ("sep-c", 0.53))
        for side in (
            less(claimed - 0.1, shares[name], strict=False),
            less(shares[name], claimed + 0.1, strict=False),
        )
    )
    return statement, ", ".join(f"{name} {share.mean:.0%}" for name, share in shares.items())
