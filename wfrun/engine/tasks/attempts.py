"""Interpretation of attempt events (placed, submitted, started, ended), with their consequences for
tasks.

Part of the interpreter of the log. Unless its text says otherwise, a function costs the inputs,
outputs and successors of one task, or the attempts that the event names.
"""

from __future__ import annotations

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CancelAttempts, SubmitAttempts
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import (
    HELD,
    SUPERSEDED,
    Attempt,
    Phase,
    RunState,
    Siblings,
    WorkflowState,
)
from wfrun.engine.exchange import Outcome
from wfrun.engine.files.copies import outdate_copies, request_inputs, request_output
from wfrun.engine.fitting.fit import fits as fits_site
from wfrun.engine.model import ORIGIN
from wfrun.engine.tasks.failures import Failure
from wfrun.engine.tasks.retry import (
    RULES,
    apply_retry_rule,
    is_too_short,
    note_acceptance,
    note_site_to_avoid,
)
from wfrun.engine.tasks.status import (
    BLOCKED,
    DELAYED,
    DISPATCHED,
    DONE,
    ELIGIBLE,
    FAILED,
    WAITING,
    block_descendants,
    make_eligible,
    reopen,
    set_status,
    settle,
)

SUPERSEDED_TIMEOUT_S = 30.0
"""Maximum time in seconds for which a run with no other work waits for superseded attempts to end.
They hold cores at their sites, but nothing needs their outcome."""

_STAGING, _SUBMITTING, _QUEUED, _RUNNING = Phase


def key_of(w: WorkflowState, task: int, number: int) -> str:
    """The key of an attempt, which is also its name at the site. ``number`` counts from 1."""
    return f"{w.key_prefix}{task}.{number}"


def variant(key: str) -> int:
    """The number in the file names of an attempt, which distinguishes its files from those of other
    attempts of the task. 0 for the first attempt, whose files have plain names."""
    number = int(key.rpartition(".")[2])
    return 0 if number == 1 else number


def attempt_placed(run: Run, event: ev.AttemptPlaced) -> None:
    """Place an attempt: commit its cores at the site, and request copies of its missing inputs.
    Submit it if no input is missing."""
    state = run.state
    w = state.workflows[event.workflow]
    task, site_index = event.task, event.site
    if event.size:
        w.choose_size(task, event.size)
    cores = w.asked(task).cores
    attempt = Attempt(
        event.key, event.workflow, task, site_index, event.at_s, cores, event.walltime_s
    )
    status = w.status[task]
    if status == DISPATCHED:
        _add_replica(state, w, attempt)
    else:
        if status != ELIGIBLE:
            _accept_legacy_decision(run, w, task)
        set_status(state, w, task, DISPATCHED)
        w.eligible.remove(task, w.task_class(task))
    w.attempts_of[task] += 1
    w.dispatched += 1
    state.attempts[event.key] = attempt
    site = state.sites[site_index]
    site.committed_cores += cores
    attempt.found_idle = site.committed_cores <= site.slots_now
    site.attempts[event.key] = attempt
    state.last_site = site_index
    request_inputs(run, w, attempt, site_index)
    if state.is_bounded:
        run.site_changed(site_index)
    for call in run.hooks.placed:
        call(attempt)
    if attempt.missing == 0:
        ready(run, attempt)


def _add_replica(state: RunState, w: WorkflowState, attempt: Attempt) -> None:
    """Add a replica: an attempt of a task that is dispatched already."""
    attempt.is_replica = True
    siblings = w.siblings.get(attempt.task)
    if siblings is None:
        siblings = w.siblings[attempt.task] = Siblings(open_attempts(state, w, attempt.task))
    siblings.attempts.append(attempt)


def open_attempts(state: RunState, w: WorkflowState, task: int) -> list[Attempt]:
    """The open attempts of a task, without superseded ones. Cost: the attempts that the task has
    had."""
    siblings = w.siblings.get(task)
    if siblings is not None:
        return siblings.attempts
    keys = (key_of(w, task, number + 1) for number in range(w.attempts_of[task]))
    found = (state.attempts.get(key) for key in keys)
    return [attempt for attempt in found if attempt is not None and not attempt.superseded]


