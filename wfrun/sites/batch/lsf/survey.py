"""The commands that show LSF's queues and limits. Source: bqueues(1), bhosts(1), lshosts(1),
bmgroup(1), bparams(1), busers(1) and lsid(1) of LSF 10.1."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wfrun.sites.batch.lsf.offer import read_offer
from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.survey import Survey


def _read(answers: Mapping[str, str]) -> Offer:
    return read_offer(**answers)


SURVEY = Survey(
    probe=("lsid",),
    needed={
        # Queues that this user may not use are left out.
        "queues": ("sh", "-c", 'exec bqueues -l -u "$(id -un)"'),
        "hosts": ("bhosts", "-w"),
    },
    wanted={
        "machines": ("lshosts", "-w"),
        "groups": ("bmgroup", "-w"),
        "parameters": ("bparams", "-a"),
        "user": ("sh", "-c", 'exec busers -w "$(id -un)"'),
    },
    read=_read,
    version=re.compile(r"\bLSF\b"),
)
