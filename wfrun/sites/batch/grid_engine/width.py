"""Submission of parallel jobs to Grid Engine, which refuses those that no queue can ever run.

By itself qsub accepts a job that asks a parallel environment for more slots than it, its queues or
any of its nodes have, and the job waits for ever. ``-w e`` has the job verified against the queues
as configured, as if they were empty: disabled, suspended and full queues, hosts that are down, and
slots and consumables in use do not count (tried with version 8.1.9). It also refuses what may run
later, though: a request for a load value such as mem_free, since load values do not count either,
and a job that avoids nodes. So after a refusal the width decides: the job is refused only if a
narrow one like it is accepted, both without nodes to avoid, or both also without the request for
memory. Source: option -w of qsub(1)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

_SUBMISSION = """\
said=$(qsub -w e "$@" 2>&1) && {{ printf '%s\\n' "$said"; exit; }}
code=$?
refuse() {{ printf '%s\\n' "$said" "$@" >&2; exit $code; }}
none() {{ case $("$@" 2>&1) in *"{none}"*) ;; *) return 1 ;; esac; }}
case $said in *"{none}"*) ;; *) refuse ;; esac
{questions}exec qsub "$@"
"""
_QUESTION = "if none {wide} && {narrow} >/dev/null 2>&1; then refuse {text}; fi\n"
NO_QUEUE = "no suitable queues"
"""What qsub prints if no queue can run the job; msg_schedd.h."""


class Question(NamedTuple):
    """The commands that verify two jobs without submitting them. The jobs differ only in their
    width."""

    wide: Sequence[str]
    narrow: Sequence[str]
    text: str
    """What to print if only the narrow one can ever run."""


def checked(arguments: Sequence[str], questions: Sequence[Question]) -> list[str]:
    """The command that submits a job with these arguments of qsub. It fails with qsub's message if
    no queue can ever run a job of this width. If qsub accepts the job, qsub is called only once."""
    asked = "".join(
        _QUESTION.format(
            wide=shlex.join(question.wide),
            narrow=shlex.join(question.narrow),
            text=shlex.quote(question.text),
        )
        for question in questions
    )
    return ["sh", "-c", _SUBMISSION.format(none=NO_QUEUE, questions=asked), "qsub", *arguments]
