"""The part of the page of the study of brokers about the emulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.brokers.differences import (
    EMULATED_CAUSES,
    EMULATED_DIFFERENCES,
    EMULATED_LIMITS,
    EMULATED_SUMMARY,
)
from wfrun.studies.brokers.emulated import LIMITS, SIZE_SCALE, EmulatedOutcome
from wfrun.studies.brokers.emulated_claims import EmulatedSamples, emulated_answers
from wfrun.studies.common.claim import tally
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import claims_table, table
from wfrun.studies.common.verdict import Sample, combine


def emulation(rows: Sequence[EmulatedOutcome]) -> Iterator[str]:
    """The table of means, the claims with their verdicts, and the limits of the emulation."""
    first = rows[0]
    samples = EmulatedSamples(rows)
    repetitions = len({row.repetition for row in rows})
    yield ""
    yield "## Emulated: the real engine over real clusters"
    yield ""
    yield (
        f"CyberShake-{first.size}, each workflow run by a process of `wfrun run --emulate "
        "--at-sites`, its broker, which submits a batch job for each task. The tasks wait for "
        f"{first.time_scale:g} times their documented time; files have {SIZE_SCALE:g} of their "
        f"size. Limits are smaller than those of the thesis, as the clusters are. "
        f"{_runs(repetitions)}"
    )
    yield from table(_HEADER, (_row(samples, *point) for point in samples.points))
    yield ""
    yield (
        "Times are those of the clock. The load is the CPU time of wfrun's agents and of the batch "
        "commands that they run on the three head nodes (`sbatch`, `squeue`, `qsub` and so on), "
        "which the logs of the brokers count, over the makespan: 100% is one processor. "
        "*Commands* is the number of these commands, *dispatched* the maximum number of tasks "
        "dispatched at the same time."
    )
    if samples.complete:
        found = emulated_answers(samples)
        yield ""
        yield (
            f"**Of the claims in the emulation, {tally(found)}.** They are decided as those of "
            f"the simulations. CyberShake-{first.size} takes the place of CyberShake-1000."
        )
        yield from claims_table(found, EMULATED_CAUSES)
        yield from EMULATED_DIFFERENCES.splitlines()
    yield from EMULATED_LIMITS.splitlines()


def emulation_summary(rows: Sequence[EmulatedOutcome]) -> Iterator[str]:
    """What the emulation shows, for the head of the page; nothing for a quick study."""
    if EmulatedSamples(rows).complete:
        yield from EMULATED_SUMMARY.splitlines()


def _runs(repetitions: int) -> str:
    if repetitions == 1:
        return "There is one run of each row."
    return (
        f"Means are over {repetitions} repetitions, with 95% confidence intervals (Student's t). "
        "Each repetition runs all rows one after another, so that slow changes of the machine "
        "affect all rows alike."
    )


_HEADER = ("workflows", "policy", "limit, thesis", "limit", "makespan [s]", "QWT [s]", "median",
           "FTD [s]", "NFT", "dispatched", "commands", "CPU of head nodes [s]", "load [%]",
           "CPU of brokers [s]")  # fmt: skip


def _row(samples: EmulatedSamples, instances: int, policy: str, limit: int | None) -> Sequence[str]:
    def of(measure: str) -> Sample:
        return samples.sample(instances, policy, limit, measure)

    measures = ("makespan_s", "qwt_s", "median_qwt_s", "ftd_s", "nft", "dispatched",
                "head_commands", "head_cpu_s")  # fmt: skip
    return (
        str(instances),
        policy,
        "none" if limit is None else number(limit),
        "none" if limit is None else number(LIMITS[limit]),
        *(shown(of(measure)) for measure in measures),
        shown(combine(lambda load: 100 * load, of("load"))),
        shown(of("broker_cpu_s")),
    )
