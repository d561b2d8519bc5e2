"""The claims of thesis section 7.2.3 about run time predictions, and their tests.

The claims are paraphrased. A claim about "all" or "the" traces has to hold on every workload here;
in the weaker sense (`Answer.usually`), on more than half of them.
"""

from __future__ import annotations

from wfrun.studies.common.claim import Claims, Finding
from wfrun.studies.predictions.runtimes.runtime_samples import Choice, RuntimeSamples
from wfrun.studies.predictions.runtimes.runtimes import ACCURACIES, GENERAL, SPECIFIC
from wfrun.studies.predictions.workloads import Workload

CLAIMS = Claims[RuntimeSamples]()

ALL_OF_A_BURST = 0.9
"""Minimum share of the jobs of bursts that *all* stands for."""
HIGH = 0.9
"""Accuracy above which the text calls a prediction highly accurate."""
FEW = (0.2, 0.3)
"""Section 7.2.3: the range of the share of highly accurate predictions, on all traces but
SHARCNET."""
WITHIN = 0.02

_WHERE = "7.2.3"


def _told(samples: RuntimeSamples, findings: dict[str, bool], what: str) -> Finding:
    failing = [name for name, holds in findings.items() if not holds]
    held = len(findings) - len(failing)
    text = f"{what}: on {held} of {len(findings)} workloads"
    if failing and held:
        text += f"; not on {', '.join(failing)}"
    return samples.agree(findings), text


def _chosen(s: RuntimeSamples, workload: Workload) -> list[tuple[str, float]]:
    """(classification, accuracy of its best method) for each classification that the workload
    serves."""
    served = [c for c in (*GENERAL, SPECIFIC) if s.serves(workload, c)]
    return [(c, s.row(workload, s.best(workload, (c,))).accuracy) for c in served]


@CLAIMS.add(_WHERE, "The accuracy increases from Site to User, to User on Site and to (User + "
            "Application + Size) on Site")  # fmt: skip
def _accuracy_increases_site_user(s: RuntimeSamples) -> Finding:
    findings = {}
    for workload in s.workloads():
        values = [value for _, value in _chosen(s, workload)]
        findings[workload.title] = values == sorted(values) and values[-1] > values[0]
    return _told(s, findings, "best method of each class, never lower than in the class before")


@CLAIMS.add(_WHERE, "The most specific classification is more accurate than Site", main=True)
def _most_specific_classification_more(s: RuntimeSamples) -> Finding:
    findings = {}
    for workload in s.workloads():
        values = [value for _, value in _chosen(s, workload)]
        findings[workload.title] = values[-1] > values[0]
    return _told(s, findings, "best method of the most specific class that the workload serves")


def _dominant(s: RuntimeSamples, workload: Workload) -> set[str]:
    """Methods that are the best under every classification."""
    served = [c for c in GENERAL if s.serves(workload, c)]
    return set.intersection(*({s.best(workload, (c,)).method} for c in served))


@CLAIMS.add(_WHERE, "On the research grids DAS-2, DAS-3 and Grid'5000, Last2 is the best method "
            "under all classifications")  # fmt: skip
def _research_grids_das_2(s: RuntimeSamples) -> Finding:
    chosen = [w for w in s.workloads("research") if w.title != "SHARCNET*"]
    findings = {w.title: _dominant(s, w) == {"last2"} for w in chosen}
    best = "; ".join(f"{w.title} {_methods(s, w)}" for w in chosen)
    return s.agree(findings), f"best by class: {best}"


def _methods(s: RuntimeSamples, workload: Workload) -> str:
    return ", ".join(s.best(workload, (c,)).method for c in GENERAL)


@CLAIMS.add(_WHERE, "On the other traces no method dominates")
def _other_traces_no_method(s: RuntimeSamples) -> Finding:
    chosen = [w for w in s.workloads() if w.kind != "research" or w.title == "SHARCNET*"]
    findings = {w.title: not _dominant(s, w) for w in chosen}
    return _told(s, findings, "the best method differs between Site, User and User on Site")


@CLAIMS.add(_WHERE, "In most cases run times are predicted more accurately in research grids than "
            "in production grids")  # fmt: skip
def _most_cases_run_times(s: RuntimeSamples) -> Finding:
    research, production = (_best_accuracies(s, kind) for kind in ("research", "production"))
    pairs = [(r, p) for r in research.values() for p in production.values()]
    share = sum(r > p for r, p in pairs) / len(pairs)
    return share > 0.5, (
        f"higher in {share:.0%} of the pairs; research {_listed(research)}; production "
        f"{_listed(production)}"
    )


@CLAIMS.add(_WHERE, "In most cases their absolute errors are lower")
def _most_cases_their_absolute(s: RuntimeSamples) -> Finding:
    def errors(kind: str) -> dict[str, float]:
        return {w.title: s.row(w, s.best(w)).error_s for w in s.workloads(kind)}

    research, production = errors("research"), errors("production")
    pairs = [(r, p) for r in research.values() for p in production.values()]
    share = sum(r < p for r, p in pairs) / len(pairs)
    return share > 0.5, f"lower in {share:.0%} of the pairs"


def _best_accuracies(s: RuntimeSamples, kind: str) -> dict[str, float]:
    return {w.title: s.row(w, s.best(w)).accuracy for w in s.workloads(kind)}


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def high_share(s: RuntimeSamples, workload: Workload) -> float:
    """Share of the predictions with an accuracy above HIGH, for the best method and
    classification."""
    row = s.row(workload, s.best(workload))
    return 1 - row.accuracy_shares[ACCURACIES.index(HIGH)]


@CLAIMS.add(_WHERE, "On SHARCNET almost 70% of the predictions have an accuracy above 0.9")
def _sharcnet_almost_70_predictions(s: RuntimeSamples) -> Finding:
    (sharcnet,) = (w for w in s.workloads("research") if w.title == "SHARCNET*")
    share = high_share(s, sharcnet)
    return 0.65 <= share <= 0.75, f"{share:.0%}"


@CLAIMS.add(_WHERE, "On the other traces 20% to 30% have")
def _other_traces_20_30(s: RuntimeSamples) -> Finding:
    shares = {w.title: high_share(s, w) for w in s.workloads() if w.title != "SHARCNET*"}
    findings = {name: FEW[0] <= round(share, 2) <= FEW[1] for name, share in shares.items()}
    values = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return s.agree(findings), values


@CLAIMS.add(_WHERE, "All jobs of a burst get the same prediction: those that run do not affect it "
            "before they end")  # fmt: skip
def _jobs_burst_get_same(s: RuntimeSamples) -> Finding:
    shares = {w.title: s.row(w, _burst_choice(s, w)).burst_same for w in s.workloads()}
    findings = {name: share >= ALL_OF_A_BURST for name, share in shares.items()}
    values = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return s.agree(findings), f"share that has the prediction of the job before: {values}"


def _burst_choice(s: RuntimeSamples, workload: Workload) -> Choice:
    return Choice("last2", "user-site" if s.serves(workload, "user-site") else "site")


_WHERE = "beyond the papers"


@CLAIMS.add(_WHERE, "auto is at least as accurate as the best single method, within 2%")
def _auto_least_accurate_best(s: RuntimeSamples) -> Finding:
    ratios = {}
    for workload in s.workloads():
        found = {name: row.accuracy for name, row in s.chained(workload).items()}
        own = found.pop("auto")
        ratios[workload.title] = own / max(found.values())
    findings = {name: ratio >= 1 - WITHIN for name, ratio in ratios.items()}
    values = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return s.agree(findings), f"auto over the best of the others: {values}"
