"""What is scheduled and where: workflows of tasks that pass files, and sites.

Tasks and files of a workflow are numbered from 0 in the order of its document. All records are
immutable. Sizes are in bytes, times in seconds, speeds relative to the reference processor.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec

from wfrun.engine.fitting.containers import Container, SiteEnvironment
from wfrun.engine.jobs.components import Components
from wfrun.engine.jobs.scavenging.idleness import ScavengeRules


class Resources(msgspec.Struct, frozen=True):
    """The resource request of one task. Tasks with equal requests often share one object."""

    cores: int = 1
    """Total number of cores on all nodes of the task."""
    memory_bytes: int = 0
    """Memory on each node; 0: not stated."""
    gpus: int = 0
    """Number of GPUs on each node."""
    walltime_s: float | None = None
    """Time after which the task is killed; None: no limit of its own."""
    nodes: int = 1
    """Number of nodes. The cores are spread evenly over the nodes."""
    container: Container | None = None
    """The container that the task runs in; None: its document declares none."""
    parallel: bool = False
    """Whether the task starts a process for each of its cores, also on a single node, as MPI
    programs do. On several nodes tasks always do."""


class InputSource(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A location of an initial input, as a replica catalog states it."""

    url: str
    """A path or a URL."""
    site: str = ""
    """Name of the site whose file system has the file at ``url``. Empty if ``url`` is a path on
    this machine, or a URL of a scheme other than ``file``."""


class File(msgspec.Struct, frozen=True, gc=False):
    """A logical file of a workflow.

    ``name`` is its path relative to the sandbox of every task that uses it. Under emulation two
    files with different producers may have the same name.
    """

    name: str
    size_bytes: int | None = None
    """Size in the document; None if unknown."""
    producer: int | None = None
    """Index of the task that writes the file; None for an initial input."""
    url: str | None = None
    """Location that the replica catalog of the document states: a path or a URL."""
    executable: bool = False
    collect: bool = False
    """Whether the file is a final output, which is copied to the run's ``outputs/``."""
    sources: tuple[InputSource, ...] = ()
    """Locations that replica catalogs state for an initial input, in their order. After one of them
    was chosen as ``url``, the remaining ones."""
    sha256: str | None = None
    """Checksum that a replica catalog states for an initial input, in hexadecimal digits."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """A command that must succeed once.

    ``inputs``, ``outputs``, ``optional`` and the three standard streams are indices into the files
    of the workflow.
    """

    id: str
    """Unique in its workflow: the id in the document, prefixed for tasks of sub-workflows."""
    name: str
    """The transformation, i.e. the kind of task (``mProjectPP``)."""
    executable: str
    """A path, or the name of a program in the PATH of the site."""
    arguments: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    optional: tuple[int, ...] = ()
    """Inputs and outputs that may be absent."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    env: dict[str, str] | None = None
    resources: Resources = Resources()
    runtime_s: float | None = None
    """Documented run time on the reference processor; None if unknown."""
    priority: int = 0
    """Priority; tasks with a larger number go first."""


class PackedColumn(msgspec.Struct, frozen=True, tag="packed"):
    """Many values packed into one text."""

    text: bytes
    """The values in UTF-8, one after another."""
    ends: bytes
    """Offset of the end of each value: an array of native 64-bit integers."""

    def __len__(self) -> int:
        return len(self.ends) // 8

    @classmethod
    def of(cls, values: Sequence[str]) -> PackedColumn:
        """Pack values."""
        ends, text = array("Q"), bytearray()
        for value in values:
            text += value.encode()
            ends.append(len(text))
        return cls(bytes(text), ends.tobytes())


class DictionaryColumn(msgspec.Struct, frozen=True, tag="coded"):
    """Dictionary encoding of values of which many are equal."""

    values: PackedColumn
    """The distinct values."""
    codes: bytes
    """Index of the value at each position: an array of native 32-bit integers."""

    def __len__(self) -> int:
        return len(self.codes) // 4


