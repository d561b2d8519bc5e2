"""``wfrun explain`` and ``wfrun events`` on parallel jobs: sizes, moves, and what was expected."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from click.testing import CliRunner

from wfrun.runners.cli.main import cli


def wfrun(*words: str | Path) -> str:
    result = CliRunner().invoke(cli, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_size_is_explained_by_what_each_site_offers(tmp_path: Path) -> None:
    """A site with a limit of storage, which does not limit these jobs, changes nothing."""
    document, sites, run = (tmp_path / name for name in ("jobs.yaml", "sites.yaml", "run"))
    document.write_text("command: x\nwalltime: {1: 100, 2: 60, 4: 40}\njobs: [{job: a}]\n")
    sites.write_text(
        "sites:\n  small: {slots: 2}\n  large: {slots: 8}\n  full: {slots: 1, storage: 1 GB}\n"
    )
    wfrun("jobs", document, "--sites", sites, "--simulate", "--size", "binary", "--run-dir", run)
    shown = wfrun("explain", run, "a")
    assert "why attempt 1 is at large: size binary" in shown
    rows = [line.split() for line in shown.splitlines()]
    for row in (
        ["site", "ends", "in", "size"], ["small", "1:00", "2"], ["large", "40.0", "s", "4", "←"],
        ["full", "1:40", "1"],
    ):  # fmt: skip
        assert row in rows
    assert "storage" not in shown
    assert "mst" not in shown
    assert re.search("policy +size binary", wfrun("stats", run))
    header, row = csv.reader(wfrun("results", run).splitlines())
    assert dict(zip(header, row, strict=True))["cores"] == "4"


def test_moves_are_explained_by_what_was_expected(tmp_path: Path) -> None:
    """At each site two jobs wait behind one that asks for 1000 s. That of the second site ends
    after 10 s: the second one that waits at the first site would end sooner there."""
    document, sites, run = (tmp_path / name for name in ("jobs.yaml", "sites.yaml", "run"))
    entries = ["runtime: 1000", "runtime: 10", *["walltime: 200, runtime: 200"] * 4]
    lines = "".join(f"  - {{job: j{n}, {entry}}}\n" for n, entry in enumerate(entries))
    document.write_text(f"command: x\nwalltime: 1000\njobs:\n{lines}")
    sites.write_text("sites:\n  one: {slots: 1}\n  two: {slots: 1}\n")
    wfrun("jobs", document, "--sites", sites, "--simulate", "--allocate", "mlp",
          "--reallocate", "mct-reg", "--every", "20 s", "--run-dir", run)  # fmt: skip
    events = wfrun("events", run)
    first = next(line for line in events.splitlines() if "jobs-reallocated" in line)
    assert "j4 to two (" in first
    assert "sooner)" in first
    shown = wfrun("explain", run, "j4")
    assert "moved" in shown
    assert "cancelled" not in shown
    assert "storage" not in shown
    assert "attempt 1 was moved to two 20.0 s into the run: expected to end in " in shown
    assert "why attempt 2 is at two: reallocate mct-reg, 20.0 s into the run" in shown
    (task,) = json.loads(wfrun("explain", run, "j4", "--json"))["tasks"]
    move = task["attempts"][0]["move"]
    assert move["site"] == "two"
    assert move["stay_s"] - move["expected_s"] > 60
