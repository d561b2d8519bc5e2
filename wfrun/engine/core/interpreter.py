"""The one interpreter of the log: it changes the state of a run by one event at a time.

Live runs, recovery, ``status`` and simulations use it. Actions that an event requires, such as a
copy to start or an attempt to submit, are added to the outbox; decisions are left to the core.
`wfrun.engine.tasks.attempts` interprets the events of attempts, `wfrun.engine.files.file_events`
those of files, and each part of a run the events that it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from wfrun.engine import events as ev
from wfrun.engine.capabilities import all_parts
from wfrun.engine.core.actions import Action, FindAttempts, SetTimer
from wfrun.engine.core.capability import Hooks, Run
from wfrun.engine.core.changes import change_sites, introduce
from wfrun.engine.core.state import (
    SUPERSEDED,
    Phase,
    RunState,
    SiteState,
    WorkflowState,
    pause_timer,
)
from wfrun.engine.files import copy_failures
from wfrun.engine.files import file_events as files
from wfrun.engine.files.copies import copy_late, restart_copies, source_reopened
from wfrun.engine.files.file_events import add_originals
from wfrun.engine.files.network import Network
from wfrun.engine.fitting.fit import classify
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.model import ORIGIN, LinkSpec, Workflow
from wfrun.engine.policies.placement import max_replicas, placement_class, throttle_of
from wfrun.engine.tasks import attempts, steering
from wfrun.engine.tasks.bag import BagFiles
from wfrun.engine.tasks.retry import reset_retries
from wfrun.engine.tasks.reuse import take_over_tasks
from wfrun.engine.tasks.status import (
    BLOCKED,
    DELAYED,
    ELIGIBLE,
    FAILED,
    WAITING,
    block_descendants,
    enter_eligible,
    make_all_eligible,
    make_eligible,
    reclassify,
    reopen,
    set_status,
    settle,
)

LOCAL_PAUSE_TIMEOUT_S = 60.0
"""Maximum time in seconds that a run with nothing else to do waits for a local site that reports a
problem. Then the run ends as failed."""

CLUSTER_PAUSE_TIMEOUT_S = 3600.0
"""Maximum time in seconds that a run with nothing else to do waits for a cluster that reports a
problem: its connection may recover, or its user may log in again."""


Interpret = Callable[[Run, Any], None]


class Interpreter:
    """Interprets the log of one run. ``documents`` holds the workflows, by the digests in
    WorkflowAdded."""

    def __init__(self, documents: Mapping[str, Workflow], run: Run | None = None) -> None:
        self.run = Run(RunState(documents)) if run is None else run
        self.state = self.run.state
        self._own: dict[type[ev.Event], Interpret] = {
            ev.RunStarted: self._begin,
            ev.RunChanged: self._change,
        }
        self._chain()

    def apply(self, event: ev.Event) -> None:
        """Change the state by one fact or decision. A fact that is known already changes
        nothing."""
        if event.at_s > self.state.now_s:
            self.state.now_s = event.at_s
        self.interpret[type(event)](self.run, event)

    def _begin(self, run: Run, event: ev.RunStarted) -> None:
        """Begin the run, and let its parts interpret events from now on."""
        _run_started(run, event)
        self._add_parts(event)

    def _change(self, run: Run, event: ev.RunChanged) -> None:
        """Change the options and sites of the run, and create its parts anew. Nothing is decided
        before the RunResumed that follows."""
        state = run.state
        change_sites(run, event)
        _configure(state, event.settings, event.links)
        if not state.own_outputs:  # replicas would write files of the same names
            state.max_replicas = 0
        before, state.parts = state.parts, {}
        run.hooks = Hooks()
        begun = ev.RunStarted(
            event.at_s, state.run_id, event.settings, event.sites, event.links, state.expected
        )
        self._add_parts(begun)
        introduce(run, before)
        run.placement_possible = run.decision_due = False

    def _add_parts(self, begun: ev.RunStarted) -> None:
        """Make the parts that the run wants."""
        run = self.run
        for part in all_parts():
            if part.is_wanted(run, begun):
                run.state.parts[part] = made = part(run)
                run.hooks.add(made)
        self._chain()

    def _chain(self) -> None:
        """Chain the core's interpreters of events and those of parts."""
        self.interpret = _INTERPRET | self._own
        """The interpreter of each type of event."""
        for kind, calls in self.run.hooks.events.items():
            self.interpret[kind] = _then(self.interpret[kind], calls)

    def actions(self) -> list[Action]:
        """Remove and return the actions in the outbox."""
        actions, self.run.outbox = self.run.outbox, []
        return actions


