"""What becomes of attempts: placed, submitted, started, ended, and what follows for their tasks.

A part of ``wfrun.engine.apply``.
"""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine import health, launchers, stragglers
from wfrun.engine.actions import CancelAttempts, CopyFile, SetTimer, SubmitAttempts
from wfrun.engine.eligible import Fresh
from wfrun.engine.model import ORIGIN
from wfrun.engine.observations import observe
from wfrun.engine.records import Outcome
from wfrun.engine.replicas import Try, variant
from wfrun.engine.retry import RULES, judge, note
from wfrun.engine.state import (
    SUPERSEDED,
    Attempt,
    Copy,
    Failure,
    Phase,
    RunState,
    TaskStatus,
    WorkflowState,
)
from wfrun.engine.usage import usage_of
from wfrun.engine.view import expected_s, predicted, transfer_s

SUPERSEDED_S = 30.0
"""A run whose tasks are all done waits so long for attempts that do not matter any more."""

_WAITING, _ELIGIBLE, _DISPATCHED, _DELAYED, _DONE, _FAILED, _BLOCKED = (int(s) for s in TaskStatus)


def attempt_placed(state: RunState, event: ev.AttemptPlaced) -> None:
    w = state.workflows[event.workflow]
    task, site_index = event.task, event.site
    attempt = Attempt(event.key, event.workflow, task, site_index, event.at_s)
    replicas = state.replicas
    attempt.is_replica = replicas is not None and w.status[task] == _DISPATCHED
    if not attempt.is_replica:
        if w.status[task] != _ELIGIBLE:
            _overrule(state, w, task)
        w.status[task] = _DISPATCHED
        w.eligible.remove(task, w.asked(task).cores)
    w.attempts_of[task] += 1
    w.dispatched += 1
    state.attempts[event.key] = attempt
    site = state.sites[site_index]
    record = w.workflow.tasks[task]
    cores = record.resources.cores
    site.committed_cores += cores
    site.phases[Phase.STAGING] += 1
    if replicas is not None:
        replicas.placed(
            (w.index, task), Try(event.key, site_index, cores, attempt.is_replica),
            in_turn=state.settings.replication == "idle",
        )  # fmt: skip
    if state.queues:
        state.last_owners[w.queue] = w.workflow.owner
    bit = 1 << site_index
    present = w.present
    for file in record.inputs:
        if not present[file] & bit and present[file]:
            _need(state, w, file, site_index, attempt)
    if site.queue_model is not None:
        site.queue_model.place(
            event.key,
            cores,
            expected_s(state, w, task, site_index),
            event.at_s,
            event.at_s + transfer_s(state, w, task, site_index),
            predicted(state, w, task, site_index),
        )
    if site.breaker is not None:
        health.placed(state, attempt, site.breaker)
    if state.bounded:
        health.update(state, site_index)
    state.last_site = site_index
    w.placement.placed(task, site_index)
    if attempt.missing == 0:
        ready(state, attempt)


def _overrule(state: RunState, w: WorkflowState, task: int) -> None:
    """The log of an older version, whose rules of retries were others, has a task placed that by
    those of today still waits, or has failed for good."""
    if w.status[task] == _DELAYED:
        w.delayed -= 1
        state.timers.pop(f"retry:{w.index}:{task}", None)
    elif w.status[task] == _FAILED:
        w.failed -= 1
        w.ended_s = None
        w.status[task] = _WAITING
        for other, status in enumerate(w.status):
            if status == _BLOCKED:
                w.blocked -= 1
                w.status[other] = _WAITING
        for other, status in enumerate(w.status):
            if status == _FAILED:
                _block_descendants(w, other)
    make_eligible(state, w, task)


def _need(state: RunState, w: WorkflowState, file: int, site: int, attempt: Attempt) -> None:
    """The attempt waits until the file has arrived; the copy is started once per site."""
    key = (w.index, file, site)
    copy = state.copies.get(key)
    if copy is None:
        source, _, _ = state.network.best_source(w.present[file], site)
        copy = state.copies[key] = Copy(source)
        state.outbox.append(CopyFile(w.index, file, source, site))
    copy.waiting.append(attempt.key)
    attempt.missing += 1


def ready(state: RunState, attempt: Attempt) -> None:
    """All inputs are at the site."""
    attempt.ready_s = state.now_s
    pool = state.sites[attempt.site].pool
    if pool is not None:
        pool.staged(state.now_s - attempt.placed_s)
    state.workflows[attempt.workflow].staging_s += state.now_s - attempt.placed_s
    _move(state, attempt, Phase.SUBMITTING)
    state.outbox.append(
        SubmitAttempts(attempt.site, ((attempt.key, attempt.workflow, attempt.task),))
    )


