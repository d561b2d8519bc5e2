"""JSDL 1.0 with the parameter sweep extension."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun import InvalidError, Resources, Workflow, read_workflow
from wfrun.engine.tasks.bag import tasks_of
from wfrun.parsers.bags.jsdl_documents.sweep import MAX_STEPS, is_location_path

DOCUMENT = """<?xml version="1.0"?>
<jsdl:JobDefinition xmlns:jsdl="http://schemas.ggf.org/jsdl/2005/11/jsdl"
    xmlns:posix="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
    xmlns:sweep="http://schemas.ogf.org/jsdl/2009/03/sweep"
    xmlns:func="http://schemas.ogf.org/jsdl/2009/03/sweep/functions">
 <jsdl:JobDescription>
  <jsdl:JobIdentification><jsdl:JobName>docking</jsdl:JobName></jsdl:JobIdentification>
  <jsdl:Application><jsdl:ApplicationName>dock</jsdl:ApplicationName>
   <posix:POSIXApplication>
    <posix:Executable>dock.sh</posix:Executable>
    <posix:Argument>--seed</posix:Argument>
    <posix:Argument>0</posix:Argument>
    <posix:Argument>{literal}</posix:Argument>
    <posix:Input>in.txt</posix:Input>
    <posix:Output>score.txt</posix:Output>
    <posix:Environment name="LIGAND">x</posix:Environment>
    <posix:WallTimeLimit>60</posix:WallTimeLimit>
   </posix:POSIXApplication>
  </jsdl:Application>
  <jsdl:Resources>
   <jsdl:IndividualCPUCount><jsdl:Exact>2.0</jsdl:Exact></jsdl:IndividualCPUCount>
   <jsdl:IndividualPhysicalMemory>
    <jsdl:LowerBoundedRange>1073741824.0</jsdl:LowerBoundedRange>
   </jsdl:IndividualPhysicalMemory>
   <jsdl:TotalResourceCount><jsdl:Exact>2</jsdl:Exact></jsdl:TotalResourceCount>
   <jsdl:OperatingSystem/>
  </jsdl:Resources>
  <jsdl:DataStaging>
   <jsdl:FileName>in.txt</jsdl:FileName>
   <jsdl:Source><jsdl:URI>gsiftp://host/data/in.txt</jsdl:URI></jsdl:Source>
  </jsdl:DataStaging>
  <jsdl:DataStaging>
   <jsdl:FileName>score.txt</jsdl:FileName>
   <jsdl:Target><jsdl:URI>file:///results/LIGAND-SEED.txt</jsdl:URI></jsdl:Target>
  </jsdl:DataStaging>
 </jsdl:JobDescription>
 SWEEP
