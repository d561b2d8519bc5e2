"""Descriptions of random worlds, each drawn from one integer seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.bag import expand
from wfrun.engine.exchange import Cause
from wfrun.engine.model import (
    Access,
    Axis,
    Bag,
    BagFile,
    Catalog,
    File,
    LauncherSpec,
    LinkSpec,
    Progression,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.policies.placement import BAG_POLICIES, WORKFLOW_POLICIES
from wfrun.engine.policies.placement.file_aware import FileAware, FileAwareR
from wfrun.engine.policies.selection import SELECTION

RETRIABLE: tuple[Cause, ...] = (
    "exit", "signal", "output", "cancelled", "staging", "disk-full", "preempted", "node", "lost",
)  # fmt: skip
"""Causes after which a task is retried while it has retries."""

ALL_CAUSES: tuple[Cause, ...] = (*RETRIABLE, "launch-failed", "memory", "walltime", "refused")

GIB = 2**30
FIRST_LIMITED_SEED = 20_000
"""First seed of worlds whose sites have storage limits."""
FIRST_VANISHING_SEED = 30_000
"""First seed of worlds whose files vanish where they are read."""
FIRST_STEERED_SEED = 40_000
"""First seed of worlds whose user pauses sites, raises priorities and cancels tasks."""

POLICIES = sorted(policy.name for policy in (*WORKFLOW_POLICIES, *BAG_POLICIES))
"""Policies that worlds are drawn with. Another one would change the worlds of all seeds; those that
are not in the thesis take the place of one of these."""


class Crash(msgspec.Struct, frozen=True):
    """The engine dies."""

    after_steps: int
    """Number of steps since the last crash, or the start."""
    away_s: float
    lost_share: float
    """Share of the files at sites that the next engine does not find."""
    forgets: bool


class WorldSpec(msgspec.Struct, frozen=True):
    """Description of a world: what runs where, and what fails. Shrink one by hand with
    ``msgspec.structs.replace`` and pass it to ``explore``."""

    seed: int
    workflows: list[Workflow]
    catalog: Catalog
    settings: ev.Settings
    arrive_s: tuple[float, ...]
    queues: tuple[tuple[int, ...], ...]
    is_mild: bool
    """Whether all failures are retriable and retries are many, so that the run must end
    ``done``."""
    runtimes_s: tuple[float, ...]
    failure_share: float
    """Share of attempts that fail."""
    causes: tuple[Cause, ...]
    bad_site: int
    """A site where every attempt fails immediately; -1: none."""
    absent_share: float
    """Share of optional outputs that are not written."""
    copy_failure_share: float
    stalled_share: float
    """Share of copies that stall for a while."""
    two_methods_share: float
    """Share of copies that could go by a second transfer method."""
    infeasible_share: float
    """Share of failing copies that fail for good."""
    reports_times: bool
    report_delay_s: tuple[float, ...]
    """Possible delays of the reports of sites."""
    cancel_s: tuple[float, ...]
    kept_share: float
    """Share of waiting attempts that survive a crash."""
    vanished_share: float
    """Share of running attempts that do not survive a crash."""
    launcher_wait_s: tuple[float, ...]
    launcher_failure_share: float
    cut_off_share: float
    """Share of live launchers that are disconnected by a crash."""
    gone_share: float
    """Share of inputs that vanish at their site before an attempt starts, each at most twice."""
    crashes: tuple[Crash, ...]
    cancels: tuple[tuple[float, Literal["drain", "kill"]], ...]
    requests: tuple[ev.Event, ...]
    """Requests of the user other than to cancel the run."""
    pauses: tuple[tuple[int, float, float], ...]
    """(site, from, until), in seconds."""
    loads: tuple[tuple[float, int, tuple[ev.BackgroundJob, ...]], ...]
    """(time, site, jobs) of the load of other users."""
    resumes: int
    """Number of times that a failed run is resumed."""

    def describe(self) -> str:
        """The description as text, without the seed's own draws."""
        lines = [f"seed {self.seed}"]
        for index, w in enumerate(self.workflows):
            kind = "bag" if w.bag is not None else "DAG"
            lines.append(
                f"  workflow {index}: {kind} of {len(w.tasks)} tasks, owner {w.owner!r}, priority "
                f"{w.priority}, arrives at {self.arrive_s[index]} s"
            )
            for number, task in enumerate(w.tasks):
                asked = task.resources
                lines.append(
                    f"    t{number}: parents {list(w.parents[number])}, inputs "
                    f"{list(task.inputs)}, outputs {list(task.outputs)}, optional "
                    f"{list(task.optional)}, {asked.cores} cores, {asked.memory_bytes / GIB:g} GiB,"
                    f" walltime {asked.walltime_s}"
                )
            final = [f for f, file in enumerate(w.files) if file.collect]
            lines.append(f"    collected: {final}")
        lines += [f"  site {i}: {site}" for i, site in enumerate(self.catalog.sites)]
        lines += [f"  link: {link}" for link in self.catalog.links]
        for field in self.__struct_fields__:
            if field not in ("seed", "workflows", "catalog", "arrive_s"):
                lines.append(f"  {field}: {getattr(self, field)}")
        return "\n".join(lines)


