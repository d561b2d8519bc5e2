"""A bag of independent tasks, each with its own input and output.

Run times are log-normal: many short ones and a few long ones. The numbers are round ones without a
source. All sizes from 1 on are possible.
"""

from __future__ import annotations

from random import Random

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import LogNormal
from wfrun.parsers.generate.sketch import Sketch

SMALLEST = 1

RUNTIME_S = LogNormal(60.0, 60.0, 1.0, 3_600.0)
INPUT_BYTES = LogNormal(2e6, 2e6, 1e3, 100e6)
OUTPUT_BYTES = LogNormal(1e6, 1e6, 1e3, 100e6)


def build(tasks: int, rng: Random) -> Workflow:
    """Generate a bag of ``tasks`` tasks."""
    sketch = Sketch("bag", tasks, rng)
    for number in range(tasks):
        read = sketch.initial(f"input-{number:05d}", INPUT_BYTES.draw(rng))
        written = [(f"output-{number:05d}", OUTPUT_BYTES.draw(rng))]
        sketch.task("process", RUNTIME_S.draw(rng), [read], written)
    return sketch.workflow()