def _move(state: RunState, attempt: Attempt, phase: Phase) -> None:
    phases = state.sites[attempt.site].phases
    phases[attempt.phase] -= 1
    phases[phase] += 1
    attempt.phase = phase


def attempts_submitted(state: RunState, event: ev.AttemptsSubmitted) -> None:
    for key in event.keys:
        attempt = state.attempts.get(key)
        if attempt is not None and attempt.phase is Phase.SUBMITTING:
            _move(state, attempt, Phase.QUEUED)


def attempt_started(state: RunState, event: ev.AttemptStarted) -> None:
    attempt = state.attempts.get(event.key)
    if attempt is None or attempt.phase is Phase.RUNNING:
        return
    _move(state, attempt, Phase.RUNNING)
    attempt.started_s = event.at_s
    if attempt.ready_s is not None:
        state.workflows[attempt.workflow].waiting_s += event.at_s - attempt.ready_s
    site = state.sites[attempt.site]
    if site.pool is not None and event.launcher:
        launchers.started(state, site.pool, attempt, _cores(state, attempt), event.launcher)
    if site.queue_model is not None:
        site.queue_model.start(event.key, event.at_s)
    if site.breaker is not None:
        health.started(state, attempt, site.breaker)
    if state.queues:
        owner = state.workflows[attempt.workflow].workflow.owner
        usage_of(state.usage, owner).started(_cores(state, attempt), event.at_s)
    if state.replicas is not None:
        stragglers.watch(state, attempt.workflow)


def attempts_found(state: RunState, event: ev.AttemptsFound) -> None:
    pool = state.sites[event.site].pool
    for key in event.absent:
        attempt = state.attempts.get(key)
        if attempt is not None and (attempt.superseded or not _has_inputs(state, attempt)):
            take_back(state, attempt)
        elif attempt is not None:
            if pool is not None:
                launchers.left(state, pool, attempt, _cores(state, attempt))
                attempt.launcher = ""
            _move(state, attempt, Phase.SUBMITTING)
            attempt.started_s = None
            state.outbox.append(
                SubmitAttempts(attempt.site, ((key, attempt.workflow, attempt.task),))
            )
    for key in event.active:
        attempt = state.attempts.get(key)
        if attempt is not None and pool is not None:
            launchers.found(pool, attempt, _cores(state, attempt))
        if attempt is not None and attempt.phase is Phase.SUBMITTING:
            _move(state, attempt, Phase.QUEUED)
        if attempt is not None and attempt.superseded:
            state.outbox.append(CancelAttempts(event.site, (key,)))
    if pool is not None:
        health.update(state, event.site)


def _cores(state: RunState, attempt: Attempt) -> int:
    return state.workflows[attempt.workflow].workflow.tasks[attempt.task].resources.cores


def _has_inputs(state: RunState, attempt: Attempt) -> bool:
    """Whether the files that its site needs are still there, or were never written at all."""
    w = state.workflows[attempt.workflow]
    files = w.workflow.files
    for file in w.workflow.tasks[attempt.task].inputs:
        producer = files[file].producer
        if w.present[file]:
            if not w.present[file] >> attempt.site & 1:
                return False
        elif producer is not None and w.status[producer] != _DONE:
            return False
    return True


def take_back(state: RunState, attempt: Attempt) -> None:
    """An attempt that was never started is no more; its task is to be placed anew, unless another
    one of it goes on."""
    close(state, attempt)
    w = state.workflows[attempt.workflow]
    if attempt.superseded or _has_others(state, attempt):
        return
    if w.waiting[attempt.task] == 0:
        make_eligible(state, w, attempt.task)
    else:
        w.status[attempt.task] = _WAITING