def world_of(seed: int) -> WorldSpec:
    """The description of the world of a seed; always the same."""
    random = Random(f"world {seed}")
    choice = random.choice
    is_mild = random.random() < 0.6
    layout = _layout(random, is_mild)
    if seed >= FIRST_LIMITED_SEED:
        layout = _with_link_bounds(Random(f"links {seed}"), layout)
        layout = _with_storage_limits(Random(f"storage {seed}"), layout, is_mild)
    workflows, sites = layout.workflows, layout.sites
    quick = random.random() < 0.3
    crash_count = choice([0, 0, 1, 2, 3, 4])
    return WorldSpec(
        seed=seed,
        workflows=workflows,
        catalog=Catalog(sites, layout.links),
        settings=msgspec.structs.replace(
            layout.settings,
            keep=Random(f"keep {seed}").choice(["outputs", "outputs", "failed", "all"]),
        ),
        arrive_s=tuple(sorted(choice([0.0, 0.0, 0.0, 5.0, 40.0]) for _ in workflows)),
        queues=layout.queues,
        is_mild=is_mild,
        runtimes_s=(0.0, 0.5, 1.0, 3.0) if quick else (1.5, 5.0, 20.0, 60.0),
        failure_share=choice([0.0, 0.05, 0.2]) if is_mild else choice([0.0, 0.1, 0.3, 0.6]),
        causes=RETRIABLE if is_mild else choice([RETRIABLE, ALL_CAUSES, ALL_CAUSES]),
        bad_site=layout.bad_site,
        absent_share=choice([0.0, 0.3, 0.8]),
        copy_failure_share=choice([0.0, 0.0, 0.1, 0.3]),
        stalled_share=0.2 if seed >= FIRST_LIMITED_SEED else 0.0,
        two_methods_share=Random(f"methods {seed}").choice([0.0, 0.5, 1.0]),
        infeasible_share=0.0 if is_mild else choice([0.0, 0.3]),
        reports_times=random.random() < 0.8,
        report_delay_s=choice([(0.0,), (0.0,), (0.0, 0.05, 0.5), (0.0, 1.0, 6.0)]),
        cancel_s=choice([(0.0,), (0.0, 0.1), (0.1, 2.0), (0.0, 5.0, 25.0)]),
        kept_share=choice([0.0, 0.5, 0.9, 1.0]),
        vanished_share=choice([0.0, 0.0, 0.1, 0.4]),
        launcher_wait_s=choice([(0.0, 1.0), (1.0, 20.0), (5.0, 100.0, 300.0)]),
        launcher_failure_share=choice([0.0, 0.1]) if is_mild else choice([0.0, 0.2, 0.5]),
        cut_off_share=choice([0.0, 0.2, 0.5]),
        gone_share=Random(f"gone {seed}").choice([0.05, 0.3])
        if seed >= FIRST_VANISHING_SEED
        else 0,
        crashes=tuple(
            Crash(
                random.randint(1, choice([10, 40, 120])) + (len(workflows) + 1) * (number == 0),
                choice([0.0, 1.0, 30.0, 400.0]),
                choice([0.0, 0.0, 0.2, 1.0]),
                random.random() < 0.4,
            )
            for number in range(crash_count)
        ),
        cancels=tuple(
            (round(random.uniform(0, 120), 1), choice(["drain", "kill"]))
            for _ in range(choice([0, 0, 0, 1, 2]))
        ),
        requests=tuple(_requests(Random(f"requests {seed}"), layout, is_mild))
        if seed >= FIRST_STEERED_SEED
        else (),
        pauses=tuple(_pause(random, len(sites)) for _ in range(choice([0, 0, 1, 3]))),
        loads=tuple(_load(random, sites) for _ in range(choice([0, 0, 2, 6]))),
        resumes=choice([0, 1, 2]),
    )


