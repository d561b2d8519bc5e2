"""The study of brokers: what it simulates, answers and prints."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.testbed.testbed import Testbed
from wfrun.runners.cli.main import cli
from wfrun.studies.brokers import command, paper
from wfrun.studies.brokers.claims import CLAIMS
from wfrun.studies.brokers.emulated import EmulatedCase, EmulatedOutcome, run_emulated
from wfrun.studies.brokers.emulated_page import emulation
from wfrun.studies.brokers.experiments import (
    BINS,
    CHANGES,
    POINTS,
    BrokersCase,
    BrokersOutcome,
    binned,
    cases,
    run_case,
    world_of,
)
from wfrun.studies.brokers.page import named_cause
from wfrun.studies.brokers.samples import BrokerSamples
from wfrun.studies.common.claim import answer, verdict_on
from wfrun.studies.common.verdict import Sample, Verdict

SMALL = BrokersCase("tables", "cybershake", 30, 1, "all-clusters", None, 5, None, 0, "generated")


class NotGivenError(Exception):
    """The text has no number for it."""


class ThesisSamples(BrokerSamples):
    """Tables 6.6 and 6.7 as the only repetition."""

    def __init__(self) -> None:
        super().__init__([])

    def table(self, workflow: tuple[str, int], instances: int, policy: str, measure: str) -> Sample:
        stated = paper.MONTAGE_100 if workflow == paper.INSPIRAL_100 else workflow
        given = paper.TABLES[stated[0], stated[1], instances][policy]
        if not hasattr(given, measure):
            raise NotGivenError
        return Sample({0: float(getattr(given, measure))})

    def throttled(self, policy: str, limit: int | None, measure: str) -> Sample:
        raise NotGivenError

    def changed(self, change: str, policy: str, measure: str) -> Sample:
        raise NotGivenError


def judged() -> dict[str, Verdict]:
    found = {}
    for claim in CLAIMS:
        try:
            found[claim.text] = verdict_on(claim.test(ThesisSamples())[0])
        except NotGivenError:
            continue
    return found


def test_every_claim_holds_for_the_numbers_of_the_thesis() -> None:
    found = judged()
    assert len(found) == 10
    assert set(found.values()) == {Verdict.HOLDS}


def test_these_tests_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {
        key: dict(zip(rows, reversed(rows.values()), strict=True))
        for key, rows in paper.TABLES.items()
    }
    monkeypatch.setattr(paper, "TABLES", swapped)
    assert list(judged().values()).count(Verdict.FAILS) >= 6


def test_cases_are_those_of_section_6_4() -> None:
    made = cases(2)
    assert len(set(made)) == len(made) == 2 * (2 * 4 * 3 + 3 * 5 + len(CHANGES) * 3)
    assert {c.throttle for c in made if c.experiment == "throttle"} == {25, 50, 100, 150, None}
    assert {c.clusters for c in made if c.experiment == "throttle"} == {3}


def test_a_case_is_measured() -> None:
    found = run_case(SMALL, None)
    assert found == run_case(SMALL, None)
    assert found.nft > 0
    assert found.qwt_s == pytest.approx(4.8)
    assert found.head_s > 1
    assert len(found.waits_s) == POINTS
    assert len(found.loads) == BINS
    free = run_case(msgspec.structs.replace(SMALL, change="free-heads"), None)
    assert free.head_s == 0
    assert free.makespan_s < found.makespan_s
    assert run_case(msgspec.structs.replace(SMALL, policy="single-cluster"), None).nft == 0


def test_changes_change_one_thing() -> None:
    base = world_of(SMALL)
    for change in CHANGES:
        world = world_of(msgspec.structs.replace(SMALL, change=change))
        differing = [n for n in base.__struct_fields__ if getattr(base, n) != getattr(world, n)]
        assert len(differing) == 1, change


def test_loads_are_means_over_equal_parts() -> None:
    found = binned([(0.0, 2.0), (30.0, 1.0)], 0.0, 60.0)
    assert found == (2.0,) * (BINS // 2) + (1.0,) * (BINS // 2)
    assert sum(binned([(0.5, 4.0), (0.75, 0.0)], 0.0, 60.0)) == pytest.approx(1.0)


def invented(case: BrokersCase) -> BrokersOutcome:
    """An outcome that depends on the policy alone."""
    rank = float(paper.POLICIES.index(case.policy) + 1)
    return BrokersOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=100 * rank,
        nsl=rank,
        qwt_s=rank,
        head_s=rank,
        ftd_s=rank,
        nft=rank,
        load=rank,
        waits_s=tuple(rank * n for n in range(POINTS)),
        loads=(rank,) * BINS,
    )


def throttled(
    loads: dict[int | None, float], spans_s: dict[int | None, float]
) -> list[BrokersOutcome]:
    """Five CyberShake-1000 with each limit and without, alike for all policies."""
    return [
        msgspec.structs.replace(
            invented(BrokersCase("throttle", *paper.CYBERSHAKE_1000, 5, policy, limit, 3,
                                 None, repetition, "generated")),
            load=load,
            makespan_s=spans_s[limit] + repetition,
        )
        for limit, load in loads.items()
        for policy in paper.POLICIES
        for repetition in range(3)
    ]  # fmt: skip


SPANS_S: dict[int | None, float] = {25: 1200, 50: 1100, 100: 1050, 150: 1020, None: 1000}
LOADS: dict[int | None, float] = {25: 1.0, 50: 1.3, 100: 1.7, 150: 2.0, None: 4.0}
"""As the text has them: a limit of 150 halves the load, and one of 25 divides it by four."""


@pytest.mark.parametrize(
    ("text", "loads", "spans_s"),
    [
        ("a limit of 25 divides the load", {25: 0.3}, {}),
        ("a limit of 25 divides the load", {25: 2.0}, {}),
        ("a limit of 150 divides the load", {150: 1.0}, {}),
        ("with each increase of the limit", {}, {100: 1110.0}),
        ("throttling prevents the overload", {25: 1.2}, {}),
        ("throttling prevents the overload", {}, {25: 1300.0}),
    ],
)
def test_throttling_is_tested_by_its_factors_and_steps(
    text: str, loads: dict[int | None, float], spans_s: dict[int | None, float]
) -> None:
    (claim,) = (claim for claim in CLAIMS if text in claim.text)
    for some, longer, verdict in (({}, {}, Verdict.HOLDS), (loads, spans_s, Verdict.FAILS)):
        samples = BrokerSamples(throttled({**LOADS, **some}, {**SPANS_S, **longer}))
        assert answer([claim], samples)[0].verdict is verdict


def waiting(policy: str, repetition: int, change: str | None, *waits_s: float) -> BrokersOutcome:
    """Five CyberShake-1000 whose tasks have these waits, each wait an equal share of the tasks."""
    case = BrokersCase("change" if change else "tables", *paper.CYBERSHAKE_1000, 5, policy, None, 5,
                change, repetition, "generated")  # fmt: skip
    spread = tuple(waits_s[n * len(waits_s) // POINTS] for n in range(POINTS))
    return msgspec.structs.replace(invented(case), waits_s=spread)


def test_median_waits_at_the_floor_are_not_twice_each_other() -> None:
    """One repetition of twelve has a longer median: not undecided, but refuted."""
    rows = [
        waiting(policy, repetition, None, long if policy == "single-cluster" else 4.8)
        for repetition, long in enumerate([4.8] * 11 + [28.7])
        for policy in paper.POLICIES
    ]
    medians = [claim for claim in CLAIMS if "median queue wait" in claim.text]
    assert [a.verdict for a in answer(medians, BrokerSamples(rows))] == [Verdict.FAILS] * 2


def test_the_named_cause_is_tested() -> None:
    """Late tasks are few; without costs of head nodes they are those of All-Clusters, or not."""
    (claim,) = (claim for claim in CLAIMS if "37%" in claim.text)
    few = [waiting(p, r, None, 4.8) for r in range(3) for p in paper.POLICIES]
    for late, verdict in (("all-clusters", Verdict.HOLDS), ("single-cluster", Verdict.FAILS)):
        free = [
            waiting(p, r, "free-heads", *([4.8] * 5 + [200.0] * 3 if p == late else [4.8]))
            for r in range(3)
            for p in paper.POLICIES
        ]
        samples = BrokerSamples([*few, *free])
        ((before, after),) = named_cause(samples, answer([claim], samples))
        assert before.verdict is Verdict.FAILS
        assert after.verdict is verdict


@pytest.mark.slow
def test_the_command_writes_page_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_case", lambda case, corpus: invented(case))
    arguments = ["study", "brokers", "--quick", "-o", str(tmp_path), "--jobs", "1", "-q"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "claims hold" in result.output
    page = (tmp_path / "page.md").read_text()
    assert "| CyberShake-1000 | all-clusters | 1,101 | 200 |" in page
    assert "## Emulated" not in page


def test_other_studies_are_not_emulated(tmp_path: Path) -> None:
    catalog = tmp_path / "sites.yaml"
    catalog.write_text("sites: {here: {slots: 2}}\n")
    result = CliRunner().invoke(cli, ["study", "bags", "--emulate", str(catalog)])
    assert result.exit_code == 2
    assert "the study brokers is" in result.output


def test_a_catalog_that_cannot_be_read_comes_first(tmp_path: Path) -> None:
    catalog = tmp_path / "sites.yaml"
    catalog.write_text("sites: {here: {slots: many}}\n")
    output = tmp_path / "study"
    arguments = ["study", "brokers", "--emulate", str(catalog), "-o", str(output)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code != 0
    assert not output.exists()


EMULATED = EmulatedCase("all-clusters", 25, 30, 2, 0.02, "generated")


@pytest.mark.testbed
def test_two_brokers_share_real_clusters(testbed: Testbed, tmp_path: Path) -> None:
    lines = testbed.layout.catalog.read_text()
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(lines[: lines.index("  delta:")])
    found = run_emulated(EMULATED, catalog, tmp_path / "runs", None)
    assert isinstance(found, EmulatedOutcome)
    assert 0 < found.dispatched <= 2 * 25 // 5
    assert found.makespan_s > 1
    assert found.cpu_s > 0
    assert "| all-clusters | 25 | 5 |" in "\n".join(emulation([found]))
