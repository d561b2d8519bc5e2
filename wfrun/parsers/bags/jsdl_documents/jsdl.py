"""Bags in JSDL, the job language of the Open Grid Forum.

Sources: Job Submission Description Language 1.0 (GFD.136), with the POSIX application, or the HPC
profile application (GFD.111); its parameter sweep extension (GFD.149): sweeps with assignments of
the functions Values, LoopInteger and LoopDouble to nodes of the document. A sweep inside another is
its inner loop; the assignments of one sweep vary together. A document without a sweep is one task.

Entities are never expanded: a document that declares any is refused, and nothing is fetched.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import NoReturn

from lxml import etree

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Bag, BagFile, Resources
from wfrun.engine.tasks.templates import placeholders
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.jsdl_documents.sweep import Sweeps, line_of
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.bags.values import is_elsewhere
from wfrun.parsers.syntax.xml_document import not_well_formed, refuse_entities

JSDL = "http://schemas.ggf.org/jsdl/2005/11/jsdl"
POSIX = "http://schemas.ggf.org/jsdl/2005/11/jsdl-posix"
HPC = "http://schemas.ggf.org/jsdl/2006/07/jsdl-hpcpa"

_READ = frozenset(
    (
        "Argument", "CreationFlag", "DeleteOnTermination", "Description", "Environment", "Error",
        "Executable", "FileName", "Input", "JobAnnotation", "JobIdentification", "JobName",
        "JobProject", "Output", "Source", "Target", "URI", "ApplicationName", "ApplicationVersion",
    )
)  # fmt: skip
"""Elements whose text a sweep may change, because it can vary between tasks or has no effect
here."""


def read_jsdl(path: Path, template: LineTemplate) -> list[BagDraft]:
    """Read the bag of a document. The ``template``, which other formats use, has no effect.

    Raises InvalidError, with the line, for a document that is not well-formed, is not JSDL, or is
    refused. An OSError is left to the caller.
    """
    with path.open("rb") as stream:
        refuse_entities(str(path), stream)
        stream.seek(0)
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True,
            remove_pis=True,
        )  # fmt: skip
        try:
            root = etree.parse(stream, parser).getroot()
        except etree.XMLSyntaxError as error:
            raise not_well_formed(str(path), error) from error
    if root.tag != f"{{{JSDL}}}JobDefinition":
        raise InvalidError(
            f"not JSDL 1.0: its root is {root.tag}", source=str(path), line=line_of(root),
            hint=f"It is JobDefinition in the namespace {JSDL}.",
        )  # fmt: skip
    return [_JsdlReader(root, path).read()]


class _JsdlReader:
    def __init__(self, root: etree._Element, path: Path) -> None:
        self._root, self._path = root, path
        self._lines: dict[str, int] = {}
        """Lines in the document by the text of a template or the name of a parameter."""

    def read(self) -> BagDraft:
        sweeps = Sweeps(self._root, str(self._path))
        axes = sweeps.read()
        sweeps.fill_in()
        self._lines.update(sweeps.lines)
        description = self._child(self._root, "JobDescription")
        if description is None:
            self._fail(self._root, "there is no JobDescription in it")
        self._check_unswept(description)
        application = self._application(description)
        executable = self._text(self._posix(application, "Executable"))
        if not executable:
            self._fail(application, "the application has no Executable")
        inputs, outputs = self._files(description)
        stdin = self._stream(application, "Input", inputs)
        stdout = self._stream(application, "Output", outputs)
        stderr = self._stream(application, "Error", outputs)
        if self._posix(application, "WorkingDirectory") is not None:
            self._fail(
                self._posix(application, "WorkingDirectory"), "a WorkingDirectory is not supported",
                "Each task has a folder of its own; leave it out.",
            )  # fmt: skip
        name = self._text(description.find(f"{{{JSDL}}}JobIdentification/{{{JSDL}}}JobName"))
        bag = Bag(
            name=self._plain(name) or self._path.stem,
            source=str(self._path),
            executable=executable,
            arguments=tuple(self._text(a) or "" for a in self._all(application, "Argument")),
            axes=axes,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=self._environment(application),
            resources=self._resources(description, application),
            application=self._plain(
                self._text(description.find(f"{{{JSDL}}}Application/{{{JSDL}}}ApplicationName"))
            ) or "",
            warnings=self._warnings(description),
        )  # fmt: skip
        return BagDraft(bag, self._refuse, {"": 1})

    def _refuse(self, message: str, what: str, hint: str | None = None) -> InvalidError:
        return InvalidError(message, source=str(self._path), line=self._lines.get(what), hint=hint)

    def _fail(
        self, element: etree._Element | None, message: str, hint: str | None = None
    ) -> NoReturn:
        line = None if element is None else line_of(element)
        raise InvalidError(message, source=str(self._path), line=line, hint=hint)

    # Parts of the document

    def _child(self, element: etree._Element, name: str) -> etree._Element | None:
        return element.find(f"{{{JSDL}}}{name}")

    def _application(self, description: etree._Element) -> etree._Element:
        application = self._child(description, "Application")
        if application is not None:
            for space, name in ((POSIX, "POSIXApplication"), (HPC, "HPCProfileApplication")):
                found = application.find(f"{{{space}}}{name}")
                if found is not None:
                    return found
        return self._fail(
            description if application is None else application,
            "there is no POSIXApplication in it",
            "It names the program: POSIXApplication/Executable, in the namespace of jsdl-posix.",
        )

    def _posix(self, application: etree._Element, name: str) -> etree._Element | None:
        return next(iter(self._all(application, name)), None)

    def _all(self, application: etree._Element, name: str) -> list[etree._Element]:
        return [
            element
            for space in (POSIX, HPC)
            for element in application.findall(f"{{{space}}}{name}")
        ]

    def _text(self, element: etree._Element | None) -> str | None:
        """The text of an element as a template, without white space at its ends."""
        if element is None or element.text is None:
            return None
        text = element.text.strip()
        self._lines.setdefault(text, line_of(element))
        return text

    def _plain(self, template: str | None) -> str | None:
        if template is not None and placeholders(template):
            raise self._refuse("the name of a job cannot vary", template)
        return template and template.replace("{{", "{").replace("}}", "}")

    # Files

    def _files(self, description: etree._Element) -> tuple[list[BagFile], list[BagFile]]:
        inputs, outputs = [], []
        for staging in description.findall(f"{{{JSDL}}}DataStaging"):
            name = self._text(self._child(staging, "FileName"))
            if not name:
                self._fail(staging, "a DataStaging has no FileName")
            source, target = self._child(staging, "Source"), self._child(staging, "Target")
            if source is not None:
                inputs.append(BagFile(name, self._place(source)))
            if target is not None:
                outputs.append(BagFile(name, self._target(target)))
            if source is None and target is None:
                self._fail(staging, f"the DataStaging of {name} has neither Source nor Target")
        return inputs, outputs

    def _place(self, source: etree._Element) -> str | None:
        """The path of an input on this machine. None if the document gives a URL of another host:
        the input is then looked up by its name."""
        uri = self._text(self._child(source, "URI"))
        return None if uri is None or is_elsewhere(uri) else uri

    def _target(self, target: etree._Element) -> str | None:
        """The name under which the run keeps an output: the last part of the target's URI. None if
        the URI has no such part: the output then keeps its name in the sandbox."""
        uri = self._text(self._child(target, "URI"))
        name = posixpath.basename(uri) if uri else ""
        if not name:
            return None
        self._lines.setdefault(name, line_of(target))
        return name

    def _stream(self, application: etree._Element, name: str, files: list[BagFile]) -> str | None:
        element = self._posix(application, name)
        file = self._text(element)
        if file and all(other.name != file for other in files):
            files.append(BagFile(file))
        return file or None

    def _environment(self, application: etree._Element) -> dict[str, str] | None:
        env = {}
        for element in self._all(application, "Environment"):
            name = element.get("name")
            if not name or "=" in name or "{" in name:
                self._fail(element, "an Environment needs the name of a variable")
            env[name] = self._text(element) or ""
        return env or None

    # Resources

    def _resources(self, description: etree._Element, application: etree._Element) -> Resources:
        limit = self._number(self._posix(application, "WallTimeLimit"))
        memory = self._number(self._posix(application, "MemoryLimit"))
        resources = self._child(description, "Resources")
        found = {
            name: None if resources is None else self._range(self._child(resources, name))
            for name in (
                "TotalCPUCount", "IndividualCPUCount", "TotalResourceCount",
                "IndividualPhysicalMemory", "TotalPhysicalMemory",
            )
        }  # fmt: skip
        nodes = max(1, round(found["TotalResourceCount"] or 1))
        each = found["IndividualCPUCount"]
        cores = found["TotalCPUCount"] or (each or 1) * nodes
        total = found["TotalPhysicalMemory"]
        on_each = found["IndividualPhysicalMemory"] or (total and total / nodes) or memory or 0
        if round(cores) % nodes:
            self._fail(
                resources, f"{round(cores)} CPUs cannot be spread evenly over {nodes} resources"
            )
        return Resources(max(1, round(cores)), round(on_each), 0, limit, nodes)

    def _range(self, element: etree._Element | None) -> float | None:
        """The number that a range stands for: its lower bound, else its exact value, else its upper
        bound."""
        if element is None:
            return None
        found = [
            self._number(part)
            for name in ("LowerBoundedRange", "LowerBound", "Exact", "UpperBoundedRange")
            for part in element.iter(f"{{{JSDL}}}{name}")
        ]
        return next((number for number in found if number is not None), None)

    def _number(self, element: etree._Element | None) -> float | None:
        text = self._text(element)
        if element is None or text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < 2**62:
            tag = etree.QName(element).localname
            self._fail(element, f"{tag} is {text!r}; it must be a number of at least 0")
        return number

    # What is left over

    def _check_unswept(self, description: etree._Element) -> None:
        """Refuse a sweep that changes a value which all tasks of a bag must share."""
        for element in description.iter(etree.Element):
            name = etree.QName(element).localname
            texts = [str(value) for value in element.attrib.values()]
            if name not in _READ and element.text:
                texts.append(element.text)
            for text in texts:
                if placeholders(text):
                    self._fail(
                        element, f"a sweep changes {name}, which cannot vary between tasks",
                        "Sweeps may change the program, its arguments, environment and files.",
                    )  # fmt: skip

    def _warnings(self, description: etree._Element) -> tuple[str, ...]:
        """Warn of elements that are ignored although they may matter."""
        warnings = []
        resources = self._child(description, "Resources")
        for element in () if resources is None else resources:
            name = etree.QName(element).localname
            if name in ("CandidateHosts", "OperatingSystem", "CPUArchitecture", "FileSystem"):
                warnings.append(f"{name} is ignored (line {line_of(element)})")
        for uri in description.iter(f"{{{JSDL}}}URI"):
            text = uri.text or ""
            parent = uri.getparent()
            of_source = parent is not None and etree.QName(parent).localname == "Source"
            if of_source and is_elsewhere(text.strip()):
                warnings.append(
                    f"the source {text.strip()} is searched here, by the name of the file "
                    f"(line {line_of(uri)})"
                )
        return tuple(warnings)