def attempt_ended(state: RunState, event: ev.AttemptEnded) -> None:
    attempt = state.attempts.get(event.key)
    if attempt is None:
        return  # known already: told twice, as after a crash
    close(state, attempt)
    w = state.workflows[attempt.workflow]
    outcome = event.outcome
    core_s = 0.0
    if outcome.started_s is not None and outcome.ended_s is not None:
        cores = w.workflow.tasks[attempt.task].resources.cores
        core_s = cores * (outcome.ended_s - outcome.started_s)
        state.sites[attempt.site].used_core_s += core_s
        if state.queues:
            told_s = 0.0 if attempt.started_s is None else state.now_s - attempt.started_s
            usage_of(state.usage, w.workflow.owner).past_s += core_s - cores * told_s
    if attempt.superseded:
        assert state.replicas is not None
        if not core_s and attempt.started_s is not None:  # It was cancelled, and tells no times.
            cores = w.workflow.tasks[attempt.task].resources.cores
            core_s = cores * (state.now_s - attempt.started_s)
        state.replicas.superseded_core_s += core_s
        return
    if outcome.cause == "done":
        _succeed(state, w, attempt, outcome)
    elif outcome.cause == "cancelled" and (
        state.draining or state.stopping or (attempt.withdrawn and attempt.started_s is None)
    ):
        if not _has_others(state, attempt):
            make_eligible(state, w, attempt.task)
    else:
        if outcome.cause == "expired":
            ran_s = (outcome.ended_s or 0.0) - (outcome.started_s or 0.0)
            w.ran_s[attempt.task] = max(ran_s, w.ran_s.get(attempt.task, 0.0))
            state.lengths.foresee(2 * ran_s, state.sites[attempt.site].spec.speed_ratio)
        health.failed(state, attempt, outcome)
        fail_one(state, w, attempt, outcome)
    settle(w, event.at_s)


def close(state: RunState, attempt: Attempt) -> None:
    """The attempt is no longer dispatched."""
    del state.attempts[attempt.key]
    site = state.sites[attempt.site]
    w = state.workflows[attempt.workflow]
    cores = w.workflow.tasks[attempt.task].resources.cores
    site.committed_cores -= cores
    if site.pool is not None:
        launchers.left(state, site.pool, attempt, cores)
    if state.bounded:
        health.update(state, attempt.site)
    if state.replicas is not None:
        state.replicas.left((attempt.workflow, attempt.task), attempt.key)
        state.replicas.superseded -= attempt.superseded
    if state.queues and attempt.started_s is not None:
        state.usage[w.workflow.owner].ended(cores, attempt.started_s, state.now_s)
    site.phases[attempt.phase] -= 1
    w.dispatched -= 1
    state.dirty.add(attempt.workflow)
    state.chance = True
    if site.queue_model is not None:
        site.queue_model.end(attempt.key, state.now_s)
    if site.breaker is not None:
        health.left(state, attempt, site.breaker)


def _has_others(state: RunState, attempt: Attempt) -> bool:
    """Whether another attempt of the same task, which has ended, is open."""
    replicas = state.replicas
    return replicas is not None and (attempt.workflow, attempt.task) in replicas.running


def _supersede(state: RunState, w: WorkflowState, winner: Attempt) -> None:
    """The other attempts of the task are cancelled. The files of each have names of their own, so
    that nothing of theirs is ever taken for what the task wrote."""
    replicas = state.replicas
    if replicas is None:
        return
    task = w.index, winner.task
    replicas.first_failed.pop(task, None)
    replicas.won += winner.is_replica
    w.variants.pop(winner.task, None)
    if number := variant(winner.key):
        w.variants[winner.task] = number
    for other in replicas.others(task):
        attempt = state.attempts[other.key]
        if attempt.phase is Phase.STAGING:
            close(state, attempt)
            continue
        attempt.superseded = True
        replicas.superseded += 1
        replicas.left(task, other.key)
        state.outbox.append(CancelAttempts(other.site, (other.key,)))
        at_s = state.timers[SUPERSEDED] = state.now_s + SUPERSEDED_S
        state.outbox.append(SetTimer(SUPERSEDED, at_s))


