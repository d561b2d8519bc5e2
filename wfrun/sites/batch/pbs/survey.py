"""The commands that show queues and limits of PBS and Torque. Source: qstat(1B) and pbsnodes(8B) of
OpenPBS 23.06, and recordings of that version; for Torque 6.1 the manual alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.pbs.offer import (
    history_notes,
    offer_of,
    read_json_objects,
    read_text_objects,
)
from wfrun.sites.batch.survey import Survey

_PBS_HISTORY = "qmgr -c 'set server job_history_enable = True'"
_TORQUE_HISTORY = "qmgr -c 'set server keep_completed = 300'"
_PROBE = ("qstat", "--version")


def _read_pbs(answers: Mapping[str, str]) -> Offer:
    server = read_json_objects(answers["server"], "Server") if answers["server"] else {}
    return offer_of(
        read_json_objects(answers["queues"], "Queue"),
        read_json_objects(answers["nodes"], "nodes"),
        server,
        notes=history_notes(server, "job_history_enable", _PBS_HISTORY),
    )


def _read_torque(answers: Mapping[str, str]) -> Offer:
    server = read_text_objects(answers["server"])
    return offer_of(
        read_text_objects(answers["queues"]),
        read_text_objects(answers["nodes"]),
        server,
        picks_queue=True,
        notes=history_notes(server, "keep_completed", _TORQUE_HISTORY),
    )


PBS = Survey(
    probe=_PROBE,
    needed={
        "queues": ("qstat", "-Q", "-f", "-F", "json"),
        "nodes": ("pbsnodes", "-a", "-F", "json"),
    },
    wanted={"server": ("qstat", "-B", "-f", "-F", "json")},
    read=_read_pbs,
    version=re.compile("pbs_version"),
)
TORQUE = Survey(
    probe=_PROBE,
    needed={"queues": ("qstat", "-Q", "-f"), "nodes": ("pbsnodes", "-a")},
    wanted={"server": ("qstat", "-B", "-f")},
    read=_read_torque,
    version=re.compile(r"\A(?!.*pbs_version)", re.DOTALL),
)
