"""From the draft of a bag to its workflow: the stages check, resolve, check, build."""

from __future__ import annotations

from wfrun.engine.bag import expand
from wfrun.engine.model import Workflow
from wfrun.parsers.bags.check import check_templates
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.estimate import in_seconds
from wfrun.parsers.bags.names import check_names


def build_bag(draft: BagDraft) -> Workflow:
    """Check the bag, and make the workflow that expands it when its tasks are requested.

    Raises InvalidError for templates that name unknown parameters or have a format that does not
    fit the values, for too many tasks, for file names that leave the sandbox or that two outputs
    have, and for an estimate that is no time.
    """
    bag, refuse = draft.bag, draft.refuse
    columns = check_templates(bag, refuse)
    bag = in_seconds(bag, columns, refuse)
    check_names(bag, columns, refuse)
    return expand(bag)
