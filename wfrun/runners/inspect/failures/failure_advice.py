"""What a user can do about failed attempts, by cause."""

from __future__ import annotations

from wfrun.engine.exchange import Cause

_ADVICE: dict[Cause, str] = {
    "exit": "read what the task printed: `{logs}`",
    "signal": "read what the task printed: `{logs}`. SIGKILL (9) often means that it used more "
    "memory than it requested",
    "memory": "request more memory in the document",
    "walltime": "request a longer walltime in the document",
    "output": "compare the outputs that the document declares with what the task writes: `{logs}`",
    "launch-failed": "install the program at the site, or correct its path in the document",
    "environment": "correct `prologue` or `container` of the site in the catalog; "
    "`wfrun sites check` tests them",
    "staging": "look for the reason in the message above; `wfrun files` shows which site has which "
    "file, `wfrun sites check` tests the links",
    "disk-full": "free space at the site, or name another `directory` for it in the catalog",
    "refused": "correct `queue`, `account` or `options` of the site in the catalog, or the request "
    "of the task in its document",
    "preempted": "choose a queue of the site whose jobs are not preempted",
    "expired": "request a longer walltime for the launchers in the catalog",
    "node": "report the hosts above to the site if they fail again",
    "lost": "find out whether the site or its launchers were restarted",
}
_RESUME = "then `{resume}` runs the failed tasks again"


def advice(cause: Cause, *, logs: str, resume: str, retried: bool) -> str | None:
    """What to do about failures of a cause; None if there is nothing to do. ``logs`` and ``resume``
    are the commands for the example. ``retried``: no task has failed for good."""
    known = _ADVICE.get(cause)
    if known is None:
        return None
    text = known.format(logs=logs)
    return text if retried else f"{text}; {_RESUME.format(resume=resume)}"
