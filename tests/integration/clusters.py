"""What the tests of faults share: bags and workflows whose tasks keep an exactly-once record of
their own, outside of every sandbox, and what has to hold when their run is over."""

from __future__ import annotations

import contextlib
import pwd
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.runners.harness import (
    LONG_S,
    Done,
    Engine,
    Job,
    User,
    attempts_alive,
    lines_of,
    wait_until,
)
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import WfrunError
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store

SCRIPT = (
    "set -e; echo begin:{id}:$WFRUN_ATTEMPT >> {record}; sleep {seconds}; "
    "{{ echo {id}; cat {inputs} </dev/null; }} | sort -u > {id}.txt; "
    "echo done:{id}:$WFRUN_ATTEMPT >> {record}"
)
"""The last thing that a task does is to append its id and its attempt to the record."""

HOLD = "while [ -e {hold} ]; do sleep 0.1; done; "
"""Keeps tasks from their end until their test, however slow the machine, has done what it is to do
while they run."""

QUEUES = {
    "slurm": ["squeue", "--noheader", "--array", "--format=%i %j %t", "--user={user}"],
    "grid-engine": ["qstat", "-u", "{user}"],
}


class RecordedRun:
    """A run of a user, whose tasks keep a record."""

    def __init__(self, user: User, record: Path) -> None:
        self.user = user
        self.record = record
        self.run = user.folder / "run"
        self.jobs: list[Job] = []
        self._contents: dict[str, set[str]] = {}

    def task(self, id: str, seconds: float, inputs: Sequence[str] = ()) -> None:
        """Add a task that reads the outputs of those named, and writes the ids of all before
        it."""
        self._contents[id] = {id}.union(*(self._contents[name] for name in inputs))
        files = [f"{name}.txt" for name in inputs]
        script = SCRIPT.format(id=id, record=self.record, seconds=seconds, inputs=" ".join(files))
        self.jobs.append(Job(id, script, files, [f"{id}.txt"], [f"{id}.txt"]))

    def bag(self, count: int, seconds: float) -> None:
        for number in range(count):
            self.task(f"t{number}", seconds)

    def layers(self, layers: int, width: int, seconds: float) -> None:
        """Each task reads what two of the layer above have written."""
        for layer in range(layers):
            for n in range(width):
                above = [f"t{layer - 1}-{n}", f"t{layer - 1}-{(n + 1) % width}"] if layer else []
                self.task(f"t{layer}-{n}", seconds, above)

    def resume(self) -> Engine:
        return self.user.start("resume", self.run)

    def contents(self, id: str) -> list[str]:
        """What the output of a task has to be."""
        return sorted(self._contents[id])

    def done(self) -> list[str]:
        """Ids of tasks in the order of their success."""
        return [line.split(":")[1] for line in lines_of(self.record) if line.startswith("done:")]

    def begun(self) -> list[str]:
        return [line.split(":")[1] for line in lines_of(self.record) if line.startswith("begin:")]

    def events(self) -> list[ev.Event]:
        store = Store(self.run)
        try:
            return list(store.load())
        finally:
            store.close()

    def state(self) -> RunState:
        return read_state(RunDir(self.run))

    def failures(self) -> Counter[str]:
        """Causes of attempts that ended other than well."""
        ended = [e for e in self.events() if isinstance(e, ev.AttemptEnded)]
        return Counter(e.outcome.cause for e in ended if e.outcome.cause != "done")


