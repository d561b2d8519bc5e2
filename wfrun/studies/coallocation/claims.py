"""The claims of chapter 2 of the thesis on its simulations, each with a test.

The words of the claims are tested with these bounds:

- "No difference" is within 2%.
- Contention is "moderate" at net utilizations from 50 to 70%: 40% by the workload and 10 to 30% by
  other users (section 2.5.2).
- "Very advantageous" is a gain at net utilizations from 45% on, and a gain of at least 10% from 75%
  on.
- "Minor" is at most 10%, "matches" is within 5 percentage points, "almost all" is all but one in
  ten, "much larger" is by at least half.
- A number of a real experiment is met if ours is between half and twice the number.

A claim on an experiment is tested at each of its utilizations.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from wfrun.studies.coallocation import paper
from wfrun.studies.coallocation.experiments import (
    CA,
    CCRS,
    FCM,
    LIMIT,
    MPI,
    POISSON,
    PRIME,
    REAL,
    REAL_WITH,
    REAL_WITHOUT,
    SYNTHETIC,
    WAVES,
    WF,
    WITH,
    WITHOUT,
)
from wfrun.studies.coallocation.samples import CoallocationSamples
from wfrun.studies.common.claim import IDENTICAL, MUCH, Claims, Finding
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    AtLeast,
    Sample,
    Statement,
    Usual,
    all_of,
    any_of,
    combine,
    less,
    similar,
    usually_less,
)

CLAIMS: Claims[CoallocationSamples] = Claims()
ABOVE = 45
"""The lowest net utilization [%] at which co-allocation is claimed to make a difference."""
MODERATE = 50, 70
LOADED = 40
"""Net utilization of the experiments with other users [%]."""
GAIN = -10.0
MINOR = 1.1
MATCH = 5.0
FACTOR = 2.0
"""Maximum factor between a number of a real experiment and ours, in either direction."""

Values = dict[int, Sample]


def _changes(
    s: CoallocationSamples, workload: str, steps: Iterable[int], experiment: str = MPI
) -> Values:
    return {u: s.change(experiment, workload, u) for u in steps}


def _listed(values: Values, unit: str = "%") -> str:
    """At most five of the values as text, such as ``45%: -2.1%, 65%: -5%, 90%: -30%``."""
    known = list(values)
    few = known if len(known) <= 5 else [known[i * (len(known) - 1) // 4] for i in range(5)]
    return ", ".join(f"{u}%: {number(values[u].mean)}{unit}" for u in few)


def _gains(values: Values) -> Finding:
    """The finding that the change of the response time is negative at each utilization."""
    return all_of(less(v, 0.0) for v in values.values()), _listed(values)


def _losses(values: Values) -> Finding:
    """The finding that the change of the response time is positive at each utilization."""
    return all_of(less(0.0, v) for v in values.values()), _listed(values)


@CLAIMS.add(
    "2.9", "The run time of one application grows with the number of clusters", main=True,
    always="run times are given",
)  # fmt: skip
def _run_time_grows(s: CoallocationSamples) -> Finding:
    return True, ""


@CLAIMS.add(
    "2.9", "Co-allocation is very advantageous for computation-intensive applications (Prime)",
    main=True,
)  # fmt: skip
def _computation_gains(s: CoallocationSamples) -> Finding:
    values = _changes(s, PRIME, s.steps(MPI, ABOVE))
    parts = [less(v, GAIN if u >= 75 else 0.0) for u, v in values.items()]
    return all_of(parts), _listed(values)


@CLAIMS.add(
    "2.9", "It is advantageous for applications with a low slowdown (Poisson) if contention is "
    "moderate", main=True,
)  # fmt: skip
def _low_slowdown_gains(s: CoallocationSamples) -> Finding:
    return _gains(_changes(s, POISSON, s.steps(MPI, *MODERATE)))


@CLAIMS.add(
    "2.9", "It is disadvantageous for very communication-intensive applications (Wave)", main=True
)
def _communication_loses(s: CoallocationSamples) -> Finding:
    return _losses(_changes(s, WAVES, s.steps(MPI, ABOVE)))


@CLAIMS.add(
    "2.9", "Latencies in the choice of clusters shorten responses where they vary much: CA is "
    "better than FCM with Delft", main=True,
)  # fmt: skip
def _latency_helps(s: CoallocationSamples) -> Finding:
    return _ca_better(s, WITH)


def _ca_better(s: CoallocationSamples, experiment: str) -> Finding:
    """The finding that CA is better than FCM at almost all utilizations."""
    steps = s.steps(experiment)
    values = {u: s.change(experiment, WAVES, u, CA, FCM) for u in steps}
    count = len(steps) - len(steps) // 10
    return AtLeast(count, [less(v, 0.0) for v in values.values()]), _listed(values)


for _workload in (PRIME, POISSON, WAVES):

    @CLAIMS.add("2.5.3", f"No difference up to 40%: {_workload.capitalize()}")
    def _no_difference(s: CoallocationSamples, workload: str = _workload) -> Finding:
        steps = s.steps(MPI, high=40)
        pairs = ([s.of(MPI, workload, policy, u) for policy in (WF, FCM)] for u in steps)
        values = _changes(s, workload, steps)
        return all_of(similar(pair, IDENTICAL) for pair in pairs), _listed(values)


@CLAIMS.add("2.5.3", "The gain of Prime grows with the contention")
def _gain_grows(s: CoallocationSamples) -> Finding:
    values = _changes(s, PRIME, s.steps(MPI, 40))
    parts = [less(values[after], values[before]) for before, after in pairwise(values)]
    return all_of(parts), _listed(values)


def _between(
    s: CoallocationSamples, experiment: str, workload: str, policy: str, low: int, high: int
) -> tuple[list[Statement], str]:
    """Statements, and their numbers as text: fewer than half of the runs are saturated at the net
    utilization ``low``, and more than half at ``high``."""
    before, after = (s.saturated(experiment, workload, policy, u) for u in (low, high))
    begins = interval(*s.majority(experiment, workload, policy))
    text = (
        f"{begins}; saturated {100 * before.mean:.0f}% of the runs at {low}, "
        f"{100 * after.mean:.0f}% at {high}"
    )
    return [Usual(_minus(before)), Usual(_minus(after, -1.0))], text


def interval(before: int, after: int | None) -> str:
    """An interval of net utilizations as text, such as ``80–85%``, or ``above 80%`` if it has no
    upper end."""
    return f"above {before}%" if after is None else f"{before}–{after}%"


def _minus(saturated: Sample, sign: float = 1.0) -> Sample:
    """For each run, a value that is negative if the run is not saturated and positive if it is.
    ``sign`` -1 exchanges the two."""
    return Sample({seed: sign * (value - 0.5) for seed, value in saturated.values.items()})


for (_workload, _policy), (_low, _high) in paper.SATURATION.items():
    _name = {WF: "WF", FCM: "FCM", LIMIT: "FCM [Limit:2]"}[_policy]

    @CLAIMS.add("Table 2.3", f"{_name} {_workload.capitalize()} saturates at {_low}–{_high}%")
    def _saturates(
        s: CoallocationSamples, workload: str = _workload, policy: str = _policy,
        low: int = _low, high: int = _high,
    ) -> Finding:  # fmt: skip
        parts, text = _between(s, MPI, workload, policy, low, high)
        return all_of(parts), text


def _saturates_before(s: CoallocationSamples, workload: str, early: str, late: str) -> Finding:
    """The finding that in most repetitions, runs under the policy ``early`` are saturated from a
    lower utilization on than runs under ``late``."""
    onsets = {policy: s.onset(MPI, workload, policy) for policy in (early, late)}
    text = ", ".join(f"{policy.upper()} {number(v.mean)}%" for policy, v in onsets.items())
    return usually_less(onsets[early], onsets[late]), f"mean onset {text}"


@CLAIMS.add("2.5.3", "Prime saturates at lower utilizations without co-allocation")
def _prime_later(s: CoallocationSamples) -> Finding:
    return _saturates_before(s, PRIME, WF, FCM)


@CLAIMS.add("2.5.3", "Poisson gains up to 75%")
def _poisson_gains(s: CoallocationSamples) -> Finding:
    return _gains(_changes(s, POISSON, s.steps(MPI, ABOVE, 75)))


@CLAIMS.add("2.5.3", "Poisson loses beyond 75%")
def _poisson_loses(s: CoallocationSamples) -> Finding:
    return _losses(_changes(s, POISSON, s.steps(MPI, 80)))


@CLAIMS.add(
    "2.5.3", "Co-allocation raises the observed utilization of Wave",
    always="run times over several clusters are longer",
)  # fmt: skip
def _observed_above_net(s: CoallocationSamples) -> Finding:
    return True, ", ".join(
        f"{u}%: {100 * s.of(MPI, WAVES, FCM, u, 'used').mean:.0f}%" for u in (40, 60, 70, 80)
    )


@CLAIMS.add("2.5.3", "Wave saturates early with co-allocation")
def _wave_earlier(s: CoallocationSamples) -> Finding:
    return _saturates_before(s, WAVES, FCM, WF)


@CLAIMS.add("2.5.3", "Limit:2 has shorter responses than no limit")
def _limit_better(s: CoallocationSamples) -> Finding:
    return _gains({u: s.change(MPI, WAVES, u, LIMIT, FCM) for u in s.steps(MPI, ABOVE)})


@CLAIMS.add("2.5.3", "The benefit of Limit:2 is minor")
def _limit_minor(s: CoallocationSamples) -> Finding:
    parts = [
        less(s.of(MPI, WAVES, FCM, u), s.of(MPI, WAVES, LIMIT, u), times=MINOR, strict=False)
        for u in s.steps(MPI, ABOVE)
    ]
    return all_of(parts), _listed(
        {u: s.change(MPI, WAVES, u, LIMIT, FCM) for u in s.steps(MPI, ABOVE)}
    )


for _workload, (_change, _low, _high) in paper.CHANGES.items():
    _at = f"{_low}%" if _low == _high else f"{_low}–{_high}%"

    @CLAIMS.add("Table 2.4", f"{_workload.capitalize()} changes by {_change:+g}% at {_at}")
    def _matches_real(
        s: CoallocationSamples, workload: str = _workload, change: float = _change,
        low: int = _low, high: int = _high,
    ) -> Finding:  # fmt: skip
        """Reached within the interval, or within a step of 5% of the value."""
        if low == high:
            low, high = low - 5, high + 5
        first, last = (s.change(MPI, workload, u) for u in (low, high))
        # Prime gains more with the load, Wave loses more. Poisson passes its minimum.
        if change == paper.CHANGES[POISSON][0]:
            near = [s.change(MPI, workload, u) for u in range(low, high + 1, 5)]
            parts: Statement = any_of(_met(value, change) for value in near)
        elif change < 0:
            parts = all_of((less(change, first, strict=False), less(last, change, strict=False)))
        else:
            parts = all_of((less(first, change, strict=False), less(change, last, strict=False)))
        values = {u: s.change(MPI, workload, u) for u in range(low, high + 1, 5)}
        return parts, _listed(values)


def _met(value: Sample, wanted: float) -> Statement:
    """The statement that a mean is between half of ``wanted`` and its double. ``wanted`` may be
    negative."""
    least, most = sorted((wanted / FACTOR, wanted * FACTOR))
    return all_of((less(least, value, strict=False), less(value, most, strict=False)))


@CLAIMS.add("2.5.3", "CCR 0.1 always gains")
def _low_ccr(s: CoallocationSamples) -> Finding:
    return _gains(_changes(s, "ccr 0.1", s.steps(SYNTHETIC, ABOVE), SYNTHETIC))


for _ccr in ("ccr 0.25", "ccr 0.5"):

    @CLAIMS.add("2.5.3", f"{_ccr.upper()} gains to a certain extent, and loses after some point")
    def _middle_ccr(s: CoallocationSamples, ccr: str = _ccr) -> Finding:
        values = _changes(s, ccr, s.steps(SYNTHETIC, ABOVE), SYNTHETIC)
        gains = any_of(less(v, 0.0) for v in values.values())
        return all_of((gains, less(0.0, values[max(values)]))), _listed(values)


for _ccr in (name for name, ccr in CCRS.items() if ccr > 0.5):

    @CLAIMS.add("2.5.3", f"{_ccr.upper()}, above 0.5, loses (severely, without a number)")
    def _high_ccr(s: CoallocationSamples, ccr: str = _ccr) -> Finding:
        return _losses(_changes(s, ccr, s.steps(SYNTHETIC, ABOVE), SYNTHETIC))


@CLAIMS.add("2.5.3", "W-Prime matches CCR 0.1")
def _prime_matches(s: CoallocationSamples) -> Finding:
    values = {
        u: combine(lambda a, b: a - b, s.change(SYNTHETIC, "ccr 0.1", u), s.change(MPI, PRIME, u))
        for u in s.steps(SYNTHETIC)
        if u in s.steps(MPI)
    }
    parts = [part for v in values.values() for part in (less(v, MATCH), less(-MATCH, v))]
    return all_of(parts), f"CCR 0.1 minus Prime {_listed(values, ' points')}"


@CLAIMS.add(
    "2.5.3", "W-Poisson matches CCR 0.25, W-Wave CCR 4", always="their run times are defined so"
)
def _others_match(s: CoallocationSamples) -> Finding:
    return True, ""


def _loaded_changes(s: CoallocationSamples) -> dict[str, Sample]:
    return {w: s.change(REAL, w, LOADED) for w in (PRIME, POISSON, WAVES)}


def _named(values: dict[str, Sample], unit: str = "%") -> str:
    return ", ".join(f"{name} {number(v.mean)}{unit}" for name, v in values.items())


@CLAIMS.add("2.5.2", "With other users Prime and Poisson gain at 40%")
def _loaded_gain(s: CoallocationSamples) -> Finding:
    values = _loaded_changes(s)
    return all_of(less(values[w], 0.0) for w in (PRIME, POISSON)), _named(values)


@CLAIMS.add("2.5.2", "With other users Wave loses at 40%")
def _loaded_loss(s: CoallocationSamples) -> Finding:
    values = _loaded_changes(s)
    return less(0.0, values[WAVES]), _named(values)


@CLAIMS.add("2.5.2", "The waits of Wave get longer, too")
def _loaded_waits(s: CoallocationSamples) -> Finding:
    waits = {p.upper(): s.of(REAL, WAVES, p, LOADED, "wait_s") for p in (WF, FCM)}
    return less(waits["WF"], waits["FCM"]), _named(waits, " s")


@CLAIMS.add("2.5.2", "Less than 30% of the jobs are co-allocated")
def _few_coallocated(s: CoallocationSamples) -> Finding:
    values = {w: s.of(REAL, w, FCM, LOADED, "coallocated") for w in (PRIME, POISSON, WAVES)}
    return all_of(less(v, paper.COALLOCATED) for v in values.values()), _named(values, "")


for _workload, (_change, _, _) in paper.CHANGES.items():

    @CLAIMS.add("Table 2.4", f"With other users {_workload.capitalize()} changes by {_change:+g}%")
    def _loaded_number(
        s: CoallocationSamples, workload: str = _workload, change: float = _change
    ) -> Finding:
        value = s.change(REAL, workload, LOADED)
        return _met(value, change), f"{number(value.mean)}%"


for _experiment, _place, _gap in (
    (REAL_WITHOUT, "without", paper.GAPS_S["without"]),
    (REAL_WITH, "with", paper.GAPS_S["with"]),
):

    @CLAIMS.add("2.6.1", f"CA is {_gap:g} s better than FCM {_place} Delft, jobs of 64")
    def _gap_of_real(
        s: CoallocationSamples, experiment: str = _experiment, gap: float = _gap
    ) -> Finding:
        value = s.gap(experiment, LOADED)
        return _met(value, gap), f"{number(value.mean)} s"


@CLAIMS.add("2.6.2", "CA is better than FCM at almost all utilizations without Delft")
def _ca_without(s: CoallocationSamples) -> Finding:
    return _ca_better(s, WITHOUT)


for _experiment, _place in ((WITHOUT, "without"), (WITH, "with")):

    @CLAIMS.add("2.6.2", f"The gap grows with the utilization {_place} Delft")
    def _gap_grows(s: CoallocationSamples, experiment: str = _experiment) -> Finding:
        gaps = _gaps(s, experiment)
        parts = [less(gaps[before], gaps[after]) for before, after in pairwise(gaps)]
        return all_of(parts), _listed(gaps, " s")


def _gaps(s: CoallocationSamples, experiment: str) -> Values:
    return {u: s.gap(experiment, u) for u in s.steps(experiment)}


for _experiment, _place in ((WITHOUT, "without"), (WITH, "with")):
    _low, _high = paper.SATURATION_LARGE[_place]

    @CLAIMS.add("2.6.2", f"The system saturates at {_low}–{_high}% {_place} Delft")
    def _large_saturates(
        s: CoallocationSamples, experiment: str = _experiment, low: int = _low, high: int = _high
    ) -> Finding:
        """With each policy."""
        parts: list[Statement] = []
        texts: list[str] = []
        for policy in (FCM, CA):
            some, text = _between(s, experiment, WAVES, policy, low, high)
            parts += some
            texts.append(f"{policy.upper()} {text}")
        return all_of(parts), "; ".join(texts)


@CLAIMS.add("2.6.2", "The difference of the policies is much larger with Delft")
def _larger_gap(s: CoallocationSamples) -> Finding:
    with_delft, without = _gaps(s, WITH), _gaps(s, WITHOUT)
    parts = [less(without[u], with_delft[u], times=1 / MUCH) for u in without]
    parts += [less(0.0, gap) for gap in with_delft.values()]
    text = f"with {_listed(with_delft, ' s')}; without {_listed(without, ' s')}"
    return all_of(parts), text
