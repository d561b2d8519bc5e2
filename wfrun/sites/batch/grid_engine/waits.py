"""The parser of the reasons that ``qstat -j`` gives for the wait of a job. Source: qstat(1) and
sched_conf(5), ``schedd_job_info``, of version 8.1.9, msg_schedd.h, and recordings of that
version."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase

MAX_REASONS = 3
"""Maximum number of reasons, the most frequent first."""

_INFO = "scheduling info:"
_QUEUES = re.compile(r"^hard_queue_list: +(\S+)$", re.MULTILINE)
_DROPPED = re.compile(r'queue instance "([^"@]+)@[^"]*" dropped because it is (.+)')
_ELSEWHERE = "is not contained in its hard queue list"
_DISABLED = "disabled"


def read_waits(output: str) -> tuple[str, bool]:
    """The reason why the job waits, and whether all queues that the job requests are disabled. The
    reason is empty if the scheduler gives none. Reasons of other queues are left out."""
    asked = _QUEUES.search(output)
    patterns = asked[1].split(",") if asked is not None else ["*"]
    instances: Counter[tuple[str, str]] = Counter()
    others: dict[str, None] = {}
    for line in output.partition(_INFO)[2].splitlines():
        text = line.strip()
        dropped = _DROPPED.fullmatch(text)
        if dropped is None:
            if text and _ELSEWHERE not in text:
                others[text] = None
        elif any(_is_of(pattern, dropped[1]) for pattern in patterns):
            instances[dropped[1], dropped[2]] += 1
    said = [
        f"queue {queue} is {state}" if count == 1 else f"{count} instances of {queue} are {state}"
        for (queue, state), count in instances.most_common()
    ]
    is_stopped = bool(instances) and all(state == _DISABLED for _, state in instances)
    return "; ".join([*said, *others][:MAX_REASONS]), is_stopped


def _is_of(pattern: str, queue: str) -> bool:
    """Whether a queue matches a pattern of ``-q``, such as ``all.q``, ``*.q`` or ``all.q@host``."""
    return fnmatchcase(queue, pattern.partition("@")[0] or "*")
