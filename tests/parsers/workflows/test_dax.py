"""DAX documents: what they mean, and what broken or hostile ones get."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Resources, Workflow
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.dax import split_words

DAX3 = '<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="test">\n'
DAX2 = '<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="test">\n'


def written(directory: Path, body: str, *, name: str = "test.dax") -> Path:
    path = directory / name
    path.write_text(body)
    return path


def read(directory: Path, body: str, *, emulate: bool = False, head: str = DAX3) -> Workflow:
    return read_workflow(written(directory, f"{head}{body}\n</adag>\n"), emulate=emulate)


def refused(directory: Path, document: str, *, emulate: bool = False) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        read_workflow(written(directory, document), emulate=emulate)
    assert caught.value.source is not None
    return caught.value


def test_arguments_streams_profiles_and_names(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        """<job id="j1" namespace="n" name="work" version="1" runtime="12.5">
          <argument>-a "two words" -i<file name="in put"/>,<file name="b"/> \\'q\\' </argument>
          <profile namespace="env" key="Path_To"> /opt </profile>
          <profile namespace="pegasus" key="cores">4</profile>
          <profile namespace="pegasus" key="memory">2</profile>
          <profile namespace="globus" key="maxWallTime">10</profile>
          <profile namespace="condor" key="priority">7</profile>
          <profile namespace="pegasus" key="clusters.size">3</profile>
          <stdin name="in put" link="input"/><stdout name="log" link="output"/>
          <uses name="in put" link="input" optional="true">
            <metadata key="size"> 10 </metadata></uses>
          <uses name="b" link="input" size="3"/>
          <uses namespace="n" name="work" version="1" executable="true"/>
          <invoke when="end">/bin/mail</invoke>
        </job>""",
    )
    (task,) = workflow.tasks
    assert task.arguments == ("-a", "two words", "-iin put,b", "'q'")
    assert [workflow.files[i].name for i in task.inputs] == ["in put", "b"]
    assert [workflow.files[i].name for i in task.outputs] == ["log"]
    assert [workflow.files[i].name for i in task.optional] == ["in put"]
    assert [file.size_bytes for file in workflow.files] == [10, 3, None]
    assert (task.stdin, task.stdout, task.stderr) == (0, 2, None)
    assert task.env == {"Path_To": "/opt"}
    assert task.resources.cores == 4
    assert task.resources.memory_bytes == 2 * 2**20
    assert task.resources.walltime_s == 600
    assert (task.runtime_s, task.priority, task.executable) == (12.5, 7, "work")
    assert (workflow.name, workflow.warnings) == ("test", ())


def test_spelling_of_schema_1_and_2(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        """<filename file="x" link="input"/>
        <job id="a" name="p" level="1" dv-name="q" cores="3" priority="-2">
          <argument>-f <filename file="x"/>.bak</argument>
          <stdout file="y" link="output" varname="v"/>
          <uses file="x" link="input" dontTransfer="false"/>
          <uses file="z" link="output" dontTransfer="true"/>
        </job>""",
        head=DAX2,
    )
    (task,) = workflow.tasks
    assert task.arguments == ("-f", "x.bak")
    assert (task.resources.cores, task.priority) == (3, -2)
    assert [file.name for file in workflow.files if file.collect] == ["y"]


def test_transfer_true_says_nothing_of_consumed_files_in_schema_2(tmp_path: Path) -> None:
    body = """<job id="a" name="p"><uses file="x" link="output" transfer="true"/></job>
        <job id="b" name="p"><uses file="x" link="input" transfer="true"/></job>"""
    assert not read(tmp_path, body, head=DAX2).files[0].collect
    assert read(tmp_path, body, head=DAX3).files[0].collect


def test_catalogs(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        """<file name="x"><pfn url="gsiftp://far/x" site="far"/>
             <pfn url="file:///data/a%20b" site="local"/></file>
        <file name="y"><pfn url="http://far/y"/></file>
        <executable namespace="n" name="p" version="1"><pfn url="file:///old/p"/></executable>
        <executable namespace="n" name="p" version="2">
          <profile namespace="env" key="HOW">catalog</profile>
          <pfn url="/far/p" site="far"/><pfn url="bin/p" site="local"/></executable>
        <executable name="q"><pfn url="gsiftp://far/q"/></executable>
        <transformation namespace="n" name="p" version="2">
          <uses name="p" executable="true"/>
          <uses name="p.conf" executable="false"><metadata key="size">5</metadata></uses>
        </transformation>
        <job id="a" namespace="n" name="p" version="2">
          <profile namespace="env" key="HOW">job</profile>
          <profile namespace="env" key="WHO">me</profile>
          <uses name="x" link="input"/><uses name="y" link="input"/></job>
        <job id="b" namespace="other" name="p" version="1"/>
        <job id="c" name="q"/>
        <job id="d" name="r"><uses name="r" link="input" executable="true"/></job>
        <job id="e" name="r"/>""",
    )
    programs = {task.id: task.executable for task in workflow.tasks}
    assert programs == {
        "a": str(tmp_path / "bin/p"),
        "b": "/old/p",
        "c": "q",
        "d": "./r",
        "e": "r",
    }
    urls = {file.name: file.url for file in workflow.files}
    assert urls == {"x": "/data/a b", "y": "http://far/y", "p.conf": None, "r": None}
    assert workflow.files[2].size_bytes == 5
    assert [file.executable for file in workflow.files] == [False, False, False, True]
    assert workflow.tasks[0].env == {"HOW": "catalog", "WHO": "me"}
    assert any("looked up by name: 1" in warning for warning in workflow.warnings)


INNER = """<file name="c"><pfn url="/in/c"/></file>
    <job id="1" name="p"><uses name="x" link="input"/><uses name="y" link="output"/></job>
    <job id="2" name="p"><uses name="y" link="input"/></job>
    <job id="3" name="p"/>"""


def test_sub_workflows_become_part_of_the_whole(tmp_path: Path) -> None:
    written(tmp_path, f"{DAX3}{INNER}</adag>", name="inner.dax")
    workflow = read(
        tmp_path,
        """<file name="inner"><pfn url="file:///nowhere/inner.dax" site="local"/></file>
        <job id="before" name="p"><uses name="x" link="output"/></job>
        <dax id="s" file="inner"><uses name="x" link="input"/></dax>
        <dax id="t" file="inner.dax"/>
        <job id="after" name="p"/>
        <child ref="s"><parent ref="before"/></child>
        <child ref="after"><parent ref="s"/></child>"""
        '<child ref="t"><parent ref="after"/></child>',
        emulate=True,
    )
    ids = [task.id for task in workflow.tasks]
    assert ids == ["before", "s.1", "s.2", "s.3", "t.1", "t.2", "t.3", "after"]
    parents = {
        ids[task]: {ids[parent] for parent in above} for task, above in enumerate(workflow.parents)
    }
    assert parents["s.1"] == parents["s.3"] == {"before"}
    assert parents["s.2"] == {"s.1"}
    assert parents["after"] == {"s.2", "s.3"}
    assert parents["t.1"] == {"before", "after"}
    assert parents["t.3"] == {"after"}


def test_error_in_a_sub_workflow_names_its_document(tmp_path: Path) -> None:
    written(tmp_path, f'{DAX3}\n<job id="1"/></adag>', name="inner.dax")
    error = refused(tmp_path, f'{DAX3}<dax id="s" file="inner.dax"/></adag>')
    assert (error.source, error.line) == (str(tmp_path / "inner.dax"), 3)


def test_sub_workflow_that_is_absent_or_includes_itself(tmp_path: Path) -> None:
    error = refused(tmp_path, f'{DAX3}<dax id="s" file="gone.dax"/></adag>')
    assert "sub-workflow s: its document gone.dax is not there" in str(error)
    assert str(tmp_path / "gone.dax") in str(error)
    assert error.line == 2
    error = refused(tmp_path, f'{DAX3}<dax id="s" file="test.dax"/></adag>')
    assert "being read already" in str(error)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ('\n<job id="a" name="p"/>\n<job id="a" name="p"/>', 4, "task id a is used twice"),
        ('<job id="a" name="p"/>\n<child ref="a"><parent ref="b"/></child>', 3, "not there: b"),
        ('<dag id="d" file="x.dag"/>', 2, "DAGMan files are not read"),
        ('<job id="a"/>', 2, "<job> without name="),
        ('<job name="p"/>', 2, "<job> without id="),
        ('<job id="a" name="p">\n<uses link="input"/></job>', 3, "without the name of a file"),
        ('<job id="a" name="p">\n<uses name="x" link="up"/></job>', 3, "its link is 'up'"),
        ('<job id="a" name="p">\n<uses name="x" link="input" size="big"/></job>', 3, "file size"),
        ('<job id="a" name="p" runtime="long"/>', 2, "run time 'long'"),
        ('<job id="a" name="p"><argument>it\'s</argument></job>', 2, "No closing quotation"),
        (
            '<job id="a" name="p"><profile namespace="pegasus" key="cores">no</profile></job>',
            2,
            "profile pegasus cores is 'no', not a whole number of cores",
        ),
        ('<job id="a" name="p"><job id="b" name="p"/></job>', 2, "<job> inside of <job>"),
        ('<job id="a" name="p"/>\n<executable name="p"/>', 3, "after the first job"),
        ("", None, "has no tasks"),
        ('<job id="a" name="p"><uses name="/x" link="input"/></job>', 2, "cannot be used"),
        ('<job id="a" name="p"><uses name="x" link="inout"/></job>', 2, "reads and writes"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, body: str, line: int | None, message: str) -> None:
    error = refused(tmp_path, f"{DAX3}{body}</adag>")
    assert message in str(error)
    assert error.line == line


def test_what_is_only_odd_is_counted(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        """<job id="a" name="p"><argument><file name="x"/></argument>
        <uses name="c" link="checkpoint"/><bogus/>
        <profile namespace="condor" key="request_cpus">ifThenElse(a, 1, 2)</profile></job>""",
    )
    assert [warning.partition(",")[0].partition(":")[0] for warning in workflow.warnings] == [
        "checkpoint file",
        "unknown element <bogus>",
        "file in an argument that the task does not use",
        "condor profile request_cpus is an expression",
    ]
    assert workflow.warnings[0].endswith("test.dax:3")


@pytest.mark.parametrize(("text", "mebibytes"), [("3", 3), ("2 GB", 2048), ("1048576k", 1024)])
def test_units_of_condor_memory(tmp_path: Path, text: str, mebibytes: int) -> None:
    profile = f'<profile namespace="condor" key="request_memory">{text}</profile>'
    workflow = read(tmp_path, f'<job id="a" name="p">{profile}</job>')
    assert workflow.tasks[0].resources.memory_bytes == mebibytes * 2**20


@pytest.mark.parametrize(
    ("profiles", "cores", "nodes"),
    [
        ("pegasus:cores=8 pegasus:nodes=2", 8, 2),
        ("pegasus:nodes=2 pegasus:ppn=4", 8, 2),
        ("pegasus:cores=8 pegasus:ppn=4", 8, 2),
        ("pegasus:cores=8 pegasus:ppn=4 pegasus:nodes=2", 8, 2),
        ("globus:count=8 globus:hostcount=2", 8, 2),
        ("globus:hostcount=2 globus:xcount=4", 8, 2),
        ("pegasus:nodes=3", 3, 3),
        ("pegasus:ppn=4", 4, 1),
    ],
)
def test_several_nodes(tmp_path: Path, profiles: str, cores: int, nodes: int) -> None:
    workflow = read(tmp_path, f'<job id="a" name="p">{_profiles(profiles)}</job>')
    assert workflow.tasks[0].resources == Resources(cores, nodes=nodes)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ("pegasus:cores=8 pegasus:nodes=3", "8 cores cannot be spread evenly over 3 nodes"),
        ("pegasus:cores=6 pegasus:ppn=4", "1 nodes with 4 cores each are not 6 cores"),
        ("pegasus:cores=6 pegasus:ppn=2 pegasus:nodes=2", "2 nodes with 2 cores each"),
    ],
)
def test_cores_that_are_not_those_of_the_nodes(tmp_path: Path, profiles: str, message: str) -> None:
    error = refused(tmp_path, f'{DAX3}<job id="a" name="p">{_profiles(profiles)}</job></adag>')
    assert message in str(error)
    assert error.line == 2


def test_cores_are_rounded_up_in_emulation(tmp_path: Path) -> None:
    job = f'<job id="a" name="p">{_profiles("globus:count=3 globus:hostcount=4")}</job>'
    assert "Ask for 4 cores" in (refused(tmp_path, f"{DAX3}{job}</adag>").hint or "")
    workflow = read(tmp_path, job, emulate=True)
    assert workflow.tasks[0].resources == Resources(4, nodes=4)
    assert "3 cores on 4 nodes, emulated with 4 cores" in workflow.warnings[0]


def _profiles(text: str) -> str:
    words = (re.split("[:=]", word) for word in text.split())
    return "".join(f'<profile namespace="{n}" key="{k}">{v}</profile>' for n, k, v in words)


def test_split_words() -> None:
    assert split_words(["  a  'b c' ", " "], ["x y"]) == ("a", "b c", "x y")
    assert split_words(['"-o ', '"', ""], ["x", "y"]) == ("-o xy",)
    assert split_words([""], []) == ()
    assert split_words(["\ue000=", ""], ["x"]) == ("\ue000=x",)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE adag [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<adag name="&c;"><job id="&c;" name="&c;"/></adag>
"""


