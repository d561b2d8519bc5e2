"""What documents of all formats may contain: ids, names of files, formats, texts and numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from wfrun import InvalidError, Workflow, read_workflows
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.logs import read_swf
from wfrun.sites.catalog import read_catalog


def read(folder: Path, name: str, text: str, template: LineTemplate | None = None) -> Workflow:
    (folder / name).write_text(text)
    return read_workflows(folder / name, template=template)[0]


def refusal(folder: Path, name: str, text: str, template: LineTemplate | None = None) -> str:
    with pytest.raises(InvalidError) as caught:
        read(folder, name, text, template)
    return str(caught.value).replace(f"{folder}/", "")


def task(facts: object) -> str:
    """A document in WfFormat, whose JSON takes all characters; the task is on its second line."""
    return '{"workflow": {"tasks": [\n' + json.dumps(facts) + "]}}"


def bag(lines: str, x: str = "[1]") -> str:
    """A bag with a parameter on its fourth line, and further keys before."""
    return f"command: echo {{x}}\n{lines}\nparameters:\n  x: {x}\n"


# Ids.

IDS = {
    "/../../victim": "has a '/'",
    "a\nb": "has control characters",
    "\x1b]52;c;aGk=\a": "has control characters",
    "\x9b2J": "has control characters",
    "\ud800": "has control characters",
    "a" * 256: "has 256 characters",
}


@pytest.mark.parametrize("task_id", IDS, ids=range(len(IDS)))
def test_ids_that_cannot_be_used_are_refused(tmp_path: Path, task_id: str) -> None:
    message = refusal(tmp_path, "x.json", task({"name": "a", "id": task_id}))
    assert message.startswith("x.json:2: task id ")
    assert IDS[task_id] in message
    assert "rename the task" in message
    assert message.isprintable() or message.replace("\n", "").isprintable()


def test_a_name_of_a_workflow_that_is_no_text_is_refused(tmp_path: Path) -> None:
    text = json.dumps({"name": "\ud800", "workflow": {"tasks": [{"name": "a", "id": "a"}]}})
    assert "has a character that is no Unicode text in its name" in refusal(
        tmp_path, "x.json", text
    )


def test_ids_in_all_formats_of_workflows_are_checked(tmp_path: Path) -> None:
    dax = '<adag>\n<job id="a/b" name="x"/></adag>'
    yaml = "pegasus: '5'\njobs:\n- {type: job, id: a/b, name: x}\n"
    inner = f'<adag><dax id="n/" file="{tmp_path}/y.dax"/></adag>'
    (tmp_path / "y.dax").write_text('<adag><job id="a" name="x"/></adag>')
    assert "x.dax:2: task id 'a/b' has a '/'" in refusal(tmp_path, "x.dax", dax)
    assert "x.yml:3: task id 'a/b' has a '/'" in refusal(tmp_path, "x.yml", yaml)
    assert "x.dax:1: task id 'n/' has a '/'" in refusal(tmp_path, "x.dax", inner)


@pytest.mark.parametrize("task_id", ["ID01", "NF:A (1)", "a\xa0b", "ä.ö-ü_x", "..", "a" * 255])
def test_usual_ids_are_kept(tmp_path: Path, task_id: str) -> None:
    assert read(tmp_path, "x.json", task({"name": "a", "id": task_id})).tasks[0].id == task_id


def test_ids_of_the_tasks_of_a_bag_have_no_slash(tmp_path: Path) -> None:
    workflow = read(tmp_path, "x.yaml", bag("application: gromacs/2023"))
    assert workflow.tasks[0].id == "gromacs_2023-0"
    assert workflow.tasks[0].name == "gromacs/2023"


@pytest.mark.parametrize("key", ["bag", "owner", "application"])
def test_long_names_of_bags_are_refused(tmp_path: Path, key: str) -> None:
    message = refusal(tmp_path, "x.yaml", bag(f"{key}: {'a' * 256}"))
    assert "has 256 characters" in message
    assert len(message) < 300


# Names of files.

NAMES = {
    "a\tb": "has control characters",
    "a\x1b[2J": "has control characters",
    "a\x85b": "has control characters",
    "a\u2028b": "has control characters",
    "../a": "is not a path in the task's directory",
    "a/../../b": "is not a path in the task's directory",
    "/a": "is not a path in the task's directory",
    "ä" * 128: "has a part of more than 255 bytes",
    "a/" * 513 + "a": "has 1,027 bytes",
}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("link", ["input", "output"])
def test_names_of_files_that_cannot_be_used_are_refused(
    tmp_path: Path, name: str, link: str
) -> None:
    facts = {"name": "t", "files": [{"name": name, "link": link}]}
    message = refusal(tmp_path, "x.json", task(facts))
    assert message.startswith("x.json:2: file name ")
    assert NAMES[name] in message


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_of_files_of_bags_are_refused_alike(tmp_path: Path, name: str) -> None:
    for text in (
        bag(f"outputs: [{json.dumps(name)}]"),
        bag("outputs: ['{x:s}']", json.dumps([name])),
    ):
        message = refusal(tmp_path, "x.yaml", text)
        assert message.startswith("x.yaml:2: ")
        assert NAMES[name] in message


# Formats in templates of bags.

FORMATS = {
    "{x:.>2.0}": "is not a path in the task's directory",
    "{x:/>9}": "is not a path in the task's directory",
    "a/{x:.^2.0}/b": "is not a path in the task's directory",
    "{x:.0}": "is not a path in the task's directory",
    "a/{x:.0}": "has parts that are empty or '.'",
    "a/{x:.>1.0}/b": "has parts that are empty or '.'",
    "{x:/>2}": "is not a path in the task's directory",
    "{x:\x7f>9}": "has control characters",
}


@pytest.mark.parametrize("kind", ["outputs", "inputs"])
@pytest.mark.parametrize("template", FORMATS)
def test_formats_do_not_lead_out(tmp_path: Path, kind: str, template: str) -> None:
    message = refusal(tmp_path, "x.yaml", bag(f"{kind}: [{json.dumps(template)}]", "[a, b]"))
    assert message.startswith("x.yaml:2: ")
    assert FORMATS[template] in message


def test_formats_do_not_lead_out_where_outputs_are_kept(tmp_path: Path) -> None:
    lines = "outputs: [{name: o, to: '{x:.>2.0}/{index}'}]"
    assert "is not a path" in refusal(tmp_path, "x.yaml", bag(lines, "[a]"))


@pytest.mark.parametrize("spec", ["999999999", ".999999999", "0>256", "256d", ".256f", "٩٩٩٩"])
@pytest.mark.parametrize("key", ["command: echo", "outputs: ['{}']", "env: {A: '{}'}"])
def test_wide_formats_are_refused(tmp_path: Path, spec: str, key: str) -> None:
    text = (
        f"command: 'echo {{x:{spec}}}'" if "command" in key else key.replace("{}", f"{{x:{spec}}}")
    )
    rest = "" if "command" in key else "command: echo\n"
    message = refusal(tmp_path, "x.yaml", f"{rest}{text}\nparameters: {{x: [1]}}\n")
    assert "is too wide" in message or "is not a parameter" in message


@pytest.mark.parametrize(
    ("spec", "value", "name"),
    [("04", "7", "o-0007"), (".2f", "0.5", "o-0.50"), ("_>5", "ab", "o-___ab"), ("255", "a", None)],
)
def test_usual_formats_are_kept(tmp_path: Path, spec: str, value: str, name: str | None) -> None:
    width = "o-" if name else "o/"
    workflow = read(tmp_path, "x.yaml", bag(f"outputs: ['{width}{{x:{spec}}}']", f"['{value}']"))
    assert workflow.files[0].name == (name or "o/" + "a".ljust(255))


def test_texts_do_not_grow_without_bound(tmp_path: Path) -> None:
    """Ten thousand times a value of a megabyte."""
    command = "command: [echo, '" + "{x}" * 10_000 + "']"
    text = f"{command}\nparameters: {{x: [{'a' * 1_000_000}]}}\n"
    message = refusal(tmp_path, "x.yaml", text)
    assert message.startswith("x.yaml:1: ")
    assert "may become 10,000,000,000 bytes long" in message
    assert len(message) < 300


# Numbers.

HUGE = ["1e300", "1" + "0" * 23, "1" + "0" * 400, "9" * 4000]
KEYS = ["priority", "cores", "memory", "gpus", "nodes", "walltime"]


@pytest.mark.parametrize("number", HUGE, ids=["1e300", "10^23", "10^400", "4000 digits"])
@pytest.mark.parametrize("key", KEYS)
def test_huge_numbers_in_bags_are_refused(tmp_path: Path, key: str, number: str) -> None:
    message = refusal(tmp_path, "x.yaml", bag(f"{key}: {number}"))
    assert message.startswith((f"x.yaml:2: {key} of ", "x.yaml:2: the number "))


@pytest.mark.parametrize("number", HUGE, ids=["1e300", "10^23", "10^400", "4000 digits"])
@pytest.mark.parametrize("key", ["runtime", "cores", "priority"])
def test_huge_numbers_in_workflows_are_refused(tmp_path: Path, key: str, number: str) -> None:
    text = '{"workflow": {"tasks": [\n{"name": "a", "' + key + f'": {number}}}]}}}}'
    assert refusal(tmp_path, "x.json", text).startswith("x.json:2: ")
    text = f'<adag>\n<job id="a" name="x" {key}="{number}"/></adag>'
    assert refusal(tmp_path, "x.dax", text).startswith("x.dax:2: ")


@pytest.mark.parametrize("number", HUGE, ids=["1e300", "10^23", "10^400", "4000 digits"])
@pytest.mark.parametrize("key", ["slots", "walltime", "memory", "gpus"])
def test_huge_numbers_in_catalogs_are_refused(tmp_path: Path, key: str, number: str) -> None:
    rest = "" if key == "slots" else "slots: 1, "
    path = tmp_path / "sites.yaml"
    path.write_text(f"sites:\n  a: {{{rest}{key}: {number}}}\n")
    with pytest.raises(InvalidError) as caught:
        read_catalog(path)
    assert caught.value.line == 2


# Texts of programs.


@pytest.mark.parametrize("text", ["a\0", "\ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("key", ["program", "arguments"])
def test_texts_that_no_program_can_get_are_refused(tmp_path: Path, key: str, text: str) -> None:
    command = {"program": text} if key == "program" else {"program": "x", "arguments": [text]}
    message = refusal(tmp_path, "x.json", task({"name": "a", "command": command}))
    assert message.startswith("x.json:2: task a: a ")


@pytest.mark.parametrize(
    ("name", "value"), [("A=B", "c"), ("", "c"), ("A", '"\\0"'), ('"\\0"', "c")]
)
def test_variables_that_no_program_can_get_are_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    name = name or '""'
    text = f"pegasus: '5'\njobs:\n- id: a\n  name: x\n  profiles: {{env: {{{name}: {value}}}}}\n"
    message = refusal(tmp_path, "x.yml", text)
    assert message.startswith("x.yml:3: task a: ")
    assert "in its environment" in message


@pytest.mark.parametrize("value", ["nan", "inf", "1e13", "1e300"])
def test_estimates_are_times(tmp_path: Path, value: str) -> None:
    """The first value alone is none."""
    (tmp_path / "values").write_text(f"1\n{value}\n2\n")
    lines = "estimate: '{x}'"
    message = refusal(tmp_path, "x.yaml", bag(lines, "{file: values}"))
    assert "the estimate" in message
    message = refusal(tmp_path, "x.yaml", bag("estimate: '{x}'", "{range: [1, 1.0e+15, 1.0e+14]}"))
    assert "is more than" in message


@pytest.mark.parametrize("size", ["9223372036854775807", "4611686018427387905", "1e300"])
def test_huge_files_are_refused(tmp_path: Path, size: str) -> None:
    text = f'<adag>\n<job id="a" name="x"><uses file="f" link="output" size="{size}"/></job></adag>'
    for emulate in (False, True):
        (tmp_path / "x.dax").write_text(text)
        with pytest.raises(InvalidError, match="is too large"):
            read_workflows(tmp_path / "x.dax", emulate=emulate)


def test_numbers_of_many_digits_in_yaml_are_refused(tmp_path: Path) -> None:
    """Python converts none of them to text."""
    message = refusal(tmp_path, "x.yaml", bag("", f"[0x{'f' * 5000}]"))
    assert message.startswith("x.yaml:4: the number 0xfff")
    assert len(message) < 200


@pytest.mark.parametrize("key", ["cores", "runtime", "priority"])
def test_infinite_numbers_in_json_are_refused(tmp_path: Path, key: str) -> None:
    text = '{"workflow": {"tasks": [\n{"name": "a", "' + key + '": 1e400}]}}'
    assert refusal(tmp_path, "x.json", text).startswith(f"x.json:2: {key} is ")


@pytest.mark.parametrize("version", ["9" * 5000, "²", "", "x"])
def test_odd_versions_of_dax_are_read(tmp_path: Path, version: str) -> None:
    text = f'<adag version="{version}"><job id="a" name="x"/></adag>'
    assert len(read(tmp_path, "x.dax", text).tasks) == 1


def test_endless_lines_of_compressed_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.swf.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"; a log\n" + b"1 " * 600_000)
    with pytest.raises(InvalidError, match="more than 1,048,576 bytes") as caught:
        read_swf(path, skip_bad_lines=True)
    assert caught.value.line == 2
