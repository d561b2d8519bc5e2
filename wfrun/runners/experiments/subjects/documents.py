"""Documents as the subject of an experiment: workflows and bags, submitted together, or each in a
run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.engine.model import Workflow
from wfrun.engine.settings import Settings
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.experiments.cells import Cell, Row
from wfrun.runners.experiments.experiment import Experiment, label, some
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.metrics.optional_bags import optional_shares
from wfrun.runners.metrics.workflows import critical_path_s
from wfrun.runners.run.prepare.prepare import with_selection
from wfrun.runners.simulate.simulation import simulate
from wfrun.runners.simulate.unfinished import why_unfinished


class Documents(msgspec.Struct, frozen=True, dict=True):
    """Workflows and bags with run times and file sizes."""

    workflows: list[Workflow]
    separately: bool = False
    """Whether each workflow has a run of its own."""

    @cached_property
    def labels(self) -> Sequence[str | None]:
        return self.names if self.separately else (None,)

    @cached_property
    def names(self) -> list[str]:
        """Labels of the workflows: a name, and a digest of tasks and files. Workflows with equal
        names have the names of their documents."""
        names = distinct_names(self.workflows)
        return [label(name, _content(w)) for name, w in zip(names, self.workflows, strict=True)]

    @cached_property
    def identity(self) -> str:
        if self.separately:
            return "documents, separately"
        names = [workflow.name for workflow in self.workflows]
        return label(some(names), [_content(workflow) for workflow in self.workflows])

    @property
    def files(self) -> Files:
        """No files: documents are read before they are simulated."""
        return {}

    def tasks_of(self, label: str | None) -> int | None:
        """None: all tasks of documents are simulated."""
        return None

    def of(self, cell: Cell) -> list[Workflow]:
        """The workflows that the run of a cell has."""
        if cell.workload is None:
            return self.workflows
        return [self.workflows[self.names.index(cell.workload)]]

    def settings_of(self, experiment: Experiment, cell: Cell) -> Settings:
        """Return the settings with which a cell of the experiment is simulated. Raises the errors
        of `with_selection`."""
        return with_selection(
            experiment.settings_of(cell), self.of(cell), experiment.platform.catalog
        )

    def simulate(self, experiment: Experiment, cell: Cell) -> Row:
        settings = self.settings_of(experiment, cell)
        return row_of(cell, simulate(self.of(cell), experiment.platform_of(cell), settings))


def _content(workflow: Workflow) -> Workflow:
    """Return the workflow without the path of its document, so that its digest depends on its
    content only. A bag keeps only its template and its parameters."""
    if workflow.bag is not None:
        bag = msgspec.structs.replace(workflow.bag, source="")
        return Workflow(workflow.name, "", (), (), (), bag=bag)
    return msgspec.structs.replace(workflow, source="", warnings=type(workflow.warnings)())


def row_of(cell: Cell, state: RunState) -> Row:
    """The measures of a run that has ended. The makespan and the NSL are None if some tasks are
    neither done nor unneeded."""
    attempts = max(1, state.done + sum(site.failed for site in state.sites))
    makespans_s = [
        (state.now_s if w.ended_s is None else w.ended_s) - w.added_s for w in state.workflows
    ]
    paths_s = [critical_path_s(w.workflow, _runtimes_s(w.workflow)) for w in state.workflows]
    lengths = [m / path for m, path in zip(makespans_s, paths_s, strict=True) if path > 0]
    is_finished = state.done + state.unneeded == state.tasks
    shares = optional_shares(state)
    return Row(
        **msgspec.structs.asdict(cell),
        makespan_s=max(makespans_s, default=0.0) if is_finished else None,
        nsl=sum(lengths) / max(1, len(lengths)) if is_finished else None,
        failed=state.tasks - state.done - state.unneeded,
        qwt_s=sum(w.waiting_s for w in state.workflows) / attempts,
        ftd_s=sum(w.staging_s for w in state.workflows) / attempts,
        transfers=state.transfers,
        moved_bytes=state.moved_bytes,
        core_s=sum(site.used_core_s for site in state.sites),
        makespans_s=tuple(makespans_s) if is_finished else (),
        failure=why_unfinished(state),
        unhappy_owners=None if shares is None else shares.unhappy_owners,
        unfairness=None if shares is None else shares.unfairness,
    )


def _runtimes_s(workflow: Workflow) -> list[float]:
    return [task.runtime_s or 0.0 for task in workflow.tasks]
