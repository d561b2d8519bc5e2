"""Verdicts by paired differences."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.studies.common.claim import Claims, answer, tally, tally_by_kind
from wfrun.studies.common.page import claims_table, opening
from wfrun.studies.common.verdict import (
    AtLeast,
    Decided,
    MeanComparison,
    Sample,
    Verdict,
    all_less,
    all_of,
    any_of,
    combine,
    less,
    similar,
    upper_half,
    usually_less,
)

HOLDS, FAILS, UNCLEAR = Verdict.HOLDS, Verdict.FAILS, Verdict.UNCLEAR


def sample(*values: float) -> Sample:
    return Sample(dict(enumerate(values)))


def test_a_pair_of_means_is_decided_by_the_interval_of_the_difference() -> None:
    """t(0.95, 4) is 2.776; the standard error of these differences is 0.7071."""
    one = sample(1, 2, 3, 4, 5)
    assert less(one, sample(2.9, 3.9, 4.9, 5.9, 6.9)).verdict(0.05) is HOLDS
    spread = sample(0, 0, 0, 0, 0)
    for shift, verdict in ((-1.97, HOLDS), (-1.96, UNCLEAR), (1.96, UNCLEAR), (1.97, FAILS)):
        differences = sample(*(d + shift for d in (-2, -1, 0, 1, 2)))
        assert less(differences, spread).verdict(0.05) is verdict


def test_pairs_are_those_of_the_same_repetition() -> None:
    """Means of 100 that vary by 50, of which one is always 1 less."""
    common = [100 + 50 * Random(n).uniform(-1, 1) for n in range(5)]
    one = Sample({n: v - 1 + 0.1 * (n % 2) for n, v in enumerate(common)})
    other = Sample({**dict(enumerate(common)), 5: 1000.0})
    assert less(one, other).verdict(0.05) is HOLDS
    assert less(other, one).verdict(0.05) is FAILS
    with pytest.raises(ValueError, match="no repetition in common"):
        combine(max, sample(1), Sample({7: 1.0}))


def test_equal_values_are_not_less() -> None:
    nothing = sample(0, 0, 0)
    assert less(nothing, nothing).verdict(0.05) is FAILS
    assert less(nothing, nothing, strict=False).verdict(0.05) is HOLDS
    assert less(nothing, 0.0, strict=False).verdict(0.05) is HOLDS
    assert less(0.5, sample(0.6, 0.6)).verdict(0.05) is HOLDS


def test_one_repetition_decides_by_its_value() -> None:
    assert less(sample(1), sample(2)).verdict(0.05) is HOLDS
    assert less(sample(2), sample(1)).verdict(0.05) is FAILS
    assert similar((sample(10), sample(12)), 1.25).verdict(0.05) is HOLDS
    assert similar((sample(10), sample(13)), 1.25).verdict(0.05) is FAILS


def test_statements_of_several() -> None:
    yes, no = Decided(holds=True), Decided(holds=False)
    open_ = MeanComparison(sample(-1, 1))
    for count, statements, verdict in (
        (2, (yes, yes), HOLDS), (2, (yes, no), FAILS), (2, (yes, open_), UNCLEAR),
        (2, (no, open_), FAILS), (1, (yes, open_), HOLDS), (1, (no, open_), UNCLEAR),
        (1, (no, no), FAILS), (2, (yes, yes, no), HOLDS), (2, (yes, no, no), FAILS),
        (2, (yes, no, open_), UNCLEAR),
    ):  # fmt: skip
        assert AtLeast(count, statements).verdict(0.05) is verdict
    extreme = {"a": sample(5), "b": sample(1), "c": sample(2), "d": sample(1e9)}
    assert upper_half(extreme, "a").verdict(0.05) is HOLDS
    assert upper_half(extreme, "c").verdict(0.05) is FAILS


def test_equal_policies_are_not_distinguished() -> None:
    """With ten equal policies the best one is found by chance in less than 5% of the studies, and
    is refuted in less than 5%; without a correction it would be refuted in most."""
    random = Random(1)
    found = []
    for _ in range(150):
        values = {f"p{n}": sample(*(random.gauss(100, 10) for _ in range(5))) for n in range(10)}
        found.append(all_less(values, ["p0"]).verdict(0.05))
    assert found.count(HOLDS) <= 7
    assert found.count(FAILS) <= 7
    several = [MeanComparison(sample(*(random.gauss(0, 1) for _ in range(5)))) for _ in range(200)]
    assert any_of(several).verdict(0.05) is not HOLDS
    assert all_of(several).verdict(0.05) is not FAILS


def test_values_at_a_floor_are_decided_by_the_sign_test() -> None:
    """Medians of twelve repetitions, eleven at the floor: by t the mean of the differences may be
    anything, by the signs they are not twice the other."""
    floor, tail = sample(*[4.8] * 12), sample(*[4.8] * 11, 28.7)
    assert less(floor, tail, times=1.6).verdict(0.05) is UNCLEAR
    assert less(tail, floor, times=1.6).verdict(0.05) is UNCLEAR
    assert usually_less(tail, floor, times=1.6).verdict(0.05) is HOLDS
    assert usually_less(floor, tail, times=1 / 1.6).verdict(0.05) is FAILS
    assert usually_less(floor, floor).verdict(0.05) is FAILS
    assert usually_less(floor, floor, strict=False).verdict(0.05) is HOLDS
    # 5 of 5 repetitions happen by chance with a probability of 1/32, 6 of 6 with 1/64.
    assert usually_less(sample(*[1] * 5), sample(*[2] * 5)).verdict(0.05) is UNCLEAR
    assert usually_less(sample(*[1] * 6), sample(*[2] * 6)).verdict(0.05) is HOLDS


def test_main_claims_are_counted_apart() -> None:
    claims = Claims[None]()
    claims.add("1", "one", main=True)(lambda _: (True, ""))
    claims.add("1", "two")(lambda _: (False, ""))
    claims.add("1", "three")(lambda _: (True, ""))
    assert tally_by_kind(answer(claims, None)) == (
        "1 of 1 main claims hold, 0 do not hold; of the details 1 of 2 claims hold, 1 do not hold"
    )
    lines = list(opening("What it says.", answer(claims, None)))
    assert lines[0] == "What it says."
    assert lines[2].startswith(tally_by_kind(answer(claims, None)))
    assert [line for line in lines if line.startswith("- ")] == ["- holds: one (claim 1)"]


def test_a_claim_that_does_not_hold_has_a_cause_or_is_unexplained() -> None:
    claims = Claims[None]()
    claims.add("1", "one")(lambda _: (True, ""))
    claims.add("1", "two", cause="a rule")(lambda _: (False, ""))
    claims.add("1", "three")(lambda _: (False, ""))
    claims.add("1", "four")(lambda _: (False, ""))
    lines = list(claims_table(answer(claims, None), {4: "a change"}))
    cells = [line.split("|")[-2].strip() for line in lines[1:]]
    assert cells == ["cause", "---", "", "a rule", "unexplained", "a change"]
    assert "cause" not in list(claims_table(answer(claims, None)))[1]


def test_claims_that_cannot_fail_do_not_count() -> None:
    claims = Claims[None]()
    claims.add("1", "one")(lambda _: (True, ""))
    claims.add("1", "two")(lambda _: (False, ""))
    claims.add("1", "three")(lambda _: (MeanComparison(sample(-1, 1)), ""))
    claims.add("1", "four", always="by definition")(lambda _: (True, ""))
    assert tally(answer(claims, None)) == (
        "1 of 3 claims hold, 1 do not hold, 1 are not distinguishable; "
        "1 that cannot fail are not counted"
    )
