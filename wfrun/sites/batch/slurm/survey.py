"""The commands that show Slurm's partitions and limits. Source: sinfo(1), scontrol(1) and
sacctmgr(1) of version 22.05."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.sites.batch.offers import Offer
from wfrun.sites.batch.slurm.offer import SINFO_FORMAT, read_offer
from wfrun.sites.batch.survey import Survey

_ASSOCIATIONS = (
    'exec sacctmgr --noheader --parsable2 show associations user="$(id -un)" format=MaxSubmitJobs'
)


def _read(answers: Mapping[str, str]) -> Offer:
    return read_offer(answers["sinfo"], answers["config"], answers["associations"])


SURVEY = Survey(
    probe=("sbatch", "--version"),
    needed={"sinfo": ("sinfo", "--exact", "--noheader", f"--format={SINFO_FORMAT}")},
    wanted={
        "config": ("scontrol", "show", "config"),
        "associations": ("sh", "-c", _ASSOCIATIONS),
    },
    read=_read,
)