def _accept_legacy_decision(run: Run, w: WorkflowState, task: int) -> None:
    """Make a task eligible because the log places it, although it waits or has failed by the
    present rules.

    Logs of older versions were written under other retry rules, by which the task was retried
    earlier or had retries left. The log is the truth, so the state follows it.
    """
    state = run.state
    if w.status[task] == DELAYED:
        state.timers.pop(f"retry:{w.index}:{task}", None)
    elif w.status[task] == FAILED:
        reopen(state, w)
        set_status(state, w, task, WAITING)
        for other, status in enumerate(w.status):
            if status == BLOCKED:
                set_status(state, w, other, WAITING)
        for other, status in enumerate(w.status):
            if status == FAILED:
                block_descendants(state, w, other)
    # Older versions submitted tasks whose predecessor was being repeated. `make_eligible` would let
    # this one wait, so its count is set aside for the call.
    waiting, w.waiting[task] = w.waiting[task], 0
    make_eligible(run, w, task)
    w.waiting[task] = waiting


def ready(run: Run, attempt: Attempt) -> None:
    """Submit an attempt whose inputs are all at its site."""
    state = run.state
    attempt.ready_s = now_s = state.now_s
    state.workflows[attempt.workflow].staging_s += now_s - attempt.placed_s
    attempt.phase = _SUBMITTING
    for call in run.hooks.ready:
        call(attempt)
    _submit(run, attempt)


def _submit(run: Run, attempt: Attempt) -> None:
    run.outbox.append(
        SubmitAttempts(attempt.site, ((attempt.key, attempt.workflow, attempt.task),))
    )


def attempts_submitted(run: Run, event: ev.AttemptsSubmitted) -> None:
    """Note that the site has queued attempts. Attempts that have started meanwhile keep their
    phase: the site may report both in either order."""
    attempts = run.state.attempts
    for key in event.keys:
        attempt = attempts.get(key)
        if attempt is not None and attempt.phase is _SUBMITTING:
            _queue(run, attempt)


def _queue(run: Run, attempt: Attempt) -> None:
    attempt.phase = _QUEUED
    for call in run.hooks.queued:
        call(attempt)


def attempt_started(run: Run, event: ev.AttemptStarted) -> None:
    """Note that an attempt runs. A second report changes nothing."""
    state = run.state
    attempt = state.attempts.get(event.key)
    if attempt is None or attempt.phase is _RUNNING:
        return
    attempt.phase = _RUNNING
    attempt.started_s = event.at_s
    attempt.host, attempt.launcher = event.host, event.launcher
    if attempt.ready_s is not None:
        state.workflows[attempt.workflow].waiting_s += event.at_s - attempt.ready_s
    for call in run.hooks.started:
        call(attempt, event)


def attempts_found(run: Run, event: ev.AttemptsFound) -> None:
    """Continue attempts after a crash, from the report of a site. An absent attempt is submitted
    again, or given up if it should not or cannot run there any more. The cancellation of an active
    attempt is repeated, since it may have been lost."""
    state = run.state
    for key in event.absent:
        attempt = state.attempts.get(key)
        if attempt is None:
            continue
        is_held = HELD in state.sites[attempt.site].conditions
        w = state.workflows[attempt.workflow]
        fits = w.feasible_sites(attempt.task) >> attempt.site & 1  # Not if the catalog has changed.
        if attempt.task in w.workflow.moldable:
            fits = fits and fits_site(w.asked(attempt.task), state.sites[attempt.site].spec)
        closing = state.draining or state.stopping or not fits or is_held
        leaves = attempt.superseded or attempt.is_leaving or attempt.killed
        if leaves or closing or not has_inputs(state, attempt):
            undispatch(run, attempt)
            continue
        for call in run.hooks.absent:
            call(attempt)
        attempt.phase = _SUBMITTING
        attempt.started_s = None
        attempt.launcher = attempt.host = ""
        attempt.withdrawn = False
        _submit(run, attempt)
    for key in event.active:
        attempt = state.attempts.get(key)
        if attempt is None:
            continue
        for call in run.hooks.active:
            call(attempt)
        if attempt.phase is _SUBMITTING:
            _queue(run, attempt)
        # The previous engine may have died between the decision and the order to cancel.
        if attempt.superseded or attempt.killed:
            run.outbox.append(CancelAttempts(event.site, (key,)))
        elif attempt.withdrawn and attempt.started_s is None:
            run.outbox.append(CancelAttempts(event.site, (key,), queued_only=True))


