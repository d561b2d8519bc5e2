"""The commands that show OAR's nodes. Source: oarnodes(1) of version 2.5."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wfrun.sites.batch.oar.offer import read_offer
from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.survey import Survey


def _read(answers: Mapping[str, str]) -> Offer:
    return read_offer(answers["nodes"])


SURVEY = Survey(
    probe=("oarstat", "-V"),
    needed={"nodes": ("sh", "-c", "oarnodes -J && exec oarstat -V")},
    wanted={},
    read=_read,
    version=re.compile("OAR version"),
)
