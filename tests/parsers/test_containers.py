"""The containers of documents and catalogs: what they mean, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.containers import (
    Container,
    ContainerRuntime,
    SiteEnvironment,
    container_fault,
)
from wfrun.parsers.containers import to_container, to_image, to_mount
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.sites.catalog import read_catalog

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("written", "image"),
    [
        ("centos", "docker://centos"),
        ("centos:8", "docker://centos:8"),
        ("docker:24-dind", "docker://docker:24-dind"),
        ("ghcr.io/a/b@sha256:" + DIGEST, "docker://ghcr.io/a/b@sha256:" + DIGEST),
        ("docker:///rynge/montage:latest", "docker://rynge/montage:latest"),
        ("library://lolcow", "library://lolcow"),
        ("https://host:8/a.sif?x=1", "https://host:8/a.sif?x=1"),
        ("file:///images/a.sif", "/images/a.sif"),
        ("images/a.sif", "images/a.sif"),
        ("./rootfs", "./rootfs"),
    ],
)
def test_images(written: str, image: str) -> None:
    assert to_image(written) == image


@pytest.mark.parametrize(
    "written",
    [
        "", None, 3, "--privileged", "docker://--privileged", "docker://-v/:/host", "a b", "a\nb",
        "docker://a b", "ftp://host/a.sif", "file://host/a.sif", "/a:b.sif", "/a,b.sif", "-a.sif",
        "docker://" + "x" * 2000, "https://-x", "https://host/a b", "./\x1b[2J",
    ],
)  # fmt: skip
def test_images_that_a_runtime_could_misread(written: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        to_image(written)


@pytest.mark.parametrize(
    "written",
    [
        "/a", "a:/b", "/a:b", "/a:/b:exec", "/a:/b:ro,exec", "/a:/b,/c:/d", "--privileged",
        "/a:/b:ro:/c", "/a\n:/b", 3,
    ],
)  # fmt: skip
def test_mounts_with_options(written: object) -> None:
    with pytest.raises(ValueError, match="is no mount"):
        to_mount(written)


def test_a_container_with_options() -> None:
    with pytest.raises(ValueError, match="no key 'options'"):
        to_container({"image": "a", "options": ["--privileged"]})


@pytest.mark.parametrize(
    ("image", "runtimes"),
    [
        ("docker://a", {"apptainer", "singularity", "docker", "podman", "command"}),
        ("library://a", {"apptainer", "singularity", "command"}),
        ("/a.sif", {"apptainer", "singularity", "command"}),
        ("/a.tar", {"apptainer", "singularity", "podman", "command"}),
    ],
)
def test_which_runtime_can_run_an_image(image: str, runtimes: set[str]) -> None:
    can = {
        name
        for name in ("apptainer", "singularity", "docker", "podman", "command")
        if not container_fault(
            Container(image),
            SiteEnvironment(container=ContainerRuntime(name)),
        )
    }
    assert can == runtimes
    assert container_fault(Container(image), None)
    assert container_fault(Container(image), SiteEnvironment(("true",)))


# Documents

PEGASUS = f"""\
pegasus: "5.0"
name: contained
transformationCatalog:
  transformations:
    - name: inside
      profiles: {{env: {{WHERE: transformation}}}}
      sites:
        - {{name: local, pfn: /usr/bin/inside, type: installed, container: box}}
    - name: staged
      sites:
        - {{name: local, pfn: "file:///home/me/staged", type: stageable, container: box}}
  containers:
    - name: box
      type: docker
      image: docker:///rynge/montage:latest
      mounts: ["/lfs1:/shared-data/:ro"]
      checksum: {{sha256: "{DIGEST}"}}
      profiles: {{env: {{WHERE: container, JAVA_HOME: /opt/java}}}}
jobs:
  - {{type: job, id: a, name: inside}}
  - {{type: job, id: b, name: staged}}
