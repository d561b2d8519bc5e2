"""Small wrong changes of the core, and whether tests notice them:
``python -m tests.engine.model.mutants`` applies each to a copy of the package, explores random
worlds there until one breaks a rule, and runs the tests of the engine where none does.

    python -m tests.engine.model.mutants [--only NAME] [--worlds 600] [--no-tests]
"""

# The texts of the code are longer than lines may be.
# ruff: noqa: E501

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "wfrun" / "engine"
TIMEOUT_S = 300.0
"""Maximum time of one command."""


class Mutant(NamedTuple):
    """A wrong change."""

    name: str
    """What is wrong."""
    file: str
    """Below ``wfrun/engine``."""
    old: str
    """The text that is replaced. It occurs once."""
    new: str


MUTANTS = (
    # Attempts
    Mutant(
        "a failed attempt keeps its cores",
        "tasks/attempts.py",
        "    site.committed_cores -= attempt.cores\n",
        "",
    ),
    Mutant(
        "an attempt that left counts for the throttle",
        "tasks/attempts.py",
        "    w.dispatched -= 1\n",
        "",
    ),
    Mutant(
        "a task waits for one predecessor alone",
        "tasks/attempts.py",
        "        waiting[child] -= 1\n",
        "        waiting[child] = 0\n",
    ),
    Mutant(
        "attempts wait beside a repeated predecessor",
        "files/file_events.py",
        "            elif w.status[child] == DISPATCHED:\n",
        "            elif False:\n",
    ),
    Mutant(
        "a superseded attempt is not cancelled",
        "tasks/attempts.py",
        "    run.outbox.append(CancelAttempts(attempt.site, (attempt.key,)))\n    run.set_timer",
        "    run.set_timer",
    ),
    Mutant(
        "absent attempts of a paused site are submitted",
        "tasks/attempts.py",
        " or not fits or is_held\n",
        " or not fits\n",
    ),
    Mutant(
        "a withdrawn attempt that was cancelled costs a retry",
        "tasks/attempts.py",
        "or (attempt.withdrawn and attempt.started_s is None)",
        "",
    ),
    Mutant(
        "a replica's failure fails the task",
        "tasks/attempts.py",
        "    if siblings is not None and siblings.attempts:\n        if not attempt.is_replica:",
        "    if False:\n        if not attempt.is_replica:",
    ),
    # Files
    Mutant(
        "a lost file is still there",
        "files/file_events.py",
        "        w.present[file] &= ~state.network.bit(site)\n        if file in w.originals:",
        "        if file in w.originals:",
    ),
    Mutant(
        "a task that is repeated does not hold its successors",
        "files/file_events.py",
        "            w.waiting[child] += 1\n",
        "",
    ),
    Mutant(
        "files vanish without end",
        "files/file_events.py",
        "        if w.remakes.get(file, 0) >= MAX_REMAKES:",
        "        if False:",
    ),
    Mutant(
        "attempts in staging keep lost inputs",
        "files/file_events.py",
        "        if any((attempt.workflow, file, attempt.site) in missing for file in inputs):",
        "        if False:",
    ),
    # Copies
    Mutant(
        "a copy that nothing waits for begins after a resume",
        "files/copies.py",
        "        if is_wanted(state, key):\n            _enqueue(run, key, copy, state.now_s)\n        else:\n            drop_copy(run, key)\n",
        "        _enqueue(run, key, copy, state.now_s)\n",
    ),
    Mutant(
        "an outdated copy counts",
        "files/copies.py",
        "    if not (queue.outdated and (begun := queue.outdated.get(key)) and begun[:2] == ended):\n        return False\n",
        "    return False\n",
    ),
    Mutant(
        "links have room for one copy more",
        "files/copy_queue.py",
        "self._link_load[link] >= self._link_room[link]",
        "self._link_load[link] > self._link_room[link]",
    ),
    Mutant(
        "sites have room for one copy more",
        "files/copy_queue.py",
        "site == ORIGIN or self._load[self._hosts[site]] < self._room[site]",
        "site == ORIGIN or self._load[self._hosts[site]] <= self._room[site]",
    ),
    Mutant(
        "a copy that fails for good leaves its attempts",
        "files/copy_failures.py",
        "    for attempt in waiting:\n        close(run, attempt)\n",
        "",
    ),
    Mutant(
        "a copy is retried without end",
        "files/copy_failures.py",
        "    return copy.failures <= treatment.retries",
        "    return True",
    ),
    # Tasks and retries
    Mutant(
        "a blocked task does not block its successors",
        "tasks/status.py",
        "                set_status(state, w, child, BLOCKED)\n                stack.append(child)\n",
        "                set_status(state, w, child, BLOCKED)\n",
    ),
    Mutant(
        "one retry more", "tasks/retry.py", "    if times > limit:", "    if times > limit + 1:"
    ),
    Mutant(
        "a refusing site is asked again",
        "tasks/retry.py",
        "    w.refused[task] = w.refused.get(task, 0) | bit\n    w.masks[task] = w.feasible_sites(task) & ~bit\n",
        "    w.refused[task] = w.refused.get(task, 0) | bit\n",
    ),
    Mutant(
        "a task that failed everywhere goes anywhere",
        "tasks/retry.py",
        "    w.avoid[task] = avoid if has_others else bit\n",
        "    w.avoid[task] = avoid\n",
    ),
    Mutant(
        "memory is not doubled",
        "tasks/retry.py",
        "        size_bytes = int(min(GROWTH * had, most))",
        "        size_bytes = int(had)",
    ),
    # The end of a run
    Mutant(
        "a run ends while files are not collected",
        "core/core.py",
        "        if not state.copies and len(state.attempts) <= state.superseded",
        "        if len(state.attempts) <= state.superseded",
    ),
    Mutant(
        "a run with failed tasks is done",
        "core/core.py",
        "        elif state.failed or state.uncollected:",
        "        elif state.uncollected:",
    ),
    # The user's requests
    Mutant(
        "a freed site stays closed",
        "tasks/steering.py",
        "        run.set_condition(event.site, HELD, None)\n",
        "        pass\n",
    ),
    # Changes of the run
    Mutant(
        "open attempts are not introduced after a change",
        "core/changes.py",
        "    for attempt in attempts:\n        _introduce(run, attempt)\n",
        "",
    ),
    Mutant(
        "eligible tasks keep their classes after a change",
        "core/changes.py",
        "        _renew_eligible(run, w)\n",
        "",
    ),
    Mutant(
        "kept inputs of failures are forgotten after a change",
        "capabilities/storing/cleanup.py",
        "            self._kept = before._kept\n",
        "            pass\n",
    ),
    Mutant(
        "attempts in staging stay where they do not fit after a change",
        "core/changes.py",
        " or not fits(asked, state.sites[attempt.site].spec):",
        ":",
    ),
    Mutant(
        "sites that left take tasks",
        "core/changes.py",
        "        site.conditions[_LEFT] = Condition(reason, closes=True)\n",
        "        pass\n",
    ),
    # Inputs with several sources, reused tasks
    Mutant(
        "originals are forgotten where the copy was removed",
        "files/file_events.py",
        "        w.originals[file] |= bit\n        w.present[file] |= bit\n",
        "",
    ),
    Mutant(
        "reused tasks run again",
        "tasks/reuse.py",
        "            set_status(state, w, task, DONE)\n",
        "",
    ),
    # Capabilities
    Mutant(
        "launchers are requested where attempts are taken back",
        "capabilities/launchers/allocation.py",
        " or missing <= 0 or is_over:",
        " or missing <= 0:",
    ),
    Mutant(
        "jobs are planned that are wider than their site",
        "capabilities/reallocating/site_queues.py",
        "QueuedJob(attempt.key, min(attempt.cores, most), length_s)",
        "QueuedJob(attempt.key, attempt.cores, length_s)",
    ),
    Mutant(
        "files leave that are read by a task",
        "capabilities/storing/cleanup.py",
        "            if not readers[file]:\n                self._add(w, file, w.present[file])\n        for number",
        "            self._add(w, file, w.present[file])\n        for number",
    ),
    Mutant(
        "inputs of superseded attempts leave",
        "capabilities/storing/cleanup.py",
        "        self._hold(self.state.workflows[attempt.workflow], attempt.task)\n\n    def on_left",
        "\n    def on_left",
    ),
    Mutant(
        "storage counts no files on their way",
        "capabilities/storing/storage.py",
        "        site.put(key, max(0, w.sizes[file]))\n        site.staged[key]",
        "        site.staged[key]",
    ),
    Mutant(
        "copies that were given up need no storage",
        "capabilities/storing/storage.py",
        "            if (*key, index) not in self.state.copy_queue.under_way:\n                site.drop(key)\n",
        "            site.drop(key)\n",
    ),
    Mutant(
        "a failing site is never paused",
        "capabilities/health.py",
        "breaker.failures >= FAILURES_IN_A_ROW:",
        "breaker.failures >= 10**9:",
    ),
    Mutant(
        "a site on trial gets many attempts",
        "capabilities/health.py",
        "            return self.probe is None\n",
        "            return True\n",
    ),
    Mutant(
        "a success does not end the pauses",
        "capabilities/health.py",
        "        if site.breaker is not None:\n            self.on_reopened(attempt.site)\n",
        "",
    ),
    Mutant(
        "a reservation stays when its task is no longer eligible",
        "capabilities/placing/reservations.py",
        "        if not is_eligible or not w.allowed_sites(own.task) >> own.site & 1:",
        "        if not w.allowed_sites(own.task) >> own.site & 1:",
    ),
    Mutant(
        "narrow tasks delay wide ones",
        "capabilities/placing/reservations.py",
        "                if held_cores > self.state.sites[site].capacity:",
        "                if False:",
    ),
    Mutant(
        "the throttle allows one task more",
        "capabilities/placing/in_order.py",
        "            if throttle is not None and w.dispatched >= throttle:\n                return",
        "            if throttle is not None and w.dispatched > throttle:\n                return",
    ),
    Mutant(
        "sites that were not offered to a throttled workflow stay declined",
        "capabilities/placing/in_order.py",
        "            self._auto.declined = 0  # Its tasks were not asked about while it was throttled.\n",
        "            pass\n",
    ),
    Mutant(
        "wide tasks get reservations in the order of arrival",
        "capabilities/placing/in_order.py",
        "[index for index in self.state.raised if index in arrivals]",
        "[]",
    ),
    Mutant(
        "usage of running tasks does not count",
        "capabilities/usage.py",
        "        self._of(attempt).started(attempt.cores, event.at_s)\n",
        "        pass\n",
    ),
    Mutant(
        "a late copy is given up twice",
        "capabilities/storing/late_copies.py",
        "        if copy is None or copy.was_late:\n",
        "        if copy is None:\n",
    ),
    Mutant(
        "a moved job that starts keeps its destination",
        "capabilities/reallocating/reallocations.py",
        "        attempt.is_leaving = False\n        self._destinations.pop((attempt.workflow, attempt.task), None)\n",
        "        attempt.is_leaving = False\n",
    ),
    Mutant(
        "destinations of moved jobs are forgotten after a change",
        "capabilities/reallocating/reallocations.py",
        "        self._moves, self._destinations = before._moves, before._destinations\n",
        "        self._moves = before._moves\n",
    ),
    Mutant(
        "moved jobs may go anywhere",
        "capabilities/reallocating/reallocations.py",
        "        return mask if site is None else mask & 1 << site or mask",
        "        return mask",
    ),
    # Claims
    Mutant(
        "jobs start with a part of their claim",
        "capabilities/claims/claims.py",
        "        if all(each.started_s is not None for each in claim.parts):\n",
        "        if any(each.started_s is not None for each in claim.parts):\n",
    ),
    Mutant(
        "several claims are granted in part",
        "capabilities/claims/claims.py",
        "        if self._is_scan_due and self._pending is None:\n",
        "        if self._is_scan_due:\n",
    ),
    Mutant(
        "parts that are late are waited for",
        "capabilities/claims/claims.py",
        '            claim.reason = "late", text\n',
        "            pass\n",
    ),
    Mutant(
        "a claim survives the end of a placeholder",
        "capabilities/claims/claims.py",
        '            claim.reason = claim.reason or ("broken", f"{text} {event.message or \'\'}".strip())\n',
        "            pass\n",
    ),
    Mutant(
        "a placeholder that starts late is kept",
        "capabilities/claims/claims.py",
        "            self.run.outbox.append(StopLaunchers(event.site, (event.key,), now=True))\n            return\n",
        "            return\n",
    ),
    Mutant(
        "claims that were given back are kept after a resume",
        "capabilities/claims/claims.py",
        "            if self.by_job.get((claim.workflow, claim.task)) is not claim:\n                self._give_back(claim)\n",
        "",
    ),
    Mutant(
        "processors of ended claims are idle at once",
        "capabilities/claims/claims.py",
        "        return max(0, slots - running - self._held[index])\n",
        "        return max(0, slots - running)\n",
    ),
    Mutant(
        "claims are made where other users wait",
        "capabilities/claims/claims.py",
        "        if not site.is_healthy or queued or is_paused or self.state.left >> index & 1:\n",
        "        if not site.is_healthy or is_paused or self.state.left >> index & 1:\n",
    ),
    Mutant(
        "inputs are copied to the first site of a claim alone",
        "capabilities/claims/claims.py",
        "                request_inputs(self.run, w, attempt, site)\n",
        "                pass\n",
    ),
    Mutant(
        "a claim outlives its job",
        "capabilities/claims/claims.py",
        '            claim.reason = claim.reason or ("done", "")\n',
        "            pass\n",
    ),
    Mutant(
        "claims go on at sites with a problem",
        "capabilities/claims/claims.py",
        "            if not is_open or not (site.is_healthy or claim.attempt):\n",
        "            if not is_open:\n",
    ),
    Mutant(
        "claims are forgotten after a change",
        "capabilities/claims/claims.py",
        "        self._pending = before._pending\n",
        "",
    ),
    Mutant(
        "replicas exceed their number",
        "capabilities/replication/replication.py",
        "            running.replicas += 1\n",
        "",
    ),
)


