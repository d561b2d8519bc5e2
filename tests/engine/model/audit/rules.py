"""The rules that every run must keep, and limits that they refer to."""

from __future__ import annotations

from typing import NamedTuple

from wfrun.engine.exchange import CopyCause

RULES: dict[str, str] = {
    "key": "the key of an attempt is used once",
    "done": "no task is placed that is done",
    "parents": "a task is placed when all its parents are done, also after files were lost",
    "throttle": "no workflow has more open attempts than the throttle",
    "replicas": "no task has more open attempts than one and its replicas, but for paused sites",
    "replica-share": "replicas hold no more than their share of the cores",
    "fits": "a task is placed at a site that it fits",
    "size": "a moldable job is placed with one of its sizes, at most half of one that was refused",
    "moved-open": "a job is moved that waits at a site, to a site that takes it",
    "moved-there": "a moved job is placed where it was sent, if that takes it",
    "queue-site": "a task is placed at a site of its resource manager",
    "refused": "a task is not placed at a site that refused it, until the run is resumed or the "
    "site has run it",
    "paused": "no task is placed at a site that reports a problem",
    "left": "nothing is placed, submitted, started or removed at a site that left the catalog",
    "held": "nothing is placed, submitted or started at a site that the user has paused",
    "task-cancelled": "no task is placed that the user has cancelled, until a failed run is "
    "resumed",
    "closing": "nothing is placed or submitted after a cancellation or the end, until a resume",
    "launcher-room": "a task is placed at a site with launchers while one of them is live",
    "ahead-room": "a site of a run with late binding gets no attempts beyond its prefetch",
    "late-room": "a late policy commits no more cores at a site than it has slots and has ended",
    "durable": "an attempt is submitted after its placement is durable, while it is open",
    "twice": "an attempt is submitted once, and again only after the site reported it absent",
    "inputs": "an attempt is submitted when its inputs are at the site",
    "success": "the success of a task counts once",
    "copy-source": "a file is copied from where it is",
    "copy-room": "no site or link has more large copies under way than the catalog says",
    "copy-again": "a failed copy is tried again no more often than its cause allows",
    "copy-late": "a late copy is given up once, if the file is at another place",
    "storage": "no task is placed where its files exceed the storage of the site",
    "discard-needed": "no file is removed that a task will read, or a final output before its copy",
    "discard-twice": "a file is removed from where it is",
    "discard-logged": "files are removed by the decision that says so, or are of no use",
    "discard-left": "when a run ends done, no site has a file that nothing needs",
    "launcher-key": "the key of a launcher is used once",
    "launcher-max": "a site has no more launchers than its catalog entry says",
    "launcher-backlog": "no more launchers than the backlog are queued",
    "launcher-request": "a request for a launcher agrees with the catalog",
    "claim-one": "one claim at a time is granted in part",
    "claim-twice": "a job is claimed for when it has neither a claim nor an open attempt",
    "claim-size": "the parts of a claim are a division of the job that its document allows",
    "claim-room": "no more processors are claimed than a site has idle, and none where others wait",
    "claim-granted": "a job is placed and submitted while all of its claim is there, once, at the "
    "site of the first part",
    "claim-late": "no job starts with parts that came later than the maximum wait",
    "claim-own": "a job runs in a placeholder of its claim",
    "claim-whole": "a claim ends with the first of its placeholders",
    "claim-returned": "the placeholders of an ended claim are stopped when it ends, when they "
    "start and when the run is resumed",
    "claim-left": "when a run ends done, nothing is claimed",
    "withdrawn-open": "an attempt is withdrawn that is open at the site and has not started",
    "withdrawn-again": "no attempt is withdrawn again before the site answers",
    "withdrawn-at-once": "no attempt is withdrawn by the decision that places it",
    "withdrawn-room": "one decision withdraws no more cores than other sites have idle",
    "withdrawn-unanswered": "unanswered withdrawals never exceed the idle cores elsewhere",
    "end-open": "a run ends when no attempt that matters is open",
    "end-done": "a run ends done when all tasks are done",
    "end-collected": "a run ends done when all final outputs that were written are collected",
    "end-cancelled": "a run ends cancelled only if the user cancelled it",
    "end-failed": "in a failed run each task is done, has failed, or depends on one that failed",
    "end-retries": "a task fails for good when its retries are used up",
    "end-gave-up": "no run ends because a policy places nothing although its sites are open",
}

MAX_SETBACKS = 10
"""Maximum number of failures of a task that are not its own fault."""
COPY_RETRIES: dict[CopyCause, int] = {
    "disk-full": 3,
    "quota": 3,
    "permission": 0,
    "connection": 5,
    "absent": 3,
    "changed": 3,
    "checksum": 3,
    "stalled": 2,
    "unknown": 3,
}
"""Maximum number of retries of a copy, by the cause of the last failure."""
MAX_REMAKES = 3
"""Maximum number of times that a file is made again which vanished from its only place."""
MIN_WALLTIME_S = 300.0
"""Minimum walltime of a launcher in seconds, unless the catalog allows less."""


class Violation(NamedTuple):
    """A rule that was broken."""

    rule: str
    message: str
    position: int
    """Number of durable events before it."""
