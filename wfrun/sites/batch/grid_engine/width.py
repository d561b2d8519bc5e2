"""Submits parallel jobs to Grid Engine, and refuses a job if no queue can ever run it.

By itself qsub accepts a job that requests more slots than its parallel environment, the queues or
the nodes have, and the job waits for ever. ``qsub -w e`` verifies the job against the configured
queues as if they were empty. It ignores whether queues are disabled, suspended or full, whether
hosts are down, and which slots and consumables are in use (tried with version 8.1.9).

But ``-w e`` also refuses jobs that may run later: jobs that request a load value such as mem_free,
since load values are ignored too, and jobs that avoid nodes. So after a refusal further
verifications find out whether the width is the reason. They compare the job with a narrow job that
is equal otherwise: first both without nodes to avoid, then both also without the request for
memory. The job is refused only if in one comparison the narrow job is accepted and the wide job is
not. Source: option -w of qsub(1).
"""

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
    """Message if only the narrow job can ever run."""


def checked(arguments: Sequence[str], questions: Sequence[Question]) -> list[str]:
    """The command that submits a job with these arguments of qsub. The command fails with qsub's
    message if no queue can ever run a job of this width. It calls qsub only once if qsub accepts
    the job."""
    asked = "".join(
        _QUESTION.format(
            wide=shlex.join(question.wide),
            narrow=shlex.join(question.narrow),
            text=shlex.quote(question.text),
        )
        for question in questions
    )
    return ["sh", "-c", _SUBMISSION.format(none=NO_QUEUE, questions=asked), "qsub", *arguments]
