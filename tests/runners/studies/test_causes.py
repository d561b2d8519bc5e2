"""The causes that the pages of studies name for claims that do not hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from wfrun.studies.allocation import differences as allocation
from wfrun.studies.allocation.claims import CLAIMS as ALLOCATION
from wfrun.studies.bags import differences as bags
from wfrun.studies.bags.claims import CLAIMS as BAGS
from wfrun.studies.brokers import differences as brokers
from wfrun.studies.brokers.claims import CLAIMS as BROKERS
from wfrun.studies.brokers.emulated_claims import EMULATED_CLAIMS
from wfrun.studies.common.claim import Claim
from wfrun.studies.demt import differences as demt
from wfrun.studies.demt.claims import CLAIMS as DEMT
from wfrun.studies.predictions import differences as predictions
from wfrun.studies.predictions.parts import PARTS

DOCS = Path(__file__).parents[3] / "docs"
PREDICTIONS = [claim for part in PARTS for claim in part.claims]


@pytest.mark.parametrize(
    ("study", "claims", "causes"),
    [
        ("allocation", ALLOCATION, allocation.CAUSES),
        ("bags", BAGS, bags.CAUSES),
        ("brokers", BROKERS, brokers.CAUSES),
        ("demt", DEMT, demt.CAUSES),
        ("predictions", PREDICTIONS, predictions.CAUSES),
    ],
)
def test_causes_are_of_claims_that_do_not_hold_and_name_sections_of_the_page(
    study: str, claims: Sequence[Claim[object]], causes: Mapping[int, str]
) -> None:
    page = (DOCS / f"study-{study}.md").read_text()
    table = page[page.index("|  | section | claim |") :].partition("\n\n")[0]
    lines = {int(line.split("|")[1]): line for line in table.splitlines()[2:]}
    assert set(lines) == set(range(1, len(claims) + 1))
    for number, claim in enumerate(claims, 1):
        assert f"| {claim.where} | {claim.text} |" in lines[number]
    for number, cause in causes.items():
        assert cause in lines[number]
        assert re.search(r"\| \*\*(does not hold|not distinguishable|no)\*\* \|", lines[number])
        for name in re.findall(r"\*([^*]+)\*", cause):
            assert re.search(rf"^(#+ |- \*\*){re.escape(name)}", page, re.M), name


def test_the_page_of_brokers_has_all_claims_of_the_emulation_with_their_causes() -> None:
    page = (DOCS / "study-brokers.md").read_text()
    part = page[page.index("## Emulated") :]
    table = part[part.index("|  | section | claim |") :].partition("\n\n")[0]
    lines = {int(line.split("|")[1]): line for line in table.splitlines()[2:]}
    assert set(lines) == {len(BROKERS) + n for n in range(1, len(EMULATED_CLAIMS) + 1)}
    for number, claim in enumerate(EMULATED_CLAIMS, len(BROKERS) + 1):
        assert f"| {claim.where} | {claim.text} |" in lines[number]
    assert set(brokers.EMULATED_CAUSES) <= set(lines)
    for number, cause in brokers.EMULATED_CAUSES.items():
        assert f"| {cause} |" in lines[number]
        for name in re.findall(r"\*([^*]+)\*", cause):
            assert f"\n- **{name}" in part, name
