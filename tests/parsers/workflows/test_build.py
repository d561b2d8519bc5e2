"""From drafts to a workflow: linking of files, edges, and what is refused whatever the format."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.read import paused_gc
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import Draft, EdgeDraft, FileUse, TaskDraft
from wfrun.parsers.workflows.linking.cycles import shortest_cycle, topological_order
from wfrun.parsers.workflows.linking.link import Linked, build_workflow, check_acyclic, link


class Drafts:
    """What a reader would yield of one document."""

    def __init__(self, *, emulate: bool = False) -> None:
        self.document = Document(Path("some.dax"), emulate=emulate)
        self.drafts: list[Draft] = []

    def add_edges(self, child: str, parents: list[str], line: int) -> None:
        self.drafts.append(EdgeDraft(child, parents, line))

    def link(self) -> Linked:
        return link(self.document, self.drafts)

    def build(self) -> Workflow:
        linked = self.link()
        check_acyclic(linked)
        return build_workflow(linked)


def task(to: Drafts, name: str, reads: str = "", writes: str = "", *, line: int = 1) -> None:
    """Add a task; files are written ``name`` or ``name:size``."""

    def uses(text: str) -> list[FileUse]:
        pairs = [word.partition(":") for word in text.split()]
        return [FileUse(file, int(size) if size else None) for file, _, size in pairs]

    to.drafts.append(
        TaskDraft(name, name, name, inputs=uses(reads), outputs=uses(writes), line=line)
    )


def edges(workflow: Workflow) -> set[tuple[str, str]]:
    ids = [each.id for each in workflow.tasks]
    return {(ids[p], ids[c]) for c, above in enumerate(workflow.parents) for p in above}


def refusal(to: Drafts) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        to.build()
    return caught.value


def test_declared_and_implied_edges_are_joined() -> None:
    to = Drafts()
    task(to, "c", "x")
    task(to, "a", "", "x")
    task(to, "b")
    to.add_edges("c", ["b", "a", "b"], 9)
    workflow = to.build()
    assert edges(workflow) == {("a", "c"), ("b", "c")}
    assert workflow.parents[0] == (1, 2)


def test_repeated_id_names_both_lines() -> None:
    to = Drafts()
    task(to, "a", line=3)
    task(to, "a", line=8)
    error = refusal(to)
    assert error.line == 8
    assert "task id a is used twice" in str(error)
    assert "some.dax:3" in str(error)


def test_edge_to_a_task_that_is_not_there() -> None:
    to = Drafts()
    task(to, "a")
    to.add_edges("a", ["ghost"], 5)
    error = refusal(to)
    assert (error.line, error.source) == (5, "some.dax")
    assert "names a task that is not there: ghost" in str(error)


def test_shortest_cycle_is_named_and_says_which_edges_files_imply() -> None:
    to = Drafts()
    for name, reads, writes in (("a", "y", "x"), ("b", "x", "y"), ("c", "", ""), ("d", "", "")):
        task(to, name, reads, writes)
    to.add_edges("c", ["b"], 1)
    to.add_edges("d", ["c"], 1)
    to.add_edges("a", ["d"], 1)
    message = str(refusal(to))
    assert "the dependencies form a cycle: a -> b -> a" in message
    assert "b reads x, which a writes" in message


def test_task_that_depends_on_itself() -> None:
    to = Drafts()
    task(to, "a")
    to.add_edges("a", ["a"], 1)
    assert "a -> a" in str(refusal(to))


def test_no_tasks() -> None:
    assert "has no tasks" in str(refusal(Drafts()))


def test_two_producers_are_an_error_that_names_both() -> None:
    to = Drafts()
    task(to, "a", "", "x", line=2)
    task(to, "b", "", "x", line=7)
    error = refusal(to)
    assert error.line == 7
    assert "x is written by two tasks: a (some.dax:2) and b" in str(error)


def test_emulated_consumer_reads_its_declared_parents_file() -> None:
    to = Drafts(emulate=True)
    task(to, "a", "", "x:1")
    task(to, "b", "", "x:2")
    task(to, "c", "", "x:3")
    task(to, "first", "x")
    task(to, "both", "x")
    task(to, "none", "x")
    to.add_edges("first", ["a"], 1)
    to.add_edges("both", ["a", "b"], 1)
    workflow = to.build()
    read = {t.id: workflow.files[t.inputs[0]] for t in workflow.tasks if t.inputs}
    assert {name: file.size_bytes for name, file in read.items()} == {
        "first": 1,
        "both": 2,
        "none": 3,
    }
    assert [file.producer for file in workflow.files] == [0, 1, 2]
    assert edges(workflow) == {("a", "first"), ("a", "both"), ("b", "both"), ("c", "none")}
    assert any("written by several tasks" in warning for warning in workflow.warnings)


def test_emulated_choice_of_a_producer_makes_no_cycle() -> None:
    to = Drafts(emulate=True)
    task(to, "reader", "x", "y")
    task(to, "late", "y", "x")
    task(to, "later", "y", "x")
    workflow = to.build()
    assert workflow.files[workflow.tasks[0].inputs[0]].producer is None
    assert edges(workflow) == {("reader", "late"), ("reader", "later")}


def test_task_that_reads_what_it_writes() -> None:
    to = Drafts()
    task(to, "a", "x", "x")
    assert "a reads and writes the same file, x" in str(refusal(to))
    to = Drafts(emulate=True)
    task(to, "a", "x w", "x")
    workflow = to.build()
    assert [workflow.files[i].name for i in workflow.tasks[0].inputs] == ["w"]
    assert "taken as its output only: 1, first at some.dax:1" in workflow.warnings[0]


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "..", "../x", "a/../b", "a\nb", "a\0b", ".", "\ud800"]
)
@pytest.mark.parametrize("emulate", [False, True])
def test_file_names_that_leave_the_sandbox(name: str, emulate: bool) -> None:
    to = Drafts(emulate=emulate)
    to.drafts.append(TaskDraft("a", "a", "a", outputs=[FileUse(name)]))
    assert "cannot be used" in str(refusal(to))


@pytest.mark.parametrize("name", ["a..b", "..a", "a/...", "ü/x y", ".hidden", "a:b"])
def test_odd_file_names_are_kept(name: str) -> None:
    to = Drafts()
    to.drafts.append(TaskDraft("a", "a", "a", outputs=[FileUse(name)]))
    assert to.build().files[0].name == name


def test_two_spellings_of_a_path_are_one_file() -> None:
    to = Drafts()
    task(to, "a", "", "./x")
    task(to, "b", "x .//x")
    workflow = to.build()
    assert [file.name for file in workflow.files] == ["x"]
    assert workflow.parents[1] == (0,)


def test_sizes_the_producer_holds_else_the_largest() -> None:
    to = Drafts()
    task(to, "a", "in:5", "x:7")
    task(to, "b", "x:9 in:8")
    workflow = to.build()
    assert {file.name: file.size_bytes for file in workflow.files} == {"in": 8, "x": 7}
    assert workflow.warnings == ("file with differing sizes, its producer's holds: 2",)


@pytest.mark.parametrize(("emulate", "wanted"), [(False, None), (True, 0)])
def test_negative_numbers(emulate: bool, wanted: int | None) -> None:
    to = Drafts(emulate=emulate)
    assert to.document.size("-3", 1) == wanted
    assert to.document.runtime("-0.5", 2) == wanted
    task(to, "a")
    assert len(to.build().warnings) == 2


@pytest.mark.parametrize("text", ["many", "", "1e999", "nan", "9" * 30])
def test_sizes_that_are_no_sizes(text: str) -> None:
    with pytest.raises(InvalidError, match="file size"):
        Drafts().document.size(text, 4)


@pytest.mark.parametrize("text", ["long", "nan", "inf", ""])
def test_run_times_that_are_no_numbers(text: str) -> None:
    with pytest.raises(InvalidError, match="run time"):
        Drafts().document.runtime(text, 4)


def test_final_outputs() -> None:
    to = Drafts()
    marks = {"kept": True, "dropped": False, "silent": None}
    outputs = [FileUse(f"{mark}-{use}", stage_out=marks[mark]) for mark in marks for use in "01"]
    to.drafts.append(TaskDraft("a", "a", "a", outputs=outputs))
    to.drafts.append(TaskDraft("b", "b", "b", inputs=[FileUse(f"{mark}-1") for mark in marks]))
    collected = [file.name for file in to.build().files if file.collect]
    assert collected == ["kept-0", "kept-1", "silent-0"]


def test_streams_are_inputs_and_outputs() -> None:
    to = Drafts()
    to.drafts.append(TaskDraft("a", "a", "a", stdin="i", stdout="o", stderr="o"))
    (only,) = to.build().tasks
    assert (only.inputs, only.outputs) == ((0,), (1,))
    assert (only.stdin, only.stdout, only.stderr) == (0, 1, 1)


def test_like_tasks_share_what_is_equal() -> None:
    to = Drafts()
    for name in ("a", "b"):
        draft = TaskDraft(name, "".join(["ta", "sk"]), "x", tuple(["-v"] * 2))
        to.drafts.append(draft)
    first, second = to.build().tasks
    assert first.name is second.name
    assert first.arguments is second.arguments


def test_garbage_collector_is_paused_and_restored() -> None:
    with paused_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


graphs = st.integers(1, 9).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, n - 1), max_size=3).map(tuple), min_size=n, max_size=n
    )
)


@given(graphs)
@settings(deadline=None)
def test_shortest_cycle_is_one_and_none_is_shorter(parents: list[tuple[int, ...]]) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(parents)))
    graph.add_edges_from((p, c) for c, above in enumerate(parents) for p in above)
    lengths = [len(cycle) for cycle in networkx.simple_cycles(graph)]
    cycle = shortest_cycle(parents)
    if cycle is None:
        assert not lengths
        assert sorted(topological_order(parents)) == list(range(len(parents)))
    else:
        assert len(cycle) == len(set(cycle)) == min(lengths)
        assert all(p in parents[c] for p, c in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@given(st.data())
@settings(deadline=None, max_examples=examples(60))
def test_emulated_documents_without_declared_cycles_are_always_acyclic(data: st.DataObject) -> None:
    """However many tasks write a file, choosing whose is read never makes a cycle."""
    to = Drafts(emulate=True)
    names = st.sets(st.sampled_from(["x", "y", "z"]), max_size=2)
    count = data.draw(st.integers(1, 6))
    for number in range(count):
        writes = " ".join(sorted(data.draw(names)))
        task(to, f"t{number}", " ".join(sorted(data.draw(names))), f"own{number} {writes}")
    producers = dict.fromkeys("xyz", 0)
    linked = to.link()
    for drafted in linked.tasks:
        for index in drafted.outputs:
            name = linked.files.all[index].name
            if name in producers:
                producers[name] += 1
    try:
        check_acyclic(linked)
    except InvalidError:
        # A cycle of files with one producer each is the document's own.
        assert 1 in producers.values()
        return
    workflow = build_workflow(linked)
    assert len(topological_order(workflow.parents)) == count
    for reader in workflow.tasks:
        for index in reader.inputs:
            assert reader.outputs.count(index) == 0