def has_inputs(state: RunState, attempt: Attempt) -> bool:
    """Whether the inputs of an attempt are at its site. An optional input that its producer did not
    write is not required."""
    w = state.workflows[attempt.workflow]
    files = w.workflow.files
    for file in w.workflow.tasks[attempt.task].inputs:
        producer = files[file].producer
        if w.present[file]:
            if not w.is_stored(file, attempt.site):
                return False
        elif producer is not None and w.status[producer] != DONE:
            return False
    return True


def undispatch(run: Run, attempt: Attempt) -> None:
    """Give up an attempt that never started. Its task becomes eligible again, unless another
    attempt of it is open."""
    close(run, attempt)
    if not attempt.superseded:
        _make_eligible_if_last(run, attempt)


def _make_eligible_if_last(run: Run, attempt: Attempt) -> None:
    w = run.state.workflows[attempt.workflow]
    if not has_others(w, attempt.task):
        w.siblings.pop(attempt.task, None)
        make_eligible(run, w, attempt.task)


def attempt_ended(run: Run, event: ev.AttemptEnded) -> None:
    """Close an attempt. Depending on the cause of its end, let its task succeed or become eligible
    again, or handle the attempt as failed."""
    state = run.state
    attempt = state.attempts.get(event.key)
    if attempt is None:
        return  # Reported twice, as after a crash.
    close(run, attempt)
    w = state.workflows[attempt.workflow]
    outcome = event.outcome
    core_s: float | None = None
    if outcome.started_s is not None and outcome.ended_s is not None:
        core_s = attempt.cores * (outcome.ended_s - outcome.started_s)
        state.sites[attempt.site].used_core_s += core_s
    for call in run.hooks.ended:
        call(attempt, outcome, core_s)
    if attempt.superseded:
        return
    if outcome.cause == "done":
        _succeed(run, w, attempt, outcome)
    elif outcome.cause == "cancelled" and (
        state.draining
        or state.stopping
        or attempt.killed
        or (attempt.withdrawn and attempt.started_s is None)
    ):
        _make_eligible_if_last(run, attempt)
    elif outcome.cause == "reclaimed" or (
        outcome.cause == "preempted" and state.settings.scavenge is not None
    ):  # by us, or by the site where its queue for idle processors does that
        _make_eligible_if_last(run, attempt)  # Neither a failure nor a setback, however often.
    else:
        for fail in run.hooks.failed:
            fail(attempt, outcome)
        gone = _vanished_too_often(state, attempt) if outcome.cause == "staging" else ""
        if gone:
            outcome = msgspec.structs.replace(outcome, message=f"{outcome.message}\n  {gone}")
        own = RULES[outcome.cause].own and not is_too_short(attempt, outcome)
        fail_attempt(run, w, attempt, outcome, own=own, final=bool(gone))
    settle(state, w, event.at_s)


def _vanished_too_often(state: RunState, attempt: Attempt) -> str:
    """Message for the user about an input of an attempt that vanished too often to be made again;
    empty if there is none."""
    w = state.workflows[attempt.workflow]
    gone = w.worn_out.intersection(w.workflow.tasks[attempt.task].inputs) if w.worn_out else ()
    if not gone:
        return ""
    name, site = w.workflow.files[min(gone)].name, state.sites[attempt.site].spec.name
    return (
        f"{name!r} vanished at {site} after it was made again {w.remakes[min(gone)]} times; "
        "does something there remove files?"
    )


