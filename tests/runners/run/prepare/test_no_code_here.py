"""A document is no code on the machine of the user under emulation, in simulations, and where all
sites are remote; what it names is read only as far as it is a file."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.runners.harness import User
from wfrun import InvalidError, read_workflows
from wfrun.engine.errors import InfeasibleError
from wfrun.engine.events import Settings
from wfrun.engine.model import SiteSpec
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint

PROGRAMS = ("truncate", "sleep", "sh", "true", "evil")


def evil_folder(user: User) -> Path:
    """A folder of programs with usual names that leave a mark."""
    folder = user.folder / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\n: > {user.folder}/mark-{name}\n")
        (folder / name).chmod(0o755)
    return folder


def dax(folder: Path) -> str:
    variables = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "ENV": f"{folder}/evil",
        "BASH_ENV": f"{folder}/evil",
        "LD_PRELOAD": f"{folder}/evil.so",
    }
    profiles = "".join(
        f'<profile namespace="env" key="{key}">{value}</profile>'
        for key, value in variables.items()
    )
    return f"""<adag name="x">
    <file name="evil"><pfn url="file://{folder}/evil" site="local"/></file>
    <executable name="evil"><pfn url="file://{folder}/evil" site="local"/></executable>
    <job id="a" name="evil" runtime="0.01">{profiles}
    <uses file="f" link="output" size="5"/><uses name="evil" link="input" executable="true"/></job>
    <job id="b" name="sh" runtime="0.01"><argument>-c "touch {folder.parent}/mark-b"</argument>
    {profiles}<uses file="f" link="input"/><uses file="g" link="output" size="7"/></job></adag>"""


def bag(folder: Path) -> str:
    return textwrap.dedent(f"""\
        command: [sh, -c, ': > {folder.parent}/mark-bag']
        env: {{PATH: '{folder}:/usr/bin:/bin', ENV: '{folder}/evil', BASH_ENV: '{folder}/evil'}}
        parameters: {{x: [1, 2]}}
        outputs: ['o-{{x}}']
        estimate: 0.01 s
        """)


PREPARED = """
import sys
from pathlib import Path

from wfrun.engine.events import Settings
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.sites.catalog import read_catalog

STARTS = ("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen")


def refuse(event, arguments):
    if event in STARTS:
        raise AssertionError(f"{event}{arguments}")


sys.addaudithook(refuse)
plan = prepare([Path(sys.argv[1])], read_catalog("far.yaml"), Settings(policy="round-robin"))
assert len(plan.workflows[0].tasks) == 2
"""
"""Prepares a run at remote sites, where starting a process is an error."""


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--emulate", "--run-dir", "run"),
        pytest.param(("simulate", "--sites", "sites.yaml"), marks=pytest.mark.slow),
    ],
    ids=["emulate", "simulate"],
)
@pytest.mark.parametrize("kind", ["workflow", "bag"])
def test_documents_are_no_code_here(user: User, kind: str, words: tuple[str, ...]) -> None:
    folder = evil_folder(user)
    name = "x.dax" if kind == "workflow" else "x.yaml"
    (user.folder / name).write_text(dax(folder) if kind == "workflow" else bag(folder))
    (user.folder / "sites.yaml").write_text("sites:\n  a: {slots: 2}\n")
    done = user.wfrun(words[0], name, *words[1:])
    assert sorted(path.name for path in user.folder.glob("mark-*")) == [], done.text
    assert "Traceback" not in done.text
    if words[0] == "run" and "--emulate" in words:
        assert done.status == 0, done.text
        assert any((user.folder / "run" / "outputs").iterdir())


@pytest.mark.parametrize("kind", ["workflow", "bag"])
def test_documents_for_remote_sites_start_nothing_here(user: User, kind: str) -> None:
    folder = evil_folder(user)
    name = "x.dax" if kind == "workflow" else "x.yaml"
    (user.folder / name).write_text(dax(folder) if kind == "workflow" else bag(folder))
    (user.folder / "far.yaml").write_text("sites:\n  far: {kind: ssh, host: far, slots: 2}\n")
    done = user.launch([sys.executable, "-c", PREPARED, name]).done()
    assert done.status == 0, done.text


@pytest.mark.parametrize("place", ["fifo", "/dev/zero", "/dev/stdin"])
@pytest.mark.parametrize("key", ["file", "rows"])
def test_values_come_from_files_only(tmp_path: Path, key: str, place: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    text = f"command: echo\nparameters:\n  x: {{{key}: {place}}}\n"
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InvalidError, match="not a regular file") as caught:
        read_workflows(tmp_path / "x.yaml")
    assert caught.value.line == 3


@pytest.mark.parametrize("place", ["fifo", "/dev/zero"])
def test_sub_workflows_come_from_files_only(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "x.dax").write_text(f'<adag>\n<dax id="n" file="{tmp_path / place}"/></adag>')
    with pytest.raises(InvalidError, match="is not there"):
        read_workflows(tmp_path / "x.dax")


@pytest.mark.parametrize("place", ["fifo", "/dev/zero"])
async def test_inputs_are_read_from_files_only(tmp_path: Path, place: str) -> None:
    """A device has no end, and a pipe may have no writer."""
    os.mkfifo(tmp_path / "fifo")
    for endpoint in (LocalEndpoint(), LocalEndpoint(0, SiteSpec("a", slots=1), tmp_path)):
        name = str(tmp_path / place) if endpoint.spec is None else place
        if endpoint.spec is None or place == "fifo":
            with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
                await endpoint.read_small(name, 0)


def test_documents_of_many_programs_and_inputs_are_refused_soon(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    settings = Settings(policy="round-robin")
    many = "parameters: {x: {range: [1, 100000000]}}\nestimate: 1\n"
    for text, message in (
        ("command: ./{x}\n", "names 100,000,000 programs"),
        ("command: echo\ninputs: ['{x}.in']\n", "21 or more input files are missing"),
    ):
        path.write_text(text + many)
        with pytest.raises(InvalidError, match=message):
            prepare([path], this_machine(), settings)