def _then(first: Interpret, calls: Sequence[Callable[[Any], None]]) -> Interpret:
    """Chain interpreters of one kind of event: the core's, then those of parts."""

    def interpret(run: Run, event: Any) -> None:
        first(run, event)
        for call in calls:
            call(event)

    return interpret


def _no_change(run: Run, event: ev.Event) -> None:
    """Leave the state as it is. Capabilities may interpret the event."""


# Run and workflows


def _run_started(run: Run, event: ev.RunStarted) -> None:
    state = run.state
    state.run_id = event.run_id
    state.version = event.wfrun
    state.site_directory = event.site_directory or f"wfrun-{event.run_id}"
    state.expected = event.workflows
    state.started_s = event.at_s
    state.sites = [SiteState(spec) for spec in event.sites]
    _configure(state, event.settings, event.links)
    if event.queues and event.settings.selection:
        state.queues = [sum(1 << s for s in sites) for sites in event.queues]
    state.own_outputs = event.own_outputs or state.max_replicas > 0


def _configure(state: RunState, settings: ev.Settings, links: tuple[LinkSpec, ...]) -> None:
    """Set what follows from the options, the sites and the links of a run."""
    state.settings, state.links = settings, links
    scale = settings.time_scale if settings.emulate else 1.0
    state.information = placement_class(settings.policy).information
    before, state.network = state.network, Network(
        [s.spec.name for s in state.sites], links, time_scale=scale,
        learns=state.information.link_speed is Knowledge.RUNTIME,
    )  # fmt: skip
    state.network.take_over(before)
    state.copy_queue.set_bounds([s.spec for s in state.sites], links)
    throttle = throttle_of(settings)
    state.throttle = throttle if isinstance(throttle, int) else None
    if not settings.selection:
        state.queues = []
    elif not state.queues:
        state.queues = [(1 << len(state.sites)) - 1]
    state.max_replicas = max_replicas(settings)


def _workflow_added(run: Run, event: ev.WorkflowAdded) -> None:
    state = run.state
    run.awaits_more = event.more
    if event.request:
        if event.request in state.requests or state.ended is not None:
            return
        state.requests.add(event.request)
    workflow = state.documents[event.digest]
    w = WorkflowState(event.workflow, workflow, event.at_s)
    w.queue, w.deadline_s = event.queue, event.deadline_s
    w.key_prefix = f"{state.run_id}.{w.index}."
    origin = state.network.bit(ORIGIN)
    if isinstance(workflow.files, BagFiles):
        inputs = workflow.files.input_count
        w.present = [origin] * inputs + [0] * (len(workflow.files) - inputs)
    else:
        w.present = [origin if f.producer is None else 0 for f in workflow.files]
        add_originals(state, w)
    classify(state, w)
    state.workflows.append(w)
    state.tasks += len(w.status)
    state.counts[WAITING] += len(w.status)
    state.open_workflows += 1
    take_over_tasks(run, w, event.reused)
    for call in run.hooks.workflow_added:
        call(w)
    if workflow.bag is not None and not event.reused:
        make_all_eligible(run, w)
    else:
        for task, waiting in enumerate(w.waiting):
            if waiting == 0 and w.status[task] == WAITING:
                make_eligible(run, w, task)
    settle(state, w, event.at_s)


def _arrivals_planned(run: Run, event: ev.ArrivalsPlanned) -> None:
    run.state.arrivals = event.arrivals


def _submission_ended(run: Run, event: ev.SubmissionEnded) -> None:
    run.state.expected = len(run.state.workflows)


def _history_read(run: Run, event: ev.HistoryRead) -> None:
    run.state.history = event.file


def _links_read(run: Run, event: ev.LinksRead) -> None:
    run.state.link_history = event.file
    run.state.network.believe(event.links)


