"""Names of workflows, as tables and bars show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wfrun.engine.model import Workflow


def distinct_names(workflows: Sequence[Workflow]) -> list[str]:
    """The names of the workflows. Workflows with equal names get the names of their documents'
    files instead."""
    count = Counter(workflow.name for workflow in workflows)
    return [w.name if count[w.name] == 1 else Path(w.source).stem or w.name for w in workflows]