def test_entities_are_never_expanded(tmp_path: Path) -> None:
    error = refused(tmp_path, BOMB)
    assert "declares XML entities" in str(error)
    assert error.line == 2
    secret = written(tmp_path, "secret", name="secret.txt")
    external = f'<!DOCTYPE adag [\n<!ENTITY e SYSTEM "file://{secret}">]>\n<adag><job '
    error = refused(tmp_path, external + 'id="a" name="p"><argument>&e;</argument></job></adag>')
    assert "declares XML entities" in str(error)
    assert "secret" not in str(error).partition("hint")[0].replace(str(tmp_path), "")
    parameter = f'<!DOCTYPE adag [<!ENTITY % p SYSTEM "file://{secret}"> %p;]><adag/>'
    assert "declares XML entities" in str(refused(tmp_path, parameter))


def test_references_to_characters(tmp_path: Path) -> None:
    workflow = read(
        tmp_path,
        """<job id="a&amp;b" name="p"><argument>&lt;&#65;&gt; <file name="x&amp;&quot;"/></argument>
        <uses name="x&amp;&quot;" link="input"/></job>""",
    )
    assert workflow.tasks[0].id == "a&b"
    assert workflow.tasks[0].arguments == ("<A>", 'x&"')
    assert workflow.files[0].name == 'x&"'
    newline = '<job id="a" name="p"><uses name="x&#10;y" link="input"/></job></adag>'
    assert "cannot be used" in str(refused(tmp_path, DAX3 + newline))


