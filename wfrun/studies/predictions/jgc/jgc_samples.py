"""Results of the simulations of section 6.2 of the JGC paper, and its claims about them.

The claims are paraphrased. A test case is a strategy in Grid1. A claim has to hold in every
test case; in the weaker sense (`Answer.usually`), in more than half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wfrun.studies.common.claim import Claims, Finding
from wfrun.studies.common.numbers import number
from wfrun.studies.predictions.jgc.jgc import (
    ACTUAL,
    ESTIMATE,
    FIGURES,
    STRATEGIES,
    JgcRow,
    mean_degradation,
    mean_degradation_over,
)
from wfrun.studies.predictions.part import PartSetting


class JgcSamples:
    """The degradation of each prediction model: by how many percent its results are worse than
    those with known run times, as the mean over the three metrics (`METRICS`). A test case of the
    claims is one strategy in Grid1."""

    def __init__(self, setting: PartSetting, rows: Sequence[JgcRow], every: bool) -> None:
        self.every = every
        self.rows = {(row.strategy, row.model, row.window): row for row in rows}
        self.cases = tuple(STRATEGIES) if rows else ()
        self.windows = sorted({row.window for row in rows if row.window})

    def degradation(self, strategy: str, model: str, window: int = 0) -> float:
        """Mean degradation over the metrics."""
        ideal = self.rows[strategy, ACTUAL, 0]
        return mean_degradation(self.rows[strategy, model, window], ideal)

    def by_window(self, strategy: str, model: str) -> list[float]:
        return [self.degradation(strategy, model, window) for window in self.windows]

    def of_models(self, strategy: str) -> dict[str, float]:
        """Mean degradation over the windows, of each model of the figures."""
        ideal = self.rows[strategy, ACTUAL, 0]
        return {
            model: mean_degradation_over(
                [self.rows[strategy, model, window] for window in self.windows], ideal
            )
            for model in FIGURES
        }

    def of_others(self, strategy: str) -> dict[str, float]:
        """Mean degradation over its windows, of each model that the figures do not show."""
        ideal = self.rows[strategy, ACTUAL, 0]
        rows: dict[str, list[JgcRow]] = {}
        for (case, model, _), row in self.rows.items():
            if case == strategy and model not in (ACTUAL, ESTIMATE, *FIGURES):
                rows.setdefault(model, []).append(row)
        return {model: mean_degradation_over(found, ideal) for model, found in rows.items()}

    def agree(self, findings: Mapping[str, bool]) -> bool:
        held = sum(findings.values())
        if self.every:
            return bool(findings) and held == len(findings)
        return 2 * held > len(findings)


CLAIMS = Claims[JgcSamples]()
_WHERE = "JGC 6.2"


def _found(
    s: JgcSamples, test: Callable[[str], bool], strategies: Sequence[str] = tuple(STRATEGIES)
) -> Finding:
    findings = {strategy: test(strategy) for strategy in s.cases if strategy in strategies}
    failing = [name for name, holds in findings.items() if not holds]
    text = f"in {len(findings) - len(failing)} of {len(findings)} test cases"
    if failing and len(failing) < len(findings):
        text += f"; not with {', '.join(failing)}"
    best = "; ".join(f"{name} {_listed(s, name)}" for name in findings)
    return s.agree(findings), f"{text}; degradation [%]: {best}"


def _listed(s: JgcSamples, strategy: str) -> str:
    values = {"p'": s.degradation(strategy, ESTIMATE), **s.of_models(strategy)}
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def _ranked(s: JgcSamples, strategy: str) -> list[str]:
    values = s.of_models(strategy)
    return sorted(values, key=lambda model: values[model])


@CLAIMS.add(_WHERE, "MST: Hrecent_k_p' and Hrecent_k_size&p' show the best results")
def _mst_hrecent_k_p(s: JgcSamples) -> Finding:
    return _found(s, lambda case: set(_ranked(s, case)[:2]) == {"M2", "M4"}, ["MST"])


@CLAIMS.add(_WHERE, "Same estimate and size (Hrecent_k_size&p') is better than the other histories")
def _same_estimate_size_hrecent(s: JgcSamples) -> Finding:
    return _found(s, lambda case: _ranked(s, case)[0] == "M4")


@CLAIMS.add(
    _WHERE, "The last jobs of the user, whatever they are (Hrecent_k), are the worst history"
)
def _last_jobs_user_whatever(s: JgcSamples) -> Finding:
    return _found(s, lambda case: _ranked(s, case)[-1] == "M1")


@CLAIMS.add(_WHERE, "MWT: no model is the best for every window")
def _mwt_no_model_best(s: JgcSamples) -> Finding:
    def test(case: str) -> bool:
        best = {
            min(FIGURES, key=lambda model: s.degradation(case, model, window))
            for window in s.windows
        }
        return len(best) > 1

    return _found(s, test, ["MWT"])


@CLAIMS.add(_WHERE, "A larger window improves the results of Hrecent_k_size&p'")
def _larger_window_improves_results(s: JgcSamples) -> Finding:
    def test(case: str) -> bool:
        values = s.by_window(case, "M4")
        return values[-1] < values[0]

    return _found(s, test)


@CLAIMS.add(
    _WHERE, "None of M5 to M12 is always better than the best of the four histories of the figures"
)
def _none_m_5_m(s: JgcSamples) -> Finding:
    better = [
        {model for model, value in s.of_others(case).items()
         if value < min(s.of_models(case).values())}
        for case in s.cases
    ]  # fmt: skip
    always = sorted(set.intersection(*better)) if better else []
    listed = []
    for case in s.cases:
        values = ", ".join(f"{name} {number(value)}" for name, value in s.of_others(case).items())
        listed.append(f"{case} {values}")
    return bool(better) and not always, f"degradation [%]: {'; '.join(listed)}"


@CLAIMS.add(
    _WHERE,
    "No history is better than the user's estimate, for MST and MWT, in the mean of the windows",
)
def _no_history_better_user(s: JgcSamples) -> Finding:
    """*Figure 8 indicates that there is no improvement*: the mean over the windows."""

    def test(case: str) -> bool:
        return min(s.of_models(case).values()) >= s.degradation(case, ESTIMATE)

    return _found(s, test)
