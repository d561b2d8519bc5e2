"""An experiment: what is simulated, on which platform, and what is varied. Its cells run
on this machine or at sites.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Protocol

import msgspec

from wfrun.engine.policies.placement import placement_class, throttle_of
from wfrun.engine.settings import Settings
from wfrun.parsers.logs import LoggedJob, read_log
from wfrun.runners.experiments.cells import Cell, Row, Throttle
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.processes import Progress, no_progress, run_missing
from wfrun.runners.experiments.tables.results import CellT, Results, RowT
from wfrun.runners.run.history.overheads import Overheads
from wfrun.runners.simulate.background import WARM_UP_S, background_of
from wfrun.runners.simulate.simulation import Platform

NAMED = 3
"""Maximum number of documents or sites that a file of results names; the rest are only counted."""

VARIED = ("policy", "selection", "throttle", "seed")
"""Settings that are dimensions of an experiment."""


class Subject(Protocol):
    """What is simulated: documents, or workloads of bags."""

    @property
    def labels(self) -> Sequence[str | None]:
        """Labels of the documents or workloads that are simulated separately. ``(None,)``: all are
        simulated together."""

    @property
    def identity(self) -> str:
        """Description and digest of the subject, equal for all cells, for a file of results."""

    @property
    def files(self) -> Files:
        """The files that simulations of the subject read."""

    def tasks_of(self, label: str | None) -> int | None:
        """The value of `Cell.tasks` for cells with this label."""

    def simulate(self, experiment: Experiment, cell: Cell) -> Row:
        """Simulate the run of one cell. Raises InvalidError."""


class Background(msgspec.Struct, frozen=True):
    """Other users' jobs, from a workload log."""

    log: str
    """Path of the log."""
    skip_bad_lines: bool = False

    def jobs(self) -> tuple[LoggedJob, ...]:
        """The jobs of the log that can be simulated. Raises InvalidError if the log cannot be
        read."""
        return _jobs(self.log, self.skip_bad_lines)


