"""The claims of thesis section 5.4 about its simulations, and their tests.

In our words. "Similar" and the like have no number there: see `wfrun.runners.studies.claim`.
Where a figure is "up to" something, what ours has more than the other has to be between half and
twice of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wfrun.runners.experiments.cells import SIZES
from wfrun.runners.studies.bags.experiments import BagSamples
from wfrun.runners.studies.claim import (
    IDENTICAL,
    MUCH,
    SIMILAR,
    Claims,
    Finding,
    both,
    listed,
    ranked,
    spread,
    without,
)
from wfrun.runners.studies.workflows.samples import number

CLAIMS = Claims[BagSamples]()

SHOWN = ("ect", "fplt", "rr", "wqr", "ect-p", "stfr", "fpf")
"""The seven policies of the figures; DFPLT is FPLT there."""
FAIR = ("s-u-t", "s-u-bot", "s-u-grr", "s-u-rr")
SELECTIONS = ("s-t", "s-bot", "s-u-prio", *FAIR)
MEASURES = (("makespan", "makespan_s"), ("NSL", "nsl"))
MANY = 10
"""Minimum number of bags of a class whose mean is used."""


def by_policy(s: BagSamples, measure: str, names: Iterable[str] = SHOWN, **changes: object) -> (
    dict[str, float]
):  # fmt: skip
    """Means, by policy."""
    return {name: s.mean(measure, policy=name, **changes) for name in names}


def overall(s: BagSamples, measure: str) -> dict[str, float]:
    """Means over all loads, by policy."""
    tables = [by_policy(s, measure, load=load) for load in s.scale.loads]
    return {name: _mean([table[name] for table in tables]) for name in SHOWN}


def by_selection(s: BagSamples, measure: str, load: float) -> dict[str, float]:
    """Means, by selection policy, with FPLT."""
    return {name: s.mean(measure, selection=name, load=load) for name in SELECTIONS}


def by_architecture(s: BagSamples, measure: str, load: float) -> dict[str, float]:
    """Means, by architecture, with S-T and FPLT."""
    return {a: s.mean(measure, architecture=a, load=load) for a in ("csp", "sep-c", "fcondor")}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def _above(values: Mapping[str, float], name: str) -> bool:
    """Whether a value is worse than the mean of all."""
    return values[name] > _mean(values.values())


def _near(value: float, claimed: float) -> bool:
    return claimed / 2 <= value <= claimed * 2


def _loads(s: BagSamples, least: float, most: float = 1.0) -> list[float]:
    return [load for load in s.scale.loads if least <= load <= most]


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f}%"


# The task scheduling policy

_WHERE = "5.4.1, real load"


def _sizes(s: BagSamples, measure: str) -> dict[str, float]:
    """Means over the policies under real load, by class of size with at least MANY bags."""
    found = {}
    for size, (_, name) in enumerate(SIZES):
        if size and s.bags_of_size(size, workload=s.real, load=0.25) >= MANY:
            values = (s.of_size(size, measure, workload=s.real, load=0.25, policy=p) for p in SHOWN)
            found[name] = _mean(value for value in values if value is not None)
    return found


def _average(s: BagSamples) -> float:
    return _mean(by_policy(s, "nsl", workload=s.real, load=0.25).values())


@CLAIMS.add(_WHERE, "Bags of 5-9 and 10-19 tasks have a higher NSL than the average bag")
def _(s: BagSamples) -> Finding:
    values, average = _sizes(s, "nsl"), _average(s)
    chosen = {name: values[name] for name in ("5-9", "10-19") if name in values}
    holds = bool(chosen) and min(chosen.values()) > average
    return holds, f"NSL {listed(values)}; of all bags {number(average)}"


@CLAIMS.add(_WHERE, "Bags of 2-4 and of over 200 tasks fare best: their NSL is below the average")
def _(s: BagSamples) -> Finding:
    values, average = _sizes(s, "nsl"), _average(s)
    names = ("2-4", "200-499", "500-999", "1000+")
    chosen = {name: values[name] for name in names if name in values}
    holds = bool(chosen) and max(chosen.values()) < average
    return holds, f"NSL {listed(chosen)}; of all bags {number(average)}"


@CLAIMS.add(_WHERE, "The makespan increases with the size of the bag")
def _(s: BagSamples) -> Finding:
    values = _sizes(s, "makespan_s")
    return list(values.values()) == sorted(values.values()), f"makespan {listed(values)}"


_WHERE = "5.4.1, loads 20-95%"


@CLAIMS.add(_WHERE, "ECT, FPLT and FPF have the best balance between makespan and NSL")
def _(s: BagSamples) -> Finding:
    tables = [overall(s, measure) for _, measure in MEASURES]
    means = [_mean(table.values()) for table in tables]
    values = {
        name: _mean(table[name] / mean for table, mean in zip(tables, means, strict=True))
        for name in SHOWN
    }
    return set(ranked(values)[:3]) == {"ect", "fplt", "fpf"}, (
        f"mean of both, each over that of the policies: {listed(values)}"
    )


@CLAIMS.add(_WHERE, "STFR has the best NSL overall")
def _(s: BagSamples) -> Finding:
    values = overall(s, "nsl")
    return ranked(values)[0] == "stfr", f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "STFR has an average makespan")
def _(s: BagSamples) -> Finding:
    values = overall(s, "makespan_s")
    mean = _mean(values.values())
    return spread((values["stfr"], mean)) <= SIMILAR, (
        f"{number(values['stfr'])}, mean of the policies {number(mean)}"
    )


@CLAIMS.add(_WHERE, "FPF has the lowest makespan overall")
def _(s: BagSamples) -> Finding:
    values = overall(s, "makespan_s")
    return ranked(values)[0] == "fpf", f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "FPF has a poor NSL")
def _(s: BagSamples) -> Finding:
    values = overall(s, "nsl")
    return _above(values, "fpf"), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "RR has a good makespan, but a poor NSL")
def _(s: BagSamples) -> Finding:
    makespans, nsl = overall(s, "makespan_s"), overall(s, "nsl")
    holds = not _above(makespans, "rr") and _above(nsl, "rr")
    return holds, f"makespan {listed(makespans)}; NSL {listed(nsl)}"


@CLAIMS.add(_WHERE, "WQR4x has a poor makespan and NSL, especially at high load")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = [by_policy(s, measure, load=load) for load in _loads(s, 0.8)]
        values = {name: _mean(table[name] for table in tables) for name in SHOWN}
        return _above(values, "wqr"), listed(values)

    return both((f"{name} at 80% and more", one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "ECT gets worse when run times are predicted (ECT-P)")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = overall(s, measure)
        return values["ect-p"] > values["ect"], _percent(values["ect-p"] / values["ect"])

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "ECT-P is better than the policies that know nothing, RR and WQR4x")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = overall(s, measure)
        return values["ect-p"] < min(values["rr"], values["wqr"]), listed(
            {name: values[name] for name in ("ect-p", "rr", "wqr")}
        )

    return both((name, one(measure)) for name, measure in MEASURES)


# The workload characteristics

_WHERE = "5.4.2, arrivals"


@CLAIMS.add(_WHERE, "With all bags at T=0, makespan and NSL are much higher than with the others")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        at_once = by_policy(s, measure, arrival="at-once")
        others = [by_policy(s, measure, arrival=a) for a in ("realistic", "even")]
        least = min(at_once[p] / max(table[p] for table in others) for p in SHOWN)
        return least >= MUCH, f"at least {number(least)} times"

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "Evenly spread and realistic arrivals give similar results")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        real = by_policy(s, measure, arrival="realistic")
        even = by_policy(s, measure, arrival="even")
        most = max(SHOWN, key=lambda p: spread((real[p], even[p])))
        ratio = spread((real[most], even[most]))
        return ratio <= SIMILAR, f"larger/smaller at most {number(ratio)} ({most})"

    return both((name, one(measure)) for name, measure in MEASURES)


_WHERE = "5.4.2, size"


def _growth(s: BagSamples, measure: str) -> dict[str, float]:
    """By policy: the value for the largest median size over that for the smallest."""
    sizes = s.scale.median_sizes
    first = by_policy(s, measure, median_size=sizes[0])
    last = by_policy(s, measure, median_size=sizes[-1])
    return {p: last[p] / first[p] for p in SHOWN}


@CLAIMS.add(_WHERE, "The makespan increases with the median size of the bags")
def _(s: BagSamples) -> Finding:
    growth = _growth(s, "makespan_s")
    changes = ", ".join(f"{p} {_percent(ratio)}" for p, ratio in growth.items())
    return min(growth.values()) > 1, f"from 10 to 50 tasks: {changes}"


@CLAIMS.add(_WHERE, "It increases least with ECT (37%) and FPLT (35%) and most with WQR4x (over "
            "80%)")  # fmt: skip
def _(s: BagSamples) -> Finding:
    growth = _growth(s, "makespan_s")
    order = ranked(growth)
    changes = ", ".join(f"{p} {_percent(growth[p])}" for p in ("ect", "fplt", "wqr"))
    return set(order[:2]) == {"ect", "fplt"} and order[-1] == "wqr", (
        f"{changes}; order {', '.join(order)}"
    )


@CLAIMS.add(_WHERE, "The NSL of STFR decreases with the size, that of the others does not")
def _(s: BagSamples) -> Finding:
    growth = _growth(s, "nsl")
    holds = growth["stfr"] < 1 and min(without(growth, "stfr").values()) >= 1
    return holds, ", ".join(f"{p} {_percent(ratio)}" for p, ratio in growth.items())


_WHERE = "5.4.2, run time"


@CLAIMS.add(_WHERE, "The NSL decreases as tasks run longer")
def _(s: BagSamples) -> Finding:
    times = s.scale.mean_runtimes_s
    first = by_policy(s, "nsl", mean_runtime_s=times[0])
    last = by_policy(s, "nsl", mean_runtime_s=times[-1])
    changes = {p: last[p] / first[p] for p in SHOWN}
    return max(changes.values()) < 1, (
        f"from {times[0] / 60:g} min to {times[-1] / 3600:g} h: "
        + ", ".join(f"{p} {_percent(ratio)}" for p, ratio in changes.items())
    )


# The dynamic system information

_WHERE = "5.4.3"


@CLAIMS.add(_WHERE, "Makespan and NSL vary little with the inaccuracy of estimates")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        exact = by_policy(s, measure)
        found = {
            (p, i): spread((s.mean(measure, policy=p, inaccuracy=i), exact[p]))
            for i in s.scale.inaccuracies
            for p in SHOWN
        }
        (policy, most), ratio = max(found.items(), key=lambda item: item[1])
        told_of = f"larger/smaller at most {number(ratio)} ({policy} at {most:g}%)"
        return ratio <= SIMILAR, told_of

    return both((name, one(measure)) for name, measure in MEASURES)


# The task selection policy

_WHERE = "5.4.4"


@CLAIMS.add(_WHERE, "Up to a load of 50% the selection policies are almost identical")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        ratios = [spread(by_selection(s, measure, load).values()) for load in _loads(s, 0, 0.5)]
        return max(ratios) <= IDENTICAL, f"largest/smallest at most {number(max(ratios))}"

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "For loads of more than 50% they have an important impact, which increases "
            "with the load")  # fmt: skip
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        loads = _loads(s, 0.51)
        ratios = [spread(by_selection(s, measure, load).values()) for load in loads]
        pairs = listed({f"{x:.0%}": ratio for x, ratio in zip(loads, ratios, strict=True)})
        important = ratios[0] > IDENTICAL and ratios[-1] >= MUCH
        return important and ratios == sorted(ratios), f"largest/smallest {pairs}"

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "For loads of 60% and more S-BoT is the best")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {load: by_selection(s, measure, load) for load in _loads(s, 0.6)}
        ratios = {f"{load:.0%}": t["s-bot"] / min(t.values()) for load, t in tables.items()}
        return max(ratios.values()) <= IDENTICAL, f"S-BoT/best {listed(ratios)}"

    return both((name, one(measure)) for name, measure in MEASURES)


def _most(s: BagSamples, measure: str, one: str, other: str | None = None) -> float:
    """The largest factor by which a selection policy is worse than another for loads of 60% and
    more; without another, than the worst of all."""
    tables = [by_selection(s, measure, load) for load in _loads(s, 0.6)]
    return max((max(t.values()) if other is None else t[other]) / t[one] for t in tables)


@CLAIMS.add(_WHERE, "For loads of 60% and more, the NSL (makespan) of S-BoT is up to 16 (2) times "
            "lower than that of others")  # fmt: skip
def _(s: BagSamples) -> Finding:
    nsl, makespan = _most(s, "nsl", "s-bot"), _most(s, "makespan_s", "s-bot")
    told_of = f"NSL {number(nsl)} times, makespan {number(makespan)} times"
    return _near(nsl - 1, 16 - 1) and _near(makespan - 1, 2 - 1), told_of


@CLAIMS.add(_WHERE, "For loads of 60% and more S-BoT outperforms S-T")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = {load: by_selection(s, measure, load) for load in _loads(s, 0.6)}
        ratios = {f"{load:.0%}": t["s-t"] / t["s-bot"] for load, t in tables.items()}
        return min(ratios.values()) > 1, f"S-T/S-BoT {listed(ratios)}"

    return both((name, one(measure)) for name, measure in MEASURES)


_WHERE = "5.4.4, fairness"


def _busy(s: BagSamples, measure: str) -> dict[str, float]:
    """By selection policy: the mean over the loads of 60% and more."""
    tables = [by_selection(s, measure, load) for load in _loads(s, 0.6)]
    return {name: _mean(table[name] for table in tables) for name in SELECTIONS}


@CLAIMS.add(_WHERE, "Of the four fair policies S-U-T performs best")
def _(s: BagSamples) -> Finding:
    values = {name: value for name, value in _busy(s, "nsl").items() if name in FAIR}
    holds = values["s-u-t"] <= min(values.values()) * IDENTICAL
    return holds, f"NSL, loads of 60% and more: {listed(values)}"


@CLAIMS.add(_WHERE, "S-U-BoT, with bags by arrival time, is not better than S-U-T")
def _(s: BagSamples) -> Finding:
    values = _busy(s, "nsl")
    ratio = values["s-u-bot"] / values["s-u-t"]
    return ratio >= 1 / IDENTICAL, f"NSL {_percent(ratio)}"


@CLAIMS.add(_WHERE, "S-U-GRR has an NSL that is up to 15% higher than that of S-U-T")
def _(s: BagSamples) -> Finding:
    ratio = _most(s, "nsl", "s-u-t", "s-u-grr")
    return _near(ratio - 1, 0.15), f"up to {_percent(ratio)}"


@CLAIMS.add(_WHERE, "S-U-RR has an NSL that is up to 45% higher than that of S-U-T")
def _(s: BagSamples) -> Finding:
    ratio = _most(s, "nsl", "s-u-t", "s-u-rr")
    return _near(ratio - 1, 0.45), f"up to {_percent(ratio)}"


@CLAIMS.add(_WHERE, "Fairness costs performance: all fair policies are worse than S-BoT")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = _busy(s, measure)
        fair = {name: values[name] / values["s-bot"] for name in FAIR}
        changes = ", ".join(f"{name} {_percent(ratio)}" for name, ratio in fair.items())
        return min(fair.values()) > 1, f"over S-BoT: {changes}"

    return both((name, one(measure)) for name, measure in MEASURES)


_WHERE = "5.4.4, QoS"


@CLAIMS.add(_WHERE, "S-U-Prio and S-U-RR have similar performance")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        values = _busy(s, measure)
        ratio = spread((values["s-u-prio"], values["s-u-rr"]))
        return ratio <= SIMILAR, f"larger/smaller {number(ratio)}"

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "S-U-Prio and S-U-RR are worse than S-U-GRR, by up to 20%")
def _(s: BagSamples) -> Finding:
    ratios = {name: _most(s, "nsl", "s-u-grr", name) for name in ("s-u-prio", "s-u-rr")}
    changes = ", ".join(f"{name} {_percent(ratio)}" for name, ratio in ratios.items())
    return _near(max(ratios.values()) - 1, 0.2), f"NSL up to {changes}"


# The resource management architecture

_WHERE = "5.4.5"


@CLAIMS.add(_WHERE, "The centralized architecture csp is the best")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = [by_architecture(s, measure, load) for load in s.scale.loads]
        ratios = [min(t["sep-c"], t["fcondor"]) / t["csp"] for t in tables]
        return min(ratios) >= 1, f"next/csp {_by_load(s, ratios)}"

    return both((name, one(measure)) for name, measure in MEASURES)


@CLAIMS.add(_WHERE, "The independent clusters of sep-c are the worst")
def _(s: BagSamples) -> Finding:
    def one(measure: str) -> Finding:
        tables = [by_architecture(s, measure, load) for load in s.scale.loads]
        ratios = [t["sep-c"] / max(t["csp"], t["fcondor"]) for t in tables]
        return min(ratios) >= 1, f"sep-c/next {_by_load(s, ratios)}"

    return both((name, one(measure)) for name, measure in MEASURES)


def _by_load(s: BagSamples, values: Iterable[float]) -> str:
    return listed({f"{load:.0%}": value for load, value in zip(s.scale.loads, values, strict=True)})


def _like(s: BagSamples, loads: Iterable[float], other: str) -> Finding:
    """Whether the NSL of fcondor is similar to that of another."""
    tables = {load: by_architecture(s, "nsl", load) for load in loads}
    ratios = {f"{load:.0%}": t["fcondor"] / t[other] for load, t in tables.items()}
    holds = all(1 / SIMILAR <= ratio <= SIMILAR for ratio in ratios.values())
    return holds, f"fcondor/{other} {listed(ratios)}"


@CLAIMS.add(_WHERE, "The NSL of fcondor is similar to that of csp for loads below 50% (the text "
            "has sep-c twice, here by mistake as it seems)")  # fmt: skip
def _(s: BagSamples) -> Finding:
    return _like(s, _loads(s, 0, 0.49), "csp")


@CLAIMS.add(_WHERE, "The NSL of fcondor is similar to that of sep-c for loads of 50% and more")
def _(s: BagSamples) -> Finding:
    return _like(s, _loads(s, 0.5), "sep-c")


@CLAIMS.add(_WHERE, "For loads of 50% and more fcondor and sep-c cannot complete all tasks in time "
            "as csp can")  # fmt: skip
def _(s: BagSamples) -> Finding:
    def one(load: float) -> Finding:
        shares = by_architecture(s, "completed_share", load)
        holds = max(shares["sep-c"], shares["fcondor"]) < shares["csp"] / IDENTICAL
        return holds, ", ".join(f"{name} {share:.0%}" for name, share in shares.items())

    return both((f"{load:.0%}", one(load)) for load in _loads(s, 0.5))


@CLAIMS.add(_WHERE, "At 95% they complete only 44% (fcondor) and 53% (sep-c) of the tasks")
def _(s: BagSamples) -> Finding:
    shares = by_architecture(s, "completed_share", 0.95)
    holds = abs(shares["fcondor"] - 0.44) <= 0.1 and abs(shares["sep-c"] - 0.53) <= 0.1
    return holds, ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