def _run_resumed(run: Run, event: ev.RunResumed) -> None:
    """Continue with a new engine. All that was under way is looked for at the sites, and failed
    tasks get all their retries back."""
    state = run.state
    run.awaits_more = False
    dismissed = state.ended is not None
    if state.ended == "failed":  # All else is done: the resume is for the failed tasks.
        steering.forget_cancelled(state)
    state.draining = state.killed = state.stopping = False
    state.ended = state.ended_s = state.end_reason = None
    state.awaited = len(state.workflows) + event.additions
    state.uncollected.clear()
    state.failure_groups.clear()
    # Lost files come first: which failed tasks are eligible depends on the repeated ones.
    files.lose_files(run, event.lost)
    for index, site in enumerate(state.sites):
        site.job_limit = None
        site.wait_reason, site.held_jobs = "", 0
        _clear_problems(run, index)
    for w in state.workflows:
        _retry_failed(run, w)
    for call in run.hooks.resumed:
        call(dismissed)
    # Copies and timers ended with the previous engine. Attempts may have survived at their sites.
    restart_copies(run)
    for w in state.workflows:
        files.collect_missing(run, w)
    if SUPERSEDED in state.timers or state.superseded:
        state.timers[SUPERSEDED] = state.now_s + attempts.SUPERSEDED_TIMEOUT_S
    for timer, at_s in state.timers.items():
        run.outbox.append(SetTimer(timer, at_s))
    under_way = [a for a in state.attempts.values() if a.phase is not Phase.STAGING]
    for index, keys in enumerate(attempts.keys_by_site(state, under_way)):
        if keys:
            run.outbox.append(FindAttempts(index, keys))


def _retry_failed(run: Run, w: WorkflowState) -> None:
    """Make failed tasks eligible at all sites again, but not those that the user has cancelled.
    Called after a resume."""
    state = run.state
    reset_retries(state, w)
    if w.failed > len(w.cancelled):
        reopen(state, w)
        for task, status in enumerate(w.status):
            if status in (FAILED, BLOCKED):
                set_status(state, w, task, WAITING)
        for task in w.cancelled:
            set_status(state, w, task, FAILED)
            block_descendants(state, w, task)
        for task, status in enumerate(w.status):
            if status == WAITING and w.waiting[task] == 0:
                make_eligible(run, w, task)
    # The classes of eligible tasks change: sites that they avoided are allowed again.
    w.eligible.clear()
    enter_eligible(w)
    run.placement_possible = True
    for call in run.hooks.eligible:
        call(w)


def _run_ended(run: Run, event: ev.RunEnded) -> None:
    run.state.ended, run.state.ended_s = event.outcome, event.at_s
    run.state.end_reason = event.reason


def _cancel_asked(run: Run, event: ev.CancelAsked) -> None:
    """Stop dispatching. Staging and queued attempts are taken back; running ones end by themselves,
    or are killed."""
    run.state.draining = True
    run.state.killed = run.state.killed or event.mode == "kill"
    attempts.withdraw_all(run, running_too=run.state.killed)


def _attempts_withdrawn(run: Run, event: ev.AttemptsWithdrawn) -> None:
    found = (run.state.attempts.get(key) for key in event.keys)
    run.withdraw(event.site, [attempt for attempt in found if attempt is not None])


# Sites and timers


def _avoidance_ended(run: Run, event: ev.AvoidanceEnded) -> None:
    for workflow, task in event.tasks:
        w = run.state.workflows[workflow]
        before = w.task_class(task)
        w.avoid.pop(task, None)
        if w.status[task] == ELIGIBLE:
            reclassify(w, task, before)
            for call in run.hooks.eligible:
                call(w)
    run.placement_possible = True


def _site_observed(run: Run, event: ev.SiteObserved) -> None:
    _set_foreign_load(
        run,
        event.site,
        sum(job.cores for job in event.background if job.started_s is not None),
        sum(job.cores for job in event.background),
    )


def _site_load_observed(run: Run, event: ev.SiteLoadObserved) -> None:
    running = event.running_cores
    _set_foreign_load(run, event.site, running, running + event.queued_cores)


def _set_foreign_load(run: Run, index: int, running_cores: int, cores: int) -> None:
    site = run.state.sites[index]
    if site.spec.has_launchers:  # Other users' jobs are no load on the slots of launchers.
        return
    site.foreign_cores = cores
    site.slots_now = site.slots - running_cores
    for call in run.hooks.load_changed:
        call(index)


def _site_paused(run: Run, event: ev.SitePaused) -> None:
    site = run.state.sites[event.site]
    site.reported = event.reason
    run.update_health(event.site)
    patience_s = LOCAL_PAUSE_TIMEOUT_S if site.spec.access is None else CLUSTER_PAUSE_TIMEOUT_S
    run.set_timer(pause_timer(event.site), event.at_s + patience_s)


