"""``wfrun sites links --nodes``: the links between the nodes of sites, measured by jobs over two
nodes, and written into the catalog."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import yaml

from wfrun.engine.capabilities.claims.requests import width_of
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.prepare.prepare_jobs import (
    UNASKED_STRATEGY,
    claimable,
    read_job_documents,
)
from wfrun.runners.run.session import Session
from wfrun.sites.catalog import parse_catalog
from wfrun.sites.node import FOLDER

_PROGRAM = FOLDER / "alone/ping_pong.py"
_Figure = Annotated[float, msgspec.Meta(gt=0, lt=1e15)]
_SECTION = re.compile(r"^node_links:.*\n(?:(?:[ \t-].*)?\n)*", re.MULTILINE)


class _Result(msgspec.Struct):
    """What a job has measured."""

    latency_s: _Figure | None = None
    bandwidth_bytes_per_s: _Figure | None = None
    error: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class MeasuredNodes(NamedTuple):
    """The link between nodes of two sites, or of one."""

    ends: tuple[str, str]
    latency_s: float | None
    """Of 64 kB, one way."""
    bandwidth_bytes_per_s: float | None
    error: str
    """Why it was not measured; else empty."""

    @property
    def line(self) -> str:
        """Its entry in a catalog."""
        one, other = self.ends
        where = f"within: {one}" if one == other else f"between: [{one}, {other}]"
        latency_s, bandwidth = self.latency_s or 0.0, self.bandwidth_bytes_per_s or 0.0
        return (
            f"{{{where}, latency: {latency_s * 1e3:.4g} ms, bandwidth: {bandwidth / 1e6:.4g} MB/s}}"
        )


def measure_nodes(catalog: Catalog) -> list[MeasuredNodes]:
    """Measure all links between nodes, one after another. Raises errors of a run."""
    settings = Settings(policy=UNASKED_STRATEGY, place="wf", retries=1)
    catalog = claimable(catalog, settings, simulated=False)
    pairs = list(combinations_with_replacement(catalog.sites, 2))
    with tempfile.TemporaryDirectory(prefix="wfrun-nodes-") as place:
        folder = Path(place)
        document = {
            "walltime": "5 min",
            "command": ["python3", "ping_pong.py", "link.json"],
            "inputs": [{"name": "ping_pong.py", "from": str(_PROGRAM)}],
            "outputs": ["link.json"],
            "jobs": [
                {"job": f"link-{number}", **_over(one, other)}
                for number, (one, other) in enumerate(pairs)
            ],
        }
        (folder / "nodes.yaml").write_text(yaml.safe_dump(document))
        (read,) = read_job_documents([folder / "nodes.yaml"]).read
        # One after another: they would share the links.
        parents = [()] + [(number,) for number in range(len(pairs) - 1)]
        chained = msgspec.structs.replace(read.workflow, parents=parents)
        plan = prepare([msgspec.structs.replace(read, workflow=chained)], catalog, settings)
        session = Session()
        session.start(plan, folder / "run", "nodes")
        asyncio.run(session.drive())
        outputs = folder / "run" / "outputs"
        return [
            _read(one.name, other.name, outputs / f"link-{number}" / "link.json")
            for number, (one, other) in enumerate(pairs)
        ]


def _over(one: SiteSpec, other: SiteSpec) -> dict[str, object]:
    """The components of a job over two nodes; of one site two different ones, where it gives
    several to a job."""
    if one is other and width_of(one, 1) > 1:
        return {"ppn": 1, "components": [{"site": one.name, "size": 2}]}
    return {"components": [{"site": each.name, "size": 1} for each in (one, other)]}


def _read(one: str, other: str, path: Path) -> MeasuredNodes:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Result)
    except (OSError, msgspec.MsgspecError):
        found = _Result(error="its job has failed")
    figures = found.latency_s, found.bandwidth_bytes_per_s
    return MeasuredNodes((one, other), *figures, "" if None not in figures else found.error)


def write_node_links(path: Path, links: Sequence[MeasuredNodes]) -> None:
    """Write measured links as ``node_links`` of a catalog, in place of those that it has. All other
    lines stay. Raises InvalidError, with the lines to write by hand, if it cannot be edited safely;
    then it stays as it is."""
    before = path.read_bytes()
    lines = "node_links:\n" + "".join(f"  - {link.line}\n" for link in links if not link.error)
    text = _SECTION.sub("", before.decode())
    after = (text if text.endswith("\n") else f"{text}\n") + lines
    old = parse_catalog(before, path)
    try:
        new = parse_catalog(after.encode(), path)
        is_right = _bare(new) == _bare(old) and new.links == old.links
    except InvalidError:
        is_right = False
    if not is_right:
        hint = f"write these lines by hand:\n{lines}"
        raise InvalidError("its 'node_links' cannot be edited", source=str(path), hint=hint)
    rewrite(path, before, after.encode())


def _bare(catalog: Catalog) -> list[SiteSpec]:
    return [msgspec.structs.replace(site, node_links=()) for site in catalog.sites]