class Progression(msgspec.Struct, frozen=True, tag="progression"):
    """Arithmetic progression of decimal numbers: ``(start + i * step) / 10**decimals``."""

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
    """The values of each parameter, in the order of ``names``; all columns have the same length, at
    least 1."""

    def __len__(self) -> int:
        return len(self.columns[0])


class BagFile(msgspec.Struct, frozen=True):
    """An input or output of every task. ``name`` and ``url`` are templates; see `File`."""

    name: str
    url: str | None = None
    """For an output: its name in the run's ``outputs/``, if different."""
    executable: bool = False
    optional: bool = False
    sizes: bytes = b""
    """For an input: the sizes in bytes of its expanded files in the order of their numbers, an
    array of native 64-bit integers; empty if unknown."""


class OptionalTasks(msgspec.Struct, frozen=True):
    """Which tasks of a bag are optional: all except the first ``min`` (DIET-ethic, section 3.2)."""

    min: int = 0
    """Number of mandatory tasks: the first ``min`` tasks of the bag."""
    max: int | None = None
    """Maximum number of tasks to run: the first ``max`` tasks of the bag. None: all."""
    within_s: float | None = None
    """Time from the arrival of the bag to its deadline; None: see ``until_s``."""
    until_s: float | None = None
    """Time of day of the deadline, in seconds after midnight. Without ``within_s`` and ``until_s``
    the bag has no deadline."""


class Bag(msgspec.Struct, frozen=True):
    """A set of independent tasks of one owner, as it is stored.

    Its tasks are all combinations of the values of its axes, the last axis varying fastest; a bag
    without axes has one task. Templates are texts with ``{parameter}`` in them
    (`wfrun.engine.tasks.templates`). The maker of a bag checks that all named parameters exist.
    """

    name: str
    source: str
    """Path of the document, for messages."""
    executable: str
    arguments: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    inputs: tuple[BagFile, ...] = ()
    outputs: tuple[BagFile, ...] = ()
    """Outputs of every task; all are final outputs."""
    stdin: str | None = None
    """The input that is the standard input, by the ``name`` of its `BagFile`. ``stdout`` and
    ``stderr`` name outputs in the same way."""
    stdout: str | None = None
    stderr: str | None = None
    env: dict[str, str] | None = None
    resources: Resources = Resources()
    estimate: str | None = None
    """Run time of a task in seconds on the reference processor, as a number or a template that its
    parameters fill in; None if unknown."""
    scale: float = 1.0
    """Factor by which the estimates are multiplied (emulation)."""
    output_bytes: int | None = None
    """Documented size of each output in bytes (emulation); None: not stated."""
    owner: str = ""
    application: str = ""
    """Class of tasks with similar run times, for predictions; empty: the executable."""
    priority: int = 0
    """Priority of the owner and of the tasks; larger goes first."""
    warnings: tuple[str, ...] = ()
    optional: OptionalTasks | None = None
    """Which tasks are optional; None: all tasks are mandatory."""

    def __len__(self) -> int:
        count = 1
        for axis in self.axes:
            count *= len(axis)
        return count


class Moldable(msgspec.Struct, frozen=True):
    """The sizes that a moldable job may start with. The command of its task is a template with
    ``{size}``, ``{nodes}`` and ``{ppn}`` in it."""

    sizes: tuple[int, ...]
    """Numbers of processors, ascending, at least two."""
    walltimes_s: tuple[float, ...]
    """Walltime with each size on the reference processor, in seconds. A larger size never has a
    longer walltime."""
    ppn: int | None = None
    """Processors on each node; None: all processors are on one node."""
    malleable: bool = False
    """Whether the job can change between these sizes while it runs."""


