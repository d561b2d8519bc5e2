"""How the text of the thesis was read: a part of the page of `bags` written by hand.

It has no numbers that a change of the code may change, and refers to the tables of
`wfrun.studies.bags.cause_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator

from wfrun.studies.common.page import table

_COLUMNS = ("", "text", "here", "other readings")
_READINGS = (
    (
        "system",
        "20 clusters, over 3,500 processors, speeds from 1.0 to 1.75, equal within a cluster "
        "(5.1.1, 5.3.1)",
        "as in the text; sizes and speeds of the clusters are assumed",
        "equal speeds: *Policies that know nothing*",
    ),
    (
        "queues",
        "FCFS without backfilling; no failures, no latency, no other jobs (5.3.4)",
        "as in the text",
        "",
    ),
    (
        "load",
        "not defined (5.3.3, Table 5.4)",
        "busy share of all processors while bags arrive; processors count with their speeds",
        "fewer tasks wait if work after the last arrival counts, or if all processors count with a "
        "speed of 1",
    ),
    (
        "scaling to a load",
        "not described; real traces have the same length, and a scaled trace may not be realistic "
        "(5.3.3)",
        "times between arrivals and the length of a day are shortened",
        "the load changes how often bags arrive, but not the length of a day: *The length of a "
        "day*",
    ),
    (
        "number of tasks",
        "20,000 to 175,000, on average over 60,000, with a median of over 64,000 (5.3.3)",
        "60,000 at each load",
        "*The number of tasks*; in proportion to the load: *The length of a day*",
    ),
    (
        "day",
        "48 slots of 30 minutes (5.2.3)",
        "60,000 tasks are 2.6 days of the model",
        "all in about a day: *The length of a day*; in bursts: *From which load on tasks wait*",
    ),
    (
        "run times",
        "row *Avg* of Table 5.3, without a maximum (5.2.5)",
        "at a load of 60%, cut to a third of the time in which bags arrive",
        "cut to 6 hours or to 5 minutes: S-T and S-BoT are equal at 60%, too (tried, not in the "
        "tables)",
    ),
    (
        "eligible set",
        "renewed only after all tasks in the schedule are *completed* (5.1.2)",
        "renewed when all tasks have been dispatched",
        "taken literally, S-BoT runs one bag after another: at a load of 20% this takes over 100 "
        "times as long as the arrivals, and S-BoT cannot be as good as S-T (5.4.4)",
    ),
    (
        "monitoring",
        "periodical, the period is not given (5.1.2)",
        "10 s, as KOALA polls local managers (4.3.3)",
        "*The period of the monitoring service*; with 30 s and 60 s S-T and S-BoT are equal at "
        "60%, too (tried, not in the tables)",
    ),
    (
        "replicas",
        "one of each task, four with WQR4x, after all tasks of the eligible set (5.1.4)",
        "as in the text: replicas start when no task waits",
        "no replicas: *Policies that know nothing*",
    ),
    (
        "streams",
        "an independent stream of bags for each cluster (5.3.3)",
        "as in the text; all streams have the same rate",
        "rates in proportion to the processors of the clusters: *Architectures*",
    ),
    (
        "users",
        "ranks of one trace (5.2.2); with sep-c each user at one cluster (5.1.2)",
        "each cluster has users of its own",
        "the same users at all clusters: *Fair selection policies*",
    ),
    (
        "fcondor",
        "users change the resource manager when tasks start to be queued (5.1.2)",
        "users change it after each task that has to wait",
        "users change it after whole bags: *Architectures*",
    ),
    (
        "bags of logs",
        "bags arrive as a whole (5.1.1, 5.1.3), and tasks have times between arrivals (5.4.2)",
        "a task is submitted at the submission time of its job in the log",
        "bags submitted as a whole: *The size of a bag, under real load*",
    ),
)


def readings() -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "## How the text was read"
    yield ""
    yield (
        "The table lists the parts of the model that decide how many tasks wait. Numbers in "
        "brackets are sections of the thesis; names in italics are tables of the section on causes."
    )
    yield from table(_COLUMNS, _READINGS)
