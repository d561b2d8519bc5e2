"""What is scheduled and where: workflows of tasks that pass files, and sites.

Tasks and files of a workflow are numbered from 0 in the order of its document. All records here
are immutable. Sizes are bytes, times seconds, speeds ratios (1.0 is the reference processor).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec


class Resources(msgspec.Struct, frozen=True):
    """What one task asks of a site. Like tasks share one ``Resources`` object."""

    cores: int = 1
    """In all, on all its nodes."""
    memory_bytes: int = 0
    """On each node; 0: not stated."""
    gpus: int = 0
    """On each node."""
    walltime_s: float | None = None
    """The task is killed after this long. None: no limit of its own."""
    nodes: int = 1
    """The cores are spread evenly over so many nodes, of which they are a multiple."""


class File(msgspec.Struct, frozen=True, gc=False):
    """One logical file of a workflow.

    ``name`` is its path relative to the sandbox of every task that uses it. Under emulation two
    files may have one name, each of another producer.
    """

    name: str
    size_bytes: int | None = None
    """As documented, before anything runs; None: unknown."""
    producer: int | None = None
    """Index of the task that writes it; None: an initial input of the workflow."""
    url: str | None = None
    """Where the document's replica catalog says that it is (a path or a URL)."""
    executable: bool = False
    collect: bool = False
    """A final output: copied to the run's ``outputs/``."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """One command that has to succeed once.

    ``inputs``, ``outputs``, ``optional`` and the three standard streams are indices into the
    workflow's files.
    """

    id: str
    """Unique in its workflow; as in the document, prefixed for tasks of sub-workflows."""
    name: str
    """The transformation, that is the kind of task (``mProjectPP``)."""
    executable: str
    """A path, or the name of a program to be looked up in the site's PATH."""
    arguments: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    optional: tuple[int, ...] = ()
    """Those inputs and outputs that may be absent."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    env: dict[str, str] | None = None
    resources: Resources = Resources()
    runtime_s: float | None = None
    """Documented run time on the reference processor; None: unknown."""
    priority: int = 0
    """Larger goes first."""


class PackedColumn(msgspec.Struct, frozen=True, tag="packed"):
    """Many values as one text."""

    text: bytes
    """UTF-8, one value after another."""
    ends: bytes
    """Where each of them ends in it: an array of 64-bit numbers of this machine."""

    def __len__(self) -> int:
        return len(self.ends) // 8

    @classmethod
    def of(cls, values: Sequence[str]) -> PackedColumn:
        """These values."""
        ends, text = array("Q"), bytearray()
        for value in values:
            text += value.encode()
            ends.append(len(text))
        return cls(bytes(text), ends.tobytes())


class DictionaryColumn(msgspec.Struct, frozen=True, tag="coded"):
    """Values of which many are alike."""

    values: PackedColumn
    """Each of them once."""
    codes: bytes
    """Which of them comes when: an array of 32-bit numbers of this machine."""

    def __len__(self) -> int:
        return len(self.codes) // 4


class Progression(msgspec.Struct, frozen=True, tag="progression"):
    """Decimal numbers at equal distances: ``(start + i * step) / 10**decimals``."""

    start: int
    step: int
    count: int
    decimals: int = 0

    def __len__(self) -> int:
        return self.count


Column = PackedColumn | DictionaryColumn | Progression


class Axis(msgspec.Struct, frozen=True):
    """Parameters that vary together, as the columns of a table do."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    """One for each name, all equally long, and at least one value long."""

    def __len__(self) -> int:
        return len(self.columns[0])


class BagFile(msgspec.Struct, frozen=True):
    """An input or output of every task. ``name`` and ``url`` are templates; see `File`."""

    name: str
    url: str | None = None
    """Of an output: its name in the run's ``outputs/``, if it is another there."""
    executable: bool = False
    optional: bool = False
    sizes: bytes = b""
    """Of inputs, as an array of 64-bit numbers of this machine in the order of their numbers;
    empty: unknown."""


class Bag(msgspec.Struct, frozen=True):
    """A set of independent tasks of one owner: what is stored of it.

    Its tasks are all combinations of the values of its axes, the last axis varying fastest; without
    an axis there is one. Templates are texts with ``{parameter}`` in them
    (`wfrun.engine.templates`). What makes it is to check that they name parameters that there are.
    """

    name: str
    source: str
    """Path of the document, for messages."""
    executable: str
    arguments: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    inputs: tuple[BagFile, ...] = ()
    outputs: tuple[BagFile, ...] = ()
    """All of them final outputs."""
    stdin: str | None = None
    """The name of one of the inputs, as it stands there; likewise the outputs for the next two."""
    stdout: str | None = None
    stderr: str | None = None
    env: dict[str, str] | None = None
    resources: Resources = Resources()
    estimate: str | None = None
    """Seconds that a task takes on the reference processor, a template; None: unknown."""
    scale: float = 1.0
    """The estimates are multiplied by this (emulation)."""
    output_bytes: int | None = None
    """Of each output, as documented (emulation)."""
    owner: str = ""
    application: str = ""
    """What run times are alike of; empty: the executable."""
    priority: int = 0
    """Of the owner, and of its tasks; larger goes first."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        count = 1
        for axis in self.axes:
            count *= len(axis)
        return count


class Workflow(msgspec.Struct, frozen=True):
    """A DAG of tasks that pass files, or a bag of independent ones.

    ``parents[i]`` holds the indices of the tasks that have to be done before task ``i``: the
    declared edges and those that the files imply, without repeats, in ascending order.
    """

    name: str
    source: str
    """Path of the document, for messages."""
    tasks: Sequence[Task]
    files: Sequence[File]
    parents: Sequence[tuple[int, ...]]
    warnings: tuple[str, ...] = ()
    """What the reader accepted although it was odd, with counts."""
    owner: str = ""
    """Whose use of the sites it counts as; empty: the user's."""
    priority: int = 0
    """Of the owner; larger goes first."""
    bag: Bag | None = None
    """What it was expanded from (`wfrun.engine.bag.expand`); its tasks and files are then made when
    they are asked for, and those of a bag are not to be walked through without need."""

    def children(self) -> list[list[int]]:
        """The inverse of ``parents``; computed anew at every call."""
        children: list[list[int]] = [[] for _ in self.tasks]
        for task, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(task)
        return children