class Workflow(msgspec.Struct, frozen=True):
    """A DAG of tasks that pass files, or a bag of independent tasks.

    ``parents[i]`` are the tasks that must be done before task ``i``: the declared edges and those
    implied by files, without repeats, in ascending order.
    """

    name: str
    source: str
    """Path of the document, for messages."""
    tasks: Sequence[Task]
    files: Sequence[File]
    parents: Sequence[tuple[int, ...]]
    warnings: tuple[str, ...] = ()
    """Irregularities that the reader accepted, with counts."""
    owner: str = ""
    """Owner to whose usage the workflow counts; empty: the user."""
    priority: int = 0
    """Priority of the owner; larger goes first."""
    bag: Bag | None = None
    """The bag that the workflow was expanded from (`wfrun.engine.tasks.bag.expand`); None if it
    is not a bag. Tasks and files of a bag are created on access, so avoid iterating over all of
    them."""
    moldable: dict[int, Moldable] = {}
    """Moldable jobs, by task. The size of a job is chosen at its submission; until then the job
    requests its smallest size."""
    weights: dict[int, float] = {}
    """Weights of the completion times of parallel jobs, by task, for packing; other jobs have
    weight 1."""
    components: dict[int, Components] = {}
    """By task: jobs that may run at several sites at once. The task of a job requests one
    processor, for the process that starts all other processes. The processors of the other
    processes are claimed."""

    def sized(self, task: int, size: int) -> Resources:
        """The request of a moldable job with one of its sizes."""
        found, asked = self.moldable[task], self.tasks[task].resources
        walltime_s = found.walltimes_s[found.sizes.index(size)]
        nodes = 1 if found.ppn is None or size <= found.ppn else size // found.ppn
        return msgspec.structs.replace(asked, cores=size, nodes=nodes, walltime_s=walltime_s)

    def children(self) -> list[list[int]]:
        """The inverse of ``parents``, computed at every call."""
        children: list[list[int]] = [[] for _ in self.tasks]
        for task, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(task)
        return children


ORIGIN = -1
"""Index of the machine that wfrun runs on: the source of initial inputs and the destination of
final outputs. It runs no tasks."""


class NodeGroup(msgspec.Struct, frozen=True):
    """Identical nodes of a simulated site."""

    count: int
    cores: int
    """Cores of each node."""
    speed_ratio: float = 1.0
    """Speed relative to the site: on these nodes a task takes its run time at the site divided by
    ``speed_ratio``."""
    mtbf_s: float = 0.0
    """Mean time from a repair of a node to its next failure, exponential; 0: it never fails."""
    mttr_s: float = 0.0
    """Mean time to repair a node, exponential; positive for nodes that fail."""


class LauncherSpec(msgspec.Struct, frozen=True):
    """The launchers of a cluster: batch jobs in which tasks run."""

    cores: int
    """Slots of a launcher on each of its nodes."""
    nodes: int = 1
    """Number of nodes of a launcher."""
    memory_bytes: int = 0
    """Memory on each node; 0: not stated."""
    gpus: int = 0
    """Number of GPUs on each node."""
    min: int = 0
    """Minimum number of launchers, kept until the run ends even if no work waits for them."""
    max: int = 1
    """Maximum number of queued and running launchers, placeholders of claims not counted; 0: the
    site has only placeholders."""
    backlog: int = 2
    """Maximum number of queued launchers."""
    idle_timeout_s: float = 60.0
    """Time after which a launcher without work is stopped."""
    walltime_s: float = 3600.0
    """Maximum walltime that is requested for a launcher."""
    channels: tuple[Literal["tcp", "ssh", "spool"], ...] = ("tcp", "ssh", "spool")
    """Ways in which a launcher reaches its engine, in order of preference; the first that works is
    used. tcp: a connection to the agent on the head node. ssh: a connection forwarded over SSH.
    spool: files in the shared directory."""
    address: str | None = None
    """Address at which nodes reach the head node; None: detected."""
    encrypt: bool = True
    """Whether launchers use TLS for the channels tcp and ssh. If so, a launcher whose Python lacks
    TLS uses neither of them."""
    patience_s: float = 600.0
    """Time that a launcher without an engine waits for the next engine; then the launcher ends."""


