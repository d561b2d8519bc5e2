"""The tests of the claims of chapter 6 on the numbers that the thesis itself gives."""

from __future__ import annotations

import pytest

from wfrun.studies.common.claim import Answer, Claim, verdict_on
from wfrun.studies.common.verdict import Sample, Verdict
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.against_waits import CLAIMS_AGAINST_WAITS, PAIRS, thesis_wait_s
from wfrun.studies.workflows.claims import CLAIMS
from wfrun.studies.workflows.page import _explained
from wfrun.studies.workflows.samples import Samples

GIVEN = ("qwt_s", "ftd_s", "nft")


class NotGivenError(Exception):
    """The text has no number for it."""


class ThesisSamples(Samples):
    """Tables 6.3, 6.4 and 6.5 as the only repetition. Makespans and NSL are in figures."""

    def __init__(self) -> None:
        super().__init__([])

    def single(
        self, workload: str, policy: str, measure: str, *, loaded: bool, throttle: int | None = None
    ) -> Sample:
        if measure not in GIVEN or throttle is not None:
            raise NotGivenError
        return Sample({0: float(getattr(paper.TABLE_6_3[workload, loaded][policy], measure))})

    def multi(self, size: int, instances: int, variant: int, measure: str) -> Sample:
        if measure not in (*GIVEN, "held_s"):
            raise NotGivenError
        return Sample({0: float(getattr(paper.TABLE_6_5[size, instances][variant], measure))})

    def changes(self, workload: str, policy: str, measure: str, *, loaded: bool) -> list[Sample]:
        """The best and the worst."""
        best_and_worst = paper.TABLE_6_4[policy, workload, loaded]
        values = best_and_worst[:2] if measure == "makespan_s" else best_and_worst[2:]
        return [Sample({0: float(value)}) for value in values]


def judged() -> dict[int, tuple[Claim[Samples], Verdict]]:
    """The claims whose numbers the thesis gives."""
    found = {}
    for number, claim in enumerate(CLAIMS, 1):
        try:
            found[number] = (claim, verdict_on(claim.test(ThesisSamples())[0]))
        except NotGivenError:
            continue
    return found


def test_every_claim_holds_for_the_numbers_of_the_thesis() -> None:
    found = judged()
    assert set(found) == {6, 7, 16, 17, 18, 25, 26, 27, 28, 29, 30, 37, 38}
    failed = [claim.text for claim, verdict in found.values() if verdict is not Verdict.HOLDS]
    assert not failed


def test_these_tests_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the waits and transfers of HEFT and Round Robin exchanged, and Table 6.5 throttled the
    other way, the claims on them do not hold."""
    swapped = {
        key: {
            **entries,
            paper.ROUND_ROBIN: entries[paper.HEFT],
            paper.HEFT: entries[paper.ROUND_ROBIN],
        }
        for key, entries in paper.TABLE_6_3.items()
    }
    reversed_ = {
        key: (entries[0], entries[2], entries[1], entries[4], entries[3], entries[5])
        for key, entries in paper.TABLE_6_5.items()
    }
    monkeypatch.setattr(paper, "TABLE_6_3", swapped)
    monkeypatch.setattr(paper, "TABLE_6_5", reversed_)
    failed = {n for n, (_, verdict) in judged().items() if verdict is Verdict.FAILS}
    assert failed == {6, 7, 16, 25, 26, 38}


class PlantedSamples(Samples):
    """All policies are equal, but HEFT is better, and in one metric with 50 workflows not."""

    def __init__(self, equal: str) -> None:
        super().__init__([])
        self._equal = equal

    def multi(self, size: int, instances: int, variant: int, measure: str) -> Sample:
        best = variant == len(paper.MULTI_VARIANTS) - 1
        here = (instances, measure) != (50, self._equal)
        return Sample({0: 1.0 if best and here else 2.0})


@pytest.mark.parametrize(("equal", "holds"), [("", True), ("nsl", False), ("makespan_s", False)])
def test_heft_outperforms_others_in_both_metrics(equal: str, holds: bool) -> None:
    (claim,) = (claim for claim in CLAIMS if "HEFT outperforms the other policies" in claim.text)
    found = verdict_on(claim.test(PlantedSamples(equal))[0])
    assert (found is Verdict.HOLDS) is holds


def test_claims_against_waits_contradict_the_tables() -> None:
    for pair in PAIRS:
        assert thesis_wait_s(pair.better) > thesis_wait_s(pair.worse)


def test_claims_against_waits_are_not_counted_as_holding() -> None:
    """Nor is claim 24 one of them: the policy that waits longer there has the shorter makespan."""
    assert 24 not in CLAIMS_AGAINST_WAITS
    never = [
        Answer(number, claim, Verdict.FAILS, "")
        for number, claim in enumerate(CLAIMS, 1)
        if number in (12, 24)
    ]
    text = _explained(never, [])
    assert "1 are against the waits in the thesis' own tables (claims 12)" in text
    assert "0 hold if one rule is changed" in text
    assert "in all" not in text
