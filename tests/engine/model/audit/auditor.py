"""The auditor: checks a run against rules that every run must keep.

It never looks into a core. It knows the documents of the workflows, the events in order, and the
actions of each step. Attempts in staging can be taken back without an event. The auditor derives
this where the log implies it; where the log leaves it open, it excludes the attempt from its sums
(``doubtful``). So the sums are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.engine.model.audit.audit_attempts import AttemptRules
from tests.engine.model.audit.audit_files import FileRules
from tests.engine.model.audit.audit_run import RunRules
from tests.engine.model.audit.audit_sites import SiteRules
from tests.engine.model.audit.audit_withdrawals import WithdrawalRules
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.model import ORIGIN, Workflow


class Auditor(RunRules, AttemptRules, FileRules, SiteRules, WithdrawalRules):
    """Checks a run step by step, and collects broken rules."""

    def step(
        self, event: ev.Event, decided: Sequence[ev.Event], actions: Sequence[act.Action]
    ) -> None:
        """Check one durable step of the core: an event, the decisions after it, and the actions."""
        submitted = {
            key
            for action in actions
            if isinstance(action, act.SubmitAttempts)
            for key, _, _ in action.attempts
        }
        self._submitted_now = submitted
        timers = (a.timer.split(":") for a in actions if isinstance(a, act.SetTimer))
        self._retried_now = {
            (int(words[1]), int(words[2]), int(words[3])) for words in timers if words[0] == "copy"
        }
        self._apply(event, submitted)
        unanswered = self._unanswered_cores()
        for one in decided:
            self._apply(one, submitted)
        withdrawals = [d for d in decided if isinstance(d, ev.AttemptsWithdrawn)]
        self._check_withdrawn(withdrawals, unanswered)
        withdrawn = {key for d in withdrawals for key in d.keys}
        for one in decided:
            if isinstance(one, ev.JobsReallocated):
                withdrawn |= {key for key, _ in one.moves}
        for action in actions:
            if isinstance(action, act.SubmitAttempts):
                self._check_submitted(action)
            elif isinstance(action, act.CancelAttempts):
                self._check_cancelled(action, withdrawn)
            elif isinstance(action, act.CancelCopy):
                self.check_cancelled_copy(action, decided)
            elif isinstance(action, act.CopyFile):
                self.check_copy(action)
            elif isinstance(action, act.RemoveFiles):
                self.check_removal(action, decided)
        self.check_claims(actions)

    def _apply(self, event: ev.Event, submitted: set[str]) -> None:
        self._count += 1
        self._now_s = max(self._now_s, event.at_s)
        if isinstance(event, ev.AttemptsFound):
            self._found(event, submitted)
            return
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    _HANDLERS: Mapping[type[ev.Event], Callable[..., None]] = {
        ev.RunStarted: RunRules.on_run_started,
        ev.WorkflowAdded: RunRules.on_workflow_added,
        ev.RunChanged: RunRules.on_run_changed,
        ev.RunResumed: RunRules.on_run_resumed,
        ev.CancelAsked: RunRules.on_cancel_asked,
        ev.SiteHeld: SiteRules.on_site_held,
        ev.SiteFreed: SiteRules.on_site_freed,
        ev.TaskCancelled: AttemptRules.on_task_cancelled,
        ev.RunEnded: RunRules.on_run_ended,
        ev.AttemptPlaced: AttemptRules.on_placed,
        ev.AttemptStarted: AttemptRules.on_attempt_started,
        ev.AttemptEnded: AttemptRules.on_attempt_ended,
        ev.JobsReallocated: AttemptRules.on_reallocated,
        ev.AttemptsWithdrawn: WithdrawalRules.on_withdrawn,
        ev.TransferEnded: FileRules.on_transfer_ended,
        ev.TransferFailed: FileRules.on_transfer_failed,
        ev.CopyRouted: FileRules.on_copy_routed,
        ev.CopyLate: FileRules.on_copy_late,
        ev.FilesDiscarded: FileRules.on_discarded,
        ev.FilesLost: FileRules.on_lost,
        ev.SiteObserved: SiteRules.on_site_observed,
        ev.SiteLoadObserved: SiteRules.on_load_observed,
        ev.PlacementTried: SiteRules.on_placement_tried,
        ev.ClaimsAsked: SiteRules.on_claims_asked,
        ev.ClaimEnded: SiteRules.on_claim_ended,
        ev.SitePaused: SiteRules.on_site_paused,
        ev.SiteReopened: SiteRules.on_site_reopened,
        ev.LaunchersAsked: SiteRules.on_launchers_asked,
        ev.LauncherStarted: SiteRules.on_launcher_started,
        ev.LauncherDraining: SiteRules.on_launcher_draining,
        ev.LaunchersStopped: SiteRules.on_launchers_stopped,
        ev.LauncherEnded: SiteRules.on_launcher_ended,
    }


def files_at_sites(
    auditor: Auditor, documents: Mapping[str, Workflow], *, with_inputs: bool
) -> Iterator[tuple[int, int, int]]:
    """(workflow, file, site) of files that tasks wrote in the stores of sites, and of copies of
    initial inputs."""
    for (workflow, file), places in sorted(auditor.present.items()):
        if with_inputs or documents[str(workflow)].files[file].producer is not None:
            for site in sorted(places):
                if site != ORIGIN and auditor.is_stored((workflow, file), site):
                    yield workflow, file, site
