"""Experiments from Python: the simulations of ``wfrun simulate``.

import wfrun

result = wfrun.simulate("montage.dax", sites="das3.yaml", policy=["heft", "file-aware"])
print(result.best().policy)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.settings import make_settings
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.record_types import check_document
from wfrun.runners.experiments.cells import Row, grouped, makespan_of
from wfrun.runners.experiments.command import open_results
from wfrun.runners.experiments.concerns import check_concerns
from wfrun.runners.experiments.describe import (
    Description,
    documents_experiment,
    workloads_experiment,
)
from wfrun.runners.experiments.subjects.subjects import kind_of_all
from wfrun.runners.run.prepare.plugins import load_policies
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.model import SiteModel

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from wfrun.runners.run.prepare.arguments import SimulateArguments

_FLAGS = {
    "kill_overruns": "--no-kill-overruns",
    "head_bandwidth_bytes_per_s": "--head-bandwidth",
    "runtime_s": "--runtime",
    "submit_cost_s": "--submit-cost",
    "poll_s": "--poll",
}
"""Flags of the options whose names are not derived from the names of the arguments."""


class SimulationResult(msgspec.Struct, frozen=True):
    """The simulated runs of an experiment."""

    rows: tuple[Row, ...]
    """One row for each combination of the varied dimensions, except combinations whose policy
    raises."""
    warnings: tuple[str, ...]
    """Warnings about the documents and the platform, then the errors of policies that raise."""

    def best(self) -> Row:
        """Return one run of the best variant: the run with the first seed.

        The best variant has no failed tasks and the smallest mean makespan over the seeds. With
        several documents or loads, only the runs with the first document and load are compared.
        Raises InvalidError if tasks failed under every variant.
        """
        groups = grouped(self.rows)
        first = next(iter(groups))[0]
        sound = [
            rows
            for (case, _), rows in groups.items()
            if case == first and not any(row.failed for row in rows)
        ]
        if not sound:
            raise InvalidError("there is no best variant: tasks failed under all of them")
        return min(sound, key=lambda rows: fsum(makespan_of(row) for row in rows) / len(rows))[0]


def simulate(
    *subjects: str | Path | Workflow,
    sites: str | Path | Catalog | None = None,
    command: str | None = None,
    delimiter: str | None = None,
    estimate: str | None = None,
    policy: str | Sequence[str] = "all",
    selection: str | Sequence[str] = (),
    architecture: str | Sequence[str] = "csp",
    throttle: int | Literal["auto", "none"] | Sequence[int | Literal["auto", "none"] | None] = (),
    load: float | Sequence[float] = (),
    seeds: int = 1,
    separately: bool = False,
    runtime_s: float | None = None,
    runtimes: str | Path | None = None,
    from_run: str | None = None,
    overheads: str | None = None,
    background: str | Path | None = None,
    tasks: int | None = None,
    skip_bad_lines: bool = False,
    lrm: Literal["fcfs", "easy", "conservative", "replanned"] = "fcfs",
    kill_overruns: bool = True,
    serial_transfers: bool = False,
    submit_cost_s: float = 0.0,
    overload: int = 0,
    head_bandwidth_bytes_per_s: float | None = None,
    poll_s: float = 0.0,
    failure_rate: float = 0.0,
    output: str | Path | None = None,
    jobs: int | None = 1,
    **options: Unpack[SimulateArguments],
) -> SimulationResult:
    """Simulate documents or workloads of bags in virtual time, for each combination of policies,
    selection policies, architectures, throttles, loads and seeds.

    ``subjects`` and the other arguments are those of ``wfrun simulate``; the queue of one cluster
    can be simulated by the command only. ``options`` are the options that all runs have in common,
    as for `wfrun.run`. ``jobs`` is the number of processes; None: one for each core, which needs a
    main module that can be imported. With ``output`` rows are kept in that CSV file, and runs whose
    rows are in the file are not repeated.

    Raises InvalidError for wrong input, before anything is simulated, and InfeasibleError if
    ``output`` cannot be written. Raises PolicyError, a subclass of InfeasibleError, if the policy
    of every run raises. If only some policies raise, their runs are left out, and their errors are
    among the ``warnings`` of the result.
    """
    load_policies()
    for subject in subjects:
        check_document(subject)
    kind = "documents" if from_run is not None and not subjects else kind_of_all(subjects)
    if kind == "queue":
        raise InvalidError(
            f"{subjects[0]} stands for the queue of a cluster, which only `wfrun simulate` prints",
            hint=f"take the bags of the log: 'bags:{subjects[0]}'",
        )
    check_concerns(kind, _given(locals()))
    model = SiteModel(
        lrm=lrm,
        kill_overruns=kill_overruns,
        submit_s=submit_cost_s,
        overload_jobs=overload,
        poll_s=poll_s,
        failure_rate=failure_rate,
    )
    sharing: Literal["serial", "max-min"] = "serial" if serial_transfers else "max-min"
    described = Description(
        sites=sites,
        policies=_several(policy),
        selections=_several(selection),
        architectures=_several(architecture),
        throttles=tuple(None if t == "none" else t for t in _several(throttle)),
        loads=_several(load),
        seeds=seeds,
        separately=separately,
        runtime_s=runtime_s,
        runtimes=runtimes,
        from_run=from_run,
        overheads=overheads,
        template=LineTemplate(command, delimiter, estimate=estimate),
        background=background,
        tasks=tasks,
        skip_bad_lines=skip_bad_lines,
        platform=Platform(Catalog(()), model, sharing, head_bytes_per_s=head_bandwidth_bytes_per_s),
        settings=make_settings(options),
    )
    warnings: list[str] = []
    if kind == "workloads":
        experiment = workloads_experiment(described, list(map(str, subjects)), warnings.append)
    else:
        experiment = documents_experiment(described, subjects, warnings.append)
    results = open_results(experiment, None if output is None else Path(output))
    try:
        experiment.run(results, jobs)
    finally:
        results.close()
    rows = tuple(results.of(experiment.cells()))
    if results.broken and not rows:
        raise results.broken[0]
    return SimulationResult(rows, (*warnings, *map(str, results.broken)))


def _given(arguments: Mapping[str, Any]) -> list[str]:
    """The names of the command's options that are not at their defaults."""
    defaults = signature(simulate).parameters
    given = [
        name
        for name, value in arguments.items()
        if name in defaults and defaults[name].default not in (defaults[name].empty, value)
    ]
    return [_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in given]


def _several(value: Any) -> tuple[Any, ...]:
    """The items of a sequence; a single value, such as a string, as a tuple of one item."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
