"""Every published workflow of the corpus is read, or refused for the reason stated here.

Numbers of tasks and edges are checked against a count that shares no code with the parsers:
ElementTree, json and yaml, and the plain definition of declared and implied edges.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
import yaml

from tests.places import CORPUS
from wfrun.engine.errors import InvalidError
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.linking.cycles import topological_order

pytestmark = pytest.mark.corpus

TWICE = "is written by two tasks"
SIZES = "differing sizes"
SEVERAL = "written by several tasks"
UNUSED = "file in an argument that the task does not use"
SCRIPT = "script text is not run"
SLASH = "leading slash dropped"
WORDS = "argument that holds several words"
ABSOLUTE = "cannot be used"


class Expected(NamedTuple):
    """What a document gets: a refusal, or warnings (with their counts), without and with
    emulation."""

    refusal: str | None = None
    warnings: Mapping[str, int] = MappingProxyType({})
    emulated_refusal: str | None = None
    emulated_warnings: Mapping[str, int] | None = None


def sizes(count: int) -> Expected:
    return Expected(None, {SIZES: count})


def twice(files: int, differing: int = 0) -> Expected:
    warnings = {SEVERAL: files} | ({SIZES: differing} if differing else {})
    return Expected(TWICE, {}, None, warnings)


def absent(reason: str) -> Expected:
    return Expected(reason, {}, reason)


def nextflow(scripts: int, names: int) -> Expected:
    return Expected(ABSOLUTE, {}, None, {SCRIPT: scripts, SLASH: names})


FINE = Expected()
NEGATIVE = {"negative file size": 209, "negative run time": 57}

EXPECTED = {
    "dax/pegasus/doc__schemas__dax-3.4__sample.xml": Expected(
        "reads and writes the same file, String", {}, "the dependencies form a cycle: - -> -"
    ),
    "dax/pegasus/doc__tutorial__examples__diamond__diamond.dax": FINE,
    "dax/pegasus/doc__tutorial__examples__merge__merge.dax": FINE,
    "dax/pegasus/doc__tutorial__examples__split__split.dax": FINE,
    "dax/pegasus/examples__helloworld.dax": FINE,
    "dax/pegasus/lib__pegasus__python__Pegasus__test__dax33.xml": absent("file.dax is not there"),
    "dax/pegasus/share__pegasus__examples__xsede-multi-site-example__blackdiamond.dax": FINE,
    "dax/pegasus/test__core__015-shell-hierarchic-workflow__inner.dax": FINE,
    "dax/pegasus/test__core__015-shell-hierarchic-workflow__main.dax": absent("dax is not there"),
    "dax/pegasus/test__junit__edu__isi__pegasus__planner__parser__dax__input__blackdiamond.dax": (
        Expected(None, {UNUSED: 5})
    ),
    "dax/pegasus/test__visualize__broadband.dax": twice(32),
    "dax/pegasus/test__visualize__genome.dax": FINE,
    "dax/pegasus/test__visualize__sipht.dax": FINE,
    "dax/real-montage/Montage_143~4962d78.xml": FINE,
    "dax/synthetic/CyberShake_30.xml": sizes(4),
    "dax/synthetic/CyberShake_50.xml": sizes(8),
    "dax/synthetic/CyberShake_100.xml": sizes(16),
    "dax/synthetic/CyberShake_1000.xml": sizes(8),
    "dax/synthetic/Epigenomics_24.xml": FINE,
    "dax/synthetic/Epigenomics_46.xml": FINE,
    "dax/synthetic/Epigenomics_100.xml": FINE,
    "dax/synthetic/Epigenomics_997.xml": Expected(None, NEGATIVE),
    "dax/synthetic/HEFT_paper.xml": FINE,
    "dax/synthetic/Inspiral_30.xml": sizes(1),
    "dax/synthetic/Inspiral_50.xml": sizes(1),
    "dax/synthetic/Inspiral_100.xml": sizes(4),
    "dax/synthetic/Inspiral_1000.xml": twice(3, 24),
    "dax/synthetic/Montage_25.xml": twice(2, 12),
    "dax/synthetic/Montage_50.xml": twice(2, 18),
    "dax/synthetic/Montage_100.xml": twice(2, 34),
    "dax/synthetic/Montage_1000.xml": twice(2, 334),
    "dax/synthetic/Sipht_30.xml": sizes(852),
    "dax/synthetic/Sipht_60.xml": twice(51, 940),
    "dax/synthetic/Sipht_100.xml": twice(51, 969),
    "dax/synthetic/floodplain.xml": FINE,
    "pegasus5-yaml/etc__yaml__workflow.yml": FINE,
    "pegasus5-yaml/packages__pegasus-common__test__client__analyzer_samples_dir__"
    "hierarchical_wf_success__00__00__blackdiamond_diamond_subworkflow.000__"
    "inner_diamond_workflow.yml": FINE,
    "pegasus5-yaml/packages__pegasus-common__test__client__analyzer_samples_dir__"
    "process_wf_success__workflow.yml": FINE,
    "pegasus5-yaml/test__core__015-shell-hierarchic-workflow__inner.dax.yml": FINE,
    "pegasus5-yaml/test__core__052-condor_request__workflow.yml": FINE,
    "wfformat/1000genome-chameleon-2ch-100k-001.json": FINE,
    "wfformat/1000genome-workflowhub.json": FINE,
    "wfformat/blast-chameleon-small-001.json": FINE,
    "wfformat/bwa-chameleon-small-001.json": FINE,
    "wfformat/cycles-chameleon-1l-1c-9p-001.json": FINE,
    "wfformat/epigenomics-chameleon-hep-1seq-100k-001.json": FINE,
    "wfformat/helloworld-chain-5-chameleon.json": Expected(None, {WORDS: 25}),
    "wfformat/helloworld-forkjoin-10-chameleon.json": Expected(None, {WORDS: 50}),
    "wfformat/montage-chameleon-2mass-005d-001.json": FINE,
    "wfformat/montage-chameleon-2mass-05d-001.json": FINE,
    "wfformat/rnaseq-dirt02-001.json": nextflow(196, 1203),
    "wfformat/scrnaseq-dirt02-001.json": nextflow(14, 100),
    "wfformat/seismology-chameleon-100p-001.json": FINE,
    "wfformat/soykb-chameleon-10fastq-10ch-001.json": FINE,
    "wfformat/srasearch-v1.4.json": FINE,
    "wfformat/wfcommons-schema.json": absent('no object "workflow"'),
}


class Counted(NamedTuple):
    """Tasks by id: (inputs, outputs); declared edges."""

    tasks: dict[str, tuple[set[str], set[str]]]
    declared: set[tuple[str, str]]

    def edges(self) -> set[tuple[str, str]]:
        """Declared ones, and from the producer of each input: of several the declared parents
        among them stand for all (so they are edges already), or else the last."""
        producers = defaultdict(list)
        for task, (_, outputs) in self.tasks.items():
            for file in outputs:
                producers[file].append(task)
        edges = set(self.declared)
        for task, (inputs, _) in self.tasks.items():
            for file in inputs:
                owners = producers[file]
                if owners and not any((owner, task) in self.declared for owner in owners):
                    edges.add((owners[-1], task))
        return edges


def count(path: Path) -> Counted:
    if path.suffix == ".json":
        return count_json(json.loads(path.read_text()))
    if path.suffix == ".yml":
        return count_yaml(yaml.safe_load(path.read_text()))
    return count_xml(ElementTree.parse(path).getroot())


def count_xml(root: ElementTree.Element) -> Counted:
    counted = Counted({}, set())
    for element in root.iterfind("{*}job"):
        inputs: set[str] = set()
        outputs: set[str] = set()
        for kind, names in (("input", inputs), ("output", outputs)):
            for use in element.iterfind(f"{{*}}uses[@link='{kind}']"):
                names.add(use.get("file", use.get("name", "")))
        for stream in ("stdout", "stderr"):
            for use in element.iterfind(f"{{*}}{stream}"):
                outputs.add(use.get("file", use.get("name", "")))
        counted.tasks[element.attrib["id"]] = (inputs, outputs)
    for child in root.iterfind("{*}child"):
        for parent in child:
            counted.declared.add((parent.attrib["ref"], child.attrib["ref"]))
    return counted


def count_yaml(document: dict[str, Any]) -> Counted:
    counted = Counted({}, set())
    for job in document["jobs"]:
        files = [{u["lfn"] for u in job["uses"] if u["type"] == t} for t in ("input", "output")]
        counted.tasks[job["id"]] = (files[0], files[1])
    for edge in document["jobDependencies"]:
        counted.declared.update((edge["id"], child) for child in edge["children"])
    return counted


def count_json(document: dict[str, Any]) -> Counted:
    workflow = document["workflow"]
    tasks = workflow.get("specification", workflow)
    tasks = tasks.get("tasks") or tasks["jobs"]
    ids = {task["name"]: task.get("id", task["name"]) for task in tasks}
    ids |= {task.get("id", task["name"]): task.get("id", task["name"]) for task in tasks}
    counted = Counted({}, set())
    for task in tasks:
        me = task.get("id", task["name"])
        old = {
            link: {file["name"] for file in task.get("files", ()) if file["link"] == link}
            for link in ("input", "output")
        }
        inputs = old["input"] | set(task.get("inputFiles", ()))
        counted.tasks[me] = (inputs, old["output"] | set(task.get("outputFiles", ())))
        counted.declared.update((ids[parent], me) for parent in task.get("parents", ()))
        counted.declared.update((me, ids[child]) for child in task.get("children", ()))
    return counted


def test_all_documents_are_listed() -> None:
    found = [*CORPUS.glob("dax/*/*.xml"), *CORPUS.glob("dax/*/*.dax")]
    found += [*CORPUS.glob("pegasus5-yaml/*"), *CORPUS.glob("wfformat/*")]
    assert {str(path.relative_to(CORPUS)) for path in found} == set(EXPECTED)


@pytest.mark.parametrize("emulate", [False, True], ids=["run", "emulate"])
@pytest.mark.parametrize("name", EXPECTED)
def test_document(name: str, emulate: bool) -> None:
    expected, path = EXPECTED[name], CORPUS / name
    refusal = expected.emulated_refusal if emulate else expected.refusal
    if refusal is not None:
        with pytest.raises(InvalidError) as caught:
            read_workflow(path, emulate=emulate)
        assert refusal in str(caught.value)
        assert caught.value.line is not None
        return
    workflow = read_workflow(path, emulate=emulate)
    warnings = expected.warnings
    if emulate and expected.emulated_warnings is not None:
        warnings = expected.emulated_warnings
    assert len(workflow.warnings) == len(warnings)
    for text, number in warnings.items():
        (said,) = [warning for warning in workflow.warnings if text in warning]
        assert int(said.split(": ")[1].split(",")[0]) == number
    counted = count(path)
    ids = [task.id for task in workflow.tasks]
    assert ids == list(counted.tasks)
    edges = {(ids[p], ids[c]) for c, above in enumerate(workflow.parents) for p in above}
    assert edges == counted.edges()
    assert len(topological_order(workflow.parents)) == len(ids)
    for index, task in enumerate(workflow.tasks):
        inputs, outputs = counted.tasks[task.id]
        read = {workflow.files[file].name for file in task.inputs}
        assert len(task.inputs) == len(inputs) == len(read)
        assert len(task.outputs) == len(outputs)
        assert all(workflow.files[file].producer == index for file in task.outputs)


def test_multiple_producers_under_emulation() -> None:
    """Each consumer of Montage_1000's fit.txt reads that of its declared parent."""
    workflow = read_workflow(CORPUS / "dax/synthetic/Montage_1000.xml", emulate=True)
    fits = [file for file in workflow.files if file.name == "fit.txt"]
    assert len(fits) == len({file.producer for file in fits}) == 662
    for index, task in enumerate(workflow.tasks):
        for file in task.inputs:
            producer = workflow.files[file].producer
            assert producer is None or producer in workflow.parents[index]


def test_catalogs_and_programs_of_real_documents() -> None:
    workflow = read_workflow(CORPUS / "dax/pegasus/test__visualize__sipht.dax")
    by_id = {task.id: task for task in workflow.tasks}
    assert by_id["ID000001"].arguments == ("-genome_code=NC_012590", "-RNAfold_path=.")
    assert by_id["ID000002"].arguments[:2] == ("-descr", "RNAMofficial_descriptor.txt")
    inner = read_workflow(
        CORPUS / "dax/pegasus/test__core__015-shell-hierarchic-workflow__inner.dax"
    )
    assert {task.executable for task in inner.tasks} == {"/bin/sleep"}
    assert [task.runtime_s for task in inner.tasks[:3]] == [1.0, 2.0, 4.0]
    real = read_workflow(CORPUS / "dax/real-montage/Montage_143~4962d78.xml")
    assert real.tasks[0].arguments[:3] == ("-X", "-x", "0.99385")
    flood = read_workflow(CORPUS / "dax/synthetic/floodplain.xml")
    assert [task.resources.cores for task in flood.tasks] == [160, 256, 192, 256, 256, 8, 10]