@pytest.mark.parametrize("name", ["catalog_entry", "part", "other_use", "init__"])
def test_unknown_elements_are_skipped_and_counted(tmp_path: Path, name: str) -> None:
    workflow = read(tmp_path, f'<{name}/><job id="a" name="p"/><{name} x="y"><z>z</z></{name}>')
    assert workflow.warnings[0].startswith(f"unknown element <{name}>, skipped: 2, first at ")
    assert len(workflow.warnings) == 1


def test_text_of_unknown_elements_is_no_part_of_an_argument(tmp_path: Path) -> None:
    job = '<job id="a" name="p"><argument>-x <note>-y <b>-z</b></note> 1</argument></job>'
    assert read(tmp_path, job).tasks[0].arguments == ("-x", "1")


def test_known_elements_inside_of_unknown_ones_are_refused(tmp_path: Path) -> None:
    body = '<dflow>\n<x/>\n<job id="a" name="p"/></dflow><job id="b" name="p"/>'
    error = refused(tmp_path, f"{DAX3}{body}</adag>")
    assert "<job> inside of the unknown element <dflow>" in str(error)
    assert error.line == 2


def test_doctype_without_entities_is_read_and_fetches_nothing(tmp_path: Path) -> None:
    document = (
        '<!DOCTYPE adag SYSTEM "http://localhost:1/x.dtd">\n<adag><job id="a" name="p"/></adag>'
    )
    assert len(read_workflow(written(tmp_path, document)).tasks) == 1
    undeclared = '<adag>\n<job id="a" name="p"><argument>&what;</argument></job></adag>'
    assert refused(tmp_path, undeclared).line == 2


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    job = '<job id="a" name="p">\n<uses name="x" link="input"/></job>'
    whole = f'<?xml version="1.0"?>\n{DAX3}{job}</adag>'
    for length in range(len(whole)):
        error = refused(tmp_path, whole[:length])
        if length > 60:
            assert error.line is not None, whole[:length]
    assert len(read_workflow(written(tmp_path, whole)).tasks) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "binary data"),
        (b"\x1f\x8b\x08\x00abc", "binary data"),
        (b"\xff\xfe\x00\x01rubbish\x00\x9c", "not a workflow document"),
        (b"\x89PNG\r\n\x1a\n\x00", "binary data"),
        (b"just some words\n", "not a workflow"),
        (b"<html><body/></html>", "its outermost element is <html>"),
        (b"<job id='a' name='p'/>", "its outermost element is <job>"),
        (b"<adag><job id='a' name='\xff'/></adag>", "not well-formed"),
    ],
)
def test_what_is_no_workflow_at_all(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "test.dax"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=message) as caught:
        read_workflow(path)
    assert caught.value.source == str(path)


