"""What somebody sees who tries wfrun for the first time: mistakes, pipes, narrow terminals."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import wfrun
from tests.places import ROOT
from wfrun.runners.inspect.tables.site_table import SiteTable
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

FAILS_UNTIL_MENDED = """\
pegasus: "5.0"
name: mend
jobs:
  - type: job
    id: first
    name: sh
    arguments: ["-c", "echo so far; echo no such star >&2; test -e {flag}"]
    stdout: first.txt
    uses: [{{lfn: first.txt, type: output}}]
  - type: job
    id: second
    name: cat
    arguments: [first.txt]
    stdout: second.txt
    uses: [{{lfn: first.txt, type: input}}, {{lfn: second.txt, type: output}}]
"""


def command(folder: Path, line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in this folder, where ``wfrun`` is the command."""
    program = f"{sys.executable} -m wfrun.runners.cli.main"
    return subprocess.run(
        ["sh", "-c", f'wfrun() {{ {program} "$@"; }}; {line}'],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    wfrun.write_dax(wfrun.generate("bag", tasks=5, seed=1), tmp_path / "bag.dax")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("wfrun lst", "Did you mean 'list'?"),
        ("wfrun bag.dax", "--emulate needs no input files"),
        ("wfrun bag.dax --time-scale 2", "has no effect without --emulate"),
        ("wfrun bag.dax --emulate --policy hefft", "did you mean 'heft'?"),
        ("wfrun status", "`wfrun WORKFLOW` starts one"),
        ("wfrun .", ".: cannot be read: Is a directory"),
    ],
)
def test_a_mistake_is_one_message_and_starts_nothing(bag: Path, line: str, message: str) -> None:
    done = command(bag, line)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (bag / "wfrun-runs").exists()


@pytest.mark.slow
def test_a_task_that_fits_no_site_leaves_no_run(tmp_path: Path) -> None:
    profile = '<profile namespace="pegasus" key="cores">100000</profile>'
    document = f'<adag name="big"><job id="a" name="true">{profile}</job></adag>'
    (tmp_path / "big.dax").write_text(document)
    done = command(tmp_path, "wfrun big.dax")
    assert done.returncode == 2
    assert "task 'a' fits no site: it asks for 100000 cores" in done.stderr
    assert not (tmp_path / "wfrun-runs").exists()


@pytest.mark.slow
def test_a_failure_is_explained_mended_and_forgotten(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "mend.yml").write_text(FAILS_UNTIL_MENDED.format(flag=flag))
    failed = command(tmp_path, "wfrun mend.yml --retries 0")
    assert failed.returncode == 1
    assert "1 task × exit 1: " in failed.stdout
    assert ", first: task first at local" in failed.stdout
    assert "no such star" in failed.stdout
    logs = command(tmp_path, "wfrun logs last first; wfrun logs last second").stdout
    assert "stdout, written to its output first.txt" in logs
    assert "no such star\n" in logs
    assert "task second is blocked, because a task that it depends on has failed" in logs

    flag.touch()
    mended = command(tmp_path, "wfrun resume")
    assert mended.returncode == 0
    assert "no such star" not in mended.stdout
    run = tmp_path / "wfrun-runs/mend-1"
    assert (run / "outputs/second.txt").read_text() == "so far\n"


@pytest.mark.slow
def test_lines_in_a_pipe_are_whole(bag: Path) -> None:
    done = command(bag, "wfrun bag.dax --emulate --time-scale 0 | cat")
    first = done.stdout.splitlines()[0]
    assert first.startswith("done: 5/5 tasks done in ")
    assert first.endswith("policy file-aware")


@pytest.mark.slow
def test_a_reader_of_events_may_go_away(bag: Path) -> None:
    done = command(bag, "wfrun bag.dax --emulate --time-scale 0.01 --json | head -n 1")
    assert done.stdout.startswith('{"seq":0,')
    assert "to continue: wfrun resume wfrun-runs/bag-1" in done.stderr
    assert "Traceback" not in done.stderr
    assert command(bag, "wfrun resume").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_message(bag: Path) -> None:
    done = command(bag, "wfrun bag.dax --emulate --time-scale 0 --quiet > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "wfrun: the output cannot be written: No space left on device\n"


@pytest.mark.slow
def test_brackets_in_names_are_shown(bag: Path) -> None:
    done = command(bag, "wfrun bag.dax --emulate --time-scale 0 --run-dir 'my [bold] run' 2>&1")
    assert "run my [bold] run\n" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_tables_leave_columns_out_rather_than_cut_them(bag: Path, columns: int) -> None:
    sites = wfrun.read_catalog(ROOT / "examples/das3.yaml")
    run = bag / "run"
    wfrun.run(bag / "bag.dax", sites=sites, emulate=True, time_scale=0, run_dir=run)
    stream = io.StringIO()
    Console(file=stream, width=columns).print(SiteTable(read_state(RunDir(run))))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert "…" not in stream.getvalue()
    headings = lines[0].split()
    assert headings[0] == "site"
    assert {"running", "done", "errors"} <= set(headings)
    assert ("MB" in headings) == (columns >= 80)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("wfrun resum", "plain,resume"),
        ("wfrun ba", "file,ba"),
        ("wfrun bag.dax --thr", "plain,--throttle"),
        ("wfrun run --policy cl", "plain,cluster-min"),
        ("wfrun status ba", "plain,bag-1"),
    ],
)
def test_completion(bag: Path, words: str, offered: str) -> None:
    (bag / "wfrun-runs/bag-1").mkdir(parents=True)
    (bag / "wfrun-runs/bag-1/events.sqlite").touch()
    number = str(len(words.split()) - 1)
    env = {"COMP_WORDS": words, "COMP_CWORD": number, "_WFRUN_COMPLETE": "bash_complete"}
    assert command(bag, "wfrun", **env).stdout.splitlines() == [offered]
