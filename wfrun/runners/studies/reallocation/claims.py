"""The claims of RR-7365, section 5, and their tests.

A repetition is a seed; its value is the mean over the traces. "Half of the jobs" and other numbers
are those of the text.
"""

from __future__ import annotations

from collections.abc import Iterable

from wfrun.engine.reallocation import ALGORITHMS
from wfrun.runners.studies.claim import Claims, Finding, listed
from wfrun.runners.studies.reallocation.samples import (
    CANCELLING,
    HETEROGENEOUS,
    HOMOGENEOUS,
    MIXED,
    PLATFORMS,
    REGULAR,
    SHARED,
    TITLES,
    Platform,
    ReallocationSamples,
)
from wfrun.runners.studies.verdict import Sample, all_of, less, similar

CLAIMS: Claims[ReallocationSamples] = Claims()
_PAIRS = (("mct-reg", "mct-can"), ("minmin-reg", "minmin-can"))
_NO_DIFFERENCE = 1.1
"""Ratio up to which there is *no notable difference*: the smallest step of the text is "a few
percent"."""


def _means(
    samples: ReallocationSamples,
    platform: Platform,
    measure: str,
    names: Iterable[str] = ALGORITHMS,
) -> dict[str, Sample]:
    return {TITLES[name]: samples.mean(platform, measure, name) for name in names}