class GridFtpServer(msgspec.Struct, frozen=True):
    """A GridFTP server that serves the file system of a site."""

    url: str
    """``gsiftp://``, ``ftp://`` or ``sshftp://`` with a host, without a path."""
    root: str = "/"
    """Absolute path, at the site, of the directory that the server shows as its root."""


class Access(msgspec.Struct, frozen=True):
    """How a cluster is reached and its batch system is used. Contains no secrets."""

    hosts: tuple[str, ...] = ()
    """Login hosts of the cluster in order of preference, as ``ssh`` understands them. Empty: wfrun
    runs on the login node of the cluster."""
    user: str | None = None
    port: int | None = None
    transport: Literal["asyncssh", "openssh", "local"] = "asyncssh"
    ssh_config: str | None = None
    """Absolute path of the SSH configuration on this machine; None: the user's own
    configuration."""
    known_hosts: str | None = None
    """Absolute path of the file of known host keys on this machine; None: the files of the user and
    the system."""
    queue: str | None = None
    """Queue or partition; None: the default of the batch system."""
    account: str | None = None
    options: tuple[str, ...] = ()
    """Further arguments of the submission command, as the user wrote them."""
    dispatch: Literal["jobs", "launchers"] = "jobs"
    """How tasks reach the nodes: each as a batch job or array element, or through launchers inside
    batch jobs."""
    launchers: LauncherSpec | None = None
    """Set if tasks are dispatched by launchers."""
    poll_min_s: float = 2.0
    poll_max_s: float = 60.0
    """Bounds of the interval between two queries of the batch system's queue."""
    batch_settings: dict[str, str] = {}
    """Catalog keys that only this batch system has, such as Grid Engine's
    ``parallel_environment``."""
    max_array: int | None = None
    """Maximum number of elements of an array job; None: the limit of the batch system."""
    max_jobs: int | None = None
    """Maximum number of our jobs in the queue; array elements count one by one."""
    patience_s: float = 60.0
    """Time that the exit record of an ended job may take to appear."""
    gridftp: GridFtpServer | None = None
    """GridFTP server of the site; None: the catalog names none."""
    direct: Literal["forward", "key"] | None = None
    """How the site logs in at another site to which it sends copies itself: with the user's
    forwarded SSH agent, or with a key that is at the site. None: the site sends no copies."""
    direct_key: str | None = None
    """Path, at the site, of the private key for ``direct: key``. None: the default keys of its SSH
    client."""
    direct_host: str | None = None
    """Address of the site for other sites; None: the one that wfrun connects to."""
    direct_port: int | None = None
    """SSH port of the site for other sites; None: the one that wfrun connects to."""
    rclone: str | None = None
    """Intermediate place for the files of large copies, as the site's rclone names it:
    ``remote:path``. None: the catalog names none."""


class NodeLink(msgspec.Struct, frozen=True):
    """The link between the nodes of a site and the nodes of another site, or of the same site.
    Processes of a parallel job communicate over it; files of a run do not use it."""

    site: str
    latency_s: float | None = None
    """Latency of the link in seconds; None: not stated."""
    bandwidth_bytes_per_s: float | None = None
    """Bandwidth of the link; None: not stated."""


PROCESS_KINDS = ("local", "ssh")
"""Kinds of site without a batch system."""


