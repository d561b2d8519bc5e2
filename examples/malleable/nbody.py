"""A malleable n-body simulation, which balances its load over any number of processes.

    python nbody.py BODIES STEPS [--start 'ssh {node}'] [--pause SECONDS]

It prints the positions at the end. Each body's forces are summed in the order of the bodies, so
that the result is that of one process, to the last bit, after any sequence of sizes.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, arg-type"

import argparse
import math
import random
import time
from itertools import pairwise

from workers import Workers, serve

STEP_S = 0.01


def accelerations(bodies, part):
    """Of the bodies of a part, from first to before last."""
    found = []
    for n in range(*part):
        x, y, z, _ = bodies[n]
        ax = ay = az = 0.0
        for other_x, other_y, other_z, mass in bodies:
            dx, dy, dz = other_x - x, other_y - y, other_z - z
            square = dx * dx + dy * dy + dz * dz + 1e-3
            pull = mass / (square * math.sqrt(square))
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        found.append((ax, ay, az))
    return found


def shares(count, speeds):
    """Consecutive parts of the bodies, as large as the workers are fast."""
    total, before, ends = sum(speeds), 0.0, [0]
    for speed in speeds:
        before += speed
        ends.append(round(count * before / total))
    return list(pairwise(ends))


def simulate(count, steps, accelerate):
    """Positions after the steps; ``accelerate(bodies)`` gives the forces."""
    chance = random.Random(count)
    bodies = [(*(chance.uniform(-1, 1) for _ in "xyz"), 1 / count) for _ in range(count)]
    speeds = [(0.0, 0.0, 0.0)] * count
    for _ in range(steps):
        pulls = accelerate(bodies)
        speeds = [tuple(v + a * STEP_S for v, a in zip(*each)) for each in zip(speeds, pulls)]
        bodies = [
            (x + u * STEP_S, y + v * STEP_S, z + w * STEP_S, mass)
            for (x, y, z, mass), (u, v, w) in zip(bodies, speeds)
        ]
    return bodies


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bodies", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--start", default="")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    options = parser.parse_args()
    workers = Workers(__file__, start=options.start)
    rates: list[float] = []

    def accelerate(bodies):
        nonlocal rates
        workers.adapt()
        if len(rates) != len(workers):
            rates = [1.0] * len(workers)
        parts = shares(len(bodies), rates)
        results, seconds = workers.run(accelerations, bodies, parts)
        rates = [
            max(last - first, 1) / max(spent, 1e-6) for (first, last), spent in zip(parts, seconds)
        ]
        time.sleep(options.pause)
        return [pull for result in results for pull in result]

    try:
        for x, y, z, _ in simulate(options.bodies, options.steps, accelerate):
            print(x.hex(), y.hex(), z.hex())
    finally:
        workers.close()


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["worker"]:
        serve({"accelerations": accelerations}, sys.argv[2:])
    else:
        main()
