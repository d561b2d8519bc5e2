"""Compares simulated with real makespans: do they agree, and does the same policy win?

Three workflows of 100 tasks run under every policy on three small local sites: emulated, that is
in real time, with real processes, files and transfers, and simulated. The time scale is such that
a run takes some ten seconds.

Where eligible tasks or sites are equal, a few milliseconds decide which comes first, and the whole
schedule may differ: real runs of one policy differ by up to a quarter. An exact simulation is one
sample of that distribution. It is therefore repeated with random task overheads, and medians are
compared. The mean overhead is measured in every round with a chain of short sleeps.

A policy may have two typical makespans that differ by more than the goal. The median of three real
runs is then random; ``met, gamble`` says that every real run is within the goal of a makespan that
at least a tenth of the simulated runs are as near to.

The policy that `wfrun simulate --policy all` picks counts as the real winner if it is within 3% of
the best real one. It counts as a tie if its median is within the spread of the best policy's runs,
real or simulated.

    python bench/agreement.py [--seconds 8] [--rounds 3] [--policy heft,file-aware,...]

The workflows of the WorkflowSim collection are used where WFRUN_CORPUS names a folder that has
them in ``dax/synthetic``, else generated ones.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
from rich.console import Console
from rich.table import Table

from wfrun import run
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, File, LinkSpec, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.simulate.simulation import Platform, simulate

ROOT = Path(__file__).parent.parent
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")
FAMILIES = ("Montage", "CyberShake", "Inspiral")

GOAL = 0.10
"""Largest difference between simulated and real makespan, as a share of the real one."""
LEAST_NOISE = 0.03
LEAST_SHARE = 0.1
"""Share of the simulated runs. An outcome that is rarer does not explain a real run."""
DRAWS = 25
CHAIN = 30
NAP_S = 0.01
"""Run time of each task of the chain that measures the overhead."""


def make_catalog() -> Catalog:
    """A small fast site, a large slow one, one in between; the fast one is far away."""
    bandwidths = {("fast", "middle"): 4e6, ("fast", "slow"): 2e6, ("middle", "slow"): 20e6}
    links = [
        LinkSpec(*ends, bandwidth, 0.05)
        for (a, b), bandwidth in bandwidths.items()
        for ends in ((a, b), (b, a))
    ]
    sites = (SiteSpec("fast", 3, 1.6), SiteSpec("middle", 4, 1.0), SiteSpec("slow", 6, 0.7))
    return Catalog(sites, tuple(links))


def document(family: str) -> Workflow:
    path = CORPUS / "dax" / "synthetic" / f"{family}_100.xml"
    if path.exists():
        return read_workflow(path, emulate=True)
    return generate(family.lower(), 100, seed=1)


class Pair(msgspec.Struct, frozen=True):
    """One policy on one workflow: makespans in seconds, as scaled."""

    policy: str
    exact_s: float
    """What `wfrun simulate` says: tasks cost nothing to start."""
    simulated_s: list[float]
    real_s: list[float]

    @property
    def expected_s(self) -> float:
        return statistics.median(self.simulated_s)

    @property
    def median_s(self) -> float:
        return statistics.median(self.real_s)

    @property
    def difference(self) -> float:
        return self.expected_s / self.median_s - 1

    @property
    def judgement(self) -> str:
        if abs(self.difference) <= GOAL:
            return "met"
        return "met, gamble" if all(map(self._is_foreseen, self.real_s)) else "not met"

    def _is_foreseen(self, real_s: float) -> bool:
        near = sum(abs(simulated_s / real_s - 1) <= GOAL for simulated_s in self.simulated_s)
        return near >= LEAST_SHARE * len(self.simulated_s)


def simulated_s(
    workflow: Workflow, catalog: Catalog, settings: Settings, cost_s: float = 0.0, seed: int = 0
) -> float:
    """Makespan of a simulation of a real run's plan, with a mean overhead of each task."""
    plan = prepare([workflow], catalog, settings)
    (planned,) = plan.workflows
    random = Random(seed)
    tasks = [
        msgspec.structs.replace(
            task, runtime_s=(task.runtime_s or 0.0) + random.uniform(0.0, 2 * cost_s)
        )
        for task in planned.tasks
    ]
    planned = msgspec.structs.replace(planned, tasks=tasks)
    state = simulate([planned], Platform(plan.catalog), settings)
    return state.now_s - state.started_s