def test_paths_that_can_not_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.dax"):
        with pytest.raises(InvalidError, match="cannot be read"):
            read_workflow(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_read_permission(tmp_path: Path) -> None:
    hidden = written(tmp_path, "<adag/>")
    hidden.chmod(0)
    with pytest.raises(InvalidError, match="cannot be read"):
        read_workflow(hidden)


def test_other_encodings(tmp_path: Path) -> None:
    document = '<?xml version="1.0" encoding="{}"?>\n<adag><job id="é" name="p"/></adag>'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "iso-8859-1"):
        path = tmp_path / "test.dax"
        path.write_bytes(document.format(encoding.removesuffix("-sig")).encode(encoding))
        assert read_workflow(path).tasks[0].id == "é"


@pytest.mark.parametrize("encoding", ["euc-jp", "utf-7", "utf-16", "no-such"])
def test_entities_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    prolog = f'<?xml version="1.0" encoding="{encoding}"?>\n<!DOCTYPE adag [<!ENTITY b "x">]>'
    document = prolog + '<adag><job id="&b;" name="p"/></adag>'
    path = tmp_path / "test.dax"
    path.write_bytes(document.encode("utf-16" if encoding == "utf-16" else "ascii"))
    with pytest.raises(InvalidError, match="declares XML entities") as caught:
        read_workflow(path)
    assert caught.value.line == 2


