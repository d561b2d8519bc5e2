"""The page of the study of brokers: tables and figures of thesis section 6.4 beside our results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.claims import FREE_HEADS
from wfrun.studies.brokers.differences import CONTRADICTIONS, DIFFERENCES, SUMMARY
from wfrun.studies.brokers.emulated import EmulatedOutcome
from wfrun.studies.brokers.emulated_page import emulation
from wfrun.studies.brokers.experiments import (
    APART_S,
    CHANGES,
    FASTEST,
    FEW,
    HEAD,
    MODEL,
    STATUS_S,
    SUBMISSION,
    WORKFLOWS,
)
from wfrun.studies.brokers.samples import BrokerSamples, Workflow
from wfrun.studies.common.claim import Answer, answer, tally
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import DETAILS, VERDICTS, claims_table, opening, table
from wfrun.studies.common.verdict import Sample, combine

SOURCE = (
    'Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010, '
    "section 6.4."
)


def page(
    samples: BrokerSamples,
    found: Sequence[Answer],
    repetitions: int,
    emulated: Sequence[EmulatedOutcome] | None,
    pictures: Sequence[str],
) -> str:
    """Markdown; ``emulated`` are the runs of the emulation, None without one; ``pictures`` the
    names of files beside the page."""
    parts = [
        *_head(found, repetitions),
        *_setting(),
        *_tables(samples),
        *_waits(samples),
        *_claims(samples, found),
        *CONTRADICTIONS.splitlines(),
        *DIFFERENCES.splitlines(),
        *_changes(samples),
        *DETAILS,
        *_throttle(samples),
        *(emulation(emulated) if emulated is not None else ()),
        *(line for name in pictures for line in ("", f"![{name}]({name})")),
    ]
    return "\n".join(parts) + "\n"


def _head(found: Sequence[Answer], repetitions: int) -> Iterator[str]:
    yield "# Study `brokers`: section 6.4 of the thesis, simulated"
    yield ""
    yield from opening(SUMMARY, found)
    yield SOURCE
    yield ""
    yield (
        f"**Of section 6.4, {tally(found)}.** Means are over {repetitions} repetitions, which "
        "differ in the load of other users and in all random choices, with 95% confidence "
        "intervals (Student's t)."
    )


def _setting() -> Iterator[str]:
    yield ""
    yield "## What is simulated"
    yield ""
    yield (
        "The DAS-3 as in the study `workflows`, with what section 6.4 adds. Each workflow has a "
        "broker: a wfrun engine of its own, which knows at once what it has placed, and of all "
        f"other tasks what the information service reports every {STATUS_S:g} s. Five brokers "
        f"start {APART_S:g} s after each other. The outputs of a task return to the submission "
        f"site, {SUBMISSION}, before its successors become eligible (section 6.2.1). Other users "
        "hold 30% to 40% of each cluster all the time, as the thesis made sure (section 6.2.3). "
        "Tasks take the same time everywhere, see below."
    )
    yield ""
    yield (
        f"A head node serves submissions and copies one after another: {HEAD.submit_s:g} s of its "
        f"time for each submission, {HEAD.copy_s:g} s at either end for each copy to another "
        "cluster, before its bytes move. The load of a head node is the number of operations that "
        "it serves or that wait for it. These two costs are fitted to two of the 18 makespans of "
        "Tables 6.6 and 6.7 (one CyberShake-1000 with Single Cluster, five with All-Clusters), "
        f"and the time that Grid Engine takes to start a job, {MODEL.start_s:g} s, to the QWT of "
        "the small workflows in Table 6.6; everything else follows. The experiments with "
        f"throttling use the clusters {', '.join(FEW)}: the text says three, with Delft among "
        "them."
    )
    yield ""
    yield (
        "QWT is the wait in the queue of a cluster. *Head* is the wait of a task for its "
        "submission before that, which the thesis does not report. FTD is without the delay in "
        "initiating transfers, as there; NFT are transfers between clusters per workflow, without "
        f"those of returning outputs. NSL refers to critical paths at {FASTEST:g} times the "
        "reference speed, as the thesis' numbers do (see below)."
    )


def _tables(samples: BrokerSamples) -> Iterator[str]:
    for instances, title in ((1, "Table 6.6: one workflow"), (paper.INSTANCES, "Table 6.7: five")):
        yield ""
        yield f"## {title}"
        yield ""
        yield (
            "Thesis | here. MS, NSL, QWT, FTD. Inspiral-100 beside what the thesis calls "
            "Montage-100."
        )
        columns = ("MS [s]", "NSL", "QWT [s]", "FTD [s]")
        both = [name for column in columns for name in (f"{column} thesis", column)]
        header = ("workflow", "policy", *both, "head [s]", "NFT")
        rows = [
            _row(samples, workflow, instances, policy)
            for workflow in WORKFLOWS
            for policy in paper.POLICIES
        ]
        yield from table(header, rows)


def _row(samples: BrokerSamples, workflow: Workflow, instances: int, policy: str) -> Sequence[str]:
    stated = paper.MONTAGE_100 if workflow == paper.INSPIRAL_100 else workflow
    given = paper.TABLES[stated[0], stated[1], instances][policy]

    def ours(measure: str) -> str:
        return shown(samples.table(workflow, instances, policy, measure))

    return (
        name_of(workflow),
        policy,
        number(given.makespan_s),
        ours("makespan_s"),
        number(given.nsl),
        ours("nsl"),
        number(given.qwt_s),
        ours("qwt_s"),
        number(given.ftd_s),
        ours("ftd_s"),
        ours("head_s"),
        ours("nft"),
    )


def name_of(workflow: Workflow) -> str:
    """As ``CyberShake-30``."""
    family, size = workflow
    return f"{'CyberShake' if family == 'cybershake' else family.capitalize()}-{size}"


def _waits(samples: BrokerSamples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.7: queue waits of five CyberShake-1000"
    yield ""
    yield "Percentiles in s, and the share of tasks that wait longer than 100 s (thesis: about 37%"
    yield "with All-Clusters)."
    shares = (10, 25, 50, 75, 90, 99)
    header = ("policy", *(f"{share}%" for share in shares), "over 100 s")
    rows = []
    for policy in paper.POLICIES:
        waits_s = samples.waits_s(policy)
        late = samples.table(paper.CYBERSHAKE_1000, paper.INSTANCES, policy, "late_share")
        rows.append((policy, *(number(waits_s[share]) for share in shares), f"{late.mean:.0%}"))
    yield from table(header, rows)


def _throttle(samples: BrokerSamples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.8: five CyberShake-1000 on three clusters, throttled"
    yield ""
    yield (
        "Total makespan, and the mean load of Delft's head node. The figure has no numbers in the "
        "text; its load without a limit is twice that with 150 and four times that with 25. The "
        "text does not say which policy was throttled: here all three, and a claim holds if it "
        "does for two of them."
    )
    header = ("policy", "", *(f"limit {limit}" for limit in paper.LIMITS), "no limit")
    limits = (*paper.LIMITS, None)
    rows = []
    for policy in paper.POLICIES:
        spans = [samples.throttled(policy, limit, "makespan_s") for limit in limits]
        loads = [samples.throttled(policy, limit, "load") for limit in limits]
        rows.append((policy, "makespan [s]", *(shown(span) for span in spans)))
        rows.append((policy, "load [%]", *(shown(_percent(load)) for load in loads)))
        factors = (number(loads[-1].mean / load.mean) for load in loads)
        rows.append((policy, "load, times less", *factors))
    yield from table(header, rows)


def _percent(load: Sample) -> Sample:
    return combine(lambda value: 100 * value, load)


def _claims(samples: BrokerSamples, found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## The claims of section 6.4"
    yield ""
    yield (
        "In our words. *Similar*, *roughly* and *converges* are taken as within 25%, "
        "*significantly* as a factor of 1.5, *noticeably* as more than 2%. No bound was chosen by "
        "the results."
    )
    yield ""
    yield VERDICTS
    yield (
        "Median waits have a floor, the time in which a job starts: claims on them are decided by "
        "the exact sign test over the repetitions."
    )
    yield from claims_table(found)
    again = named_cause(samples, found)
    yield ""
    yield (
        "Of the claims on five CyberShake-1000 that do not hold, with the cause that *What "
        "differs, and why* names for their waits, *head nodes that cost nothing*:"
    )
    yield from table(
        ("", "claim", "verdict", "with head nodes that cost nothing", "means with them"),
        (
            (str(b.number), b.claim.text, b.verdict.value, a.verdict.value, a.evidence)
            for b, a in again
        ),
    )


def named_cause(samples: BrokerSamples, found: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """The claims on Table 6.7 and Figure 6.7 for five CyberShake-1000 that do not hold, with their
    answers where head nodes cost nothing."""
    tested = [
        one
        for one in found
        if one.claim.text.startswith("5 x CyberShake-1000")
        and not one.holds
        and "contention" not in one.claim.text  # compares with and without them
    ]
    changed = samples.with_change(FREE_HEADS)
    return list(zip(tested, answer([one.claim for one in tested], changed), strict=True))


def _changes(samples: BrokerSamples) -> Iterator[str]:
    yield ""
    yield "Five CyberShake-1000 with one change of the model: total makespan and QWT in s."
    columns = [f"{policy}, {name}" for policy in paper.POLICIES for name in ("makespan", "QWT")]
    workflow, instances = paper.CYBERSHAKE_1000, paper.INSTANCES
    base = [
        shown(samples.table(workflow, instances, policy, measure))
        for policy in paper.POLICIES
        for measure in ("makespan_s", "qwt_s")
    ]
    rows = [["nothing", *base]]
    for change, title in CHANGES.items():
        cells = (
            shown(samples.changed(change, policy, measure))
            for policy in paper.POLICIES
            for measure in ("makespan_s", "qwt_s")
        )
        rows.append([title, *cells])
    yield from table(("changed", *columns), rows)
