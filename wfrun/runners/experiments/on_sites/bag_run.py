"""The run of a bag whose tasks are simulations: start it, resume it, read its rows.

The folder of the run holds

    work.pickle   an input of all tasks: see `work`
    cells.json    the installation that began the run, and the cells of each task
    run/          the run directory

The rows of a task are in ``run/outputs/rows-N.json``, which appears there by a rename.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.settings import make_settings
from wfrun.parsers.atomic import write_file
from wfrun.parsers.bags.make import bag
from wfrun.parsers.bags.values import escaped
from wfrun.parsers.foreign import number_of
from wfrun.runners.experiments.on_sites import task, work
from wfrun.runners.run.changes import changed_run
from wfrun.runners.run.directory.run_directory import RunDir, has_log
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.session import Session
from wfrun.runners.run.store.event_store import Store


class BagRun:
    """A run of simulations, in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunDir(folder / "run")
        self._read: set[int] = set()

    @property
    def has_begun(self) -> bool:
        """Whether the log of the run has an event."""
        if not (self.folder / "cells.json").exists() or not has_log(self.run.path):
            return False
        store = Store(self.run.path)
        try:
            return store.has_events()
        finally:
            store.close()

    def rest(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Read ``cells.json``. Returns the identity of the installation that began the run, and the
        cells of the tasks that have written no rows yet."""
        content = json.loads((self.folder / "cells.json").read_text())
        chunks = enumerate(content["chunks"])
        rest = [cell for n, chunk in chunks if not self._rows(n).exists() for cell in chunk]
        return content["installation"], rest

    def _rows(self, task: int) -> Path:
        return self.run.outputs / f"rows-{task}.json"

    def start(
        self,
        simulate: Callable[[Any], Any],
        chunks: Sequence[Sequence[Any]],
        files: work.Files,
        catalog: Catalog,
        parts: Sequence[str],
    ) -> Session:
        """Make the folder. Returns a session that starts the run; ``parts`` is the identity of this
        installation."""
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        work.write(work.Work(simulate, chunks), files, self.folder / work.NAME)
        content = {
            "installation": list(parts),
            "chunks": [[msgspec.structs.asdict(cell) for cell in chunk] for chunk in chunks],
        }
        write_file(self.folder / "cells.json", json.dumps(content).encode())
        inputs = {work.NAME: self.folder / work.NAME, **work.staged(files)}
        plan = prepare([_bag(len(chunks), inputs, parts)], catalog, make_settings({}))
        session = Session()
        session.start(plan, self.run.path, "simulations")
        return session

    def resume(self, catalog: Catalog | None) -> Session:
        """Return a session that resumes the run, at the sites of the catalog; None: at its previous
        sites."""
        session = Session()
        run = OwnRun(self.run, None)
        session.resume(run, change=lambda state: changed_run(state, {}, catalog))
        return session

    def new_results(self) -> list[Mapping[str, Any]]:
        """Read the results of tasks that have ended since the last call, in the order of the tasks.
        Raises InvalidError for a file with other content."""
        found: list[int] = []
        for path in self.run.outputs.glob("rows-*.json"):
            number = number_of(path.stem.removeprefix("rows-"))
            if number is not None and number not in self._read:
                self._read.add(number)
                found.append(number)
        return [_result(self._rows(number)) for number in sorted(found)]


def _bag(tasks: int, inputs: Mapping[str, Path], parts: Sequence[str]) -> Workflow:
    command = ["python3", "-m", task.MODULE, "{chunk}", "rows.json", *map(escaped, parts)]
    return bag(
        "simulations",
        command,
        parameters={"chunk": range(tasks)},
        inputs={escaped(name): escaped(str(path.absolute())) for name, path in inputs.items()},
        outputs={"rows.json": "rows-{chunk}.json"},
    )


def _result(path: Path) -> Mapping[str, Any]:
    """Read the results of a task. Raises InvalidError if the file has other content."""
    try:
        content = json.loads(path.read_text())
        if isinstance(content["rows"], list) and "error" in content:
            return dict(content)
    except (ValueError, TypeError, KeyError):
        pass
    raise InvalidError(
        "not the results of a task", source=str(path), hint="remove the file's run folder"
    )
