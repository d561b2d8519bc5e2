"""Run times that documents do not state: what to warn of, and what to refuse."""

from __future__ import annotations

from collections.abc import Iterator

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.information import Knowledge
from wfrun.engine.model import Bag
from wfrun.engine.policies.placement import binds_late
from wfrun.engine.protocols import Placement
from wfrun.parsers.read import ReadDocument


def check_runtimes(
    read: ReadDocument, policy: type[Placement], settings: Settings
) -> Iterator[str]:
    """Give the warnings of a document, and one for unknown run times.

    Emulation and policies that plan with run times replace unknown ones by a mean. Raises
    InvalidError for a bag without an estimate where there is no mean to take.
    """
    workflow = read.workflow
    source, bag, count = workflow.source, workflow.bag, len(workflow.tasks)
    for warning in workflow.warnings:
        yield warning if source in warning else f"{source}: {warning}"
    known = policy.information.task_runtime is Knowledge.KNOWN
    if bag is not None:
        unknown = count if bag.estimate is None else 0
    else:
        unknown = sum(1 for t in workflow.tasks if t.runtime_s is None)
    if not unknown or not (settings.emulate or known):
        return
    if bag is not None and not settings.emulate and (binds_late(policy) or policy.name == "ect"):
        raise _no_estimate(read, bag, policy)
    user = "emulation" if settings.emulate else f"policy {settings.policy!r}"
    yield (
        f"{source}: {unknown} of {count} tasks have no run time; "
        f"{user} takes the mean of their kind, else of all, else 1 s"
    )


def _no_estimate(read: ReadDocument, bag: Bag, policy: type[Placement]) -> InvalidError:
    how = "Add estimate='90 s' (or a parameter, '{runtime}'), or take a"
    if read.format is not None:
        how = read.format.estimate_hint
    return InvalidError(
        f"the policy {policy.name!r} needs to know how long tasks take, and the bag "
        f"{bag.name!r} does not say",
        source=bag.source,
        line=read.line("estimate"),
        hint=f"{how} policy that needs none: `wfrun policies` lists them.",
    )
