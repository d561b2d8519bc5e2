"""Advice to run tasks in launchers, where jobs cost much beside their tasks."""

from __future__ import annotations

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.durations import duration

MIN_DONE = 20
"""Minimum number of tasks that a site has done before it is advised on."""
MIN_COST_RATIO = 0.25
"""Minimum ratio of what a job costs to the run time of its task. Below it, launchers save less than
a fifth of the time."""
MAX_SITES = 4
"""Maximum number of sites in the advice."""


def launcher_advice(state: RunState) -> str | None:
    """The advice, with the times that it follows from; None where launchers would not pay."""
    binding = state.find(Binding)
    if binding is None:
        return None
    sites = []
    for site, pace in zip(state.sites, binding.paces, strict=True):
        cost_s, runtime_s = pace.cost_s, pace.runtime_s
        if not site.spec.has_batch_system or site.spec.has_launchers or site.done < MIN_DONE:
            continue
        if cost_s is None or runtime_s is None or cost_s < MIN_COST_RATIO * runtime_s:
            continue
        sites.append(
            f"{name_line(site.spec.name)}: tasks take {duration(runtime_s)}, a job costs "
            f"{duration(cost_s)} more"
        )
    if not sites:
        return None
    more = f"; and {len(sites) - MAX_SITES} more sites" if len(sites) > MAX_SITES else ""
    # A resumed run keeps the dispatch of its sites: it may have jobs there (`changes.py`).
    present = "" if state.ended == "done" else (
        "; this run keeps the dispatch of its sites, but `wfrun resume --sites` takes a new entry "
        "of another name"
    )  # fmt: skip
    return (
        f"{'; '.join(sites[:MAX_SITES])}{more}. With 'dispatch: launchers' in the catalog of a new "
        f"run one job runs many tasks (docs/launchers.md){present}."
    )
