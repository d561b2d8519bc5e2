"""The page of the study: every table and figure of the thesis beside our results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.parsers.generate import generate
from wfrun.runners.metrics.samples import percentile, summarize
from wfrun.studies.common.claim import Answer, tally
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import (
    DETAILS,
    VERDICTS,
    claims_table,
    opening,
    table,
)
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.against_waits import CLAIMS_AGAINST_WAITS
from wfrun.studies.workflows.against_waits import rows as rows_against_waits
from wfrun.studies.workflows.background import UTILIZATION, total_utilization, utilizations
from wfrun.studies.workflows.causes import REPETITIONS, Tested, holding
from wfrun.studies.workflows.claims_rest import variant_name
from wfrun.studies.workflows.contradictions import CONTRADICTIONS
from wfrun.studies.workflows.differences import DIFFERENCES, SUMMARY
from wfrun.studies.workflows.experiments import WorkflowsScale
from wfrun.studies.workflows.samples import Samples


def page(
    samples: Samples,
    found: Sequence[Answer],
    tests: Sequence[Tested],
    scale: WorkflowsScale,
    origins: Sequence[tuple[str, int]],
    pictures: Sequence[str],
) -> str:
    """The page in Markdown. ``tests`` are the claims tested again with a change, ``origins`` the
    (family, size) of the workflows that come from the corpus, ``pictures`` the names of files
    beside the page."""
    parts = [
        *_head(found, tests, scale, origins),
        *_setting(samples),
        *_claims(found),
        *_causes(tests),
        *CONTRADICTIONS.splitlines(),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *_figure_6_2(scale),
        *_figure_6_3(samples),
        *_table_6_3(samples),
        *_figure_6_4(samples),
        *_figure_6_5(samples),
        *_table_6_4(samples),
        *_figure_6_6(samples),
        *_table_6_5(samples),
        *_against_waits(samples),
        *(line for name in pictures for line in ("", f"![{name}]({name})")),
    ]
    return "\n".join(parts) + "\n"


def _head(
    found: Sequence[Answer],
    tests: Sequence[Tested],
    scale: WorkflowsScale,
    origins: Sequence[tuple[str, int]],
) -> Iterator[str]:
    yield "# Study `workflows`: chapter 6 of the thesis, simulated again"
    yield ""
    yield from opening(SUMMARY, found)
    yield (
        'Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft '
        "2010, sections 6.2 and 6.3. The policies and the engine are those of `wfrun run`."
    )
    yield ""
    yield (
        f"**Of section 6.3, {tally(found)}.** Means are over {scale.idle} "
        f"repetitions in an idle system and {scale.loaded} with background load (BG), with 95% "
        "confidence intervals (Student's t). Repetitions differ in the workflow, the background "
        "and all random choices; policies are compared on the same ones."
    )
    yield ""
    yield _explained(found, tests)
    yield ""
    if origins:
        names = ", ".join(f"{family}-{size}" for family, size in origins)
        yield f"From the documents that were given: {names}. All other workflows are generated."
    else:
        yield "All workflows are generated (`wfrun generate`)."


def _explained(found: Sequence[Answer], tests: Sequence[Tested]) -> str:
    """A text on the claims that do not hold here. It names those that contradict the waits in the
    thesis's own tables, and those that hold with one rule changed."""
    open_ = {a.number for a in found if not a.holds and not a.claim.always}
    against = sorted(open_ & CLAIMS_AGAINST_WAITS)
    changed = sorted((open_ & holding(tests)) - set(against))

    def numbers(claims: Sequence[int]) -> str:
        return ", ".join(map(str, claims)) or "none"

    return (
        f"Of the others, {len(against)} are against the waits in the thesis' own tables (claims "
        f"{numbers(against)}), which is no proof, since mean waits do not decide makespans; "
        f"{len(changed)} hold if one rule is changed as these tables require (claims "
        f"{numbers(changed)}). Neither count as claims that hold. Both are tested below."
    )