@lru_cache(maxsize=2)
def _jobs(path: str, skip_bad_lines: bool) -> tuple[LoggedJob, ...]:
    return read_log(Path(path), skip_bad_lines=skip_bad_lines)[0]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment. It has a run for each combination of the values of its dimensions: labels of
    the subject, policies, architectures, selections, throttles, loads and seeds."""

    subject: Subject
    platform: Platform
    """The platform without background and start time, which `platform_of` adds."""
    policies: tuple[str, ...]
    architectures: tuple[str, ...] = ("csp",)
    selections: tuple[str | None, ...] = (None,)
    throttles: tuple[Throttle, ...] = ()
    """Empty: the default throttle of each policy."""
    loads: tuple[float | None, ...] = (None,)
    """See `Cell.load`."""
    seeds: tuple[int, ...] = (0,)
    settings: Settings = Settings()
    """The settings that all runs have in common, except those in VARIED."""
    background: Background | None = None

    def cells(self) -> list[Cell]:
        """The cells of the experiment, one for each run. Cells with equal workload, seed and load
        are adjacent."""
        combinations = product(
            self.subject.labels,
            self.seeds,
            self.loads,
            self.architectures,
            self.selections,
            self._policies_throttled(),
        )
        cells = [
            Cell(
                workload=workload,
                architecture=architecture,
                selection=selection,
                policy=policy,
                throttle=throttle,
                load=load,
                seed=seed,
                tasks=self.subject.tasks_of(workload),
            )
            for workload, seed, load, architecture, selection, (throttle, policy) in combinations
        ]
        return list(dict.fromkeys(cells))

    def _policies_throttled(self) -> list[tuple[Throttle, str]]:
        """The pairs of a throttle and a policy that are simulated."""
        if self.throttles:
            return list(product(self.throttles, self.policies))
        return [(throttle_of(Settings(policy)), policy) for policy in self.policies]

    def identity(self) -> dict[str, str]:
        """The columns of a result file that are equal for all cells, by name. Each value has a
        description for readers, and a digest that differs between experiments."""
        catalog, background = self.platform.catalog, self.background
        sites = [(s.name, s.slots, s.speed_ratio, s.memory_bytes, s.gpus, s.walltime_s, s.nodes,
                  bool(s.backfills)) for s in catalog.sites]  # fmt: skip
        jobs = background.jobs() if background is not None else ()
        changed = self.changed()
        basis = (self.platform.model.lrm, self.platform.sharing)
        words = " ".join([*basis, *(f"{name}={value}" for name, value in changed.items())])
        return {
            "subject": self.subject.identity,
            "sites": label(some([s.name for s in catalog.sites]), [sites, catalog.links]),
            "background": label(Path(background.log).name if background else "no", jobs),
            "settings": label(words, [basis, changed]),
        }

    def changed(self) -> dict[str, object]:
        """Options of the platform and of the runs that are not at their defaults. Options at their
        defaults are left out, so that a new option in a later version does not change the identity
        of an experiment."""
        changed = {**_non_default(self.platform.model), **_non_default(self.settings)}
        if self.platform.head_bytes_per_s is not None:
            changed["head_bytes_per_s"] = self.platform.head_bytes_per_s
        if self.platform.overheads != Overheads():
            changed["overheads"] = label("measured", self.platform.overheads)
        return {name: changed[name] for name in changed if name not in ("lrm", *VARIED)}

    def settings_of(self, cell: Cell) -> Settings:
        """The settings of the run of a cell."""
        return msgspec.structs.replace(
            self.settings,
            policy=cell.policy,
            policy_options=options_of(cell.policy, self.settings),
            selection=cell.selection or "",
            throttle="none" if cell.throttle is None else cell.throttle,
            seed=cell.seed,
        )

    def platform_of(self, cell: Cell) -> Platform:
        """The platform of the run of a cell, with its background."""
        if self.background is None:
            return self.platform
        return msgspec.structs.replace(
            self.platform,
            background=background_of(
                self.background.jobs(), self.platform.catalog.sites, cell.load, cell.seed
            ),
            start_s=WARM_UP_S,
        )

    def simulate(self, cell: Cell) -> Row:
        """Simulate the run of a cell. Raises InvalidError."""
        return self.subject.simulate(self, cell)

    @property
    def files(self) -> Files:
        """The files that simulations read."""
        background = self.background
        logs = {} if background is None else {Path(background.log): [Path(background.log)]}
        return {**logs, **self.subject.files}

    def run(
        self,
        results: Results[Cell, Row],
        processes: int | None = None,
        progress: Progress = no_progress,
    ) -> None:
        """Simulate the cells that have no rows in ``results``; see `run_cells`."""
        run_cells(self.cells(), results, self.simulate, progress, processes=processes)


def options_of(policy: str, settings: Settings) -> dict[str, int | float | str]:
    """The policy options in ``settings`` that this policy knows. With several policies, an option
    may belong to only some of them."""
    known = placement_class(policy).options
    return {name: value for name, value in settings.policy_options.items() if name in known}


def _non_default(record: msgspec.Struct) -> Mapping[str, object]:
    """The fields of a record that are not at their defaults."""
    return {
        field.name: value
        for field in msgspec.structs.fields(record)
        if (value := getattr(record, field.name)) != field.default
        and not (
            field.default_factory is not msgspec.NODEFAULT and value == field.default_factory()
        )
    }


def label(words: str, content: object) -> str:
    """A description for readers, followed by a digest of the content."""
    digest = hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:10]
    return f"{' '.join(words.split())} #{digest}"


def some(names: Sequence[str]) -> str:
    """The first NAMED of the names, and the number of further names."""
    more = len(names) - NAMED
    return ", ".join(names if more <= 0 else [*names[:NAMED], f"{more} more"])


def run_cells(
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    progress: Progress = no_progress,
    *,
    processes: int | None = None,
    on: Path | None = None,
    files: Files | None = None,
    quiet: bool = False,
) -> None:
    """Simulate the cells that have no rows in ``results``: in ``processes`` processes of this
    machine, or ``on`` the sites of a catalog. Rows and their order do not depend on this choice.
    ``files`` are the files that ``simulate`` reads; only sites need them. ``quiet`` suppresses
    messages about runs at sites. Raises the errors of `run_missing` and `run_missing_on`."""
    if on is None:
        run_missing(cells, results, simulate, processes, progress)
    else:
        from wfrun.runners.experiments.on_sites.missing import run_missing_on

        run_missing_on(on, cells, results, simulate, progress, files, quiet=quiet)
    results.arrange(cells)
