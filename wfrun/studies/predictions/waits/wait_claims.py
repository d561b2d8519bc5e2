"""The claims of thesis section 7.3 about predictions of queue waits, and their tests.

The claims are paraphrased. A claim has to hold at every site here; in the weaker sense
(`Answer.usually`), at more than half of them.
"""

from __future__ import annotations

from collections.abc import Callable

from wfrun.studies.common.claim import Claims, Finding
from wfrun.studies.predictions import paper
from wfrun.studies.predictions.waits.wait_samples import WaitPlace, WaitSamples

CLAIMS = Claims[WaitSamples]()

LOW = max(line.corrected_accuracy for line in paper.TABLE_7_2.values())
"""The highest accuracy that the thesis calls low."""
COVERED = 0.95
"""Share of the jobs for which an upper bound has to hold."""
ALL_OF_A_BURST = 0.9

_WHERE = "7.3.1"
_LOGGED = {"fcfs": "", "logged": " (logged waits)"}


def _found(s: WaitSamples, places: list[WaitPlace], test: Callable[[WaitPlace], bool]) -> Finding:
    findings = {place.title + _LOGGED[place.waits]: test(place) for place in places}
    failing = [name for name, holds in findings.items() if not holds]
    held = len(findings) - len(failing)
    text = f"at {held} of {len(findings)} sites"
    if failing and held:
        text += f"; not at {', '.join(failing)}"
    return s.agree(findings), text


def accuracy_gain(place: WaitPlace) -> float:
    """Amount by which the correction increases the mean accuracy over the jobs that waited."""
    rows = place.rows
    return rows["point-corrected"].nonzero_accuracy - rows["point"].nonzero_accuracy


def error_gain(place: WaitPlace) -> float:
    """Share by which the correction reduces the mean absolute error over the jobs that waited; 0
    without errors."""
    before_s = place.rows["point"].nonzero_error_s
    return 1 - place.rows["point-corrected"].nonzero_error_s / before_s if before_s else 0.0


@CLAIMS.add(_WHERE, "The accuracy of the point-valued predictor is low (at most 0.69, with "
            "correction)", main=True)  # fmt: skip
def _accuracy_point_valued_predictor(s: WaitSamples) -> Finding:
    return _found(
        s, s.of("fcfs", "point"), lambda p: p.rows["point-corrected"].nonzero_accuracy <= LOW
    )


@CLAIMS.add(_WHERE, "Correction improves the accuracy by 1% to 10% and the absolute error by 1% to "
            "16%")  # fmt: skip
def _correction_improves_accuracy_1(s: WaitSamples) -> Finding:
    """*An improvement ranging from 1% to 10% in average accuracy and from 1% to 16% in average
    absolute prediction error*: one sentence, and one claim."""
    places = s.of("fcfs", "point")
    gains = ((accuracy_gain, paper.ACCURACY_GAIN), (error_gain, paper.ERROR_GAIN))

    def within(place: WaitPlace) -> bool:
        # In whole percent, as in the text.
        return all(low <= round(gain(place), 2) <= high for gain, (low, high) in gains)

    holds, text = _found(s, places, within)
    ranges = [sorted(gain(place) for place in places) for gain, _ in gains]
    accuracy, error = (f"{values[0]:+.0%} to {values[-1]:+.0%}" for values in ranges)
    return holds, f"{text}; accuracy from {accuracy}, error from {error}"


_WHERE = "7.3.2"


@CLAIMS.add(_WHERE, "BMBP is more accurate than Chebyshev's inequality")
def _bmbp_more_accurate_chebyshev(s: WaitSamples) -> Finding:
    return _found(
        s, s.of(), lambda p: p.rows["bmbp"].accuracy > p.rows["chebyshev"].accuracy
    )  # fmt: skip


@CLAIMS.add(_WHERE, "Its absolute error is smaller")
def _absolute_error_smaller(s: WaitSamples) -> Finding:
    return _found(s, s.of(), lambda p: p.rows["bmbp"].error_s < p.rows["chebyshev"].error_s)


@CLAIMS.add(_WHERE, "Chebyshev's inequality over-predicts more waits")
def _chebyshev_inequality_over_predicts(s: WaitSamples) -> Finding:
    return _found(s, s.of(), lambda p: p.rows["chebyshev"].over > p.rows["bmbp"].over)


def _fails(place: WaitPlace, name: str) -> bool:
    inside, outside = place.rows[name].burst_within, place.rows[name].other_within
    assert inside is not None
    return inside < COVERED and (outside is None or inside < outside)


def _bursty(s: WaitSamples) -> list[WaitPlace]:
    return [place for place in s.of() if place.rows["bmbp"].burst_within is not None]


@CLAIMS.add(_WHERE, "BMBP fails in bursts: fewer than 95% of their waits are within the bound, and "
            "fewer than of other waits", main=True)  # fmt: skip
def _bmbp_fails_bursts_fewer(s: WaitSamples) -> Finding:
    return _found(s, _bursty(s), lambda p: _fails(p, "bmbp"))


@CLAIMS.add(_WHERE, "Chebyshev's inequality fails in bursts")
def _chebyshev_inequality_fails_bursts(s: WaitSamples) -> Finding:
    return _found(s, _bursty(s), lambda p: _fails(p, "chebyshev"))


@CLAIMS.add(_WHERE, "Both predict the same wait for all jobs of a user's burst")
def _both_predict_same_wait(s: WaitSamples) -> Finding:
    return _found(
        s,
        s.of(),
        lambda p: min(p.rows[n].burst_same for n in ("bmbp", "chebyshev")) >= ALL_OF_A_BURST,
    )


@CLAIMS.add(_WHERE, "FCFS on user estimates guarantees over-predictions",
            always="no estimate is too short, and FCFS starts jobs in order")  # fmt: skip
def _no_estimate_too_short(s: WaitSamples) -> Finding:
    return _found(s, s.of("fcfs", "fcfs-estimates"), lambda p: p.rows["fcfs-estimates"].under == 0)


@CLAIMS.add(_WHERE, "Its estimates are slack: waits are longer than those that happen",
            always="over-predictions of every wait are longer in the mean")  # fmt: skip
def _estimates_slack_waits_longer(s: WaitSamples) -> Finding:
    def slack(place: WaitPlace) -> bool:
        row = place.rows["fcfs-estimates"]
        return row.mean_predicted_s > row.mean_wait_s

    return _found(s, s.of("fcfs", "fcfs-estimates"), slack)
