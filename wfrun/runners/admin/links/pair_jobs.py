"""Jobs over two nodes of pairs of sites, in a run of its own whose directory is removed at the
end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from wfrun.engine.capabilities.claims.requests import width_of
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.prepare.prepare_jobs import (
    UNASKED_STRATEGY,
    claimable,
    read_job_documents,
)
from wfrun.runners.run.session import Session
from wfrun.sites.node import FOLDER

Pair = tuple[str, str]
"""The site of the first node and the site of the second node. Equal names stand for two different
nodes of one site."""
_PROGRAM = FOLDER / "alone/ping_pong.py"
_OUTPUT = "link.json"


def can_have_two_nodes(catalog: Catalog) -> frozenset[str]:
    """Names of the sites at which a job can have several nodes."""
    sites = claimable(catalog, _settings(), simulated=False).sites
    return frozenset(site.name for site in sites if width_of(site, 1) > 1)


async def run_on_pairs(
    catalog: Catalog,
    pairs: Sequence[Pair],
    *words: str,
    one_by_one: bool,
    wait_s: float | None = None,
) -> list[bytes | None]:
    """Run ``ping_pong.py`` with the arguments ``words`` on both nodes of each pair. Returns the
    output of each job; None: the job failed or did not run. ``one_by_one``: run one job at a time,
    so that jobs do not share links. The run is cancelled after ``wait_s`` seconds; None: never.
    Raises the errors of a run."""
    settings = _settings()
    catalog = claimable(catalog, settings, simulated=False)
    sites = {site.name: site for site in catalog.sites}
    with tempfile.TemporaryDirectory(prefix="wfrun-nodes-") as place:
        folder = Path(place)
        document = {
            "walltime": "5 min",
            "command": ["python3", "ping_pong.py", _OUTPUT, *words],
            "inputs": [{"name": "ping_pong.py", "from": str(_PROGRAM)}],
            "outputs": [_OUTPUT],
            "jobs": [
                {"job": f"link-{number}", **_over(sites[one], sites[other])}
                for number, (one, other) in enumerate(pairs)
            ],
        }
        (folder / "nodes.yaml").write_text(yaml.safe_dump(document))
        (read,) = read_job_documents([folder / "nodes.yaml"]).read
        if one_by_one:
            parents = [()] + [(number,) for number in range(len(pairs) - 1)]
            chained = msgspec.structs.replace(read.workflow, parents=parents)
            read = msgspec.structs.replace(read, workflow=chained)
        session = Session()
        session.start(prepare([read], catalog, settings), folder / "run", "nodes")
        timer = None
        if wait_s is not None:
            timer = asyncio.get_running_loop().call_later(wait_s, session.cancel, "kill")
        try:
            await session.drive()
        finally:
            if timer is not None:
                timer.cancel()
        outputs = folder / "run" / "outputs"
        return [_read(outputs / f"link-{number}" / _OUTPUT) for number in range(len(pairs))]


def _settings() -> Settings:
    return Settings(policy=UNASKED_STRATEGY, place="wf", retries=1)


def _over(one: SiteSpec, other: SiteSpec) -> dict[str, object]:
    """The components of a job over two nodes, as in a job document. If both are at one site, the
    job gets two different nodes where the site allows several nodes for a job."""
    if one is other and width_of(one, 1) > 1:
        return {"ppn": 1, "components": [{"site": one.name, "size": 2}]}
    return {"components": [{"site": each.name, "size": 1} for each in (one, other)]}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
