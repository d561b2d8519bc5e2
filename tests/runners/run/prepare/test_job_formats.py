"""Documents of parallel jobs in any format of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.parsers import formats
from wfrun.parsers.formats import DocumentFormat, has_suffix
from wfrun.parsers.jobs.draft import JobDraft
from wfrun.runners.run.prepare.prepare_jobs import read_job_documents


def read_lines(path: Path) -> list[JobDraft]:
    """A job of two processors for each line."""
    lines = path.read_text().splitlines()
    return [
        JobDraft(f"j{n}", n, tuple(line.split()), (2,), (60.0,), owner="ann")
        for n, line in enumerate(lines, 1)
    ]


FURTHER = DocumentFormat(
    "lines", "lines of jobs (.lines)", "jobs", (".lines",), has_suffix(".lines"),
    f"{__name__}:read_lines",
)  # fmt: skip


def test_jobs_are_read_by_the_reader_of_their_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, FURTHER))
    document, other = tmp_path / "x.lines", tmp_path / "x.yaml"
    document.write_text("sleep 1\nsleep 2\n")
    other.write_text("jobs: [{command: x, walltime: 60}]\n")
    first, second = read_job_documents([document, other]).read
    assert first.format is FURTHER
    assert [task.arguments for task in first.workflow.tasks] == [("1",), ("2",)]
    assert second.format is not None
    assert second.format.name == "jobs"