class Layout(NamedTuple):
    """What runs where in a world."""

    workflows: list[Workflow]
    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...]
    settings: ev.Settings
    queues: tuple[tuple[int, ...], ...]
    bad_site: int
    """See ``WorldSpec``."""


def _layout(random: Random, is_mild: bool) -> Layout:
    """Draw what runs where. One site fits every task, so that no task is refused."""
    choice = random.choice
    sites = tuple(_site(random, number, is_mild) for number in range(random.randint(1, 4)))
    first = max(range(len(sites)), key=lambda i: _width(sites[i]))
    widest = min(8, _width(sites[first]))
    workflows = [
        _bag(random, i, widest, most=choice([16, 16, 40]))
        if random.random() < 0.4
        else _workflow(random, i, widest)
        for i in range(choice([1, 1, 2, 2, 3, 4, 6]))
    ]
    # One site takes every task.
    unbounded = msgspec.structs.replace(sites[first], memory_bytes=0, walltime_s=None)
    sites = (*sites[:first], unbounded, *sites[first + 1 :])
    names = [*(s.name for s in sites), "origin"]
    links = tuple(
        LinkSpec(a, b, choice([None, 1e6, 1e8]), choice([0, 0.1]))
        for a in names
        for b in names
        if a != b and random.random() < 0.5
    )
    settings = _settings(random, is_mild)
    queues: tuple[tuple[int, ...], ...] = ()
    if settings.selection and len(sites) > 1 and random.random() < 0.15:
        # Each resource manager needs a site that fits all tasks, or it would refuse some.
        rest = tuple(i for i in range(len(sites)) if i != first)
        if any(_width(sites[i]) >= widest and not sites[i].memory_bytes for i in rest):
            queues = (first,), rest
    others = [i for i in range(len(sites)) if i != first]
    bad_site = choice(others) if others and not queues and random.random() < 0.2 else -1
    return Layout(workflows, sites, links, settings, queues, bad_site)


def _with_link_bounds(random: Random, layout: Layout) -> Layout:
    """The same layout with bounds on some of its links."""
    links = [
        msgspec.structs.replace(link, max_transfers=random.choice([None, None, 1, 2]))
        for link in layout.links
    ]
    return layout._replace(links=tuple(links))


