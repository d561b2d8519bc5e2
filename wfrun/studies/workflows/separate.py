"""Simulations of several workflows with a broker for each. A broker learns only after a delay what
the other brokers have placed."""

from __future__ import annotations

from math import fsum
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine import events as ev
from wfrun.runners.metrics.log import run_timings
from wfrun.runners.simulate.brokers import BrokerWorld, simulate_brokers
from wfrun.studies.workflows.das3 import das3
from wfrun.studies.workflows.experiments import (
    MODEL,
    OPTIONS,
    CaseSetup,
    WorkflowsCase,
    WorkflowsOutcome,
    documented_workflow,
    outcome_of,
)


def run_separately(case: WorkflowsCase, corpus: Path | None, setup: CaseSetup) -> WorkflowsOutcome:
    """Simulate one case of several workflows with a broker for each, and without head nodes. The
    brokers begin at the same time, learn of each other's tasks whenever the monitoring service
    reports, and share the bandwidth of the links. The total makespan is that of the last workflow;
    other metrics are means over the workflows."""
    workflow = documented_workflow(case, corpus)
    catalog = das3(case.places)
    world = BrokerWorld(
        catalog,
        catalog.sites[0].name,
        model=setup.model,
        status_s=MODEL.observe_s,
        returns=False,
        own_speed=True,
    )
    settings = ev.Settings(
        policy=case.policy,
        policy_options=OPTIONS.get(case.policy, {}),
        throttle=case.throttle or "none",
        seed=case.repetition,
    )
    found = [
        outcome_of(case, run_timings(log, {"0": workflow}), log)
        for log in simulate_brokers([workflow] * case.instances, world, settings).logs
    ]
    means: dict[str, Any] = {
        name: fsum(getattr(one, name) for one in found) / len(found)
        for name in WorkflowsOutcome.__struct_fields__
        if name not in WorkflowsCase.__struct_fields__
    }
    means["makespan_s"] = max(one.makespan_s for one in found)
    return WorkflowsOutcome(**msgspec.structs.asdict(case), **means)
