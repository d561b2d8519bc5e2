"""The claims of RR-7365 on planted results: each fails where the paper's words are untrue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.verdict import Verdict
from wfrun.studies.reallocation.claims import CLAIMS
from wfrun.studies.reallocation.experiments import LIMITED, ReallocationRow
from wfrun.studies.reallocation.page import linked_causes
from wfrun.studies.reallocation.samples import ReallocationSamples
from wfrun.studies.reallocation.traces import TRACES

SEEDS = range(4)
DEDICATED: dict[str, tuple[float, ...]] = {"impacted": (85, 86, 85, 86), "moves": (17, 60, 5, 66),
             "early": (60, 70, 55, 65), "response": (0.72, 0.66, 0.8, 0.7)}  # fmt: skip
OTHER: dict[str, tuple[float, ...]] = {"impacted": (40, 41, 40, 41), "moves": (0.6, 1.1, 0.5, 0.9),
         "early": (72, 67, 71, 66), "response": (0.7, 0.8, 0.72, 0.81)}  # fmt: skip
"""Values by algorithm, near those of the paper."""

Values = dict[str, tuple[float, ...]]
Plant = Callable[[str, str, str], Values]
"""Changed measures by trace, whether it is heterogeneous, and dedicated."""


def rows(plant: Plant, variant: str = "base") -> list[ReallocationRow]:
    """All cases, with a little noise of the seed."""
    found = []
    for trace in TRACES:
        for dedicated in ("yes", "no"):
            for heterogeneous in ("no", "yes"):
                values: Values = {**(DEDICATED if dedicated == "yes" else OTHER)}
                if heterogeneous == "yes" and dedicated == "yes":
                    values["impacted"] = tuple(v - 10 for v in values["impacted"])
                    values["moves"] = tuple(v / 2 for v in values["moves"])
                values |= plant(trace, heterogeneous, dedicated)
                for seed in SEEDS:
                    noise = 1 + 0.001 * (seed - 1.5)
                    measures = {m: tuple(v * noise for v in vs) for m, vs in values.items()}
                    found.append(
                        ReallocationRow(
                            trace=trace, heterogeneous=heterogeneous, dedicated=dedicated,
                            days=1.0, seed=seed, variant=variant, jobs=100, wait_s=1.0, size=2.0,
                            **measures)
                    )  # fmt: skip
    return found


def nothing(trace: str, heterogeneous: str, dedicated: str) -> Values:
    return {}


def judged(text: str, plant: Plant) -> Verdict:
    """The verdict on the claim whose words contain the text."""
    (claim,) = (claim for claim in CLAIMS if text in claim.text)
    return answer([claim], ReallocationSamples(rows(plant)))[0].verdict


def at(heterogeneous: str, dedicated: str, values: Values, traces: tuple[str, ...] = ()) -> Plant:
    """These values on one platform, on some traces or on all."""

    def plant(trace: str, mixed: str, own: str) -> Values:
        here = (mixed, own) == (heterogeneous, dedicated) and trace in (traces or TRACES)
        return values if here else {}

    return plant


@pytest.mark.parametrize(
    ("text", "false", "true"),
    [
        ("but not by far", at("yes", "no", {"moves": (3.0, 15.1, 1.7, 16.5)}), nothing),
        ("gains are usually between 5% and 50%", at("no", "no", {"response": (0.97,) * 4}),
         nothing),
        ("close to 70%", at("yes", "no", {"early": (57, 51, 56, 54)}), nothing),
        ("less than 1% of the jobs", at("yes", "no", {"moves": (3.0, 15.1, 1.7, 16.5)}), nothing),
        ("close to 80% or 90%", at("no", "yes", {"impacted": (60,) * 4}), nothing),
        ("In almost all cases", at("no", "yes", {"early": (48, 70, 48, 65)}, TRACES[:2]),
         at("no", "yes", {"early": (48, 70, 55, 65)}, TRACES[:2])),
        ("On all experiments", at("yes", "no", {"response": (0.9, 0.9, 1.02, 0.9)}, ("April",)),
         nothing),
        ("only with June", at("no", "no", {"response": (0.9, 0.9, 1.02, 0.9)}, ("April",)),
         at("no", "no", {"response": (0.9, 0.9, 1.02, 0.9)}, ("June",))),
        ("only by a few percents", at("no", "no", {"response": (0.9, 0.9, 1.2, 0.9)}, ("June",)),
         at("no", "no", {"response": (1.08,) * 4}, ("June",))),
        ("always makes more than twice", at("no", "yes", {"moves": (40, 60, 5, 66)}, ("April",)),
         nothing),
        ("less than 15%", at("yes", "yes", {"moves": (18, 60, 3, 66)}, ("February",)), nothing),
        ("a factor close to 2", at("yes", "yes", {"moves": (17, 60, 5, 66)}), nothing),
        ("is higher than 65%", at("no", "no", {"early": (54, 52, 55, 56)}), nothing),
        ("Only a few cases", at("no", "no", {"response": (1.1,) * 4}), nothing),
        ("reaches more than 50%", nothing,
         at("no", "no", {"response": (0.45, 0.8, 0.8, 0.8)}, ("June",))),
        ("In most cases the gain", lambda *_: {"response": (0.95,) * 4}, nothing),
    ],
)  # fmt: skip
def test_claims_are_tested_on_what_the_paper_says(text: str, false: Plant, true: Plant) -> None:
    assert judged(text, false) is Verdict.FAILS
    assert judged(text, true) is Verdict.HOLDS


def test_every_claim_can_fail_and_can_hold() -> None:
    def otherwise(trace: str, heterogeneous: str, dedicated: str) -> Values:
        """Nothing is gained, and all orders are the other way round."""
        if dedicated == "yes":
            more = 2 if heterogeneous == "yes" else 1
            return {"impacted": (10 * more,) * 4, "moves": (20 * more, 15 * more, 30 * more, 9),
                    "early": (40, 30, 45, 20), "response": (1.1, 1.2, 1.0, 1.3)}  # fmt: skip
        return {"impacted": (70,) * 4, "moves": (20, 15, 3, 9), "early": (30, 40, 30, 45),
                "response": (1.5, 1.4, 1.2, 1.1)}  # fmt: skip

    def verdicts(plant: Plant) -> list[Answer]:
        return answer(CLAIMS, ReallocationSamples(rows(plant)))

    assert {a.verdict for a in verdicts(otherwise)} == {Verdict.FAILS}
    (failing,) = (a.claim.text for a in verdicts(nothing) if not a.holds)
    assert "reaches more than 50%" in failing  # the only one on a single extreme case


def test_a_change_that_makes_a_claim_hold_is_its_cause() -> None:
    few = at("no", "yes", {"impacted": (40,) * 4})
    changed = [r for r in rows(nothing, LIMITED) if r.trace == "January" and r.dedicated == "yes"]
    samples = ReallocationSamples([*rows(few), *changed])
    found = answer(CLAIMS, samples)
    (one,) = (a for a in found if "almost always more than half" in a.claim.text)
    assert one.verdict is Verdict.FAILS
    assert linked_causes(samples, found)[one.number] == "holds on January with *limits*"
