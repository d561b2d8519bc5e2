"""What is done with a document of each format: all that a run or a simulation does before its
first task starts, and for small documents the simulation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.places import CORPUS, EXAMPLES
from wfrun.engine.errors import WfrunError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, NodeGroup, SiteSpec, Workflow
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.formats import FORMATS as DOCUMENT_FORMATS
from wfrun.parsers.formats import TABLE, DocumentFormat
from wfrun.parsers.generate import generate
from wfrun.parsers.logs import align_to_monday, load_of, read_gwf, read_swf, scale_load
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.store.event_store import encode_workflow
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.catalog import read_catalog

SEEDS = Path(__file__).with_name("seeds")
"""Small valid documents of each format that have its features."""
MAX_SEED_BYTES = 60_000
"""Maximum size of a document of the corpus that is mutated."""
MAX_TASKS = 60
"""Maximum number of tasks that are simulated."""
MAX_SLOTS = 10_000
"""Maximum number of cores of a catalog that is simulated: it has a record for each node."""

HERE = Catalog(
    (
        SiteSpec("a", slots=2),
        SiteSpec("b", 64, 2.0, nodes=(NodeGroup(8, 8),), memory_bytes=1 << 40, gpus=8),
    )
)
SETTINGS = Settings(policy="round-robin")
EMULATED = msgspec.structs.replace(SETTINGS, emulate=True)
TEMPLATE = LineTemplate(
    "echo {ligand} {seed:04}", outputs=("{ligand}-{seed}",), estimate="{runtime}"
)


def _read(path: Path, template: LineTemplate | None = None) -> None:
    plan = prepare([path], HERE, EMULATED, template=template)
    for workflow in plan.workflows:
        _look_at(workflow)
    if sum(len(workflow.tasks) for workflow in plan.workflows) <= MAX_TASKS:
        _simulate(plan.workflows, plan.catalog)
    with contextlib.suppress(WfrunError):
        for workflow in prepare([path], HERE, SETTINGS, template=template).workflows:
            _look_at(workflow)


def _look_at(workflow: Workflow) -> None:
    encode_workflow(workflow)
    for tasks in (workflow.tasks, workflow.files):
        for index in {0, len(tasks) // 2, len(tasks) - 1} if len(tasks) else ():
            msgspec.json.encode(tasks[index])


def _simulate(workflows: list[Workflow], catalog: Catalog) -> None:
    try:
        state = simulate(workflows, Platform(catalog), SETTINGS)
    except WfrunError:
        return
    assert math.isfinite(state.now_s)


def _read_catalog(path: Path) -> None:
    catalog = read_catalog(path)
    msgspec.json.encode(catalog)
    # The user's own catalog may describe a world in which nodes fail for 10^300 seconds.
    never_fails = not any(group.mtbf_s for site in catalog.sites for group in site.nodes)
    if never_fails and sum(site.slots for site in catalog.sites) <= MAX_SLOTS:
        _simulate([generate("montage", 20, 1)], catalog)


def _read_log(path: Path) -> None:
    read = read_gwf if ".gwf" in path.suffixes else read_swf
    for skip_bad_lines in (False, True):
        try:
            log = read(path, skip_bad_lines=skip_bad_lines)
        except WfrunError:
            continue
        msgspec.json.encode(log)
        try:
            load_of(scale_load(log.jobs, 0.7, 128), 128)
            align_to_monday(log)
        except WfrunError:
            continue


class Format(msgspec.Struct, frozen=True):
    """One format: the names of its documents, what is done with them, and its corpus."""

    name: str
    suffix: str
    examine: Callable[[Path], None]
    """Raises WfrunError for a document that is refused; any other exception is a defect."""
    patterns: tuple[str, ...] = ()
    """Documents below the folders of the corpus and the examples."""

    def corpus(self) -> list[bytes]:
        """Valid documents, the same for all who have the same files."""
        found = [path.read_bytes() for path in sorted((SEEDS / self.name).iterdir())]
        for pattern in self.patterns:
            for folder in (EXAMPLES, CORPUS):
                for path in sorted(folder.glob(pattern)) if folder.is_dir() else ():
                    if path.is_file() and path.stat().st_size <= MAX_SEED_BYTES:
                        found.append(path.read_bytes())
        return found


OF_CORPUS = {
    "dax": ("dax/**/*.xml", "dax/**/*.dax"),
    "pegasus5": ("pegasus5-yaml/*.yml",),
    "wfformat": ("wfformat/*.json",),
    "yaml": ("bags/*/*.yaml",),
    "table": ("bags/*/*.csv",),
}
"""Where the corpus and the examples have documents of a format."""


def _document_format(each: DocumentFormat) -> Format:
    template = TEMPLATE if each is TABLE else None
    suffix, patterns = each.suffixes[0], OF_CORPUS.get(each.name, ())
    return Format(each.name, suffix, lambda path: _read(path, template), patterns)


FORMATS = {each.name: _document_format(each) for each in DOCUMENT_FORMATS} | {
    each.name: each
    for each in (
        Format("catalog", ".yaml", _read_catalog, ("*.yaml",)),
        Format("swf", ".swf", _read_log, ("swf/odd/*",)),
        Format("gwf", ".gwf", _read_log),
    )
}