def _succeed(state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    site = state.sites[attempt.site]
    site.done += 1
    site.quick_failures = 0
    observe(state, w, attempt, outcome)
    if site.pool is not None:
        launchers.done(site.pool, attempt, outcome)
        health.update(state, attempt.site)
    _supersede(state, w, attempt)
    if site.breaker is not None or outcome.host is not None:
        health.succeeded(state, attempt.site, outcome.host)
    task = attempt.task
    w.status[task] = _DONE
    w.done += 1
    bit = 1 << attempt.site
    files = w.workflow.files
    for file, size in zip(w.workflow.tasks[task].outputs, outcome.sizes, strict=False):
        if size is None:
            if files[file].collect:
                w.to_collect -= 1
            continue
        w.present[file] = bit
        w.sizes[file] = size
        if files[file].collect and not state.killed:
            collect(state, w, file)
    waiting = w.waiting
    for child in w.children[task]:
        waiting[child] -= 1
        if waiting[child] == 0 and w.status[child] == _WAITING:
            make_eligible(state, w, child)


def collect(state: RunState, w: WorkflowState, file: int) -> None:
    source, _, _ = state.network.best_source(w.present[file], ORIGIN)
    state.copies[(w.index, file, ORIGIN)] = Copy(source)
    state.outbox.append(CopyFile(w.index, file, source, ORIGIN))


def fail_one(
    state: RunState,
    w: WorkflowState,
    attempt: Attempt,
    outcome: Outcome,
    *,
    own: bool | None = None,
) -> None:
    """An attempt has failed. Its task has not, as long as another one goes on. When all have
    failed, that of the first counts: replicas never cost a retry."""
    task = w.index, attempt.task
    if own is None:
        own = RULES[outcome.cause].own
    if _has_others(state, attempt):
        assert state.replicas is not None
        if not attempt.is_replica:
            state.replicas.first_failed[task] = own
        note(w, attempt, outcome)
        _note_failure(state, w, attempt, outcome, "", final=False)
        return
    if attempt.is_replica:
        assert state.replicas is not None
        own = state.replicas.first_failed.get(task, False)
    if state.replicas is not None:
        state.replicas.first_failed.pop(task, None)
    _fail(state, w, attempt, outcome, own=own)


def _fail(
    state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome, *, own: bool
) -> None:
    """Retry after a delay, as the rule of the cause says, or give up."""
    task = attempt.task
    retry, delay_s, reason = judge(state, w, attempt, outcome, own=own)
    _note_failure(state, w, attempt, outcome, reason, final=not retry)
    if retry:
        state.retried += 1
        w.status[task] = _DELAYED
        w.delayed += 1
        timer = f"retry:{w.index}:{task}"
        at_s = state.now_s + delay_s
        state.timers[timer] = at_s
        state.outbox.append(SetTimer(timer, at_s))
        return
    w.status[task] = _FAILED
    w.failed += 1
    _block_descendants(w, task)
    if state.settings.on_failure == "stop" and not state.stopping:
        state.stopping = True
        withdraw(state, running_too=False)


def _note_failure(
    state: RunState,
    w: WorkflowState,
    attempt: Attempt,
    outcome: Outcome,
    reason: str,
    *,
    final: bool,
) -> None:
    site = state.sites[attempt.site]
    site.failed += 1
    state.recent_failures.append(
        Failure(
            w.workflow.tasks[attempt.task].id,
            site.spec.name,
            attempt.key,
            outcome.cause,
            "\n".join(text for text in (outcome.message, reason) if text),
            final,
        )
    )


def _block_descendants(w: WorkflowState, task: int) -> None:
    stack = [task]
    while stack:
        for child in w.children[stack.pop()]:
            if w.status[child] == _WAITING:
                w.status[child] = _BLOCKED
                w.blocked += 1
                stack.append(child)


def make_eligible(state: RunState, w: WorkflowState, task: int) -> None:
    w.status[task] = _ELIGIBLE
    state.eligible_serial += 1
    w.serials[task] = state.eligible_serial
    enter(w, task)
    state.dirty.add(w.index)
    state.chance = True
    if state.pools:
        state.allocation_due = True


def make_all_eligible(state: RunState, w: WorkflowState) -> None:
    """All tasks of a bag, as `make_eligible` would one after the other."""
    count = len(w.status)
    w.status[:] = bytes([_ELIGIBLE]) * count
    keys = float(-w.workflow.priority) if w.order is None else w.order
    first = state.eligible_serial + 1
    state.eligible_serial += count
    if count:
        cores = w.workflow.tasks[0].resources.cores
        w.eligible.fill(Fresh(count, w.choice(0), cores, first, keys))
        state.dirty.add(w.index)
        state.chance = True
        state.allocation_due = bool(state.pools)


def enter(w: WorkflowState, task: int) -> None:
    """Into the eligible set, where its last serial number says."""
    order = -w.workflow.tasks[task].priority if w.order is None else w.order[task]
    w.eligible.add((order, w.serials[task], task), w.choice(task), w.asked(task).cores)


def settle(w: WorkflowState, at_s: float) -> None:
    if w.done + w.failed + w.blocked == len(w.workflow.tasks):
        w.ended_s = at_s


def withdraw(state: RunState, *, running_too: bool) -> None:
    for attempt in [a for a in state.attempts.values() if a.phase is Phase.STAGING]:
        close(state, attempt)
        if not _has_others(state, attempt):
            make_eligible(state, state.workflows[attempt.workflow], attempt.task)
    if running_too:
        state.copies.clear()  # a resume collects what is missing
    else:
        state.copies = {k: c for k, c in state.copies.items() if k[2] == ORIGIN}
    for index in range(len(state.sites)):
        keys = tuple(a.key for a in state.attempts.values() if a.site == index)
        if keys:
            state.outbox.append(CancelAttempts(index, keys, queued_only=not running_too))
