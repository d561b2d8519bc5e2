"""Published workflows, emulated over the five clusters of the DAS-3 under every policy.

The small documents are run together, as one run of several workflows that shares the sites, with
their times shortened to a hundred-thousandth; those of about a thousand tasks one by one in no
time at all, for each of their tasks would cost three processes instead of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.places import CORPUS, ROOT
from tests.runners.harness import User
from wfrun import read_workflow
from wfrun.engine.policies.placement import WORKFLOW_POLICIES

SYNTHETIC = CORPUS / "dax" / "synthetic"
LARGE = re.compile(r"_(1000|997)\.xml$")

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
]

DOCUMENTS = sorted(SYNTHETIC.glob("*.xml"))


def groups() -> dict[str, list[Path]]:
    large = [path for path in DOCUMENTS if LARGE.search(path.name)]
    small = [path for path in DOCUMENTS if path not in large]
    return {"small": small, **{path.stem: [path] for path in large}}


def final_outputs(documents: Sequence[Path]) -> tuple[int, int]:
    """Tasks, and files that are to be collected."""
    workflows = [read_workflow(path, emulate=True) for path in documents]
    files = (file for w in workflows for file in w.files)
    collected = sum(1 for file in files if file.collect and file.producer is not None)
    return sum(len(w.tasks) for w in workflows), collected


def runs() -> list[tuple[str, str]]:
    """Each group under every other policy, and each policy with every other group."""
    policies = [policy.name for policy in WORKFLOW_POLICIES]
    return [
        (group, policy) for row, group in enumerate(groups()) for policy in policies[row % 2 :: 2]
    ]


@pytest.mark.parametrize(("group", "policy"), runs())
def test_published_workflows(user: User, group: str, policy: str) -> None:
    documents = groups()[group]
    das3 = ROOT / "examples" / "das3.yaml"
    words = ("--sites", das3, "--policy", policy, "--run-dir", "run", "--emulate")
    scales = ("--time-scale", "0.00001" if group == "small" else "0", "--size-scale", "0.001")
    done = user.wfrun(*documents, *words, *scales)
    assert done.status == 0, done.text
    tasks, files = final_outputs(documents)
    assert f"done: {tasks}/{tasks} tasks done in" in done.out
    outputs = user.folder / "run" / "outputs"
    assert sum(1 for path in outputs.rglob("*") if path.is_file()) == files
    assert user.is_alone()
