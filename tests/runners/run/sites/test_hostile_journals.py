"""A task writes into the journals of its site, which launchers of the next engine read."""

from __future__ import annotations

import pytest

from tests.runners.harness import Job, User

LINES = (
    "[" * 100_000,
    '{"ended": [["%s", {"cause": "done", "started_s": NaN}]]}',
    '{"ended": [["%s", {"cause": "done", "started_s": -1e17}]]}',
    '{"ended": [["%s", {"cause": "none", "host": 7}]]}',
    '{"started": [["%s"]]}',
)


@pytest.mark.cases
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_the_site_goes_on(user: User, line: str) -> None:
    """The run is continued, and each task runs."""
    jobs = [Job("a", "[ -e ../../../../../go ] && echo x > out", (), ["out"], ["out"])]
    jobs += [Job("b", "echo y > other", (), ["other"], ["other"])]
    document = user.write(jobs)
    done = user.wfrun("run", document, "--run-dir", "r", "--retries", "0", "--quiet")
    assert done.status == 1, done.text
    (user.folder / "go").touch()
    keys = [path.stem for path in (user.folder / "r/sites/local/attempts").glob("*.out")]
    lines = [line % key if "%s" in line else line for key in keys]
    (user.folder / "r/sites/local/exits/forged.jsonl").write_text("\n".join(lines) + "\n")
    done = user.wfrun("resume", "r")
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    is_read = "none" not in line  # the last but one is a line that a launcher could write
    assert ("exits/forged.jsonl has lines that no launcher writes" in done.text) == is_read
    assert (user.folder / "r/outputs/out").read_text() == "x\n"
