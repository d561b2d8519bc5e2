"""The page of all policies with their options, from their classes."""

from __future__ import annotations

import inspect

from tools.docs_site.reference.markdown import cell, code, escaped, table
from wfrun.engine.fitting.information import Information, Knowledge
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION

HEAD = """\
# Policies

Generated from the classes of the policies. [Placement policies](../policies.md) compares them,
and says when to use which; `wfrun policies` also lists those of installed packages.
"""
_WORDS = {
    "status": "idle cores and load of the sites",
    "processing_speed": "speeds of the sites",
    "link_speed": "speeds of the links",
    "task_runtime": "run times of tasks",
    "file_size": "sizes of files",
    "background_runtime": "run times of other users' jobs",
}
_HOW = {
    Knowledge.KNOWN: "in advance",
    Knowledge.RUNTIME: "as observed during the run",
    Knowledge.HISTORICAL: "estimated from earlier tasks",
}


def policies_page() -> str:
    """The page: a heading for each placement policy, and for each selection policy."""
    parts = [HEAD, "\n## Placement\n\n`-p NAME` chooses one, `-O NAME=VALUE` sets its options.\n"]
    for policy in PLACEMENT.values():
        parts += [f"\n### {policy.name}\n\n", _docstring(policy)]
        parts.append(f"\nUses: {_uses(policy.information)}.\n")
        if policy.options:
            rows = [(code(name), code(str(value))) for name, value in policy.options.items()]
            parts += ["\n", table(["option", "default"], rows)]
    parts.append("\n## Selection\n\n`--selection NAME` chooses one.\n\n")
    rows = [(code(each.name), cell(each.summary)) for each in SELECTION.values()]
    return "".join([*parts, table(["selection", "the eligible set"], rows)])


def _docstring(policy: type) -> str:
    return escaped(inspect.cleandoc(policy.__doc__ or "")) + "\n"


def _uses(information: Information) -> str:
    used = [
        f"{words}, {_HOW[known]}"
        for name, words in _WORDS.items()
        if (known := getattr(information, name)) in _HOW
    ]
    return "; ".join(used) or "nothing about sites and tasks"