class SiteSpec(msgspec.Struct, frozen=True):
    """A site as the catalog describes it."""

    name: str
    slots: int
    """Number of cores that wfrun may use at once."""
    speed_ratio: float = 1.0
    memory_bytes: int = 0
    """Memory limit. At a cluster: for each task; at other sites: for all running tasks together. 0:
    not stated, so there is no limit."""
    gpus: int = 0
    walltime_s: float | None = None
    """Maximum walltime of a job; None: no limit."""
    kind: str = "local"
    directory: str | None = None
    """Absolute path in the file system of the site; at a cluster it may begin with ``~`` and
    contain ``$NAME``. None: inside the run directory (local sites only)."""
    pin_cores: bool = False
    """Whether each task is bound to cores of its own (local sites and launchers only)."""
    backfills: bool | None = None
    """Whether the local resource manager may start a job before earlier jobs that have to wait
    (EASY or conservative backfilling). False: it is strictly first come, first served, as simulated
    queues may be. None: unknown, as at real sites, whose batch systems usually backfill."""
    nodes: tuple[NodeGroup, ...] = ()
    """Nodes of a simulated site; their cores are the ``slots``. Empty: one pool of cores."""
    access: Access | None = None
    """How the site is reached; None for a site on this machine."""
    environment: SiteEnvironment | None = None
    """What the site sets up for tasks; None: tasks get the environment of the site as it is."""
    max_transfers: int | None = None
    """Maximum number of large files at a time on their way to or from the site; None: no limit."""
    storage_bytes: int | None = None
    """Maximum size of the files of a run at the site; None: no limit."""
    max_bandwidth_bytes_per_s: float | None = None
    """Maximum rate of all copies to and from the site together; None: no limit."""
    price_per_core_hour: float | None = None
    """Price of a core for an hour, in ``currency``; None: not stated."""
    currency: str | None = None
    """Currency of ``price_per_core_hour``."""
    watts_per_core: float | None = None
    """Power of a core in use; None: not stated."""
    max_nodes: int | None = None
    """Maximum number of nodes of a task; None: only the batch system knows. Set for parallel
    jobs."""
    node_links: tuple[NodeLink, ...] = ()
    """Links of the site's nodes, as far as the catalog states them."""
    node_cores: int | None = None
    """Number of cores of the site's largest node, which limits the cores of a task on each node.
    None: only the batch system knows. For launchers see `LauncherSpec.cores`."""
    scavenge: ScavengeRules | None = None
    """Which idle processors of the site owners may scavenge; None: all, since the catalog states no
    rules."""

    @property
    def has_batch_system(self) -> bool:
        """Whether a batch system starts the tasks or the launchers of the site. At other sites
        wfrun itself starts the tasks, as processes."""
        return self.kind not in PROCESS_KINDS

    @property
    def has_launchers(self) -> bool:
        """Whether the tasks of the site run in launchers. The slots of the site are then those of
        its launchers."""
        return self.access is not None and self.access.dispatch == "launchers"


class LinkSpec(msgspec.Struct, frozen=True):
    """A one-way network link. Site ``origin`` is the machine that wfrun runs on."""

    source: str
    destination: str
    bandwidth_bytes_per_s: float | None = None
    """Bandwidth of the link; None: no bound."""
    latency_s: float = 0.0
    max_transfers: int | None = None
    """Maximum number of large files at a time on their way over the link; None: no limit."""
    methods: tuple[str, ...] = ()
    """Names of the transfer methods that may be used, in order of preference. Empty: all, in the
    order of the registry."""
    max_bandwidth_bytes_per_s: float | None = None
    """Maximum rate of all copies over the link together; None: no limit."""

    @property
    def capped_bytes_per_s(self) -> float | None:
        """The smaller of ``bandwidth_bytes_per_s`` and ``max_bandwidth_bytes_per_s``; None if
        neither is stated."""
        stated = [b for b in (self.bandwidth_bytes_per_s, self.max_bandwidth_bytes_per_s) if b]
        return min(stated, default=None)

    @property
    def has_speed(self) -> bool:
        """Whether the record states the speed of the link: a bandwidth, a latency, or, with no
        field set, an unbounded link. False if it only restricts how the link is used."""
        stated = self.bandwidth_bytes_per_s is not None or self.latency_s > 0
        return stated or not (self.methods or self.max_transfers or self.max_bandwidth_bytes_per_s)


class Catalog(msgspec.Struct, frozen=True):
    """Sites in the order of the document, and the links between them."""

    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...] = ()
    source: str | None = None
    """Path of the document; None if wfrun created the catalog."""
    lines: dict[str, dict[str, int]] = {}
    """Lines of the document by site and catalog key, for messages; the key ``""`` stands for the
    entry itself."""
    methods: tuple[str, ...] = ()
    """Names of the transfer methods between sites whose link names none. Empty: all."""
