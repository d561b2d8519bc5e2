"""Refusals of qsub. Source: msg_qmaster.h and msg_clients_common.h of Son of Grid Engine 8.1.9, and
a live server of that version."""

from __future__ import annotations

import re

from wfrun.sites.batch.refusals import Refusals

REFUSALS = Refusals(
    limits=re.compile(r"[Oo]nly \d+ jobs are allowed|exceeds? .*(max_u_jobs|max_jobs)"),
    never=re.compile(
        r"unknown (queue|resource)|does not exist|no suitable queues|queues are not configured as"
        r"|job rejected: |JSV .*rejected job|Job is rejected$|rejected: "
        r"|denied:|is not a valid object name|argument to -\w+ option|invalid option argument"
        r"|option .* must|^qsub: ",
        re.MULTILINE,
    ),
    too_large=re.compile(r"submit a job with more than \d+ tasks"),
    # STATUS_NOTOK_DOAGAIN: the same request may be accepted later, also by a verifier of jobs.
    limit_codes=frozenset({25}),
)