@CLAIMS.add("5.1", "More than half of the jobs are impacted on the homogeneous dedicated platform.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "impacted")
    return all_of(less(50.0, one) for one in found.values()), f"{listed(found)} %"


@CLAIMS.add("5.1", "All-cancellation moves more than twice as many jobs as the regular algorithm.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "moves")
    return (
        all_of(less(found[TITLES[a]], found[TITLES[b]], times=0.5) for a, b in _PAIRS),
        f"{listed(found)} %",
    )


@CLAIMS.add("5.1", "MinMin-can moves the most jobs.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "moves")
    most = found["MinMin-can"]
    return all_of(less(v, most) for v in found.values() if v is not most), f"{listed(found)} %"


@CLAIMS.add("5.1", "MCT-reg moves more jobs than MinMin-reg, which looks at 20 jobs only.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "moves", REGULAR)
    return less(found["MinMin-reg"], found["MCT-reg"]), f"{listed(found)} %"


@CLAIMS.add("5.1", "In almost all cases more of the impacted jobs are early than late.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "early")
    return all_of(less(50.0, one) for one in found.values()), f"{listed(found)} %"


@CLAIMS.add("5.1", "All-cancellation makes more jobs early than the regular algorithms.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "early")
    return (
        all_of(less(found[TITLES[a]], found[TITLES[b]]) for a, b in _PAIRS),
        f"{listed(found)} %",
    )


@CLAIMS.add("5.1", "MinMin-reg makes the fewest jobs early.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "early")
    fewest = found["MinMin-reg"]
    return all_of(less(fewest, v) for v in found.values() if v is not fewest), f"{listed(found)} %"


@CLAIMS.add("5.1", "The mean response time falls by 20% to 40%, except with MinMin-reg.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HOMOGENEOUS, "response", ("mct-reg", *CANCELLING))
    return _between(found, 0.6, 0.8)


@CLAIMS.add("5.1", "MinMin-reg has the highest mean response time.")
def _(samples: ReallocationSamples) -> Finding:
    return _highest(_means(samples, HOMOGENEOUS, "response"), "MinMin-reg")


@CLAIMS.add("5.2", "Fewer jobs are impacted on the heterogeneous platform, which is faster.")
def _(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "impacted", HETEROGENEOUS, HOMOGENEOUS)


@CLAIMS.add("5.2", "Fewer jobs are moved there.")
def _(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "moves", HETEROGENEOUS, HOMOGENEOUS)


@CLAIMS.add("5.2", "The regular algorithms move less than 15% of the jobs there.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "moves", REGULAR)
    return all_of(less(one, 15.0) for one in found.values()), f"{listed(found)} %"


@CLAIMS.add("5.2", "Excluding MinMin-reg, gains of the mean response time are from 10% to 40%.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "response", ("mct-reg", *CANCELLING))
    return _between(found, 0.6, 0.9)


@CLAIMS.add("5.2", "All-cancellation has a lower mean response time than its regular algorithm.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "response")
    return all_of(less(found[TITLES[b]], found[TITLES[a]]) for a, b in _PAIRS), listed(found)


@CLAIMS.add("5.2", "MCT-can is the best on average.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, HETEROGENEOUS, "response")
    best = found["MCT-can"]
    return all_of(less(best, v) for v in found.values() if v is not best), listed(found)


@CLAIMS.add("5.3", "Below 60% of the jobs are impacted where the platform is not dedicated.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "impacted")
    return all_of(less(one, 60.0) for one in found.values()), f"{listed(found)} %"


@CLAIMS.add("5.3", "Fewer are impacted than on the dedicated platform.")
def _(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "impacted", SHARED, HOMOGENEOUS)


@CLAIMS.add("5.3", "Fewer are moved than on the dedicated platform.")
def _(samples: ReallocationSamples) -> Finding:
    return _fewer(samples, "moves", SHARED, HOMOGENEOUS)


@CLAIMS.add("5.3", "The regular algorithms make more jobs early than all-cancellation.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "early")
    return (
        all_of(less(found[TITLES[b]], found[TITLES[a]]) for a, b in _PAIRS),
        f"{listed(found)} %",
    )


@CLAIMS.add("5.3", "The mean response time improves with each algorithm.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "response")
    return all_of(less(one, 1.0) for one in found.values()), listed(found)


@CLAIMS.add("5.3", "There is no notable difference between MinMin-reg and MCT-reg.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, SHARED, "response", REGULAR)
    return similar(found.values(), _NO_DIFFERENCE), listed(found)


@CLAIMS.add("5.4", "All-cancellation moves more jobs than the regular algorithms, not by far.")
def _(samples: ReallocationSamples) -> Finding:
    """More; *not by far* has no number."""
    found = _means(samples, MIXED, "moves")
    return (
        all_of(less(found[TITLES[a]], found[TITLES[b]]) for a, b in _PAIRS),
        f"{listed(found)} %",
    )


@CLAIMS.add("5.4", "More than half of the impacted jobs are early.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, MIXED, "early")
    return all_of(less(50.0, one) for one in found.values()), f"{listed(found)} %"


@CLAIMS.add("5.4", "The average gain of the response time is positive.")
def _(samples: ReallocationSamples) -> Finding:
    found = _means(samples, MIXED, "response")
    return all_of(less(one, 1.0) for one in found.values()), listed(found)


@CLAIMS.add("5.5", "With the regular algorithm MCT has a lower response time than MinMin, "
            "where the platform is dedicated.")  # fmt: skip
def _(samples: ReallocationSamples) -> Finding:
    found = {p.title: _means(samples, p, "response", REGULAR) for p in PLATFORMS[:2]}
    return (
        all_of(less(one["MCT-reg"], one["MinMin-reg"]) for one in found.values()),
        "; ".join(f"{title}: {listed(one)}" for title, one in found.items()),
    )


def _between(found: dict[str, Sample], low: float, high: float) -> Finding:
    return (
        all_of(
            bound
            for one in found.values()
            for bound in (less(low, one, strict=False), less(one, high, strict=False))
        ),
        listed(found),
    )


def _highest(found: dict[str, Sample], name: str) -> Finding:
    top = found[name]
    return all_of(less(v, top) for v in found.values() if v is not top), listed(found)


def _fewer(samples: ReallocationSamples, measure: str, one: Platform, other: Platform) -> Finding:
    fewer, more = _means(samples, one, measure), _means(samples, other, measure)
    return (
        all_of(less(fewer[name], more[name]) for name in fewer),
        f"{listed(fewer)} % after {listed(more)} %",
    )
