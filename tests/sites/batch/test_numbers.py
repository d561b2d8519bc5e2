"""Answers of batch systems whose numbers are none: they are refused, and end nothing else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest

from tests.sites.batch.recordings import GRID_ENGINE, OPENPBS, SLURM, recorded
from tests.sites.batch.test_offers import grid_engine, pbs
from tests.sites.batch.test_pbs import TORQUE
from wfrun.sites.batch.grid_engine import queue as grid_engine_queue
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.pbs.attributes import endings_of, jobs_of
from wfrun.sites.batch.pbs.queue_json import read_json
from wfrun.sites.batch.pbs.queue_text import read_text
from wfrun.sites.batch.slurm import offer as slurm_offer
from wfrun.sites.batch.slurm import queue as slurm_queue

READERS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    (SLURM, "queue", slurm_queue.read_queue),
    (SLURM, "sinfo", lambda text: slurm_offer.read_offer(text, "", "")),
    (GRID_ENGINE, "qacct-sig", grid_engine_queue.read_accounting),
    (GRID_ENGINE, "summary", lambda text: grid_engine(summary=text)),
    (GRID_ENGINE, "exec-hosts", lambda text: grid_engine(hosts=text)),
    (GRID_ENGINE, "queues", lambda text: grid_engine(queues=text)),
    (GRID_ENGINE, "environments", lambda text: grid_engine(environments=text)),
    (GRID_ENGINE, "config", lambda text: grid_engine(config=text)),
    (OPENPBS, "qstat-after", lambda text: jobs_of(read_json(text))),
    (OPENPBS, "qstat-after", lambda text: endings_of(read_json(text), torque=False)),
    (OPENPBS, "qstat-Qf-json", lambda text: pbs(queues=text)),
    (OPENPBS, "pbsnodes-json", lambda text: pbs(nodes=text)),
    ("torque", "", lambda text: endings_of(read_text(text), torque=True)),
    ("torque", "", lambda text: jobs_of(read_text(text))),
)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 400, "²", "٣", "-1", ""])
@pytest.mark.parametrize(("system", "name", "read"), READERS)
def test_each_number_of_an_answer(
    system: str, name: str, read: Callable[[str], object], number: str
) -> None:
    """In place of each number of what a real one has printed, and of all of them."""
    text = TORQUE if system == "torque" else recorded(system, name).output
    found = list(re.finditer(r"\d+", text))
    texts = [text[: m.start()] + number + text[m.end() :] for m in found[:: 1 + len(found) // 100]]
    for each in (*texts, re.sub(r"\d+", number, text)):
        with contextlib.suppress(QueueUnknownError):
            read(each)
