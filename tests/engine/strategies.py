"""Random workflows, sites and settings for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, File, LinkSpec, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION


@st.composite
def workflows(draw: st.DrawFn, max_tasks: int = 20) -> Workflow:
    """Random DAGs: each task reads files of earlier tasks and initial inputs; some edges carry no
    file."""
    count = draw(st.integers(1, max_tasks))
    files: list[File] = []
    tasks: list[Task] = []
    parents: list[tuple[int, ...]] = []
    outputs_of: list[tuple[int, ...]] = []
    sizes = st.integers(0, 10**9)
    for index in range(count):
        above = draw(st.sets(st.integers(0, index - 1), max_size=4)) if index else set()
        read = {f for p in above for f in outputs_of[p] if draw(st.booleans())}
        if draw(st.booleans()):
            files.append(File(f"in{index}", size_bytes=draw(sizes)))
            read.add(len(files) - 1)
        written = []
        for number in range(draw(st.integers(0, 2))):
            files.append(
                File(
                    f"f{index}.{number}",
                    size_bytes=draw(sizes),
                    producer=index,
                    collect=draw(st.booleans()),
                )
            )
            written.append(len(files) - 1)
        outputs_of.append(tuple(written))
        parents.append(tuple(sorted(above)))
        tasks.append(
            Task(
                id=f"t{index}",
                name=draw(st.sampled_from(["a", "b"])),
                executable="x",
                inputs=tuple(sorted(read)),
                outputs=tuple(written),
                resources=Resources(
                    cores=draw(st.integers(1, 2)),
                    memory_bytes=draw(st.sampled_from([0, 1, 3])) * 2**30,
                    walltime_s=draw(st.sampled_from([None, 100.0])),
                ),
                runtime_s=draw(st.sampled_from([0.0, 1.0, 2.5, 60.0])),
                priority=draw(st.integers(0, 2)),
            )
        )
    owner = draw(st.sampled_from(["", "ann", "bob"]))
    priority = draw(st.integers(0, 1))
    return Workflow("w", "w.dax", tasks, files, parents, owner=owner, priority=priority)


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    names = ["alpha", "beta", "gamma", "delta"][: draw(st.integers(1, 4))]
    sites = tuple(
        SiteSpec(
            n,
            slots=draw(st.integers(2, 5)),
            speed_ratio=draw(st.sampled_from([0.5, 1.0, 2])),
            backfills=draw(st.booleans()),
            memory_bytes=draw(st.sampled_from([0, 3, 5, 8])) * 2**30,
            walltime_s=draw(st.sampled_from([None, 300.0])),
        )
        for n in names
    )
    pairs = [(a, b) for a in [*names, "origin"] for b in [*names, "origin"] if a != b]
    links = tuple(
        LinkSpec(a, b, draw(st.sampled_from([None, 1e6, 1e8])), draw(st.sampled_from([0, 0.1])))
        for a, b in pairs
        if draw(st.booleans())
    )
    return Catalog(sites, links)


@st.composite
def settings_of_runs(draw: st.DrawFn) -> Settings:
    policy = draw(st.sampled_from(sorted(PLACEMENT)))
    return Settings(
        policy=policy,
        policy_options={"size": draw(st.integers(1, 10))} if policy == "coarsening" else {},
        throttle=draw(st.sampled_from([None, "auto", 1, 2, 3, 4])),
        retries=draw(st.integers(0, 2)),
        retry_delay_s=draw(st.sampled_from([0.0, 1.0])),
        on_failure=draw(st.sampled_from(["continue", "continue", "stop"])),
        seed=draw(st.integers(0, 3)),
        selection=draw(st.sampled_from(["", *SELECTION])),
        replication=draw(st.sampled_from(["idle", "stragglers"])),
        replicas=draw(st.none() | st.integers(0, 3)),
        replica_share=draw(st.sampled_from([0.3, 1.0])),
        predictor=draw(st.sampled_from(["last2", "auto"])),
    )
