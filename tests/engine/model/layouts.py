"""What runs where in random worlds: workflows, sites, links and options, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.model import (
    Access,
    Axis,
    Bag,
    BagFile,
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
from wfrun.engine.tasks.bag import expand

GIB = 2**30

POLICIES = sorted(policy.name for policy in (*WORKFLOW_POLICIES, *BAG_POLICIES))
"""Policies that worlds are drawn with. Another one would change the worlds of all seeds; those that
are not in the thesis take the place of one of these."""


class Layout(NamedTuple):
    """What runs where in a world."""

    workflows: list[Workflow]
    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...]
    settings: ev.Settings
    queues: tuple[tuple[int, ...], ...]
    bad_site: int
    """See ``WorldSpec``."""


def layout_of(random: Random, is_mild: bool) -> Layout:
    """Draw what runs where. One site fits every task, so that no task is refused."""
    choice = random.choice
    sites = tuple(site_of(random, number, is_mild) for number in range(random.randint(1, 4)))
    first = anchor_of(sites)
    widest = min(8, width_of(sites[first]))
    workflows = [
        _bag(random, i, widest, most=choice([16, 16, 40]))
        if random.random() < 0.4
        else _workflow(random, i, widest)
        for i in range(choice([1, 1, 2, 2, 3, 4, 6]))
    ]
    # One site takes every task.
    unbounded = msgspec.structs.replace(sites[first], memory_bytes=0, walltime_s=None)
    sites = (*sites[:first], unbounded, *sites[first + 1 :])
    links = links_between(random, [*(s.name for s in sites), "origin"])
    settings = settings_of(random, is_mild)
    queues: tuple[tuple[int, ...], ...] = ()
    if settings.selection and len(sites) > 1 and random.random() < 0.15:
        # Each resource manager needs a site that fits all tasks, or it would refuse some.
        rest = tuple(i for i in range(len(sites)) if i != first)
        if any(width_of(sites[i]) >= widest and not sites[i].memory_bytes for i in rest):
            queues = (first,), rest
    others = [i for i in range(len(sites)) if i != first]
    bad_site = choice(others) if others and not queues and random.random() < 0.2 else -1
    return Layout(workflows, sites, links, settings, queues, bad_site)


def with_link_bounds(random: Random, layout: Layout) -> Layout:
    """The same layout with bounds on some of its links."""
    links = [
        msgspec.structs.replace(link, max_transfers=random.choice([None, None, 1, 2]))
        for link in layout.links
    ]
    return layout._replace(links=tuple(links))


def with_storage_limits(random: Random, layout: Layout, is_mild: bool) -> Layout:
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
    widest = anchor_of(sites)
    enough = None if is_mild else random.choice([None, least + 1])
    sites[widest] = msgspec.structs.replace(sites[widest], storage_bytes=enough)
    return layout._replace(sites=tuple(sites))


def links_between(random: Random, names: Sequence[str]) -> tuple[LinkSpec, ...]:
    """Links between some of the places."""
    return tuple(
        LinkSpec(a, b, random.choice([None, 1e6, 1e8]), random.choice([0, 0.1]))
        for a in names
        for b in names
        if a != b and random.random() < 0.5
    )


def anchor_of(sites: Sequence[SiteSpec]) -> int:
    """The widest site, which takes every task."""
    return max(range(len(sites)), key=lambda i: width_of(sites[i]))


def width_of(site: SiteSpec) -> int:
    """Cores of the widest task that the site takes."""
    access = site.access
    if access is not None and access.launchers is not None:
        return access.launchers.cores
    return site.slots


def site_of(random: Random, number: int, is_mild: bool) -> SiteSpec:
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


def settings_of(random: Random, is_mild: bool) -> ev.Settings:
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
