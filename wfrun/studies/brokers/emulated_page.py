"""The part of the page of the study of brokers about the emulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.emulated import LIMITS, SHRINK, SIZE_SCALE, THROTTLED, EmulatedOutcome
from wfrun.studies.common.claim import IDENTICAL, SIMILAR
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.workflows.paper import ALL, SINGLE


def emulation(rows: Sequence[EmulatedOutcome]) -> Iterator[str]:
    """Tables of the runs, and which claims they agree with."""
    first = rows[0]
    yield ""
    yield "## Emulated: the real engine over real clusters"
    yield ""
    yield (
        f"{first.instances} x CyberShake-{first.size}, each workflow run by a process of "
        "`wfrun run --emulate --at-sites`, which submits a batch job for each task; the tasks wait "
        f"for {first.time_scale:g} times their documented time, files have {SIZE_SCALE:g} of their "
        f"size. Limits are {SHRINK} times smaller than those of the thesis. One run of each case."
    )
    header = ("policy", "limit, thesis", "limit", "makespan [s]", "QWT [s]", "median", "FTD [s]",
              "NFT", "dispatched at most", "CPU of the brokers [s]", "load [%]")  # fmt: skip
    yield from table(header, (_row(row) for row in rows))
    yield ""
    yield (
        "The load is the share of a processor of the submission host that the brokers take. Times "
        "are those of the clock."
    )
    yield from table(("claim", "in the emulation", "values"), _findings(rows))


def _row(row: EmulatedOutcome) -> Sequence[str]:
    limit = row.throttle
    return (
        row.policy,
        "none" if limit is None else str(limit),
        "none" if limit is None else str(limit // SHRINK),
        number(row.makespan_s),
        number(row.qwt_s),
        number(row.waits_s[len(row.waits_s) // 2]),
        number(row.ftd_s),
        number(row.nft),
        str(row.dispatched),
        number(row.cpu_s),
        number(100 * row.load),
    )


def _findings(rows: Sequence[EmulatedOutcome]) -> Iterator[Sequence[str]]:
    """The claims for which the runs are there."""
    free = {row.policy: row for row in rows if row.throttle is None}
    limited = {row.throttle: row for row in rows if row.policy == THROTTLED and row.throttle}
    spans = {policy: row.makespan_s for policy, row in free.items()}
    if set(free) == set(paper.POLICIES):
        yield _finding(
            "Single Cluster is the best", min(spans, key=spans.__getitem__) == SINGLE, spans
        )
        yield _finding("All-Clusters is the worst", max(spans, key=spans.__getitem__) == ALL, spans)
        moved = {policy: row.nft for policy, row in free.items()}
        most = max(moved, key=moved.__getitem__)
        yield _finding("All-Clusters causes the most transfers", most == ALL, moved)
    if set(limited) == set(LIMITS):
        ends = {str(limit): row.makespan_s for limit, row in limited.items()}
        ends["none"] = spans[THROTTLED]
        yield _finding(
            "the makespan with a limit of 150 is smaller than with a limit of 25",
            ends["150"] < ends["25"],
            ends,
        )
        ratio = ends["150"] / ends["none"]
        yield _finding(
            "the makespan with a limit of 150 is similar to that without a limit",
            1 / SIMILAR <= ratio <= SIMILAR,
            ends,
        )
        yield _finding(
            "a limit of 25 makes the makespan noticeably longer",
            ends["25"] > IDENTICAL * ends["none"],
            ends,
        )
        loads = {str(limit): row.load for limit, row in limited.items()}
        loads["none"] = free[THROTTLED].load
        for limit, factor in paper.LOAD_FACTORS.items():
            text = f"a limit of {limit} divides the load by {factor:g}, within 25%"
            ratio = factor * loads[str(limit)] / loads["none"]
            yield _finding(text, 1 / SIMILAR <= ratio <= SIMILAR, loads)


def _finding(text: str, agrees: bool, values: Mapping[str, float]) -> Sequence[str]:
    shown = ", ".join(f"{name} {number(value)}" for name, value in values.items())
    return text, "yes" if agrees else "**no**", shown