def _site_reopened(run: Run, event: ev.SiteReopened) -> None:
    """The site works again, so earlier problems of it are cleared."""
    _clear_problems(run, event.site)


def _clear_problems(run: Run, index: int) -> None:
    """Clear the problem that the site has reported, and the problems that capabilities have found
    there."""
    run.state.sites[index].reported = None
    run.state.timers.pop(pause_timer(index), None)
    source_reopened(run, index)
    for call in run.hooks.reopened:
        call(index)
    run.update_health(index)


def _job_limit_reached(run: Run, event: ev.JobLimitReached) -> None:
    run.state.sites[event.site].job_limit = event.jobs


def _job_limit_lifted(run: Run, event: ev.JobLimitLifted) -> None:
    run.state.sites[event.site].job_limit = None


def _jobs_wait(run: Run, event: ev.JobsWait) -> None:
    site = run.state.sites[event.site]
    site.wait_reason, site.held_jobs = event.reason, event.held


def _site_counted(run: Run, event: ev.SiteCounted) -> None:
    site = run.state.sites[event.site]
    site.connections += event.connections
    site.commands.update(event.commands)
    site.head_cpu_s += event.cpu_s


def _files_removed(run: Run, event: ev.FilesRemoved) -> None:
    run.state.removed |= 1 << event.site


def _timer_fired(run: Run, event: ev.TimerFired) -> None:
    due_s = run.state.timers.get(event.timer)
    if due_s is None or event.at_s < due_s:
        return  # The timer was cancelled or postponed.
    del run.state.timers[event.timer]
    kind, *numbers = event.timer.split(":")
    call = _FIRED.get(kind)
    if call is not None:
        call(run, *map(int, numbers))
    else:
        run.hooks.timers[kind](*map(int, numbers))


def _retry(run: Run, workflow: int, task: int) -> None:
    w = run.state.workflows[workflow]
    if w.status[task] == DELAYED:
        make_eligible(run, w, task)


def _timer_expired(run: Run, *_: int) -> None:
    """Do nothing. The timer only kept the core from ending the run."""


_FIRED: dict[str, Callable[..., None]] = {
    "retry": _retry,
    "copy": copy_failures.copy_again,
    "paused": _timer_expired,
    SUPERSEDED: _timer_expired,
}

_INTERPRET: dict[type[ev.Event], Interpret] = dict.fromkeys(get_args(ev.AnyEvent), _no_change) | {
    ev.WorkflowAdded: _workflow_added,
    ev.ArrivalsPlanned: _arrivals_planned,
    ev.SubmissionEnded: _submission_ended,
    ev.HistoryRead: _history_read,
    ev.LinksRead: _links_read,
    ev.RunResumed: _run_resumed,
    ev.AttemptPlaced: attempts.attempt_placed,
    ev.AttemptsSubmitted: attempts.attempts_submitted,
    ev.AttemptStarted: attempts.attempt_started,
    ev.AttemptEnded: attempts.attempt_ended,
    ev.AttemptsFound: attempts.attempts_found,
    ev.AttemptsWithdrawn: _attempts_withdrawn,
    ev.TransferEnded: files.transfer_ended,
    ev.TransferFailed: copy_failures.transfer_failed,
    ev.CopyLate: copy_late,
    ev.AvoidanceEnded: _avoidance_ended,
    ev.SiteObserved: _site_observed,
    ev.SiteLoadObserved: _site_load_observed,
    ev.SitePaused: _site_paused,
    ev.SiteReopened: _site_reopened,
    ev.JobLimitReached: _job_limit_reached,
    ev.JobLimitLifted: _job_limit_lifted,
    ev.JobsWait: _jobs_wait,
    ev.SiteCounted: _site_counted,
    ev.FilesDiscarded: files.files_discarded,
    ev.FilesLost: files.files_lost,
    ev.FilesRemoved: _files_removed,
    ev.TimerFired: _timer_fired,
    ev.CancelAsked: _cancel_asked,
    ev.SiteHeld: steering.site_held,
    ev.SiteFreed: steering.site_freed,
    ev.PriorityRaised: steering.priority_raised,
    ev.TaskCancelled: steering.task_cancelled,
    ev.RunEnded: _run_ended,
}
