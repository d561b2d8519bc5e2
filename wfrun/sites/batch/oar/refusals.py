"""Refusals of oarsub. Source: a live server of version 2.5.9, and its admission rules, to which
administrators add their own."""

from __future__ import annotations

import re

from wfrun.sites.batch.refusals import Refusals

REFUSALS = Refusals(
    limits=re.compile(r"you cannot have more than|[Tt]oo many|[Mm]aximum number of .*jobs"),
    never=re.compile(
        r"ERROR : The queue \S+ does not exist|There are not enough resources"
        r"|Bad resource request|^Unknown option"
        # Other rules say what they have changed.
        r"|\[ADMISSION RULE\] (Error|Only|root and oar|'|.*(not allowed|cannot|invalid|forbidden))",
        re.MULTILINE,
    ),
)