def close(run: Run, attempt: Attempt) -> None:
    """Remove an attempt that is no longer dispatched, and release its cores."""
    state = run.state
    del state.attempts[attempt.key]
    site = state.sites[attempt.site]
    w = state.workflows[attempt.workflow]
    site.committed_cores -= attempt.cores
    del site.attempts[attempt.key]
    w.dispatched -= 1
    if attempt.superseded:
        state.superseded -= 1
    elif w.siblings:
        siblings = w.siblings.get(attempt.task)
        if siblings is not None:
            siblings.attempts.remove(attempt)
    run.placement_possible = True  # The throttle, or the room at the site, may allow one now.
    if state.is_bounded:
        run.site_changed(attempt.site)
    for call in run.hooks.left:
        call(attempt)


def has_others(w: WorkflowState, task: int) -> bool:
    """Whether the task still has an open attempt. Called right after an attempt was closed."""
    siblings = w.siblings.get(task) if w.siblings else None
    return siblings is not None and bool(siblings.attempts)


def _succeed(run: Run, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    state = run.state
    state.sites[attempt.site].done += 1
    task = attempt.task
    if state.own_outputs and w.attempts_of[task] > 1:
        w.variants.pop(task, None)
        if number := variant(attempt.key):
            w.variants[task] = number
    if w.refused and task in w.refused:
        note_acceptance(state, w, attempt)
    if w.siblings:  # also where the run was resumed with fewer replicas
        _supersede(run, w, attempt)
    for call in run.hooks.done:
        call(attempt, outcome)
    set_status(state, w, task, DONE)
    if outputs := w.workflow.tasks[task].outputs:
        _write(run, w, attempt, outputs, outcome)
    waiting = w.waiting
    for child in w.children[task]:
        waiting[child] -= 1
        if waiting[child] == 0 and w.status[child] == WAITING:
            make_eligible(run, w, child)


def _write(
    run: Run, w: WorkflowState, attempt: Attempt, outputs: tuple[int, ...], outcome: Outcome
) -> None:
    """Note the files that a task has written, and request copies of its final outputs."""
    state, bit, files = run.state, 1 << attempt.site, w.workflow.files
    sizes = outcome.sizes
    if len(sizes) < len(outputs):
        sizes += (None,) * (len(outputs) - len(sizes))
    if w.lost:
        w.lost.difference_update(outputs)
    for file, size in zip(outputs, sizes, strict=False):
        if size is None:
            if file in w.workflow.tasks[attempt.task].optional:
                if files[file].collect:
                    w.to_collect -= 1
                continue
            size = 0  # A record must not hide a missing output: who needs it finds out.
        w.present[file] = bit
        w.sizes[file] = size
        if state.redone:
            outdate_copies(state, w, file)
        if files[file].collect and not state.killed:
            request_output(run, w, file)
    if outcome.digests:
        for file, digest in zip(outputs, outcome.digests, strict=False):
            if digest is not None:
                w.digests[file] = digest


def _supersede(run: Run, w: WorkflowState, winner: Attempt) -> None:
    """Cancel the other attempts of the task. Each attempt writes files under names of its own, so
    the output of a cancelled attempt is never used as the output of the task."""
    siblings = w.siblings.pop(winner.task, None)
    for other in siblings.attempts if siblings is not None else ():
        supersede(run, other)


def supersede(run: Run, attempt: Attempt) -> None:
    """Cancel an attempt whose outcome does not matter any more."""
    state = run.state
    if attempt.phase is _STAGING:
        close(run, attempt)
        return
    attempt.superseded = True
    state.superseded += 1
    for call in run.hooks.superseded:
        call(attempt)
    run.outbox.append(CancelAttempts(attempt.site, (attempt.key,)))
    run.set_timer(SUPERSEDED, state.now_s + SUPERSEDED_TIMEOUT_S)


def fail_attempt(
    run: Run,
    w: WorkflowState,
    attempt: Attempt,
    outcome: Outcome,
    *,
    own: bool,
    final: bool = False,
) -> None:
    """Handle a failed attempt.

    The task fails only when its last attempt has failed. Then the failure of the first attempt
    counts: a replica must never cost a retry, or the task would fail sooner with replicas than
    without. ``own``: the failure is the task's own fault. ``final``: a retry would fail, too.
    """
    task = attempt.task
    siblings = w.siblings.get(task) if w.siblings else None
    if siblings is not None and siblings.attempts:
        if not attempt.is_replica:
            siblings.first_failed = own
        note_site_to_avoid(w, attempt, outcome)
        _note_failure(run.state, w, attempt, outcome, "", final=False)
        return
    if attempt.is_replica:
        own = bool(siblings is not None and siblings.first_failed)
    w.siblings.pop(task, None)
    _fail(run, w, attempt, outcome, own=own, final=final)


def _fail(
    run: Run, w: WorkflowState, attempt: Attempt, outcome: Outcome, *, own: bool, final: bool
) -> None:
    """Retry the task after a delay, by the rule for the cause, or let it fail for good."""
    state, task = run.state, attempt.task
    retry, delay_s, reason = apply_retry_rule(state, w, attempt, outcome, own=own)
    if final:
        retry, reason = False, ""
    _note_failure(state, w, attempt, outcome, reason, final=not retry)
    if retry:
        state.retried += 1
        set_status(state, w, task, DELAYED)
        run.set_timer(f"retry:{w.index}:{task}", state.now_s + delay_s)
        return
    fail_task(run, w, task)


def fail_task(run: Run, w: WorkflowState, task: int) -> None:
    """Let a task fail for good, and block the tasks that depend on it. Stops the run if
    ``on_failure`` is "stop". The caller has removed the task from all other sets."""
    state = run.state
    set_status(state, w, task, FAILED)
    block_descendants(state, w, task)
    if state.settings.on_failure == "stop" and not state.stopping:
        state.stopping = True
        withdraw_all(run, running_too=False)


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
    failure = Failure(
        w.workflow.tasks[attempt.task].id,
        site.spec.name,
        attempt.key,
        outcome.cause,
        "\n".join(text for text in (outcome.message, reason) if text),
        final,
    )
    state.recent_failures.append(failure)
    state.failure_groups.add(failure, outcome)


def take_back(run: Run, site: int) -> None:
    """Withdraw the attempts at a site that have not started: they wait for inputs, for their
    submission or in the queue. Cost: the open attempts."""
    here = [a for a in run.state.attempts.values() if a.site == site and not a.superseded]
    for attempt in here:
        if attempt.phase is _STAGING:
            undispatch(run, attempt)
    run.withdraw(site, [a for a in here if a.phase in (_SUBMITTING, _QUEUED)])


def withdraw_all(run: Run, *, running_too: bool) -> None:
    """Withdraw all attempts that have not started, and drop copies to sites, since the run
    dispatches no more tasks. ``running_too``: also cancel running attempts and drop copies to the
    origin. Cost: the open attempts and copies."""
    state = run.state
    for attempt in [a for a in state.attempts.values() if a.phase is _STAGING]:
        undispatch(run, attempt)
    if running_too:
        state.copies.clear()  # A resume collects missing outputs.
    else:
        state.copies = {k: c for k, c in state.copies.items() if k[2] == ORIGIN}
    for index, keys in enumerate(keys_by_site(state, list(state.attempts.values()))):
        if keys:
            run.outbox.append(CancelAttempts(index, keys, queued_only=not running_too))


def keys_by_site(state: RunState, attempts: list[Attempt]) -> list[tuple[str, ...]]:
    """The keys of attempts, by site."""
    keys: list[list[str]] = [[] for _ in state.sites]
    for attempt in attempts:
        keys[attempt.site].append(attempt.key)
    return [tuple(some) for some in keys]
