"""The claims of thesis section 7.3 about predictions of queue waits, and their tests.

In our words. They have to hold at every site here; the second answer is whether they hold at more
than half of the sites.
"""

from __future__ import annotations

from collections.abc import Callable

from wfrun.runners.studies.claim import Claims, Finding
from wfrun.runners.studies.predictions import paper
from wfrun.runners.studies.predictions.wait_samples import Place, WaitSamples

CLAIMS = Claims[WaitSamples]()

LOW = max(line.corrected_accuracy for line in paper.TABLE_7_2.values())
"""The highest accuracy that the thesis calls low."""
COVERED = 0.95
"""The share of the jobs that an upper bound has to hold for."""
ALL_OF_A_BURST = 0.9

_WHERE = "7.3.1"
_LOGGED = {"fcfs": "", "logged": " (logged waits)"}


def _found(s: WaitSamples, places: list[Place], test: Callable[[Place], bool]) -> Finding:
    findings = {place.title + _LOGGED[place.waits]: test(place) for place in places}
    failing = [name for name, holds in findings.items() if not holds]
    held = len(findings) - len(failing)
    text = f"at {held} of {len(findings)} sites"
    if failing and held:
        text += f"; not at {', '.join(failing)}"
    return s.agree(findings), text


def accuracy_gain(place: Place) -> float:
    """Improvement of the mean accuracy by the correction, of the jobs that waited."""
    rows = place.rows
    return rows["point-corrected"].nonzero_accuracy - rows["point"].nonzero_accuracy


def error_gain(place: Place) -> float:
    """Improvement of the mean absolute error by the correction, as a share."""
    before_s = place.rows["point"].nonzero_error_s
    return 1 - place.rows["point-corrected"].nonzero_error_s / before_s if before_s else 0.0


@CLAIMS.add(_WHERE, "The accuracy of the point-valued predictor is low (at most 0.69, with "
            "correction)")  # fmt: skip
def _(s: WaitSamples) -> Finding:
    return _found(
        s, s.of("fcfs", "point"), lambda p: p.rows["point-corrected"].nonzero_accuracy <= LOW
    )


@CLAIMS.add(_WHERE, "Correction improves the accuracy")
def _(s: WaitSamples) -> Finding:
    return _found(s, s.of("fcfs", "point"), lambda p: accuracy_gain(p) > 0)


@CLAIMS.add(_WHERE, "Correction improves the accuracy by 1% to 10%")
def _(s: WaitSamples) -> Finding:
    return _gains(s, accuracy_gain, paper.ACCURACY_GAIN)


@CLAIMS.add(_WHERE, "Correction improves the absolute error by 1% to 16%")
def _(s: WaitSamples) -> Finding:
    return _gains(s, error_gain, paper.ERROR_GAIN)


def _gains(s: WaitSamples, gain: Callable[[Place], float], bounds: tuple[float, float]) -> Finding:
    places = s.of("fcfs", "point")
    low, high = bounds
    # In whole percent, as in the text.
    holds, text = _found(s, places, lambda p: low <= round(gain(p), 2) <= high)
    values = [gain(place) for place in places]
    return holds, f"{text}; from {min(values):+.0%} to {max(values):+.0%}"


_WHERE = "7.3.2"


@CLAIMS.add(_WHERE, "BMBP is more accurate than Chebyshev's inequality")
def _(s: WaitSamples) -> Finding:
    return _found(
        s, s.of(), lambda p: p.rows["bmbp"].accuracy > p.rows["chebyshev"].accuracy
    )  # fmt: skip


@CLAIMS.add(_WHERE, "Its absolute error is smaller")
def _(s: WaitSamples) -> Finding:
    return _found(s, s.of(), lambda p: p.rows["bmbp"].error_s < p.rows["chebyshev"].error_s)


@CLAIMS.add(_WHERE, "Chebyshev's inequality over-predicts more waits")
def _(s: WaitSamples) -> Finding:
    return _found(s, s.of(), lambda p: p.rows["chebyshev"].over > p.rows["bmbp"].over)


def _fails(place: Place, name: str) -> bool:
    inside, outside = place.rows[name].burst_within, place.rows[name].other_within
    assert inside is not None
    return inside < COVERED and (outside is None or inside < outside)


def _bursty(s: WaitSamples) -> list[Place]:
    return [place for place in s.of() if place.rows["bmbp"].burst_within is not None]


@CLAIMS.add(_WHERE, "BMBP fails in bursts: fewer than 95% of their waits are within the bound, and "
            "fewer than of other waits")  # fmt: skip
def _(s: WaitSamples) -> Finding:
    return _found(s, _bursty(s), lambda p: _fails(p, "bmbp"))


@CLAIMS.add(_WHERE, "Chebyshev's inequality fails in bursts")
def _(s: WaitSamples) -> Finding:
    return _found(s, _bursty(s), lambda p: _fails(p, "chebyshev"))


@CLAIMS.add(_WHERE, "Both predict the same wait for all jobs of a user's burst")
def _(s: WaitSamples) -> Finding:
    return _found(
        s,
        s.of(),
        lambda p: min(p.rows[n].burst_same for n in ("bmbp", "chebyshev")) >= ALL_OF_A_BURST,
    )


@CLAIMS.add(_WHERE, "FCFS on user estimates guarantees over-predictions")
def _(s: WaitSamples) -> Finding:
    return _found(s, s.of("fcfs", "fcfs-estimates"), lambda p: p.rows["fcfs-estimates"].under == 0)


@CLAIMS.add(_WHERE, "Its estimates are slack: waits are longer than those that happen")
def _(s: WaitSamples) -> Finding:
    def slack(place: Place) -> bool:
        row = place.rows["fcfs-estimates"]
        return row.mean_predicted_s > row.mean_wait_s

    return _found(s, s.of("fcfs", "fcfs-estimates"), slack)