"""


def written(folder: Path, text: str, name: str = "document.yml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_containers_of_a_transformation_catalog(tmp_path: Path) -> None:
    inside, staged = read_workflow(written(tmp_path, PEGASUS)).tasks
    box = Container("docker://rynge/montage:latest", False, DIGEST, ("/lfs1:/shared-data/:ro",))
    assert inside.resources.container == staged.resources.container == box
    assert inside.executable == "/usr/bin/inside"
    assert inside.env == {"WHERE": "transformation", "JAVA_HOME": "/opt/java"}
    assert staged.executable == "./staged"
    assert len(staged.inputs) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("container: box}\n    - name: staged", "container: bax}\n    - name: staged", ":8: there"),
        ("docker:///rynge/montage:latest", "docker://--privileged", ":15: image of a container"),
        (":ro", ":ro,exec", ":16: mounts of a container"),
    ],
)
def test_containers_that_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in PEGASUS
    with pytest.raises(InvalidError) as caught:
        read_workflow(written(tmp_path, PEGASUS.replace(old, new)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("container_image", "centos:8"),
        ("docker_image", "centos:8"),
        ("+SingularityImage", '"docker://centos:8"'),
    ],
)
def test_containers_of_profiles(key: str, value: str, tmp_path: Path) -> None:
    profile = f"<profile namespace='condor' key='{key}'>{value}</profile>"
    body = f"<job id='a' name='work'>{profile}</job>"
    path = written(tmp_path, f"<adag version='3.6' name='t'>{body}</adag>", "a.dax")
    workflow = read_workflow(path)
    assert workflow.tasks[0].resources.container == Container("docker://centos:8")
    again = tmp_path / "again.dax"
    write_dax(workflow, again)
    assert read_workflow(again).tasks[0].resources == workflow.tasks[0].resources


def test_containers_of_wfformat(tmp_path: Path) -> None:
    task = {"name": "a", "container": {"image": "centos", "mounts": ["/a:/b"]}}
    text = json.dumps({"name": "t", "schemaVersion": "1.4", "workflow": {"tasks": [task]}})
    (read,) = read_workflow(written(tmp_path, text, "a.json")).tasks
    assert read.resources.container == Container("docker://centos", mounts=("/a:/b",))


def test_containers_of_bags(tmp_path: Path) -> None:
    bag = written(tmp_path, "command: tool\ncontainer: {image: centos, sha256: '" + DIGEST + "'}\n")
    expected = Container("docker://centos", sha256=DIGEST)
    assert read_workflow(bag).tasks[0].resources.container == expected
    with pytest.raises(InvalidError, match=r"document\.yml:2: container of"):
        read_workflow(written(tmp_path, "command: tool\ncontainer: --privileged\n"))


@pytest.mark.parametrize("name", ["A B", "1A", "A-B", "A=B", "", "BASH_FUNC_x%%"])
def test_names_of_variables(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="the variable"):
        read_workflow(written(tmp_path, f"command: tool\nenv: {{{json.dumps(name)}: x}}\n"))


# Catalogs


def test_the_environment_of_a_site(tmp_path: Path) -> None:
    catalog = """\
sites:
  a:
    slots: 1
    prologue: |
      # modules
      module load gcc

      export A=1
    environment: {N: 3, TEXT: a b}
    container: apptainer
  b:
    kind: slurm
    host: b
    slots: 1
    prologue: ["if true; then\\n  export B=1\\nfi"]
    container:
      runtime: podman
      image: $HOME/images/a
      binds: [/data, "$SCRATCH:/scratch:ro"]
      options: [--network=none]
      global_options: [--cgroup-manager=cgroupfs]
  c:
    slots: 1
    container: {command: "run '{image}' in {sandbox}", image: ./images/root}
"""
    a, b, c = (s.environment for s in read_catalog(written(tmp_path, catalog)).sites)
    assert a == SiteEnvironment(
        ("module load gcc", "export A=1"),
        {"N": "3", "TEXT": "a b"},
        ContainerRuntime("apptainer"),
    )
    assert b is not None
    assert b.prologue == ("if true; then\n  export B=1\nfi",)
    assert b.container == ContainerRuntime(
        "podman",
        (),
        "$HOME/images/a",
        ("/data", "$SCRATCH:/scratch:ro"),
        ("--network=none",),
        ("--cgroup-manager=cgroupfs",),
    )
    assert c is not None
    words = ("run", "{image}", "in", "{sandbox}")
    assert c.container == ContainerRuntime("command", words, str(tmp_path / "images" / "root"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prologue: {a: b}", "must be text or a list of shell commands"),
        ("environment: [A]", "must be a mapping"),
        ("environment: {A B: 1}", "the variable 'A B'"),
        ("environment: {A: [1]}", "must be text, not a list"),
        ("container: rkt", "'rkt' is not a container runtime"),
        ("container: {image: a}", "needs one of 'runtime' and 'command'"),
        ("container: {runtime: docker, command: 'x {image}'}", "needs one of"),
        ("container: {runtime: docker, image: --privileged}", "is not the name of an image"),
        ("container: {runtime: docker, binds: [data]}", "is no bind"),
        ("container: {command: 'run {imgae}'}", "{imgae}; known are {image}, {sandbox}, {files}"),
        ("container: {command: 'run it'}", "does not name {image}"),
        ("container: {command: 'run {image}', binds: [/a]}", "a command of its own, and 'binds'"),
        ("contaner: docker", "Did you mean 'container'?"),
    ],
)
def test_environments_that_are_refused(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        read_catalog(written(tmp_path, f"sites:\n  a:\n    slots: 1\n    {line}\n"))
    assert message in f"{caught.value} {caught.value.hint}"
    assert "document.yml:4:" in str(caught.value)