def _with_storage_limits(random: Random, layout: Layout, is_mild: bool) -> Layout:
    """The same layout with storage limits at some sites. A site takes each task alone; in a mild
    world it takes all, because nothing is removed."""
    # Each resource manager would need such a site, and a policy that stays at one site ignores it.
    if layout.queues or layout.settings.policy == "single-cluster":
        return layout
    least = max(
        sum(w.files[f].size_bytes or 0 for f in {*task.inputs, *task.outputs})
        for w in layout.workflows
        for task in w.tasks
    )
    limits = [None, 1, least // 2 + 1, least + 1, 2 * least + 1, 5 * least + 1]
    sites = [
        msgspec.structs.replace(site, storage_bytes=random.choice(limits)) for site in layout.sites
    ]
    widest = max(range(len(sites)), key=lambda i: _width(sites[i]))
    enough = None if is_mild else random.choice([None, least + 1])
    sites[widest] = msgspec.structs.replace(sites[widest], storage_bytes=enough)
    return layout._replace(sites=tuple(sites))


def _width(site: SiteSpec) -> int:
    """Cores of the widest task that the site takes."""
    access = site.access
    if access is not None and access.launchers is not None:
        return access.launchers.cores
    return site.slots


def _site(random: Random, number: int, is_mild: bool) -> SiteSpec:
    choice = random.choice
    name = ["alpha", "beta", "gamma", "delta"][number]
    speed_ratio = choice([0.5, 1.0, 1.0, 2.0])
    if random.random() < 0.4:
        spec = LauncherSpec(
            cores=choice([1, 2, 4, 8]),
            nodes=choice([1, 1, 2]),
            min=choice([0, 0, 0, 1]),
            max=random.randint(1, 4),
            backlog=random.randint(1, 3),
            idle_timeout_s=choice([5.0, 30.0, 60.0]),
            walltime_s=choice([300.0, 3600.0]) if is_mild else choice([100.0, 300.0, 3600.0]),
        )
        slots = spec.cores * spec.nodes * spec.max
        access = Access(dispatch="launchers", launchers=spec)
        return SiteSpec(name, slots, speed_ratio, kind="slurm", access=access)
    site = SiteSpec(
        name,
        slots=choice([1, 2, 3, 4, 6, 8, 12]),
        speed_ratio=speed_ratio,
        memory_bytes=choice([0, 0, 2, 8]) * GIB,
        walltime_s=choice([None, None, 300.0]),
        kind=choice(["local", "local", "ssh", "slurm"]),
        backfills=random.random() < 0.3,
    )
    if site.kind == "local":
        return site
    return msgspec.structs.replace(site, access=Access(), max_transfers=choice([None, 1, 1, 2, 4]))


def _resources(random: Random, widest: int) -> Resources:
    return Resources(
        cores=random.choice([n for n in (1, 1, 1, 2, 3, 4, 8) if n <= widest]),
        memory_bytes=random.choice([0, 0, 1, 3]) * GIB,
        walltime_s=random.choice([None, None, 100.0]),
    )


def _workflow(random: Random, number: int, widest: int) -> Workflow:
    choice = random.choice
    files: list[File] = []
    tasks: list[Task] = []
    parents: list[tuple[int, ...]] = []
    wrote: list[tuple[int, ...]] = []
    kinds = [_resources(random, widest) for _ in range(2)]
    for index in range(random.randint(1, 14)):
        above = sorted(random.sample(range(index), min(index, choice([0, 1, 1, 2, 3]))))
        reads = [f for p in above for f in wrote[p] if random.random() < 0.8]
        if random.random() < 0.4:
            files.append(File(f"in{index}", size_bytes=random.randrange(10**8)))
            reads.append(len(files) - 1)
        writes = []
        for output in range(choice([0, 1, 1, 2])):
            size = choice([None, random.randrange(10**8)])
            final = random.random() < 0.4
            files.append(File(f"f{index}.{output}", size, producer=index, collect=final))
            writes.append(len(files) - 1)
        wrote.append(tuple(writes))
        parents.append(tuple(above))
        share = choice([0.0, 0.0, 0.4])
        tasks.append(
            Task(
                id=f"t{index}",
                name=choice(["a", "b"]),
                executable="x",
                inputs=tuple(reads),
                outputs=tuple(writes),
                optional=tuple(f for f in (*reads, *writes) if random.random() < share),
                resources=choice(kinds),
                runtime_s=choice([None, 1.0, 5.0, 60.0]),
                priority=random.randint(0, 2),
            )
        )
    owner = choice(["", "ann", "bob"])
    return Workflow(
        f"w{number}", "w.dax", tasks, files, parents, owner=owner, priority=random.randint(0, 1)
    )


def _bag(random: Random, number: int, widest: int, most: int) -> Workflow:
    choice = random.choice
    inputs = choice(
        [
            (),
            (BagFile("in{x}"),),
            (BagFile("all"),),
            (BagFile("all"), BagFile("{x}", optional=True)),
        ]
    )
    outputs = choice(
        [(), (BagFile("out{x}"),), (BagFile("out{x}"), BagFile("log{x}", optional=True))]
    )
    bag = Bag(
        f"b{number}",
        "b.yaml",
        "x",
        axes=(Axis(("x",), (Progression(0, 1, random.randint(1, most)),)),),
        inputs=inputs,
        outputs=outputs,
        resources=_resources(random, widest),
        estimate=choice([None, "5", "60"]),
        output_bytes=choice([None, 10**6]),
        owner=choice(["", "ann", "bob"]),
        application=choice(["", "a"]),
        priority=random.randint(0, 1),
    )
    return expand(bag)


def _settings(random: Random, is_mild: bool) -> ev.Settings:
    choice = random.choice
    policy = choice(POLICIES)
    if policy == FileAware.name and is_mild:
        policy = FileAwareR.name
    return ev.Settings(
        policy=policy,
        policy_options={"size": random.randint(1, 10)} if policy == "coarsening" else {},
        throttle=choice([None, "auto", 1, 2, 4]),
        retries=100 if is_mild else random.randint(0, 3),
        retry_delay_s=choice([0.0, 1.0, 10.0]) if not is_mild else choice([0.0, 1.0]),
        on_failure=choice(["continue", "continue", "stop"]),
        seed=random.randint(0, 3),
        selection=choice(["", *SELECTION]),
        replication=choice(["idle", "stragglers"]),
        replicas=choice([None, 0, 1, 2, 3]),
        replica_share=choice([0.3, 0.6, 1.0]),
        straggler_factor=choice([1.0, 1.5]),
    )


def _pause(random: Random, sites: int) -> tuple[int, float, float]:
    # Shorter than the time for which a run waits for a local site with a problem.
    at_s = round(random.uniform(0, 100), 1)
    return random.randrange(sites), at_s, at_s + random.choice([0.0, 5.0, 40.0])


def _requests(random: Random, layout: Layout, is_mild: bool) -> Iterator[ev.Event]:
    """What the user asks for, once all workflows are there. Each site is freed in the end."""
    for _ in range(random.choice([0, 1, 3])):
        site, at_s = random.randrange(len(layout.sites)), round(random.uniform(41, 150), 1)
        yield ev.SiteHeld(at_s, site)
        yield ev.SiteFreed(at_s + random.choice([0.0, 10.0, 200.0]), site)
    for kind in random.choices(["workflow", "task", "cancel"], k=random.choice([1, 3, 6])):
        number, at_s = random.randrange(len(layout.workflows)), round(random.uniform(41, 150), 1)
        task = random.randrange(len(layout.workflows[number].tasks))
        if kind == "cancel" and not is_mild:
            yield ev.TaskCancelled(at_s, number, task)
        elif kind != "cancel":
            yield ev.PriorityRaised(at_s, number, task if kind == "task" else None)


def _load(
    random: Random, sites: tuple[SiteSpec, ...]
) -> tuple[float, int, tuple[ev.BackgroundJob, ...]]:
    site = random.randrange(len(sites))
    at_s = round(random.uniform(0, 100), 1)
    jobs = tuple(
        ev.BackgroundJob(
            f"b{random.randrange(4)}.{number}",
            random.randint(1, max(1, sites[site].slots // 2)),
            random.choice([None, max(0.0, at_s - 5)]),
            random.choice([None, 9.0]),
        )
        for number in range(random.randint(0, 3))
    )
    return at_s, site, jobs