def real_s(workflow: Workflow, catalog: Catalog, settings: Settings) -> float:
    with tempfile.TemporaryDirectory(prefix="wfrun-agreement-") as folder:
        result = run(
            workflow,
            sites=catalog,
            policy=settings.policy,
            emulate=True,
            time_scale=settings.time_scale,
            run_dir=Path(folder) / "run",
        )
    if result.makespan_s is None:
        raise SystemExit(f"{settings.policy}: the run ended as {result.outcome}")
    return result.makespan_s


def task_cost_s() -> float:
    """Measured overhead of one task on this machine, in seconds: start to recorded end."""
    chain = Workflow(
        name="chain",
        source="chain",
        files=[File(str(i), producer=i, size_bytes=0) for i in range(CHAIN)],
        tasks=[
            Task(
                id=str(i),
                name="nap",
                executable="nap",
                runtime_s=NAP_S,
                inputs=(i - 1,) if i else (),
                outputs=(i,),
            )
            for i in range(CHAIN)
        ],
        parents=[(i - 1,) if i else () for i in range(CHAIN)],
    )
    whole_s = real_s(
        chain, Catalog((SiteSpec("here", 1),)), Settings(policy="round-robin", emulate=True)
    )
    return whole_s / CHAIN - NAP_S


def compare(workflow: Workflow, policies: Sequence[str], seconds: float, rounds: int) -> list[Pair]:
    """All policies with the time scale that lets the first one take ``seconds``. They take turns,
    so that noise hits all alike."""
    catalog = make_catalog()
    whole_s = simulated_s(workflow, catalog, Settings(policy=policies[0], emulate=True))
    settings = Settings(policy=policies[0], emulate=True, time_scale=seconds / whole_s)
    each = {policy: msgspec.structs.replace(settings, policy=policy) for policy in policies}
    measured_s: dict[str, list[float]] = {policy: [] for policy in policies}
    costs_s = []
    for _ in range(rounds):
        costs_s.append(task_cost_s())
        for policy in policies:
            measured_s[policy].append(real_s(workflow, catalog, each[policy]))
    cost_s = statistics.fmean(costs_s)
    print(f"a task costs {1000 * cost_s:.0f} ms here")
    return [
        Pair(
            policy,
            simulated_s(workflow, catalog, each[policy]),
            [simulated_s(workflow, catalog, each[policy], cost_s, n) for n in range(DRAWS)],
            measured_s[policy],
        )
        for policy in policies
    ]


def table_of(name: str, pairs: Sequence[Pair]) -> Table:
    table = Table(title=f"{name}: makespans on three local sites")
    table.add_column("policy", no_wrap=True)
    for heading in ("exact s", "simulated s", "range", "real s", "range", "difference", "goal"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        table.add_row(
            pair.policy,
            f"{pair.exact_s:.2f}",
            f"{pair.expected_s:.2f}",
            f"{min(pair.simulated_s):.1f}–{max(pair.simulated_s):.1f}",
            f"{pair.median_s:.2f}",
            f"{min(pair.real_s):.1f}–{max(pair.real_s):.1f}",
            f"{100 * pair.difference:+.1f}%",
            pair.judgement,
        )
    return table


def verdict(pairs: Sequence[Pair]) -> str:
    """Compare the policy that the simulation picks with the one that wins in real runs."""
    picked = min(pairs, key=lambda pair: pair.exact_s)
    best = min(pairs, key=lambda pair: pair.median_s)
    loss = picked.median_s / best.median_s - 1
    slowest_s = max(*best.real_s, *best.simulated_s)
    if loss <= LEAST_NOISE:
        result = "the pick wins"
    elif picked.median_s <= slowest_s:
        result = f"a tie, since runs of {best.policy} take up to {slowest_s:.2f} s"
    else:
        result = "the pick DOES NOT WIN"
    return (
        f"--policy all picks {picked.policy}, {picked.median_s:.2f} s for real; best for real: "
        f"{best.policy}, {best.median_s:.2f} s; {100 * loss:.1f}% apart: {result}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=8.0, help="of the first policy's run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", default=",".join(PLACEMENT), help="names, with commas")
    parser.add_argument("--workflow", default=",".join(FAMILIES), help="families, with commas")
    options = parser.parse_args()
    console = Console(width=100)
    for family in options.workflow.split(","):
        pairs = compare(
            document(family), options.policy.split(","), options.seconds, options.rounds
        )
        console.print(table_of(f"{family}_100", pairs))
        print(verdict(pairs) + "\n")
    print(f"goal: simulated and real makespans differ by at most {100 * GOAL:.0f}%")


if __name__ == "__main__":
    main()
