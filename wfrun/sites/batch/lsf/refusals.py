"""Refusals of bsub and bqueues. Source: the messages of LSF's library, lsb_sysmsg(3), which bsub
prints before "Job not submitted."."""

from __future__ import annotations

import re

from wfrun.sites.batch.refusals import Refusals

REFUSALS = Refusals(
    # bsub itself waits at a pending job threshold, and tries again once a minute.
    limits=re.compile(
        r"Pending job threshold reached|has reached its job limit|Queue has been closed"
        r"|No job Id can be used now|[Mm]aximum number of (pending )?jobs"
    ),
    never=re.compile(
        r"No such (queue|user/host group)|cannot use the queue|Queue does not (accept|have)"
        r"|Queue only accepts|Bad (resource|host|time|user|job name|argument|CPU limit)"
        r"|Cannot exceed queue's|Too (many|few) processors|Unknown user"
        r"|not (in|a member of) the specified|not in specified project|not have enough job slots"
        r"|is not used by the queue|Request aborted by esub|Invalid project|[Ii]llegal option"
        r"|Root job submission is disabled"
    ),
    too_large=re.compile(r"Job array index (too large|error)"),
)
