"""The commands that show Grid Engine's queues and limits. Source: qstat(1) and qconf(1) of version
8.1.9."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.sites.batch.grid_engine.offer import read_offer
from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.survey import Survey

MAX_HOSTS = 32
"""Maximum number of hosts whose memory is read, since each takes a command of its own."""

_QUEUES_OF_USER = 'exec qstat -g c -U "$(id -un)"'
"""Shows only queues that this user may use."""
_ENVIRONMENTS = 'for pe in $(qconf -spl); do qconf -sp "$pe"; done'
_HOSTS = f'for host in $(qconf -sel | head -n {MAX_HOSTS}); do qconf -se "$host"; done'


def _read(answers: Mapping[str, str]) -> Offer:
    return read_offer(
        answers["queues"],
        answers["summary"],
        answers["environments"],
        answers["complexes"],
        answers["hosts"],
        answers["config"],
    )


SURVEY = Survey(
    probe=("qstat", "-help"),
    needed={"queues": ("qconf", "-sq", "*"), "summary": ("sh", "-c", _QUEUES_OF_USER)},
    wanted={
        "environments": ("sh", "-c", _ENVIRONMENTS),
        "complexes": ("qconf", "-sc"),
        "hosts": ("sh", "-c", _HOSTS),
        "config": ("qconf", "-sconf"),
    },
    read=_read,
)
