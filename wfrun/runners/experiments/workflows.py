"""Grids of simulated runs: workflows × policies × throttles × loads × seeds."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import product
from pathlib import Path

import msgspec

from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.state import RunState
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.experiments.metrics.workflows import critical_path_s
from wfrun.runners.experiments.processes import Progress, no_progress, run_missing
from wfrun.runners.experiments.results import Cell, Results, Row
from wfrun.runners.run.check_bags import with_selection
from wfrun.runners.simulate.background import WARM_UP_S, background_of, read_log
from wfrun.runners.simulate.simulation import Platform, Sharing, simulate
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.site import SiteModel


class Grid(msgspec.Struct, frozen=True, dict=True):
    """What is simulated: every combination of the tuples."""

    workflows: list[Workflow]
    catalog: Catalog
    policies: tuple[str, ...]
    selection: str = ""
    """The selection policy; empty: that of `with_selection`."""
    replicas: int | None = None
    """Most replicas of a task; None: as many as the policy has."""
    each: bool = False
    """Simulate each workflow on its own, as a dimension of the grid; else all together."""
    throttles: tuple[int | None, ...] = (None,)
    loads: tuple[float | None, ...] = (None,)
    """Of the background; None: none, or the log's own."""
    seeds: tuple[int, ...] = (0,)
    background: str | None = None
    """Path of a workload log."""
    tolerant: bool = False
    """Its bad lines are dropped."""
    model: SiteModel = SiteModel()
    sharing: Sharing = "max-min"
    head_bytes_per_s: float | None = None

    def cells(self) -> list[Cell]:
        """In the order in which they are shown."""
        names: Sequence[str | None] = self.labels if self.each else (None,)
        combined = product(names, self.policies, self.throttles, self.loads, self.seeds)
        return [Cell(*values) for values in dict.fromkeys(combined)]

    @cached_property
    def labels(self) -> list[str]:
        """What the workflows are called in results: a name, and a digest of tasks and files. Where
        names are the same, those of the documents are taken."""
        names = [workflow.name for workflow in self.workflows]
        stems = [Path(workflow.source).stem or workflow.name for workflow in self.workflows]
        count = Counter(names)
        return [
            _label(name if count[name] == 1 else stem, _described(workflow))
            for name, stem, workflow in zip(names, stems, self.workflows, strict=True)
        ]

    def identity(self) -> dict[str, str]:
        """What all cells have in common, as the columns of that name in a file of results: words
        for a reader, and a digest of the whole, so that results of different grids are never
        taken for one another."""
        jobs = _log(self.background, self.tolerant) if self.background else ()
        names = [workflow.name for workflow in self.workflows]
        shown = names if len(names) <= SHOWN else [*names[:SHOWN], f"{len(names) - SHOWN} more"]
        sites = [(s.name, s.slots, s.speed_ratio, s.memory_bytes, s.gpus, s.walltime_s, s.nodes,
                  s.backfills) for s in self.catalog.sites]  # fmt: skip
        described = [_described(workflow) for workflow in self.workflows]
        log = Path(self.background).name if self.background else "no"
        world: list[object] = [self.model, self.sharing, self.head_bytes_per_s]
        words = f"{self.model.lrm} {self.sharing}"
        if self.selection or self.replicas is not None:
            world += [self.selection, self.replicas]
            words += f" {self.selection}".rstrip()
        together = _label(", ".join(shown), described)
        return {
            "workflows": "each on its own" if self.each else together,
            "sites": _label(", ".join(s.name for s in self.catalog.sites),
                            [sites, self.catalog.links]),
            "background": _label(log, jobs),
            "world": _label(words, world),
        }  # fmt: skip


SHOWN = 3
"""So many workflows are named in a file of results."""


def _described(workflow: Workflow) -> Workflow:
    """Without where its document was found; of a bag, what it is made from."""
    if workflow.bag is not None:
        bag = msgspec.structs.replace(workflow.bag, source="")
        return Workflow(workflow.name, "", (), (), (), bag=bag)
    return msgspec.structs.replace(workflow, source="", warnings=type(workflow.warnings)())


def _label(words: str, content: object) -> str:
    digest = hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:10]
    return f"{' '.join(words.split())} #{digest}"


def run_cell(grid: Grid, cell: Cell) -> Row:
    """Simulate one combination."""
    workflows = runs_of(grid, cell)
    return row_of(cell, simulate(workflows, world_of(grid, cell), settings_of(grid, cell)))


def runs_of(grid: Grid, cell: Cell) -> list[Workflow]:
    """Those that run in this cell."""
    if cell.workflow is None:
        return grid.workflows
    return [grid.workflows[grid.labels.index(cell.workflow)]]


def settings_of(grid: Grid, cell: Cell) -> Settings:
    """How the run of the cell is to be carried out. Raises InvalidError as `with_selection`."""
    settings = Settings(
        policy=cell.policy,
        selection=grid.selection,
        replicas=grid.replicas,
        throttle=cell.throttle,
        seed=cell.seed,
    )
    return with_selection(settings, runs_of(grid, cell), grid.catalog)


def world_of(grid: Grid, cell: Cell) -> Platform:
    """What the cell takes place in."""
    start_s = 0.0
    background: Mapping[str, Sequence[SimulatedJob]] = {}
    if grid.background is not None:
        jobs = _log(grid.background, grid.tolerant)
        background = background_of(jobs, grid.catalog.sites, cell.load, cell.seed)
        start_s = WARM_UP_S
    return Platform(
        catalog=grid.catalog,
        model=grid.model,
        sharing=grid.sharing,
        head_bytes_per_s=grid.head_bytes_per_s,
        background=background,
        start_s=start_s,
    )


@lru_cache(maxsize=2)
def _log(path: str, tolerant: bool) -> tuple[LoggedJob, ...]:
    return read_log(Path(path), tolerant=tolerant)[0]


def row_of(cell: Cell, state: RunState) -> Row:
    """The metrics of a run that has ended."""
    attempts = max(1, state.done + sum(site.failed for site in state.sites))
    makespans_s = [
        (state.now_s if w.ended_s is None else w.ended_s) - w.added_s for w in state.workflows
    ]
    paths_s = [critical_path_s(w.workflow, _runtimes_s(w.workflow)) for w in state.workflows]
    lengths = [m / path for m, path in zip(makespans_s, paths_s, strict=True) if path > 0]
    return Row(
        **msgspec.structs.asdict(cell),
        makespan_s=max(makespans_s, default=0.0),
        nsl=sum(lengths) / max(1, len(lengths)),
        qwt_s=sum(w.waiting_s for w in state.workflows) / attempts,
        ftd_s=sum(w.staging_s for w in state.workflows) / attempts,
        transfers=state.transfers,
        moved_bytes=state.moved_bytes,
        core_s=sum(site.used_core_s for site in state.sites),
        failed=state.failed + state.blocked,
        makespans_s=tuple(makespans_s),
    )


def _runtimes_s(workflow: Workflow) -> list[float]:
    return [task.runtime_s or 0.0 for task in workflow.tasks]


def run_grid(
    grid: Grid, results: Results[Cell, Row], *, processes: int | None = None,
    progress: Progress = no_progress,
) -> None:  # fmt: skip
    """Simulate the cells that ``results`` does not have; see `run_missing`."""
    run_missing(grid.cells(), results, partial(run_cell, grid), processes, progress)


def open_results(grid: Grid, path: Path | None) -> Results[Cell, Row]:
    """Those of the grid that ``path`` keeps, or none yet; see `Results`."""
    return Results(path, Cell, Row, grid.identity())
