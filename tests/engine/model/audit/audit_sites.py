"""Rules about sites and their launchers."""

from __future__ import annotations

from tests.engine.model.audit.audit_claims import ClaimRules
from tests.engine.model.audit.known_run import LauncherRecord, launcher_spec
from tests.engine.model.audit.rules import MIN_WALLTIME_S
from wfrun.engine import events as ev
from wfrun.engine.exchange import LauncherRequest, claim_of
from wfrun.engine.model import LauncherSpec


class SiteRules(ClaimRules):
    """Rules about sites and their launchers."""

    def on_site_observed(self, event: ev.SiteObserved) -> None:
        self._background_cores[event.site] = sum(
            job.cores for job in event.background if job.started_s is not None
        )

    def on_site_paused(self, event: ev.SitePaused) -> None:
        self._paused.add(event.site)

    def on_site_reopened(self, event: ev.SiteReopened) -> None:
        self._paused.discard(event.site)

    def on_site_held(self, event: ev.SiteHeld) -> None:
        """What waits for inputs there is taken back."""
        if event.site in self._held:
            return
        self._held.add(event.site)
        self._take_back(event.site)

    def on_site_freed(self, event: ev.SiteFreed) -> None:
        self._held.discard(event.site)

    def on_launchers_asked(self, event: ev.LaunchersAsked) -> None:
        spec = launcher_spec(self._specs[event.site])
        assert spec is not None
        self._require("closing", self.ended is None and not self._cancelled, str(event))
        self._require("left", event.site not in self._left, str(event))
        self._require("held", event.site not in self._held, str(event))
        launchers = self._launchers[event.site]
        for request in event.launchers:
            self._require("launcher-key", request.key not in self._launcher_keys, request.key)
            self._launcher_keys.add(request.key)
            launchers[request.key] = LauncherRecord()
            self._require("launcher-request", _is_as_asked(request, spec), str(request))
        count, queued = len(launchers), sum(x.is_queued for x in launchers.values())
        self._require("launcher-max", count <= spec.max, f"{event}: {count} of {spec.max}")
        self._require("launcher-backlog", queued <= spec.backlog, f"{event}: {queued} queued")

    def on_launcher_started(self, event: ev.LauncherStarted) -> None:
        self.on_placeholder_started(event)
        launcher = self._launchers[event.site].get(event.key)
        if launcher is not None:
            launcher.is_queued = False
            launcher.is_live = not launcher.stopped
            launcher.slots = event.slots

    def on_launcher_draining(self, event: ev.LauncherDraining) -> None:
        launcher = self._launchers[event.site].get(event.key)
        if launcher is not None:
            launcher.is_live = False

    def on_launchers_stopped(self, event: ev.LaunchersStopped) -> None:
        for key in event.keys:
            launcher = self._launchers[event.site].get(key)
            if launcher is not None:
                launcher.stopped, launcher.is_live = True, False

    def on_launcher_ended(self, event: ev.LauncherEnded) -> None:
        """After too many launchers in vain, what waits for inputs there is taken back."""
        if claim_of(event.key):
            self.on_placeholder_ended(event)
            return
        launchers = self._launchers[event.site]
        launchers.pop(event.key, None)
        for one in self._open.values() if not launchers else ():
            one.doubtful = one.doubtful or (not one.submitted and one.placed.site == event.site)


def _is_as_asked(request: LauncherRequest, spec: LauncherSpec) -> bool:
    shape = (request.nodes, request.cores, request.memory_bytes, request.gpus)
    least_s = min(MIN_WALLTIME_S, spec.walltime_s)
    return (
        shape == (spec.nodes, spec.cores, spec.memory_bytes, spec.gpus)
        and least_s <= request.walltime_s <= spec.walltime_s
    )