ORIGIN = -1
"""The index of the machine that wfrun runs on, as the source of initial inputs and the
destination of final outputs. It runs no tasks."""


class NodeGroup(msgspec.Struct, frozen=True):
    """Like nodes of a simulated site."""

    count: int
    cores: int
    """Of each node."""
    speed_ratio: float = 1.0
    """Relative to the site's own: a task takes its run time at the site divided by this."""
    mtbf_s: float = 0.0
    """Mean time of one node from a repair to its next failure, exponential; 0: it never fails."""
    mttr_s: float = 0.0
    """Mean time to repair a node, exponential; above 0 for nodes that fail."""


class LauncherSpec(msgspec.Struct, frozen=True):
    """The launchers of a cluster: batch jobs inside which tasks run."""

    cores: int
    """Slots of a launcher on each of its nodes."""
    nodes: int = 1
    """Of each launcher."""
    memory_bytes: int = 0
    """On each node; 0: not stated."""
    gpus: int = 0
    """On each node."""
    min: int = 0
    """So many are kept also while no work waits for them, until the run ends."""
    max: int = 1
    """At most so many at once, queued and running."""
    backlog: int = 2
    """At most so many wait in the queue."""
    idle_timeout_s: float = 60.0
    """One without work for so long is ended."""
    walltime_s: float = 3600.0
    """The longest that one is asked for."""
    channels: tuple[Literal["tcp", "ssh", "spool"], ...] = ("tcp", "ssh", "spool")
    """How a launcher reaches its engine, the first that works: a connection to the agent on the
    head node, one forwarded over the SSH connection, files of the shared directory."""
    address: str | None = None
    """Where nodes reach the head node: an address that it listens on. None: found out."""
    patience_s: float = 600.0
    """A launcher without an engine waits so long for the next one, then ends."""


class Access(msgspec.Struct, frozen=True):
    """How a cluster is reached and its batch system is used. Nothing in it is secret."""

    hosts: tuple[str, ...] = ()
    """Login hosts of one cluster, the best first, as ``ssh`` understands them. Empty: wfrun runs
    on the cluster's login node itself."""
    user: str | None = None
    port: int | None = None
    transport: Literal["asyncssh", "openssh", "local"] = "asyncssh"
    ssh_config: str | None = None
    """An absolute path of this machine. None: the user's own."""
    known_hosts: str | None = None
    """An absolute path of this machine. None: the user's and the system's own."""
    queue: str | None = None
    """Queue or partition; None: the batch system's own choice."""
    account: str | None = None
    options: tuple[str, ...] = ()
    """Further arguments of the submission command, as the user wrote them."""
    dispatch: Literal["jobs", "launchers"] = "jobs"
    """How tasks get to the nodes: each as a batch job, or an element of an array; or by launchers
    inside batch jobs."""
    launchers: LauncherSpec | None = None
    """Given where tasks are dispatched by launchers."""
    poll_min_s: float = 2.0
    poll_max_s: float = 60.0
    """The batch system's queue is asked for at intervals within these bounds."""
    parallel_environment: str | None = None
    """Of Grid Engine, for tasks with several cores."""
    memory_resource: str | None = None
    """The resource of Grid Engine that memory is asked for with."""
    max_array: int | None = None
    """Most elements of one array. None: the batch system's own bound."""
    max_jobs: int | None = None
    """Most jobs of ours, elements of arrays counted one by one, in the queue at once."""
    patience_s: float = 60.0
    """How long the exit record of an ended job may take to appear."""


class SiteSpec(msgspec.Struct, frozen=True):
    """A site as the catalog describes it."""

    name: str
    slots: int
    """Cores that wfrun may use at once."""
    speed_ratio: float = 1.0
    memory_bytes: int = 0
    """0: not stated, that is no bound."""
    gpus: int = 0
    walltime_s: float | None = None
    """The longest walltime that the site grants; None: no limit."""
    kind: str = "local"
    directory: str | None = None
    """The site's own file system: an absolute path there, which may begin with ``~`` and hold
    ``$NAME`` at a cluster. None: inside the run directory (local sites alone)."""
    pin_cores: bool = False
    """Bind each task to cores of its own (local sites and launchers)."""
    backfills: bool = False
    """Its LRM lets jobs start before earlier ones that have to wait (EASY, conservative)."""
    nodes: tuple[NodeGroup, ...] = ()
    """What a simulated site is made of; their cores are the ``slots``. Empty: one pool of cores."""
    access: Access | None = None
    """None: a site of this machine."""


class LinkSpec(msgspec.Struct, frozen=True):
    """A one-way network link. Site ``origin`` is the machine that wfrun runs on."""

    source: str
    destination: str
    bandwidth_bytes_per_s: float | None = None
    """None: no bound."""
    latency_s: float = 0.0


class Catalog(msgspec.Struct, frozen=True):
    """Sites in the order in which the user wrote them, and the links between them."""

    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...] = ()
    source: str | None = None
    """Path of the document; None: made by wfrun itself."""
