"""Refusals of qsub. Source: pbs_messages.c and pbs_error.h of OpenPBS 23.06, and a live server of
that version; pbs_error_db.h and array_func.c of Torque 6.1. In OpenPBS the exit code is the error
number modulo 256."""

from __future__ import annotations

import re

from wfrun.sites.batch.refusals import Refusals

_LIMITS = (
    r"would exceed "  # "complex's per-user limit", "limit on resource ncpus in queue workq"
    r"|[Mm]aximum number of jobs .*already in|exceeds the (queue|server) limit"
    r"|Queue is (not enabled|currently not available)"
)
_NEVER = (
    r"Unknown (queue|resource|node|Dependent)|Undefined attribute|Cannot set attribute, read only"
    r"|Illegal attribute or resource value"
    r"|[Jj]ob (exceeds|violates) queue (and/or server )?resource limits"
    r"|Resource limit exceeds allowable|attribute value is out of range"
    r"|name is too long|No default queue specified|No support for requested service"
    r"|[Ii]nvalid ([Aa]ccount|Job Dependency|provisioning request|object name)"
    r"|Bad [UG]ID for job execution|Unauthorized Request|No Permission"
    r"|Access (to queue is denied|from host not allowed)"
    r"|Resource invalid in \"select\"|cannot be used with \"?select|Cannot be used with select"
    r"|Cannot have \"place\" without|duplicated resource within|Mutually exclusive values"
    r"|node\(s\) specification error|min_walltime|jobscript size exceeded"
    r"|Job rejected by all possible destinations"
    r"|Queue does not allow (batch|nonrerunable|rerunable|fault)|Wrong job type"
)

OPENPBS = Refusals(
    limits=re.compile(_LIMITS),
    never=re.compile(_NEVER),
    too_large=re.compile(r"Array job exceeds server or queue size limit"),
    # PBSE_ENTLIMCT, PBSE_ENTLIMRESC, PBSE_QUNOENB and PBSE_MAXQUED.
    limit_codes=frozenset({15142 % 256, 15143 % 256, 15021 % 256, 15046 % 256}),
)
TORQUE = Refusals(
    limits=re.compile(_LIMITS),
    never=re.compile(_NEVER),
    # A queue that takes no arrays takes jobs one by one.
    too_large=re.compile(
        r"Requested array size too large|Bad Job Array Request|Queue does not allow job arrays"
    ),
)
