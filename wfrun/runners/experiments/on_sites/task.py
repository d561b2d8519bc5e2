"""The program of a task: simulates the cells of a chunk, and writes their rows.

``python3 -m wfrun.runners.experiments.on_sites.task CHUNK FILE NAME=VALUE…`` reads `work.NAME` in
the current folder. NAME=VALUE are the parts of the wanted installation, see `installation`. FILE
gets a JSON object: ``rows``, a list of objects with the fields of each row, and ``error``, null or

    {"kind": "InvalidError", "message": …, "source": …, "line": …, "hint": …, "trace": …}

After an error of a policy the other cells of the chunk are simulated; ``error`` is the last such
error. Any other error ends the task; ``error`` is that error, and ``rows`` are those of the cells
before it.

The exit status is 0 even after an error of a simulation, because a retry would raise the error
again. It is 1 if the installation differs.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

MODULE = "wfrun.runners.experiments.on_sites.task"


def main(chunk: int, output: Path, wanted: list[str]) -> int:
    """Simulate chunk number ``chunk`` and write ``output``. Returns the exit status."""
    from wfrun.runners.experiments.on_sites.installation import differences

    differing = differences(wanted)
    for line in differing:
        print(line, file=sys.stderr)
    if differing:
        return 1
    output.write_text(json.dumps(_simulated(chunk)))
    return 0


def _simulated(chunk: int) -> dict[str, Any]:
    import msgspec

    from wfrun.engine.policies.policy_error import PolicyError
    from wfrun.runners.experiments.on_sites import work
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    rows: list[dict[str, Any]] = []
    broken: dict[str, Any] | None = None
    todo = work.read(Path(work.NAME))
    for cell in todo.chunks[chunk]:
        try:
            rows.append(msgspec.structs.asdict(todo.simulate(cell)))
        except PolicyError as error:
            broken = _described(error)
        except Exception as error:
            return {"rows": rows, "error": _described(error)}
    return {"rows": rows, "error": broken}


def _described(error: Exception) -> dict[str, Any]:
    named = {name: getattr(error, name, None) for name in ("source", "line", "hint")}
    message = getattr(error, "message", str(error))
    kind = type(error).__name__
    return {"kind": kind, "message": message, **named, "trace": traceback.format_exc()}


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