def apply(mutant: Mutant, package: Path) -> None:
    """Change a copy of the package. Raises ValueError if the text is not there exactly once."""
    path = package / "engine" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.file} has the text {text.count(mutant.old)} times"
        )
    path.write_text(text.replace(mutant.old, mutant.new))


def main() -> int:
    """Try the mutants. Returns 1 if one is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.model.mutants",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("--only", help="mutants whose name contains this")
    parser.add_argument("--worlds", type=int, default=600, help="worlds of each kind")
    parser.add_argument("--no-tests", action="store_true", help="the model alone")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if options.only is None or options.only in m.name]
    found: dict[str, int] = {}
    for mutant in chosen:
        noticed = _try(mutant, options.worlds, with_tests=not options.no_tests)
        found[noticed] = found.get(noticed, 0) + 1
        print(f"{noticed or 'NOT NOTICED':12} {mutant.file}: {mutant.name}", flush=True)
    print(f"\n{len(chosen)} mutants: {found}")
    return int("" in found)


def _try(mutant: Mutant, worlds: int, *, with_tests: bool) -> str:
    """What notices a mutant: the model, the tests, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for part in ("wfrun", "tests", "examples", "docs", "pyproject.toml"):
            source = ROOT / part
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / part, ignore=ignored)
            else:
                shutil.copy(source, copy / part)
        apply(mutant, copy / "wfrun")
        if _fails(copy, "-m", "tests.engine.model.mutants_worlds", str(worlds)):
            return "model"
        tests = ["-m", "pytest", "-q", "-x", "tests/engine", "--ignore", "tests/engine/model"]
        if with_tests and _fails(copy, *tests, "-p", "no:cacheprovider"):
            return "tests"
        return ""


def _fails(folder: Path, *words: str) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run([sys.executable, *words], check=False, cwd=folder, timeout=TIMEOUT_S,
                              env=environment, capture_output=True)  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
