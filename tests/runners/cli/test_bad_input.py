"""Wrong input and usage, as the command answers them: one clear message that says where and what
to do, exit status 2 or 3, nothing started, nothing left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.runners.harness import Done, User

SITES = "sites:\n  here: {slots: 1}\n"


def dax(*lines: str) -> str:
    return "\n".join(['<adag name="x">', *lines, "</adag>"])


GOOD = dax('<job id="a" name="touch"><argument>started</argument></job>')
STEPS = [(chr(n), chr(n + 1)) for n in range(ord("a"), ord("h"))]
YAML_BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [f"{b}: &{b} [{', '.join(f'*{a}' for _ in range(9))}]" for a, b in STEPS]
)


def refused(user: User, *words: str | Path, status: int = 2) -> str:
    """Run a command that has to be refused; returns what it told."""
    before = {path for path in user.folder.rglob("*") if not path.name.startswith(".")}
    done = user.wfrun(*words) if status == 3 else user.ask(*words)  # 3: sites were opened
    check_refusal(done, status)
    after = {path for path in user.folder.rglob("*") if not path.name.startswith(".")}
    assert after == before, "something was left behind"
    assert not user.processes()
    return done.err


def check_refusal(done: Done, status: int) -> None:
    assert done.status == status, done.text
    assert done.out == ""
    assert "Traceback" not in done.err
    assert len(done.err) < 1000
    assert done.err.count("wfrun: ") + done.err.count("Error: ") == 1, done.err


def document(user: User, text: str | bytes, name: str = "x.dax") -> str:
    content = text.encode() if isinstance(text, str) else text
    (user.folder / name).write_bytes(content)
    return name


DOCUMENTS: dict[str, tuple[str | bytes, Sequence[str]]] = {
    "a cycle": (
        dax(
            *(f'<job id="{task}" name="true"/>' for task in "abcd"),
            '<child ref="b"><parent ref="a"/></child>',
            '<child ref="c"><parent ref="b"/></child>',
            '<child ref="d"><parent ref="c"/></child>',
            '<child ref="a"><parent ref="d"/><parent ref="c"/></child>',
        ),
        ["x.dax:2: ", "cycle: a -> b -> c -> a"],
    ),
    "a missing parent": (
        dax('<job id="a" name="true"/>', '<child ref="a"><parent ref="zz"/></child>'),
        ["x.dax:3: ", "names a task that is not there: zz"],
    ),
    "repeated ids": (
        dax('<job id="a" name="true"/>', '<job id="a" name="true"/>'),
        ["x.dax:3: ", "task id a is used twice", "x.dax:2"],
    ),
    "two producers": (
        dax(*(f'<job id="{t}" name="true"><uses file="f" link="output"/></job>' for t in "ab")),
        ["x.dax:3: ", "file f is written by two tasks: a (x.dax:2) and b", "--emulate"],
    ),
    "dangling files": (
        dax(
            '<job id="a" name="true"><uses file="f1" link="input"/></job>',
            '<job id="b" name="true">',
            '<uses file="f2" link="input"/><uses file="f3" link="input"/></job>',
        ),
        ["x.dax: 3 input files are missing: f1, f2, f3", "--inputs DIR"],
    ),
    "an absolute path": (
        dax('<job id="a" name="true"><uses file="/etc/passwd" link="input"/></job>'),
        ["x.dax:2: ", "file name '/etc/passwd' cannot be used", "relative"],
    ),
    "a path that leads out": (
        dax('<job id="a" name="true"><uses file="a/../../b" link="output"/></job>'),
        ["x.dax:2: ", "file name 'a/../../b' cannot be used", "'..'"],
    ),
    "a newline in a name": (
        dax('<job id="a" name="true"><uses file="a&#10;b" link="output"/></job>'),
        ["x.dax:2: ", r"file name 'a\nb' cannot be used", "control characters"],
    ),
    "an entity bomb": (
        '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in STEPS)
        + "]>\n"
        + GOOD.replace("started", "&h;"),
        ["x.dax:1: ", "declares XML entities"],
    ),
    "an external entity": (
        f'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n{GOOD.replace("started", "&a;")}',
        ["x.dax:1: ", "declares XML entities"],
    ),
    "a truncated document": (GOOD[:-4], ["x.dax:3: ", "not well-formed XML", "complete"]),
    "a YAML bomb": ('pegasus: "5.0"\n' + YAML_BOMB, ["x.dax:", "aliases expand the document"]),
    "nothing at all": (b"", ["x.dax: ", "the document is empty"]),
    "binary data": (bytes(range(256)), ["x.dax: ", "not a workflow document"]),
    "an absent executable": (
        dax('<job id="a" name="no-such-program"/>', '<job id="b" name="no-such-program"/>'),
        ["x.dax: ", "executable no-such-program (task a and 1 more) is not found", "--emulate"],
    ),
    "a task that fits no site": (
        dax(
            '<job id="a" name="true">',
            '<profile namespace="pegasus" key="cores">64</profile></job>',
        ),
        ["x.dax: ", "task 'a' fits no site: it asks for 64 cores", "here: 1 cores"],
    ),
    "JSON that is cut": ('{"name": "x", "workflow": {"tasks": [', ["x.dax:1: "]),
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents(user: User, what: str) -> None:
    text, words = DOCUMENTS[what]
    told = refused(user, document(user, text), "--sites", user.catalog(SITES))
    for word in words:
        assert word in told


CATALOGS = {
    "a wrong key": (
        "sites:\n  here:\n    slot: 2\n",
        ["sites.yaml:3: ", "site here has no key 'slot'", "Did you mean 'slots'?"],
    ),
    "a wrong value": ("sites:\n  here:\n    slots: many\n", ["sites.yaml:3: ", "slots of site"]),
    "a link to nowhere": (
        SITES + "links:\n  - {between: [here, ther], latency: 1 ms}\n",
        ["sites.yaml:4: ", "ther"],
    ),
    "a bomb": (YAML_BOMB, ["sites.yaml:", "aliases expand the document"]),
    "nothing": ("", ["sites.yaml"]),
    "no YAML": ("sites: [", ["sites.yaml:"]),
}


@pytest.mark.parametrize("what", CATALOGS)
def test_catalogs(user: User, what: str) -> None:
    text, words = CATALOGS[what]
    user.catalog(text)
    told = refused(user, document(user, GOOD), "--sites", "sites.yaml")
    for word in words:
        assert word in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "file-awar"], "did you mean 'file-aware'?"),
        (["--policy", "coarsening", "-O", "sise=3"], "'sise'"),
        (["--policy", "coarsening", "-O", "size=many"], "'many': not of type int"),
        (["-O", "size"], "'size' is not NAME=VALUE"),
        (["--throttle", "0"], "--throttle is 0, but must be at least 1"),
        (["--throttle", "some"], "'some' is neither a whole number nor 'auto' or 'none'"),
        (["--time-scale", "0.5"], "--time-scale has no effect without --emulate"),
        (["--size-scale", "0.5"], "--size-scale has no effect without --emulate"),
        (["--at-sites"], "--at-sites has no effect without --emulate"),
        (["--emulate", "--time-scale", "-1"], "--time-scale is -1, but must be at least 0"),
        (["--emulate", "--time-scale", "nan"], "--time-scale is nan"),
        (["--emulate", "--size-scale", "inf"], "--size-scale is inf"),
        (["--retry-delay", "inf"], "'--retry-delay': 'inf' cannot be understood; write seconds"),
        (["--inputs", "nowhere"], "Directory 'nowhere' does not exist"),
        (["--sites", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file"),
        (["--on-failure", "pray"], "'pray' is not one of 'continue', 'stop'"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_options(user: User, words: list[str], told: str) -> None:
    assert told in refused(user, document(user, GOOD), *words)


def test_documents_that_are_none(user: User) -> None:
    assert ".: cannot be read: Is a directory" in refused(user, ".")
    assert "gone.dax: cannot be read: No such file or directory" in refused(user, "gone.dax")
    assert "Did you mean 'resume' or 'results'?" in refused(user, "resum")
    assert "no command and no file 'stpo'. Did you mean 'cancel'?" in refused(user, "stpo")
    assert "no command and no file 'stop'. Did you mean 'cancel'?" in refused(user, "stop")
    assert "Commands are: run, jobs, resume, " in refused(user, "frobnicate")
    assert "Missing argument 'DOCUMENT...'" in refused(user, "run")


@pytest.mark.parametrize("name", ["./own", "sub/own", "own-program"])
def test_programs_that_may_not_be_executed(
    user: User, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user.folder / "sub").mkdir()
    for path in ("own", "sub/own", "own-program"):
        (user.folder / path).write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{user.folder}{os.pathsep}{os.environ['PATH']}")
    words = ("--command", f"{name} {{a}}")
    (user.folder / "t.csv").write_text("a\n1\n")
    told = refused(user, "t.csv", *words)
    assert "may not be executed" in told
    assert f"chmod +x {user.folder}/{name.removeprefix('./')}" in told


def test_programs_of_workflows_that_may_not_be_executed(user: User) -> None:
    (user.folder / "bin").mkdir()
    (user.folder / "bin/own").write_text("#!/bin/sh\n")
    pfn = '<executable name="p"><pfn url="bin/own" site="local"/></executable>'
    told = refused(user, document(user, dax(pfn, '<job id="a" name="p"/>')))
    assert f"chmod +x {user.folder}/bin/own" in told


def test_one_bad_document_among_good_ones(user: User) -> None:
    good = document(user, GOOD, "good.dax")
    assert "bad.dax: the document is empty" in refused(user, good, document(user, "", "bad.dax"))


def test_runs_that_are_none(user: User) -> None:
    assert "there is no run in ./wfrun-runs, and none of yours elsewhere" in refused(user, "resume")
    assert "there is no run 'my-run'" in refused(user, "status", "my-run")
    assert "there is no run 'my-run'" in refused(user, "cancel", "my-run")
    done = user.wfrun(document(user, GOOD), "--run-dir", "run", "--quiet")
    assert done.status == 0
    assert "run run has no task 'b'" in refused(user, "logs", "run", "b")
    assert "run already holds a run" in refused(user, "x.dax", "--run-dir", "run")


def test_run_directories_below_a_file(user: User) -> None:
    told = refused(user, document(user, GOOD), "--run-dir", "x.dax/run", status=3)
    assert "the run directory x.dax/run cannot be made: Not a directory" in told
    assert "--run-dir" in told


def test_a_folder_in_use_is_no_run_directory(user: User) -> None:
    """Runs remove their folder ``inputs`` at the end: it must not be the user's."""
    (user.folder / "inputs").mkdir()
    (user.folder / "inputs" / "data").touch()
    told = refused(user, document(user, GOOD), "--run-dir", ".")
    assert "the run directory . is not empty" in told
    (user.folder / "empty").mkdir()
    assert user.wfrun("x.dax", "--run-dir", "empty").status == 0


