"""The claims of thesis section 7.4.4 about prediction-based grid scheduling, and their tests.

The claims are paraphrased. A claim has to hold in every repetition; in the weaker sense
(`Answer.usually`), in more than half of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from wfrun.studies.common.claim import SIMILAR, Claims, Finding, listed, spread
from wfrun.studies.predictions.grids.grid_samples import GridSamples, distance
from wfrun.studies.predictions.paper import POLICIES

CLAIMS = Claims[GridSamples]()

ECT = ("ECT-Perfect", "ECT-Last2")
OTHERS = ("LB", "FPF")
MEASURES = (("response", "response_s"), ("wait", "wait_s"), ("slowdown", "slowdown"))
BY_FAR = 2.0
"""Minimum ratio of the waits of the worst policy to those of the next worst, for *by far* the
worst."""
ALIKE = 0.25
"""Maximum share of the jobs that two similar distributions place in different clusters."""
RESEARCH, PRODUCTION = "das3", "auver"

_WHERE = "7.4.4, DAS-3"


def _value(s: GridSamples, grid: str, policy: str, measure: str, seed: int) -> float:
    return float(getattr(s.row(grid, policy, seed), measure))


def _numbers(s: GridSamples, grid: str, measures: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name} {listed(s.means(grid, m, POLICIES))}" for name, m in measures)


@CLAIMS.add(_WHERE, "ECT-Perfect performs better than LB and FPF, by response, wait and slowdown")
def _ect_perfect_performs_better(s: GridSamples) -> Finding:
    return _better(s, "ECT-Perfect")


@CLAIMS.add(_WHERE, "ECT-Last2 performs better than LB and FPF, by response, wait and slowdown")
def _ect_last_2_performs(s: GridSamples) -> Finding:
    return _better(s, "ECT-Last2")


def _better(s: GridSamples, policy: str) -> Finding:
    def test(seed: int) -> bool:
        return all(
            _value(s, RESEARCH, policy, m, seed) < _value(s, RESEARCH, other, m, seed)
            for other in OTHERS
            for _, m in MEASURES
        )

    return s.holds(test), _numbers(s, RESEARCH, MEASURES)


@CLAIMS.add(_WHERE, "LB is by far the worst: its waits are at least twice as long as those of any "
            "other policy")  # fmt: skip
def _lb_far_worst_waits(s: GridSamples) -> Finding:
    """*Especially the LB policy having very poor performance*: in Table 7.6 it waits for 4.5 times
    as long as the next, FPF."""

    def test(seed: int) -> bool:
        waits = {policy: _value(s, RESEARCH, policy, "wait_s", seed) for policy in POLICIES}
        lb = waits.pop("LB")
        return lb >= BY_FAR * max(waits.values())

    return s.holds(test), _numbers(s, RESEARCH, MEASURES[1:2])


@CLAIMS.add("7.4.4", "ECT-Perfect and ECT-Last2 perform similarly on the DAS-3 and the AuverGrid, "
            "by response, wait and slowdown", main=True)  # fmt: skip
def _ect_perfect_ect_last(s: GridSamples) -> Finding:
    found = [_alike(s, grid, ECT) for grid in (RESEARCH, PRODUCTION)]
    return all(f[0] for f in found), "; ".join(
        f"{grid}: {f[1]}" for grid, f in zip((RESEARCH, PRODUCTION), found, strict=True)
    )


def _alike(s: GridSamples, grid: str, policies: Sequence[str]) -> Finding:
    """The finding that the policies are similar in each measure."""
    found = [_similar(s, grid, policies, measure) for _, measure in MEASURES]
    texts = [f"{name} {f[1]}" for (name, _), f in zip(MEASURES, found, strict=True)]
    return all(f[0] for f in found), "; ".join(texts)


def _similar(s: GridSamples, grid: str, policies: Sequence[str], measure: str) -> Finding:
    def ratio(seed: int) -> float:
        values = [_value(s, grid, policy, measure, seed) for policy in policies]
        # Small workloads may have policies without any wait.
        return spread(values) if min(values) > 0 else inf if max(values) > 0 else 1.0

    values = listed(s.means(grid, measure, policies))
    worst = max(ratio(seed) for seed in s.seeds)
    return s.holds(lambda seed: ratio(seed) <= SIMILAR), (
        f"{values}; largest/smallest at most {worst:.2f}"
    )


@CLAIMS.add(_WHERE, "With LB about 5% of the jobs wait for more than 10,000 s")
def _lb_about_5_jobs(s: GridSamples) -> Finding:
    share = s.mean(RESEARCH, "LB", "long_waits")
    return s.holds(
        lambda seed: 0.025 <= _value(s, RESEARCH, "LB", "long_waits", seed) <= 0.10
    ), f"{share:.1%}"


@CLAIMS.add(_WHERE, "With FPF a small number of jobs does")
def _fpf_small_number_jobs(s: GridSamples) -> Finding:
    share = s.mean(RESEARCH, "FPF", "long_waits")
    return s.holds(
        lambda seed: 0 < _value(s, RESEARCH, "FPF", "long_waits", seed) < 0.05
    ), f"{share:.2%}"


_WHERE = "7.4.4, AuverGrid"


@CLAIMS.add(_WHERE, "All policies perform alike, by response, wait and slowdown", main=True)
def _policies_perform_alike_response(s: GridSamples) -> Finding:
    return _alike(s, PRODUCTION, POLICIES)


@CLAIMS.add(_WHERE, "LB is slightly better than FPF")
def _lb_slightly_better_fpf(s: GridSamples) -> Finding:
    def test(seed: int) -> bool:
        lb, fpf = (_value(s, PRODUCTION, policy, "wait_s", seed) for policy in OTHERS)
        return lb < fpf <= SIMILAR * lb

    return s.holds(test), listed(s.means(PRODUCTION, "wait_s", OTHERS))


_WHERE = "7.4.4"


@CLAIMS.add(_WHERE, "All policies perform worse on the AuverGrid, whose utilization is higher")
def _policies_perform_worse_auvergrid(s: GridSamples) -> Finding:
    def test(seed: int) -> bool:
        return all(
            _value(s, PRODUCTION, policy, "wait_s", seed)
            > _value(s, RESEARCH, policy, "wait_s", seed)
            for policy in POLICIES
        )

    waits = [f"{grid} {listed(s.means(grid, 'wait_s', POLICIES))}"
             for grid in (RESEARCH, PRODUCTION)]  # fmt: skip
    return s.holds(test), "; ".join(waits)


@CLAIMS.add(_WHERE, "ECT-Perfect and ECT-Last2 distribute jobs over clusters similarly on the "
            "AuverGrid (at most 25% of the jobs in other clusters), but not on the "
            "DAS-3")  # fmt: skip
def _ect_perfect_ect_last_2_distribute(s: GridSamples) -> Finding:
    """*The distribution of the tasks across clusters is very diverse … in DAS-3, while the policies
    distribute the jobs similarly in AUVER*."""

    def moved(grid: str, seed: int) -> float:
        return distance(*(s.row(grid, policy, seed).share for policy in ECT))

    least = min(moved(RESEARCH, seed) for seed in s.seeds)
    most = max(moved(PRODUCTION, seed) for seed in s.seeds)

    def test(seed: int) -> bool:
        return moved(PRODUCTION, seed) <= ALIKE < moved(RESEARCH, seed)

    values = f"das3 {least:.1%} or more, auver up to {most:.1%}"
    return s.holds(test), f"jobs in other clusters: {values}"
