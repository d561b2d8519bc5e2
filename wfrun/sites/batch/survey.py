"""What to ask a batch system, once, to learn what it offers. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from wfrun.sites.batch.grid_engine import offer as grid_engine_offer
from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.pbs import offer as pbs_offer
from wfrun.sites.batch.slurm import offer as slurm_offer

MOST_HOSTS = 32
"""Hosts of a Grid Engine whose memory is looked at: each is a command of its own."""


class Survey(NamedTuple):
    """Commands for the head node, and what their outputs mean."""

    needed: Mapping[str, tuple[str, ...]]
    """Without an answer of each there is no offer."""
    wanted: Mapping[str, tuple[str, ...]]
    """Those that many sites do not answer."""
    read: Callable[[Mapping[str, str]], Offer]
    """From the outputs; of a command that failed: empty. Raises QueueUnknownError."""


def _sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def _read_pbs(answers: Mapping[str, str]) -> Offer:
    read = pbs_offer.read_json_objects
    server = read(answers["server"], "Server") if answers["server"] else {}
    return pbs_offer.offer_of(
        read(answers["queues"], "Queue"), read(answers["nodes"], "nodes"), server
    )


def _read_torque(answers: Mapping[str, str]) -> Offer:
    read = pbs_offer.read_text_objects
    return pbs_offer.offer_of(
        read(answers["queues"]), read(answers["nodes"]), read(answers["server"])
    )


_ASSOCIATIONS = (
    'exec sacctmgr --noheader --parsable2 show associations user="$(id -un)" format=MaxSubmitJobs'
)

_QUEUES_OF_USER = 'exec qstat -g c -U "$(id -un)"'
"""Queues that are for others are not among them."""

SURVEYS: dict[str, Survey] = {
    "slurm": Survey(
        needed={
            "sinfo": ("sinfo", "--exact", "--noheader", f"--format={slurm_offer.SINFO_FORMAT}")
        },
        wanted={
            "config": ("scontrol", "show", "config"),
            "associations": _sh(_ASSOCIATIONS),
        },
        read=lambda a: slurm_offer.read_offer(a["sinfo"], a["config"], a["associations"]),
    ),
    "grid-engine": Survey(
        needed={"queues": ("qconf", "-sq", "*"), "summary": _sh(_QUEUES_OF_USER)},
        wanted={
            "environments": _sh('for pe in $(qconf -spl); do qconf -sp "$pe"; done'),
            "complexes": ("qconf", "-sc"),
            "hosts": _sh(
                f'for host in $(qconf -sel | head -n {MOST_HOSTS}); do qconf -se "$host"; done'
            ),
            "config": ("qconf", "-sconf"),
        },
        read=lambda a: grid_engine_offer.read_offer(
            a["queues"], a["summary"], a["environments"], a["complexes"], a["hosts"], a["config"]
        ),
    ),
    "pbs": Survey(
        needed={
            "queues": ("qstat", "-Q", "-f", "-F", "json"),
            "nodes": ("pbsnodes", "-a", "-F", "json"),
        },
        wanted={"server": ("qstat", "-B", "-f", "-F", "json")},
        read=_read_pbs,
    ),
    "torque": Survey(
        needed={"queues": ("qstat", "-Q", "-f"), "nodes": ("pbsnodes", "-a")},
        wanted={"server": ("qstat", "-B", "-f")},
        read=_read_torque,
    ),
}
"""By the ``kind`` of a site."""
