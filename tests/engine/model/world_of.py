"""Descriptions of random worlds, each drawn from one integer seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

import msgspec

from tests.engine.model.audit.rules import COPY_RETRIES
from tests.engine.model.changes import Change, changes_of
from tests.engine.model.claimed import with_claims
from tests.engine.model.documents import reused_of, with_jobs, with_sources
from tests.engine.model.layouts import (
    GIB,
    Layout,
    layout_of,
    with_link_bounds,
    with_storage_limits,
)
from wfrun.engine import events as ev
from wfrun.engine.exchange import Cause, CopyCause
from wfrun.engine.model import Catalog, SiteSpec, Workflow

RETRIABLE: tuple[Cause, ...] = (
    "exit", "signal", "output", "cancelled", "staging", "disk-full", "preempted", "node", "lost",
)  # fmt: skip
"""Causes after which a task is retried while it has retries."""

ALL_CAUSES: tuple[Cause, ...] = (*RETRIABLE, "launch-failed", "memory", "walltime", "refused")

FIRST_LIMITED_SEED = 20_000
"""First seed of worlds whose sites have storage limits."""
FIRST_VANISHING_SEED = 30_000
"""First seed of worlds whose files vanish where they are read."""
FIRST_STEERED_SEED = 40_000
"""First seed of worlds whose user pauses sites, raises priorities and cancels tasks."""
FIRST_CHANGED_SEED = 1_000_000
"""First seed of worlds whose user changes options and sites of the run."""
"""Also of those with tasks that earlier runs did, inputs with several sources, each cause of failed
copies, and parallel jobs with sizes. Each of these is in some share of the worlds."""
FIRST_CLAIMED_SEED = 2_000_000_000
"""First seed of worlds whose jobs claim processors, with all of that, too."""
CHANGED_SHARE = 0.5
JOBS_SHARE = 0.2
CAUSES_SHARE = 0.4
SOURCES_SHARE = 0.3
REUSED_SHARE = 0.25


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
    together: bool = False
    """Whether one decision follows workflows that are added at the same time."""
    copy_causes: tuple[CopyCause, ...] = ()
    """Causes of failed copies; empty: unknown ones."""
    reused: dict[int, tuple[ev.ReusedTasks, ...]] = {}
    """Tasks that earlier runs did, by workflow."""
    loses_inputs: bool = False
    """Whether a crash may lose copies of initial inputs, too."""
    launcher_refusals: tuple[Cause, ...] = ("refused",)
    """Causes by which queues refuse launchers."""
    changes: tuple[Change | None, ...] = ()
    """What the user changes at each resume."""

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
    layout = layout_of(random, is_mild)
    if seed >= FIRST_LIMITED_SEED:
        layout = with_link_bounds(Random(f"links {seed}"), layout)
        layout = with_storage_limits(Random(f"storage {seed}"), layout, is_mild)
    workflows, sites = layout.workflows, layout.sites
    quick = random.random() < 0.3
    crash_count = choice([0, 0, 1, 2, 3, 4])
    spec = WorldSpec(
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
        together=Random(f"together {seed}").random() < 0.5,
    )
    return spec if seed < FIRST_CHANGED_SEED else _varied(spec, layout)


def _varied(spec: WorldSpec, layout: Layout) -> WorldSpec:
    """The same world with what worlds of small seeds do not have."""
    random = Random(f"jobs {spec.seed}")
    has_claims = spec.seed >= FIRST_CLAIMED_SEED
    if has_claims or random.random() < JOBS_SHARE:
        layout = (
            with_claims(random, layout, is_mild=spec.is_mild)
            if has_claims
            else with_jobs(random, layout)
        )
        requests = _requests(Random(f"requests {spec.seed}"), layout, spec.is_mild)
        spec = msgspec.structs.replace(
            spec,
            workflows=layout.workflows,
            catalog=Catalog(layout.sites, layout.links),
            settings=msgspec.structs.replace(layout.settings, keep=spec.settings.keep),
            queues=(),
            bad_site=layout.bad_site,
            requests=tuple(requests),
            pauses=tuple(each for each in spec.pauses if each[0] < len(layout.sites)),
            loads=tuple(each for each in spec.loads if each[1] < len(layout.sites)),
            launcher_wait_s=(0.0, 1.0, random.choice([1.0, 20.0, 100.0]))
            if has_claims
            else spec.launcher_wait_s,
            launcher_refusals=("node", "preempted")
            if has_claims and spec.is_mild
            else ("refused",),
        )
    random = Random(f"changes {spec.seed}")
    if random.random() < CHANGED_SHARE:
        first = Crash(
            random.randint(len(spec.workflows) + 2, 150), random.choice([0.0, 1.0, 400.0]),
            random.choice([0.0, 0.2]), random.random() < 0.4,
        )  # fmt: skip
        settings = spec.settings
        if not settings.selection and any(w.bag is not None for w in spec.workflows):
            settings = msgspec.structs.replace(settings, selection="s-bot")  # as real runs do
        spec = msgspec.structs.replace(
            spec,
            settings=settings,
            crashes=spec.crashes or (first,),
            changes=tuple(changes_of(random, layout, spec.is_mild)),
        )
    random = Random(f"causes {spec.seed}")
    if random.random() < CAUSES_SHARE:
        spec = msgspec.structs.replace(
            spec,
            copy_causes=_copy_causes(random, spec),
            copy_failure_share=random.choice([0.1, 0.3, 0.6]),
        )
    random = Random(f"sources {spec.seed}")
    if random.random() < SOURCES_SHARE:
        names = [site.name for site in spec.catalog.sites]
        workflows = [with_sources(random, w, names) for w in spec.workflows]
        spec = msgspec.structs.replace(spec, workflows=workflows)
    random = Random(f"reused {spec.seed}")
    if random.random() < REUSED_SHARE:
        sites = len(spec.catalog.sites)
        reused = {i: reused_of(random, w, sites) for i, w in enumerate(spec.workflows)}
        spec = msgspec.structs.replace(spec, reused=reused)
    return msgspec.structs.replace(spec, loses_inputs=True)


def _copy_causes(random: Random, spec: WorldSpec) -> tuple[CopyCause, ...]:
    """Causes of failed copies. In a mild world a copy that fails three times is tried again. A run
    that stops on failure may give up copies without a word."""
    causes: list[CopyCause] = list(COPY_RETRIES)
    stops = {spec.settings.on_failure, *(c.options.get("on_failure") for c in spec.changes if c)}
    left = [
        cause
        for cause in causes
        if not (spec.is_mild and COPY_RETRIES[cause] < 3)
        and not ("stop" in stops and cause in ("absent", "changed"))
    ]
    return tuple(random.sample(left, random.randint(1, len(left))))


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
