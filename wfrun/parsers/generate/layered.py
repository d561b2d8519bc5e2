"""A random layered DAG.

A workflow of n tasks has about sqrt(n) layers of about sqrt(n) tasks. Each task reads files of one
to three tasks of the layer before. This is a common way to make random task graphs; Tobita and
Kasahara describe several of this kind in "A standard task graph set for fair evaluation of
multiprocessor scheduling algorithms", J. Scheduling 5(5), 2002. Run times and sizes are not from
that paper: we chose round numbers. Every number of tasks from 1 on is possible.
"""

from __future__ import annotations

import math
from random import Random

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import LogNormal
from wfrun.parsers.generate.sketch import Sketch

SMALLEST = 1
"""Minimum number of tasks."""

RUNTIME_S = LogNormal(100.0, 60.0, 5.0, 1_000.0)
FILE_BYTES = LogNormal(10e6, 15e6, 10e3, 500e6)
MAX_PARENTS = 3
"""Maximum number of tasks of the layer before that a task depends on."""
WIDTH_SPREAD = (0.5, 1.5)
"""Minimum and maximum width of a layer, relative to the mean."""


def build(tasks: int, rng: Random) -> Workflow:
    """Generate a layered workflow of ``tasks`` tasks."""
    sketch = Sketch("layered", tasks, rng)
    mean = math.sqrt(tasks)
    above: list[int] = []
    made = layer = 0
    while made < tasks:
        width = min(tasks - made, max(1, round(mean * rng.uniform(*WIDTH_SPREAD))))
        written: list[int] = []
        for place in range(width):
            name = f"{layer:04d}-{place:05d}"
            if above:
                read = rng.sample(above, min(len(above), rng.randint(1, MAX_PARENTS)))
            else:
                read = [sketch.initial(f"input-{name}", FILE_BYTES.draw(rng))]
            outputs = [(f"file-{name}", FILE_BYTES.draw(rng))]
            written += sketch.task(f"step{layer % 10}", RUNTIME_S.draw(rng), read, outputs)
        above = written
        made += width
        layer += 1
    return sketch.workflow()
