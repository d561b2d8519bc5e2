"""Rules about files: copies and transfers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.engine.model.audit.known_run import (
    KnownRun,
    OpenAttempt,
)
from tests.engine.model.audit.rules import COPY_RETRIES, MAX_REMAKES
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.engine.model import ORIGIN


class FileRules(KnownRun):
    """Rules about files: copies and transfers."""

    def on_transfer_ended(self, event: ev.TransferEnded) -> None:
        if self._ends_outdated(event):
            return
        self.present.setdefault((event.workflow, event.file), set()).add(event.destination)
        self._originals[event.workflow, event.file].discard(event.destination)
        self._dropped.discard((event.workflow, event.file, event.destination))
        self._sizes[event.workflow, event.file] = event.size_bytes
        self._under_way.discard((event.workflow, event.file, event.destination))
        self._redirected.discard((event.workflow, event.file, event.destination))
        del self._copy_failures[event.workflow, event.file, event.destination]
        self._large_copies.pop((event.workflow, event.file, event.destination), None)

    def _ends_outdated(self, event: ev.TransferEnded | ev.TransferFailed) -> bool:
        """Note the end of a copy of what a file was before it was written again."""
        copy = event.workflow, event.file, event.destination
        if copy not in self._outdated:
            return False
        self._outdated.discard(copy)
        self._dropped.discard(copy)
        self._under_way.discard(copy)
        self._large_copies.pop(copy, None)
        return True

    def on_copy_routed(self, event: ev.CopyRouted) -> None:
        self._routed.add((event.workflow, event.file, event.destination, event.source))

    def check_copy(self, action: act.CopyFile) -> None:
        """A copy starts: its source has the file, and both ends have room for it."""
        file = (action.workflow, action.file)
        places = self.present.get(file, set())
        is_there = action.source in places or file in self._doubted
        self._require("copy-source", is_there, f"{action} from one of {places}")
        copy = action.workflow, action.file, action.destination
        self._under_way.add(copy)
        self._dropped.discard(copy)
        if 0 <= self._sizes.get(file, -1) <= SHARED_BYTES:
            return
        self._large_copies[copy] = action.source
        link = action.source, action.destination
        over = sum(link == (source, key[2]) for key, source in self._large_copies.items())
        most_over = self._link_room.get(link, over)
        self._require("copy-room", over <= most_over, f"{over} copies over {link}")
        for site in {action.source, action.destination} - {ORIGIN}:
            most = self._specs[site].max_transfers
            under_way = sum(site in (source, key[2]) for key, source in self._large_copies.items())
            self._require(
                "copy-room", most is None or under_way <= most, f"{under_way} copies at {site}"
            )

    def on_copy_late(self, event: ev.CopyLate) -> None:
        """A late copy is given up once, and only while the file is at another place, or while
        another method can carry it, or if it is of what the file was before. Decisions that follow
        may remove the file there."""
        copy = event.workflow, event.file, event.destination
        others = self.present.get(copy[:2], set()) - {event.source, event.destination}
        routed = (*copy, event.source) in self._routed
        is_useless = copy in self._outdated
        is_right = copy in self._under_way and bool(others or routed or is_useless)
        self._require("copy-late", is_right, str(event))
        self._require("copy-late", copy not in self._redirected, f"{event}: again")
        self._redirected.add(copy)
        self._under_way.discard(copy)
        self._outdated.discard(copy)
        self._large_copies.pop(copy, None)

    def check_cancelled_copy(self, action: act.CancelCopy, decided: Sequence[ev.Event]) -> None:
        """A copy is cancelled after the decision to give it up."""
        given_up = {
            (one.workflow, one.file, one.source, one.destination)
            for one in decided if isinstance(one, ev.CopyLate)
        }  # fmt: skip
        copy = action.workflow, action.file, action.source, action.destination
        self._require("copy-late", copy in given_up, f"{action}: undecided")

    def note_request(self, placed: OpenAttempt) -> None:
        """Note which copies a new attempt requests: those that no other attempt waits for begin
        anew, and may be late again."""
        workflow = placed.task[0]
        awaited = {
            (file, site)
            for one in self._open.values()
            if not (one.submitted or one.doubtful) and one.task[0] == workflow
            for site in self._sites_of(one)
            for file in self._task(one.task).inputs
        }
        for site in self._sites_of(placed):
            for file in self._task(placed.task).inputs:
                self._dropped.discard((workflow, file, site))
                if (file, site) not in awaited:
                    del self._copy_failures[workflow, file, site]
                    self._redirected.discard((workflow, file, site))

    def check_storage(self, what: str, placed: OpenAttempt) -> None:
        """Check that the files at the site of a new attempt, with those on their way and the
        declared outputs of open attempts, do not exceed its storage. One that adds nothing may be
        placed at any time."""
        self._reserve(placed)
        site = placed.placed.site
        limit = self._specs[site].storage_bytes
        if limit is None:
            return
        total = self._stored_bytes(site)
        adds_nothing = any(
            self._stored_bytes(site, without=placed, doubtful=doubtful)
            == self._stored_bytes(site, doubtful=doubtful)
            for doubtful in (False, True)
        )
        self._require("storage", adds_nothing or total <= limit, f"{what}: {total} bytes")

    def _stored_bytes(
        self, site: int, without: OpenAttempt | None = None, *, doubtful: bool = False
    ) -> int:
        """``doubtful``: with what attempts wait for that may have been taken back."""
        files = {file for file in self.present if self.is_stored(file, site)}
        # Those of files that were written again are as large as these were before.
        under_way = self._under_way - self._outdated
        files |= {(workflow, file) for workflow, file, place in under_way if place == site}
        total = 0
        for one in self._open.values():
            if one.placed.site == site and one is not without and (doubtful or not one.doubtful):
                task, workflow = self._task(one.task), one.task[0]
                inputs = {(workflow, f) for f in task.inputs} if not one.submitted else set()
                files |= {file for file in inputs if self.present.get(file)}
                total += one.reserved_bytes  # an end of another attempt tells more, too late
        return total + sum(max(0, self._size_of(*file)) for file in files)

    def on_transfer_failed(self, event: ev.TransferFailed) -> None:
        if self._ends_outdated(event):
            return
        copy = event.workflow, event.file, event.destination
        self._under_way.discard(copy)
        self._large_copies.pop(copy, None)
        if copy in self._dropped:
            self._dropped.discard(copy)
            return
        may_await = event.transient and event.cause in ("unknown", "connection", "stalled")
        if not (may_await and event.source in self._paused):
            self._copy_failures[copy] += 1
        if copy in self._retried_now:
            count, most = self._copy_failures[copy], self._most_retries(event)
            self._require("copy-again", count <= most, f"{event}: retry {count} of {most}")
            return
        is_due = self._copy_failures[copy] <= self._most_retries(event)
        del self._copy_failures[copy]
        file = event.workflow, event.file
        has_sources = bool(self._workflows[event.workflow].files[event.file].sources)
        # A run that stops on failure drops its copies to sites.
        may_be_dropped = self._may_stop and event.destination != ORIGIN
        is_doubtful = file in self._doubted or (may_be_dropped and (is_due or has_sources))
        # The store keeps it. Whether the copy begins anew depends on where it began before.
        is_stored = event.source != ORIGIN and self.is_stored(file, event.source)
        stays = has_sources and is_stored and event.cause not in ("absent", "changed")
        is_doubtful = is_doubtful or stays
        if is_doubtful and has_sources:
            self._doubted.add(file)
        if not is_doubtful and self._is_left_for_another(event):
            return
        if event.destination == ORIGIN:
            self._had_uncollected = True
            return
        for one in [t for t in self._open.values() if not t.submitted]:
            workflow, _ = one.task
            waits = (
                workflow == event.workflow
                and event.destination in self._sites_of(one)
                and event.file in self._task(one.task).inputs
            )
            if not waits:
                continue
            self._specials.add(one.task)
            self._failed_sites.add(one.placed.site)
            if event.transient or is_doubtful:
                one.doubtful = True
            else:
                del self._open[one.key]
        self._doubt_if_stopping()

    def _most_retries(self, event: ev.TransferFailed) -> int:
        """Maximum number of failures of a copy after which it is tried again."""
        if event.cause == "unknown" and not event.transient:
            return 0
        if event.cause in ("disk-full", "quota") and event.destination != ORIGIN:
            return 0  # Another site is tried.
        if event.cause in ("absent", "changed") and event.source == ORIGIN:
            return 0
        return COPY_RETRIES[event.cause]

    def _is_left_for_another(self, event: ev.TransferFailed) -> bool:
        """Whether the file counts as absent at its source from now on, and the copy begins anew
        from another place, or when the file is made again."""
        file = event.workflow, event.file
        record = self._workflows[event.workflow].files[event.file]
        is_gone = event.cause in ("absent", "changed")
        blames_source = is_gone or event.end == "source"
        blames_destination = not blames_source and (
            event.cause in ("disk-full", "quota", "permission")
            or (event.transient and event.source == ORIGIN)
        )
        is_elsewhere = bool(self.present.get(file, set()) - {event.source})
        if not (record.sources and is_elsewhere and not blames_destination):
            is_made = record.producer is not None
            if not is_gone or event.source == ORIGIN or not (is_made or is_elsewhere):
                return False
            if not self._may_vanish(file, event.source):
                return False
        self._lose([(*file, event.source)])
        return True

    def _may_vanish(self, file: tuple[int, int], site: int) -> bool:
        """Count that a file vanished at a site. Returns whether it is made again."""
        if self.present.get(file, set()) - {site}:
            return True
        if self._remakes[file] >= MAX_REMAKES:
            return False
        self._remakes[file] += 1
        return True

    def on_discarded(self, event: ev.FilesDiscarded) -> None:
        """A decision to remove files: they are there, and nothing needs them there."""
        self._require("left", event.site not in self._left, str(event))
        for file in event.files:
            places = self.present.get(file, set())
            is_there = self.is_stored(file, event.site)
            self._require("discard-twice", is_there, f"{file} is at {places}")
            self._remove(file, event.site)
            self._require("discard-needed", self._settings.keep != "all", f"{event}")
            workflow, number = file
            document = self._workflows[workflow]
            readers = [t for t, task in enumerate(document.tasks) if number in task.inputs]
            waiting = [t for t in readers if (workflow, t) not in self.done]
            self._require("discard-needed", not waiting, f"{file} is read by {waiting}")
            running = [
                t.key for t in self._open.values() if t.submitted and t.task[0] == workflow
                and t.task[1] in readers and event.site in self._sites_of(t)
            ]  # fmt: skip
            self._require("discard-needed", not running, f"{file} is read by {running}")
            is_safe = ORIGIN in places or not document.files[number].collect
            self._require("discard-needed", is_safe, f"{file} is at {places} alone")
            if self._settings.keep == "failed":
                kept = (*file, event.site) in self._kept
                self._require("discard-needed", not kept, f"{file} is an input of a failure")

    def on_lost(self, event: ev.FilesLost) -> None:
        """Files have vanished at a site, and are copied or made again. Attempts that wait for
        copies of those that were struck before go on waiting."""
        for file in event.files:
            if self.is_stored(file, event.site) and self._may_vanish(file, event.site):
                self._lose([(*file, event.site)])

    def check_removal(self, action: act.RemoveFiles, decided: Sequence[ev.Event]) -> None:
        """A removal: what is removed was discarded before, or is of an attempt that lost."""
        discarded = {
            (one.site, *file)
            for one in decided if isinstance(one, ev.FilesDiscarded) for file in one.files
        }  # fmt: skip
        for workflow, file, number in action.files:
            producer = self._workflows[workflow].files[file].producer
            is_useless = (workflow, producer, number) in self._superseded_done
            self._require(
                "discard-logged",
                (action.site, workflow, file) in discarded or is_useless,
                f"file {file} of workflow {workflow} at {action.site}",
            )