def _setting(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## What is simulated"
    yield ""
    yield (
        "The five clusters of the DAS-3 (Table 1.2) with the links of Table 2.1, FCFS queues, "
        "serial transfers, initial inputs at no cost (section 6.2.1); a task's outputs are one "
        "file (section 6.1.1). Other users have "
        + ", ".join(f"{share:.0%} of {site}" for site, share in UTILIZATION.items())
        + ", 30% of all, for 48 hours before a workflow arrives: bursts of similar jobs, and wide "
        "ones (`wfrun/studies/workflows/background.py` gives the sources of their "
        "distributions)."
    )
    yield ""
    yield (
        "A node runs one task at a time. The thesis does not say so, but its Table 7.4 has the "
        "clusters' numbers of nodes as sizes, and only then are the queue waits of Single Cluster "
        "those of Table 6.3:"
    )
    rows = (
        (
            workload,
            number(paper.TABLE_6_3[workload, False][paper.SINGLE].qwt_s),
            *(shown(samples.places(workload, places, "qwt_s")) for places in (1, 2, 4)),
        )
        for workload in ("wf-large1", "wf-large2")
    )
    header = ("QWT [s], Single Cluster", "thesis", "1 task per node", "2", "4")
    yield from table(header, rows)
    yield ""
    yield "### Table 6.2: the workflows"
    yield from table(
        ("workload", "reference makespan [s], thesis", "here (Single Cluster)",
         "output [MB], thesis", "here (generated, seed 0)"),
        (_characteristics(samples, workload) for workload in paper.WORKLOADS),
    )  # fmt: skip


def _characteristics(samples: Samples, workload: str) -> tuple[str, ...]:
    makespan_s, output_mb = paper.CHARACTERISTICS[workload]
    sizes = []
    for family, size in paper.WORKLOADS[workload]:
        workflow = generate(family, size, 0)
        made = {f for task in workflow.tasks for f in task.outputs}
        sizes.append(sum(workflow.files[f].size_bytes or 0 for f in made) / 1e6)
    measured = samples.single(workload, paper.SINGLE, "makespan_s", loaded=False)
    mean_mb = sum(sizes) / len(sizes)
    return workload, number(makespan_s), shown(measured), number(output_mb), number(mean_mb)


def _figure_6_2(scale: WorkflowsScale) -> Iterator[str]:
    yield ""
    yield "## Figure 6.2: utilization by other users"
    yield ""
    yield (
        f"In percent of the processors, over the {scale.loaded} repetitions with background load: "
        "the work submitted in 96 hours, before and during a run. The bars of the thesis have no "
        "numbers in the text."
    )
    rows = (
        (
            name,
            f"{100 * (UTILIZATION[name] if name in UTILIZATION else total_utilization()):.0f}",
            shown(summarize(100 * value for value in values)),
            number(100 * min(values)),
            number(100 * max(values)),
        )
        for name, values in utilizations(scale.loaded).items()
    )
    yield from table(("cluster", "chosen", "mean", "lowest", "highest"), rows)


def _figure_6_4(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.4: distributions with background load"
    yield ""
    yield (
        "Percentiles over all runs, of the distributions that the figure draws; makespans in "
        "seconds. The figure of the thesis has no numbers in the text."
    )
    shares = (10, 50, 90, 100)
    header = ("workload", "policy", *(f"{m} {p}%" for m in ("makespan", "NSL") for p in shares))
    rows = (
        (
            workload,
            policy,
            *(
                number(percentile(samples.runs(workload, policy, measure), share))
                for measure in ("makespan_s", "nsl")
                for share in shares
            ),
        )
        for workload in paper.CDF_WORKLOADS
        for policy in paper.TABLE_6_3[workload, True]
    )
    yield from table(header, rows)


def _figure_6_3(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.3: makespan and NSL of single workflows"
    yield ""
    yield "The figure has no numbers in the text; what the text says about it is among the claims."
    for loaded in (False, True):
        rows = (
            (
                workload + ("+BG" if loaded else ""),
                policy,
                *(
                    cell
                    for measure in ("makespan_s", "nsl")
                    for sample in [samples.single(workload, policy, measure, loaded=loaded)]
                    for cell in (shown(sample), number(sample.summary.median))
                ),
            )
            for workload in paper.WORKLOADS
            for policy in paper.TABLE_6_3[workload, loaded]
        )
        yield from table(("workload", "policy", "makespan [s]", "median", "NSL", "median"), rows)


def _table_6_3(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Table 6.3: queue wait, file transfer delay, transfers of single workflows"
    yield ""
    yield (
        "Thesis | here. QWT and FTD in seconds, means over tasks; NFT per workflow. FTD once: each "
        "transfer charged to one task only, although several wait for it."
    )
    header = ("workload", "policy", "QWT thesis", "QWT", "FTD thesis", "FTD", "FTD once",
              "NFT thesis", "NFT")  # fmt: skip

    def rows() -> Iterator[Sequence[str]]:
        for (workload, loaded), entries in paper.TABLE_6_3.items():
            for policy, task in entries.items():
                ours = [
                    shown(samples.single(workload, policy, measure, loaded=loaded))
                    for measure in ("qwt_s", "ftd_s", "once_s", "nft")
                ]
                name = workload + ("+BG" if loaded else "")
                yield (name, policy, number(task.qwt_s), ours[0], number(task.ftd_s), ours[1],
                       ours[2], number(task.nft), ours[3])  # fmt: skip

    yield from table(header, rows())


def _figure_6_5(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.5: makespan [s] with a concurrency limit"
    limits: tuple[int | None, ...] = (*paper.LIMITS, None)
    rows = (
        (
            workload + ("+BG" if loaded else ""),
            policy,
            *(
                shown(samples.single(workload, policy, "makespan_s", loaded=loaded, throttle=n))
                for n in limits
            ),
        )
        for policy, workload, loaded in paper.TABLE_6_4
    )
    header = ("workload", "policy", *(f"limit {n}" if n else "no limit" for n in limits))
    yield from table(header, rows)


def _table_6_4(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Table 6.4: change by throttling, best and worst over the limits"

    def rows() -> Iterator[Sequence[str]]:
        for (policy, workload, loaded), theirs in paper.TABLE_6_4.items():
            ours = [
                sorted(c.mean for c in samples.changes(workload, policy, measure, loaded=loaded))
                for measure in ("makespan_s", "nsl")
            ]
            yield (
                workload + ("+BG" if loaded else ""),
                policy,
                f"{theirs[0]:+g}% … {theirs[1]:+g}%",
                f"{ours[0][0]:+.0f}% … {ours[0][-1]:+.0f}%",
                f"{theirs[2]:+g}% … {theirs[3]:+g}%",
                f"{ours[1][0]:+.0f}% … {ours[1][-1]:+.0f}%",
            )

    header = ("workload", "policy", "makespan, thesis", "here", "NSL, thesis", "here")
    yield from table(header, rows())


def _figure_6_6(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Figure 6.6: several instances submitted together"
    rows = (
        (
            f"{instances} x CyberShake-{size}",
            variant_name(v),
            shown(samples.multi(size, instances, v, "makespan_s")),
            shown(samples.multi(size, instances, v, "nsl")),
        )
        for _, size, instances in paper.MULTI
        for v in range(len(paper.MULTI_VARIANTS))
    )
    yield from table(("workflows", "policy", "total makespan [s]", "NSL"), rows)


def _table_6_5(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Table 6.5: waits and transfers of several instances"
    yield ""
    yield "Queue wait is at the grid (held back by the throttle) + in the queues of clusters."
    header = ("workflows", "policy", "QWT thesis", "QWT", "FTD thesis", "FTD", "NFT thesis", "NFT")

    def rows() -> Iterator[Sequence[str]]:
        for (size, instances), entries in paper.TABLE_6_5.items():
            for v, task in enumerate(entries):
                held, qwt, ftd, nft = (
                    shown(samples.multi(size, instances, v, measure))
                    for measure in ("held_s", "qwt_s", "ftd_s", "nft")
                )
                throttled = paper.MULTI_VARIANTS[v][1]
                theirs = f"{number(task.held_s)} + " if throttled else ""
                ours = f"({held}) + " if throttled else ""
                yield (
                    f"{instances} x CyberShake-{size}",
                    variant_name(v),
                    theirs + number(task.qwt_s),
                    ours + qwt,
                    number(task.ftd_s),
                    ftd,
                    number(task.nft),
                    nft,
                )

    yield from table(header, rows())


def _against_waits(samples: Samples) -> Iterator[str]:
    yield ""
    yield "## Claims against the waits of the thesis"
    yield ""
    yield (
        "A makespan consists of run times and waits. According to these claims the first policy is "
        "better than the second; according to Tables 6.3 and 6.5 a task of it waits for longer, at "
        "the grid, in queues and for files together. Mean waits of a task and makespans in seconds."
    )
    yield from table(
        ("claim", "workflows", "policies", "waits, thesis", "waits, here", "makespans, here"),
        rows_against_waits(samples),
    )


def _causes(tests: Sequence[Tested]) -> Iterator[str]:
    yield ""
    yield "## Causes, tested"
    yield ""
    yield (
        "One thing is changed, the runs that it concerns are simulated again on the same seeds "
        f"(at most {REPETITIONS}), and the claims are tested again. A claim that does not hold is "
        "unexplained if no change here makes it hold and no contradiction below names it."
    )
    yield from table(
        ("what is changed", "claim", "verdict", "with the change", "means with the change"),
        (
            (
                one.change.title,
                str(one.before.number),
                one.before.verdict.value,
                one.verdict.value,
                one.evidence,
            )
            for one in tests
        ),
    )


def _claims(found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## The claims of section 6.3"
    yield ""
    yield (
        "In our words. *Similar* is taken as within 25%, *considerably* as by more than that, "
        "*almost identical* as within 2%, *much* and *substantially* as half as much again; "
        "*many*, *large* and *good* as more, or better, than at least half of the other policies, "
        "which an extreme value of one of them does not change. No bound was chosen by the results."
    )
    yield ""
    yield VERDICTS
    yield from claims_table(found)
