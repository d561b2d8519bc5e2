"""wfrun: workflows and bags of tasks over several clusters.

The names of ``__all__`` are the public API; they are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfrun.engine.errors import (
        InfeasibleError,
        InvalidError,
        LostError,
        TransientError,
        WfrunError,
    )
    from wfrun.engine.model import Catalog, File, LinkSpec, Resources, SiteSpec, Task, Workflow
    from wfrun.parsers.bags.make import bag
    from wfrun.parsers.generate import generate
    from wfrun.parsers.read import read_workflow, read_workflows
    from wfrun.parsers.workflows.graph import to_networkx
    from wfrun.parsers.workflows.writers.write_dax import write_dax
    from wfrun.parsers.workflows.writers.write_wfformat import write_wfformat
    from wfrun.runners.api import RunResult, resume, resume_async, run, run_async, status
    from wfrun.runners.experiments.api import SimulationResult, simulate
    from wfrun.runners.run.prepare.functions import FunctionWorkflow, function_bag
    from wfrun.sites.catalog import read_catalog

_WHERE = {
    "Catalog": "wfrun.engine.model",
    "File": "wfrun.engine.model",
    "FunctionWorkflow": "wfrun.runners.run.prepare.functions",
    "InfeasibleError": "wfrun.engine.errors",
    "InvalidError": "wfrun.engine.errors",
    "LinkSpec": "wfrun.engine.model",
    "LostError": "wfrun.engine.errors",
    "Resources": "wfrun.engine.model",
    "RunResult": "wfrun.runners.api",
    "SimulationResult": "wfrun.runners.experiments.api",
    "SiteSpec": "wfrun.engine.model",
    "Task": "wfrun.engine.model",
    "TransientError": "wfrun.engine.errors",
    "WfrunError": "wfrun.engine.errors",
    "Workflow": "wfrun.engine.model",
    "bag": "wfrun.parsers.bags.make",
    "function_bag": "wfrun.runners.run.prepare.functions",
    "generate": "wfrun.parsers.generate",
    "read_catalog": "wfrun.sites.catalog",
    "read_workflow": "wfrun.parsers.read",
    "read_workflows": "wfrun.parsers.read",
    "resume": "wfrun.runners.api",
    "resume_async": "wfrun.runners.api",
    "run": "wfrun.runners.api",
    "run_async": "wfrun.runners.api",
    "simulate": "wfrun.runners.experiments.api",
    "status": "wfrun.runners.api",
    "to_networkx": "wfrun.parsers.workflows.graph",
    "write_dax": "wfrun.parsers.workflows.writers.write_dax",
    "write_wfformat": "wfrun.parsers.workflows.writers.write_wfformat",
}

__all__ = [
    "Catalog",
    "File",
    "FunctionWorkflow",
    "InfeasibleError",
    "InvalidError",
    "LinkSpec",
    "LostError",
    "Resources",
    "RunResult",
    "SimulationResult",
    "SiteSpec",
    "Task",
    "TransientError",
    "WfrunError",
    "Workflow",
    "bag",
    "function_bag",
    "generate",
    "read_catalog",
    "read_workflow",
    "read_workflows",
    "resume",
    "resume_async",
    "run",
    "run_async",
    "simulate",
    "status",
    "to_networkx",
    "write_dax",
    "write_wfformat",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'wfrun' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