class Grid(RecordedRun):
    """A user with accounts at the sites of a testbed, and one run of theirs."""

    def __init__(self, testbed: Testbed, user: User) -> None:
        self.testbed = testbed
        # Written by the users of all sites.
        record = testbed.layout.directory / f"record-{secrets.token_hex(4)}"
        record.touch()
        record.chmod(0o666)
        super().__init__(user, record)
        self.hold = record.with_suffix(".hold")
        self._sites: list[str] = []

    def catalog(self, *sites: str, changes: Mapping[str, Any] | None = None) -> Path:
        """A catalog of these sites of the testbed, whose queues are asked more often than by
        default; ``changes`` are of one site or another."""
        every = yaml.safe_load(self.testbed.layout.catalog.read_text())["sites"]
        self._sites = list(sites)
        chosen = {}
        for name in sites:
            quick = {} if every[name]["kind"] == "ssh" else {"poll_min": 0.5, "poll_max": 5}
            chosen[name] = {**every[name], **quick, **(changes or {}).get(name, {})}
        return self.user.catalog(yaml.safe_dump({"sites": chosen}))

    def start(
        self, catalog: Path, *words: str | Path, held: Literal["last", "all", "none"] = "last"
    ) -> Engine:
        """Start a run whose last task, or all of whose tasks, do not end before ``finish``."""
        jobs = list(self.jobs)
        for number in {"last": [-1], "all": range(len(jobs)), "none": []}[held]:
            hold = HOLD.format(hold=self.hold)
            script = jobs[number].script.replace("sleep ", f"{hold}sleep ", 1)
            jobs[number] = jobs[number]._replace(script=script)
        self.hold.touch()
        document = self.user.write(jobs)
        return self.user.start(
            document, "--sites", catalog, "--run-dir", self.run, "--policy", "round-robin", *words
        )

    def release(self) -> None:
        """Let the tasks end that are held."""
        self.hold.unlink(missing_ok=True)

    def finish(self, engine: Engine) -> Done:
        """Release the tasks, and wait for the end of the engine."""
        self.release()
        return engine.done()

    # -- what happens

    def wait(
        self, engine: Engine, happened: Callable[[], bool], patience_s: float = LONG_S
    ) -> None:
        """Until that has happened, while the engine has still something to do."""
        assert wait_until(lambda: engine.ended or happened(), patience_s), engine.told
        assert not engine.ended, engine.told

    def wait_done(self, engine: Engine, count: int, patience_s: float = LONG_S) -> None:
        self.wait(engine, lambda: len(self.done()) >= count, patience_s)

    def wait_begun(self, engine: Engine, count: int, patience_s: float = LONG_S) -> None:
        self.wait(engine, lambda: len(self.begun()) >= count, patience_s)

    @property
    def sites(self) -> list[str]:
        """Sites of the testbed in the catalog."""
        return self._sites

    def uid(self, site: str) -> int:
        return pwd.getpwnam(self.testbed.layout.site(site).user).pw_uid

    # -- what has to hold

    def queue(self, site: str) -> list[str]:
        """Lines of the site's queue with jobs of its user; as root, past any wrapper."""
        where = self.testbed.layout.site(site)
        argv = [word.format(user=where.user) for word in QUEUES.get(where.kind, [])]
        if not argv:
            return []
        environment = self.testbed.layout.environment(where)
        return processes.run(argv, environment, check=False).stdout.split("\n")[:-1]

    def check(self, done: Done, *, once: bool = True) -> None:
        """The run is done, each task was committed once, its output is right, nothing is left.
        ``once``: nothing even ran twice, since no attempt can have been given up."""
        self.check_results(done, once=once)
        self.check_quiet()

    def check_results(self, done: Done, *, once: bool = True) -> None:
        """``check``, but for what is left."""
        assert done.status == 0, done.text
        assert "Traceback" not in done.text
        ids = [job.id for job in self.jobs]
        state = self.state()
        assert state.ended == "done"
        ended = [e for e in self.events() if isinstance(e, ev.AttemptEnded)]
        committed = Counter(e.key.split(".")[2] for e in ended if e.outcome.cause == "done")
        assert committed == Counter(str(number) for number in range(len(ids)))
        if once:
            assert Counter(self.done()) == Counter(ids)
            assert Counter(self.begun()) == Counter(ids)
        else:
            assert set(self.done()) == set(ids)
        assert {path.stem for path in (self.run / "outputs").iterdir()} == set(ids)
        for id in ids:
            found = (self.run / "outputs" / f"{id}.txt").read_text().split()
            assert found == self.contents(id)

    def check_quiet(self, patience_s: float = LONG_S) -> None:
        """Nothing of ours is in a queue or runs, neither here nor at the sites."""
        assert self.user.is_alone()
        for site in self._sites:
            assert wait_until(lambda: not self.queue(site), patience_s), self.queue(site)  # noqa: B023
        run_id = self.state().run_id
        assert wait_until(lambda: not attempts_alive(run_id), patience_s), attempts_alive(run_id)
        assert wait_until(lambda: not self.far_processes(), patience_s), self.far_processes()

    def pauses(self) -> list[str]:
        """Why sites have said that they were out of order."""
        return [e.reason for e in self.events() if isinstance(e, ev.SitePaused)]

    def has_reopened(self, name: str) -> bool:
        """Whether a site was paused and has reopened since."""
        names = [site.spec.name for site in self.state().sites]
        kinds = (ev.SitePaused, ev.SiteReopened)
        changes = [e for e in self.events() if isinstance(e, kinds) and names[e.site] == name]
        return bool(changes) and isinstance(changes[-1], ev.SiteReopened)

    def logged(self) -> bool:
        """Whether the run has begun, as its log tells."""
        with contextlib.suppress(WfrunError):
            return bool(self.events())
        return False

    def processes_at(self, site: str) -> list[tuple[int, str]]:
        """Processes of the site's user that live, and their command lines."""
        user = self.testbed.layout.site(site).user
        argv = ["ps", "--no-headers", "-o", "pid,stat,args", "-U", user]
        rows = [
            line.split(maxsplit=2) for line in processes.run(argv, check=False).stdout.splitlines()
        ]
        return [(int(pid), line) for pid, state, line in rows if not state.startswith("Z")]

    def far_processes(self) -> list[str]:
        """What runs as a user of a site."""
        return [line for site in self._sites for _, line in self.processes_at(site)]

    def agents(self, site: str) -> list[int]:
        """Processes of the agent at a site."""
        return [pid for pid, line in self.processes_at(site) if "agent.py" in line]

    def close(self) -> None:
        self.release()
        self.record.unlink()
