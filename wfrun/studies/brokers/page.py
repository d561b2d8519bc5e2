"""The page of the study of brokers: tables and figures of thesis section 6.4 beside our results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.claims import FREE_HEADS
from wfrun.studies.brokers.differences import CAUSES, CONTRADICTIONS, DIFFERENCES, SUMMARY
from wfrun.studies.brokers.emulated import EmulatedOutcome
from wfrun.studies.brokers.emulated_page import emulation, emulation_summary
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
    """The page in Markdown. ``emulated`` are the runs of the emulation, None without one.
    ``pictures`` are the names of files beside the page."""
    parts = [
        *_head(found, repetitions, emulated),
        *_setting(),
        *_tables(samples),
        *_claims(samples, found),
        *CONTRADICTIONS.splitlines(),
        *DIFFERENCES.splitlines(),
        *_changes(samples),
        *DETAILS,
        *_waits(samples),
        *_throttle(samples),
        *(emulation(emulated) if emulated is not None else ()),
        *(line for name in pictures for line in ("", f"![{name}]({name})")),
    ]
    return "\n".join(parts) + "\n"


def _head(
    found: Sequence[Answer], repetitions: int, emulated: Sequence[EmulatedOutcome] | None
) -> Iterator[str]:
    also = "" if emulated is None else " and emulated"
    yield f"# Study `brokers`: section 6.4 of the thesis, simulated{also}"
    yield ""
    summary = [*SUMMARY.splitlines(), *(emulation_summary(emulated) if emulated else ())]
    yield from opening("\n".join(summary), found)
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
        "The DAS-3 is that of the study `workflows`, with the additions of section 6.4. Each "
        "workflow has a broker, which is a wfrun engine of its own. A broker knows its own "
        "placements at once, and all other tasks from the information service, which reports "
        f"every {STATUS_S:g} s. The five brokers start {APART_S:g} s after each other. The outputs "
        f"of a task return to the submission site, {SUBMISSION}, before its successors become "
        "eligible (section 6.2.1). Other users hold 30% to 40% of each cluster all the time, as in "
        "the thesis (section 6.2.3). A task takes the same time on all clusters, see *Where the "
        "thesis contradicts itself*."
    )
    yield ""
    yield (
        f"A head node serves submissions and copies one after another. A submission takes "
        f"{HEAD.submit_s:g} s. A copy to another cluster takes {HEAD.copy_s:g} s of both head "
        "nodes before its bytes move. The load of a head node is the number of operations that it "
        "serves or that wait for it; 100% is one operation. These two costs are fitted to two of "
        "the 18 makespans of Tables 6.6 and 6.7: one CyberShake-1000 with Single Cluster, and five "
        f"with All-Clusters. Grid Engine takes {MODEL.start_s:g} s to start a job, which is fitted "
        "to the QWT of the small workflows in Table 6.6. No other value is fitted. The experiments "
        f"with throttling use the clusters {', '.join(FEW)}: the text has three clusters and names "
        "Delft alone."
    )
    yield ""
    yield (
        "MS is the makespan. QWT is the wait of a task in the queue of a cluster. *Head* is the "
        "wait of a task for its submission, before the QWT; the thesis does not report it. FTD is "
        "the file transfer delay of a task without the initiation of transfers, as in the thesis. "
        "NFT is the number of transfers between clusters per workflow, without the return of "
        "outputs. NSL is the makespan over the critical path on a processor of "
        f"{FASTEST:g} times the reference speed, as in the thesis (see *Where the thesis "
        "contradicts itself*)."
    )


def _tables(samples: BrokerSamples) -> Iterator[str]:
    for instances, title in (
        (1, "Table 6.6: one workflow"),
        (paper.INSTANCES, "Table 6.7: five workflows"),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield (
            "Of each measure, the value of the thesis and the value here. Both Montage-100 and "
            "Inspiral-100 stand beside the thesis' values of Montage-100."
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
    """The name of a workflow, such as ``CyberShake-30``."""
    family, size = workflow
    return f"{'CyberShake' if family == 'cybershake' else family.capitalize()}-{size}"


def _waits(samples: BrokerSamples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.7: queue waits of five CyberShake-1000"
    yield ""
    yield (
        "Percentiles of the queue wait in s, and the share of tasks that wait longer than 100 s "
        "(thesis: about 37% with All-Clusters)."
    )
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
        "Total makespan, and the mean load of Delft's head node. The text has no numbers of the "
        "figure. According to the text, a limit of 150 divides the load by 2 and a limit of 25 by "
        "4. The text does not name the throttled policy. All three policies are throttled here; a "
        "claim holds if it holds for two of them."
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
        rows.append((policy, "load divided by", *factors))
    yield from table(header, rows)


def _percent(load: Sample) -> Sample:
    return combine(lambda value: 100 * value, load)


def _claims(samples: BrokerSamples, found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## The claims of section 6.4"
    yield ""
    yield (
        "The claims are in our words. *Similar* and *roughly* mean a ratio from 0.8 to 1.25, as do "
        "the factors of 2 and 4; *much* means a factor of at least 1.5, *noticeably* more than 2%. "
        "No bound was chosen by the results."
    )
    yield ""
    yield VERDICTS
    yield (
        "Median waits have a floor, the time in which a job starts: claims on them are decided by "
        "the exact sign test over the repetitions."
    )
    yield from claims_table(found, CAUSES)
    again = named_cause(samples, found)
    yield ""
    yield (
        "The claims on five CyberShake-1000 that do not hold, tested again with head nodes that "
        "cost nothing (*Where five workflows wait*):"
    )
    yield from table(
        ("", "claim", "verdict", "with head nodes that cost nothing", "means with them"),
        (
            (str(b.number), b.claim.text, b.verdict.value, a.verdict.value, a.evidence)
            for b, a in again
        ),
    )


def named_cause(samples: BrokerSamples, found: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """The claims on five CyberShake-1000 (Table 6.7 and Figure 6.7) that do not hold, each with the
    answer to the same claim where head nodes cost nothing."""
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