def test_a_file_in_place_of_the_folder_of_runs(user: User) -> None:
    (user.folder / "wfrun-runs").touch()
    told = refused(user, document(user, GOOD), status=3)
    assert "the run directory wfrun-runs cannot be made: File exists" in told


@pytest.mark.parametrize("where", [[], ["--run-dir", "run"]])
def test_site_directories_below_a_file(user: User, where: list[str]) -> None:
    """Another site was opened already; what it made is removed."""
    (user.folder / "one").mkdir()
    user.catalog(
        "sites:\n  one: {slots: 1, directory: one}\n  two: {slots: 1, directory: x.dax/two}\n"
    )
    text = document(user, GOOD)
    told = refused(user, text, "--sites", "sites.yaml", "--quiet", *where, status=3)
    assert "site two: its directory" in told
    assert "cannot be used: Not a directory" in told


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write, not even root."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("root can write everywhere, and may not mount a read-only file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_run_directory_that_can_not_be_written(user: User, read_only: Path) -> None:
    text = document(user, GOOD)
    for path in (read_only, read_only / "run"):
        told = refused(user, text, "--run-dir", path, status=3)
        assert str(read_only) in told
        assert "Read-only file system" in told or "Permission denied" in told


def test_a_site_directory_that_can_not_be_written(user: User, read_only: Path) -> None:
    user.catalog(f"sites:\n  here: {{slots: 1, directory: {read_only}}}\n")
    text = document(user, GOOD)
    told = refused(user, text, "--sites", "sites.yaml", "--quiet", status=3)
    assert f"site here: its directory {read_only}" in told


def test_an_output_folder_that_can_not_be_written(user: User, read_only: Path) -> None:
    told = refused(user, "generate", "bag", "--tasks", "3", "-o", read_only / "bag.dax")
    assert f"{read_only}/bag.dax: cannot be written" in told


@pytest.mark.parametrize("name", ["in", "in/member"])
def test_an_input_that_is_a_pipe(user: User, name: str) -> None:
    """It is not waited for a writer."""
    path = user.folder / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    uses = '<uses file="in" link="input"/>'
    document = user.folder / "x.dax"
    document.write_text(dax(f'<job id="a" name="touch"><argument>started</argument>{uses}</job>'))
    told = refused(user, "run", document, status=3)
    assert f"{path} cannot be read: it is neither a file nor a directory" in told