def test_encoding_that_is_not_known(tmp_path: Path) -> None:
    error = refused(tmp_path, '<?xml version="1.0" encoding="no-such"?>\n<adag/>')
    assert error.line == 1
    assert "Save the document as UTF-8" in str(error)


def test_entities_that_expand_beyond_the_limit_of_the_parser(tmp_path: Path) -> None:
    names = [("e0", "a" * 10)] + [(f"e{n + 1}", f"&e{n};" * 10) for n in range(9)]
    declared = "\n".join(f'<!ENTITY {name} "{text}">' for name, text in names)
    error = refused(tmp_path, f'<!DOCTYPE adag [\n{declared}]>\n<adag name="&e9;"/>')
    assert "declares XML entities" in str(error)
    assert error.line == 2


def test_entity_in_a_comment_of_the_prolog(tmp_path: Path) -> None:
    document = "<!-- <!ENTITY a> --><!DOCTYPE adag [<!ELEMENT adag ANY>]>\n"
    path = written(tmp_path, document + '<adag><job id="a" name="p"/></adag>')
    assert len(read_workflow(path).tasks) == 1


def test_line_of_a_tag_that_spans_several(tmp_path: Path) -> None:
    """An element is where its tag begins, whatever stands in the lines before and after."""
    jobs = '<job id="a"\n name="p"/><job id="b" name="p"/>\n<!-- a > b -->\n<job\n\n id="c"/>'
    error = refused(tmp_path, DAX3 + "\n" + jobs + "</adag>")
    assert "<job> without name=" in str(error)
    assert error.line == 6
    error = refused(tmp_path, DAX3 + '\n<job id="a"\n name="p"/><job\nid="b"/></adag>')
    assert error.line == 4


def test_lines_beyond_16_bits(tmp_path: Path) -> None:
    error = refused(tmp_path, DAX3 + "\n" * 70_000 + '<job id="a"/></adag>')
    assert error.line == 70_002
