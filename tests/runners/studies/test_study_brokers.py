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
from wfrun.studies.brokers.emulated import (
    LIMITS,
    REPETITIONS,
    EmulatedCase,
    EmulatedOutcome,
    emulated_cases,
    run_emulated,
)
from wfrun.studies.brokers.emulated_claims import EmulatedSamples, emulated_answers
from wfrun.studies.brokers.emulated_page import emulation, emulation_summary
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


def test_repetitions_of_the_emulation_are_interleaved() -> None:
    made = emulated_cases(quick=False, corpus=None)
    each = len(made) // REPETITIONS
    assert len(set(made)) == len(made) == REPETITIONS * (2 * len(paper.POLICIES) + len(LIMITS))
    for start in range(0, len(made), each):
        again = [msgspec.structs.replace(c, repetition=0) for c in made[start : start + each]]
        assert again == made[:each]
        assert {c.repetition for c in made[start : start + each]} == {start // each}


def test_a_quick_emulation_is_short() -> None:
    made = emulated_cases(quick=True, corpus=None)
    assert [(c.throttle, c.repetition) for c in made] == [(None, 0), (25, 0)]


def emulated(case: EmulatedCase, *, noise: float = 0.0) -> EmulatedOutcome:
    """An outcome that has the order and the factors of the text. The first repetition has more of
    everything, the second less, by a share of ``noise``."""
    single, everywhere, least = (case.policy == policy for policy in paper.POLICIES)
    if case.instances == 1:
        makespan_s, wait_s = 60.0 if least else 100.0 + 10 * everywhere, 20.0 if single else 5.0
    else:
        makespan_s, wait_s = (
            100.0 * (1 + everywhere + 0.5 * least),
            5.0 * (1 + single + 3 * everywhere),
        )
    makespan_s *= {None: 1.0, 150: 1.1, 25: 1.5}[case.throttle]
    load = {None: 1.6, 150: 0.8, 25: 0.4}[case.throttle]
    makespan_s *= 1 + noise * (1, -1, 0.1, 0, -0.1)[case.repetition]
    return EmulatedOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=makespan_s,
        qwt_s=wait_s,
        ftd_s=1.0,
        nft=50.0 if everywhere else 40.0 if least else 0.0,
        head_cpu_s=load * makespan_s,
        head_commands=700,
        broker_cpu_s=16.0,
        dispatched=40,
        waits_s=(wait_s,) * POINTS,
    )


def judged_emulation(rows: list[EmulatedOutcome]) -> dict[str, Verdict]:
    return {one.claim.text: one.verdict for one in emulated_answers(EmulatedSamples(rows))}


def test_every_claim_holds_in_an_emulation_as_in_the_text() -> None:
    rows = [emulated(case) for case in emulated_cases(quick=False, corpus=None)]
    assert set(judged_emulation(rows).values()) == {Verdict.HOLDS}
    assert any("use 8% to 20%" in line for line in emulation_summary(rows))
    lines = list(emulation(rows))
    assert any("Means are over 5 repetitions" in line for line in lines)
    row = "| 5 | cluster-min | 25 | 5 | 225 | 5 | 5 | 1 | 40 | 40 | 700 | 90 | 40 | 16 |"
    assert row in lines
    assert any(line.startswith(f"| {len(CLAIMS) + 1} | 6.4.1 | one workflow") for line in lines)


@pytest.mark.parametrize(
    ("text", "policy", "limit", "factor"),
    [
        ("Single Cluster is the best", "single-cluster", None, 3.0),
        ("All-Clusters is the worst", "all-clusters", None, 0.5),
        ("a limit of 150 is similar", "cluster-min", 150, 1.5),
        ("a limit of 150 is smaller", "cluster-min", 150, 1.5),
        ("a limit of 25 makes", "cluster-min", 25, 0.6),
        # the load is the same CPU time over another makespan
        ("a limit of 25 divides", "cluster-min", 25, 0.5),
        ("a limit of 150 divides", "cluster-min", 150, 0.5),
        ("the head node is overloaded", "all-clusters", None, 4.0),
    ],
)
def test_claims_can_fail_in_the_emulation(
    text: str, policy: str, limit: int | None, factor: float
) -> None:
    rows = []
    for case in emulated_cases(quick=False, corpus=None):
        row = emulated(case)
        if (case.instances, case.policy, case.throttle) == (5, policy, limit):
            row = msgspec.structs.replace(row, makespan_s=row.makespan_s * factor)
        rows.append(row)
    (verdict,) = (verdict for claim, verdict in judged_emulation(rows).items() if text in claim)
    assert verdict is Verdict.FAILS


def test_emulations_are_compared_within_each_repetition() -> None:
    """Noise common to all cases of a repetition decides nothing; other noise leaves it open."""
    rows = [emulated(case, noise=0.4) for case in emulated_cases(quick=False, corpus=None)]
    text = "five workflows: All-Clusters is the worst"
    assert judged_emulation(rows)[text] is Verdict.HOLDS
    apart = [
        emulated(row_case, noise=0.8 if row_case.policy == "all-clusters" else -0.8)
        for row_case in emulated_cases(quick=False, corpus=None)
    ]
    assert judged_emulation(apart)[text] is Verdict.UNCLEAR


def test_a_quick_emulation_decides_nothing() -> None:
    rows = [emulated(case) for case in emulated_cases(quick=True, corpus=None)]
    assert not list(emulation_summary(rows))
    text = "\n".join(emulation(rows))
    assert "There is one run of each row." in text
    assert "verdict" not in text


EMULATED = EmulatedCase("all-clusters", 25, 30, 2, 0.02, "generated", 0)


@pytest.mark.testbed
def test_two_brokers_share_real_clusters(testbed: Testbed, tmp_path: Path) -> None:
    lines = testbed.layout.catalog.read_text()
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(lines[: lines.index("  delta:")])
    found = run_emulated(EMULATED, catalog, tmp_path / "runs", None)
    assert isinstance(found, EmulatedOutcome)
    assert 0 < found.dispatched <= 2 * LIMITS[25]
    assert found.makespan_s > 1
    assert found.broker_cpu_s > 0
    assert found.head_commands >= 2 * 3  # each broker calls each batch system
    assert 0 < found.load == found.head_cpu_s / found.makespan_s
    assert "| 2 | all-clusters | 25 | 5 |" in "\n".join(emulation([found]))