</jsdl:JobDefinition>
"""
OUTER = """<sweep:Sweep><sweep:Assignment>
 <sweep:DocumentNode>
  <sweep:NamespaceBinding prefix="p" ns="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"/>
  <sweep:Match>//p:Environment[@name='LIGAND']</sweep:Match>
 </sweep:DocumentNode>
 <sweep:DocumentNode><sweep:Match>substring(//jsdl:Target/jsdl:URI, 17, 6)</sweep:Match>
 </sweep:DocumentNode>
 <func:Values><func:Value>a</func:Value><func:Value>b b</func:Value></func:Values>
</sweep:Assignment>INNER</sweep:Sweep>"""
INNER = """<sweep:Sweep><sweep:Assignment>
 <sweep:DocumentNode><sweep:Match>//posix:Argument[2]</sweep:Match></sweep:DocumentNode>
 <sweep:DocumentNode><sweep:Match>substring(//jsdl:Target/jsdl:URI, 24, 4)</sweep:Match>
 </sweep:DocumentNode>
 FUNCTION
</sweep:Assignment></sweep:Sweep>"""
LOOP = '<func:LoopInteger start="1" end="7" step="2"><func:Exception value="5"/></func:LoopInteger>'


def read(tmp_path: Path, text: str) -> Workflow:
    (tmp_path / "x.jsdl").write_text(text)
    return read_workflow(tmp_path / "x.jsdl")


def nested(function: str) -> str:
    return OUTER.replace("INNER", INNER.replace("FUNCTION", function))


def document(sweep: str) -> str:
    head, tail = DOCUMENT.rsplit("SWEEP", 1)
    return head + sweep + tail


def test_inner_sweeps_are_inner_loops(tmp_path: Path) -> None:
    bag = read(tmp_path, document(nested(LOOP)))
    assert bag.name == "docking"
    assert tasks_of(bag).expansion.parameters(4) == {"LIGAND": "b b", "seed": "3"}
    assert [task.arguments[1] for task in bag.tasks] == ["1", "3", "7"] * 2
    task, files = bag.tasks[5], bag.files
    assert (task.name, task.executable) == ("dock", "dock.sh")
    assert task.arguments == ("--seed", "7", "{literal}")
    assert task.env == {"LIGAND": "b b"}
    assert task.resources == Resources(4, 1 << 30, 0, 60, 2)
    assert [files[f].name for f in task.inputs] == ["in.txt"]
    assert task.stdin == task.inputs[0]
    assert [(files[f].name, files[f].url) for f in task.outputs] == [("score.txt", "b b-7.txt")]
    assert task.stdout == task.outputs[0]
    assert "OperatingSystem" in bag.warnings[0]
    assert "gsiftp://host/data/in.txt" in bag.warnings[1]


def test_a_document_without_a_sweep_is_one_task(tmp_path: Path) -> None:
    bag = read(tmp_path, document(""))
    (task,) = bag.tasks
    assert task.arguments == ("--seed", "0", "{literal}")


def test_assignments_of_one_sweep_vary_together(tmp_path: Path) -> None:
    inner = INNER.replace("FUNCTION", '<func:LoopDouble start="0.5" end="1" step="0.5"/>')
    together = OUTER.replace("INNER", inner.removeprefix("<sweep:Sweep>").removesuffix(
        "</sweep:Sweep>"))  # fmt: skip
    bag = read(tmp_path, document(together))
    values = [tasks_of(bag).expansion.parameters(n) for n in range(len(bag.tasks))]
    assert values == [{"LIGAND": "a", "seed": "0.5"}, {"LIGAND": "b b", "seed": "1.0"}]


REFUSED = {
    "a step of 0": (nested(LOOP.replace('step="2"', 'step="0"')), "the step is 0"),
    "no end": (nested(LOOP.replace('end="7"', 'end="0"')), "never ends"),
    "no number": (nested(LOOP.replace('"7"', '"x"')), "end is 'x'; it must be a whole number"),
    "only exceptions": (
        nested(LOOP.replace('"1"', '"5"').replace('"7"', '"5"')),
        "the product is empty",
    ),
    "no values": (nested("<func:Values/>"), "the product is empty"),
    "no function": (nested("<func:Directory/>"), "no function that is known"),
    "no match": (nested(LOOP).replace("Argument[2]", "Argument[9]"), "matches nothing"),
    "no XPath": (nested(LOOP).replace("Argument[2]", "Argument[["), "is no XPath"),
    "a container": (nested(LOOP).replace("//posix:Argument[2]", "//jsdl:Resources"), "of text"),
    "not for all": (
        nested(LOOP).replace("posix:Argument[2]", "posix:WallTimeLimit"),
        "cannot vary",
    ),
    "twice": (nested(LOOP).replace("URI, 24", "URI, 20"), "two sweeps change the same text"),
    "siblings": (OUTER.replace("INNER", "") * 2, "two sweeps stand beside each other"),
    "unequal": (
        OUTER.replace("INNER", INNER.replace("FUNCTION", LOOP)[len("<sweep:Sweep>"):-14]),
        "this one has 3 values and the first 2",
    ),
    "one name": (nested(LOOP).replace("URI, 24, 4", "URI, 1, 4"), "written by task 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    sweep, message = REFUSED[case]
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, document(sweep))
    assert message in caught.value.message
    assert caught.value.line is not None
    assert caught.value.line > 10


def test_entities_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">\n<!ENTITY b "&a;&a;">]>\n'
    with pytest.raises(InvalidError, match=r"x\.jsdl:2: declares XML entities"):
        read(tmp_path, document("").replace("<jsdl:JobD", bomb + "<jsdl:JobD", 1))


SLOW = {
    "nested conditions": "//*[count(//*[count(//*[count(//*)>0])>0])>0]",
    "long conditions": "//*[" + " or ".join(["count(//*)=0"] * 400) + "]",
    "comparisons of node sets": "//*[//* = //*[//* != //*]]",
    "many steps": "//*/.." * 500 + "//posix:Argument[2]",
    "unions": " | ".join(["//*//*//*//*"] * 300),
    "functions": "id(//*[contains(string(/), string(//*))])",
    "axes": "//*/following::*/preceding::*/following::*/preceding::*",
    "in a part": "substring(//*[//*[//*[//*]]], 1, 2)",
    "variables": "//*[$x]",
}


@pytest.mark.parametrize("path", SLOW.values(), ids=SLOW)
def test_paths_that_could_run_for_hours_are_refused(tmp_path: Path, path: str) -> None:
    path = path.replace("<", "&lt;").replace(">", "&gt;")
    inner = INNER.replace("//posix:Argument[2]", path, 1).replace("FUNCTION", LOOP)
    large = document(OUTER.replace("INNER", inner)).replace(
        "<jsdl:OperatingSystem/>", "<jsdl:OperatingSystem/>" * 500
    )
    with pytest.raises(InvalidError, match="is no XPath that is evaluated") as caught:
        read(tmp_path, large)
    assert caught.value.line is not None
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "path",
    [
        "//posix:Argument[2]",
        "/jsdl:JobDefinition/jsdl:JobDescription//posix:Argument[ position() = 2 ]/text()",
        "/*/*//*/posix:Argument[.='0'][1]",
        "//jsdl:Application/descendant::posix:Argument[2]/self::node()",
        "//posix:*[text()='0']",
        '//jsdl:Application/*[posix:Executable]/posix:Argument[.="0"]',
    ],
)
def test_paths_that_documents_use_are_evaluated(tmp_path: Path, path: str) -> None:
    inner = INNER.replace("//posix:Argument[2]", path, 1).replace("FUNCTION", LOOP)
    bag = read(tmp_path, document(OUTER.replace("INNER", inner)))
    assert [task.arguments[1] for task in bag.tasks] == ["1", "3", "7"] * 2


@pytest.mark.slow
def test_many_paths_in_a_large_document_are_refused(tmp_path: Path) -> None:
    node = "<sweep:DocumentNode><sweep:Match>//posix:Argument[2]</sweep:Match></sweep:DocumentNode>"
    inner = INNER.replace(node, node * 5_000, 1).replace("FUNCTION", LOOP)
    with pytest.raises(InvalidError, match="too many DocumentNodes"):
        read(tmp_path, document(OUTER.replace("INNER", inner)))


def test_exceptions_from_a_long_loop_are_refused(tmp_path: Path) -> None:
    loop = LOOP.replace('end="7"', 'end="100000000"')
    with pytest.raises(InvalidError, match="too long for exceptions"):
        read(tmp_path, document(nested(loop)))


def test_the_number_of_steps_is_limited() -> None:
    assert is_location_path("/a" * MAX_STEPS)
    assert not is_location_path("/a" * (MAX_STEPS + 1))
