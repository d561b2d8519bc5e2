"""The stages of a document of bags one after another: read, check, resolve, build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from wfrun.engine.model import Workflow
from wfrun.engine.tasks.bag import Expansion, expand
from wfrun.parsers.bags.check import check_bag, check_templates
from wfrun.parsers.bags.draft import BagDraft, BagsReader
from wfrun.parsers.bags.estimate import in_seconds
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.bags.names import check_names


def make_bags(
    path: Path, reader: BagsReader, template: LineTemplate | None
) -> Iterator[tuple[Workflow, Mapping[str, int]]]:
    """Read the bags of a document. Yield each bag with the line of each of its keys. Raises
    InvalidError for any fault of the document or of a bag."""
    for draft in reader(path, template or LineTemplate()):
        yield build_bag(draft), draft.lines


def build_bag(draft: BagDraft) -> Workflow:
    """Check a bag, and make the workflow that expands it when its tasks are requested.

    Raises InvalidError for names and requests beyond the limits, for templates that name unknown
    parameters or have a format that does not fit the values, for too many tasks, for file names
    that leave the sandbox or belong to two outputs, and for an estimate that is not a valid time.
    """
    check_bag(draft.bag, draft.refuse)
    columns = check_templates(draft.bag, draft.refuse)
    bag = in_seconds(draft.bag, columns, draft.refuse)
    check_names(Expansion(bag), columns, draft.refuse)
    return expand(bag)
