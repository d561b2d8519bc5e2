"""Figures 6.2 to 6.6 of the thesis with our results (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.runners.metrics.samples import cumulative
from wfrun.studies.common.figures import bars, grid_of, label_powers, save
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.background import utilizations
from wfrun.studies.workflows.claims_rest import DYNAMIC, variant_name
from wfrun.studies.workflows.experiments import WorkflowsScale
from wfrun.studies.workflows.samples import Samples

MEASURES = (("makespan_s", "makespan [s]"), ("nsl", "NSL"))


def draw(samples: Samples, scale: WorkflowsScale, folder: Path) -> list[str]:
    """Write all figures as PNG and return their file names. Raises OSError."""
    return [
        _utilization(scale, folder),
        _policies(samples, folder),
        _distributions(samples, folder),
        _throttles(samples, folder),
        _several(samples, folder),
    ]


def _utilization(scale: WorkflowsScale, folder: Path) -> str:
    """Figure 6.2: means over the repetitions, with the lowest and the highest."""
    figure, grid = grid_of(1, 1)
    found = utilizations(scale.loaded)
    axes = grid[0][0]
    means = {name: 100 * sum(values) / len(values) for name, values in found.items()}
    below = [means[name] - 100 * min(values) for name, values in found.items()]
    above = [100 * max(values) - means[name] for name, values in found.items()]
    axes.bar(list(means), list(means.values()), yerr=(below, above), capsize=3, color="C1")
    axes.tick_params(axis="x", labelrotation=45, labelsize=7)
    axes.set_ylabel("utilization [%]")
    axes.grid(axis="y", alpha=0.3)
    return save(figure, folder, "figure-6.2.png")


def _distributions(samples: Samples, folder: Path) -> str:
    """Figure 6.4: cumulative distributions with background load."""
    figure, grid = grid_of(len(MEASURES), len(paper.CDF_WORKLOADS))
    for column, workload in enumerate(paper.CDF_WORKLOADS):
        for row, (measure, label) in enumerate(MEASURES):
            axes = grid[row][column]
            for policy in paper.TABLE_6_3[workload, True]:
                points = cumulative(samples.runs(workload, policy, measure))
                values = [points[0][0], *(value for value, _ in points)]
                shares = [0.0, *(100 * share for _, share in points)]
                colour = f"C{paper.POLICIES.index(policy)}"
                axes.step(values, shares, colour, where="post", linewidth=1, label=policy)
            axes.set_xscale("log")
            label_powers(axes.xaxis)
            axes.tick_params(axis="x", labelsize=7, labelrotation=45)
            axes.set_xlabel(label)
            axes.set_ylabel("runs [%]")
            axes.set_title(f"{workload}+BG", fontsize=9)
            axes.grid(alpha=0.3)
    handles, names = grid[0][-1].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="outside lower center", ncols=4)
    return save(figure, folder, "figure-6.4.png")


def _policies(samples: Samples, folder: Path) -> str:
    """Figure 6.3: a column for each workload, makespan and NSL, idle and loaded."""
    figure, grid = grid_of(4, len(paper.WORKLOADS))
    for column, workload in enumerate(paper.WORKLOADS):
        for row, ((measure, label), loaded) in enumerate(
            (m, loaded) for loaded in (False, True) for m in MEASURES
        ):
            policies = list(paper.TABLE_6_3[workload, loaded])
            values = [samples.single(workload, p, measure, loaded=loaded) for p in policies]
            axes = grid[row][column]
            bars(axes, policies, values, "C1" if loaded else "C0")
            axes.set_title(f"{workload}{'+BG' if loaded else ''}", fontsize=9)
            if column == 0:
                axes.set_ylabel(label)
    return save(figure, folder, "figure-6.3.png")


def _throttles(samples: Samples, folder: Path) -> str:
    """Figure 6.5: the makespan by concurrency limit."""
    figure, grid = grid_of(2, 4)
    for row, policy in enumerate(DYNAMIC):
        panels = [(w, loaded) for loaded in (False, True) for w in ("wf-large1", "wf-large2")]
        for column, (workload, loaded) in enumerate(panels):
            limits: tuple[int | None, ...] = (*paper.LIMITS, None)
            values = [
                samples.single(workload, policy, "makespan_s", loaded=loaded, throttle=limit)
                for limit in limits
            ]
            axes = grid[row][column]
            names = ["none" if limit is None else str(limit) for limit in limits]
            bars(axes, names, values, "C1" if loaded else "C0")
            axes.set_title(f"{policy}, {workload}{'+BG' if loaded else ''}", fontsize=9)
            axes.set_ylabel("makespan [s]")
    return save(figure, folder, "figure-6.5.png")


def _several(samples: Samples, folder: Path) -> str:
    """Figure 6.6: total makespan and NSL of several instances."""
    figure, grid = grid_of(2, len(paper.MULTI))
    variants = range(len(paper.MULTI_VARIANTS))
    for column, (_, size, instances) in enumerate(paper.MULTI):
        for row, (measure, label) in enumerate(MEASURES):
            values = [samples.multi(size, instances, v, measure) for v in variants]
            axes = grid[row][column]
            bars(axes, [variant_name(v) for v in variants], values)
            axes.set_title(f"CyberShake-{size}, N = {instances}", fontsize=9)
            axes.set_ylabel(label if row else "total makespan [s]")
    return save(figure, folder, "figure-6.6.png")
