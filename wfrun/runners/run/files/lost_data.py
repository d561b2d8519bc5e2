"""Compares the log and exit records with the files in the stores of the sites.

An exit record may survive a power loss while the outputs of its attempt do not, because nobody
waits until outputs are on the disk. So a success that is read from an exit record counts only once
the outputs are found in the store. An end that a live launcher reports is not checked: while the
launcher lives, its machine has lost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content, Outcome
from wfrun.engine.model import ORIGIN
from wfrun.engine.protocols import Site
from wfrun.runners.run.files.stored_names import stored_as
from wfrun.runners.run.requests import AttemptRequests
from wfrun.sites.stored import matches, measure_here

RETRY_S = 1.0
"""Interval between requests to a site that does not answer, in seconds."""
LostFiles = tuple[tuple[int, int, int], ...]
"""(workflow, file, site) of each lost file; the site may be ORIGIN."""
MAX_NAMED = 3
"""Maximum number of files that a message names."""


class RecordCheck:
    """Checks outcomes that sites have read from exit records, and missing inputs, against the
    stores."""

    def __init__(self, sites: Sequence[Site], requests: AttemptRequests) -> None:
        self._sites = sites
        self._requests = requests

    async def checked(self, site: int, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Return the outcomes by key. A success becomes ``lost`` if an output in the store is
        missing or differs from the exit record. Waits until the site answers."""
        outputs = {
            key: self._requests.outputs(key, outcome)
            for key, outcome in outcomes.items()
            if outcome.cause == "done"
        }
        contents = {name: content for own in outputs.values() for name, content in own.items()}
        absent = set(await self._absent(site, contents))
        checked = dict(outcomes)
        for key, own in outputs.items():
            if gone := [name for name in own if name in absent]:
                checked[key] = _lost(outcomes[key], gone)
        return checked

    async def lost_inputs(
        self, site: int, outcomes: Mapping[str, Outcome]
    ) -> tuple[tuple[int, int], ...]:
        """(workflow, file) of each input that the site has lost: an attempt ended with the cause
        ``staging`` because of it, and the store of the site does not have it. Waits until the site
        answers. The node's report alone is no proof, because the shared file system may reach the
        node late or not at all."""
        missed = (key for key, outcome in outcomes.items() if outcome.cause == "staging")
        inputs = self._requests.stored_inputs(missed)
        contents = {name: content for name, (_, content) in inputs.items()}
        return tuple(inputs[name][0] for name in await self._absent(site, contents))

    async def _absent(self, site: int, files: Mapping[str, Content]) -> list[str]:
        while files:
            with contextlib.suppress(TransientError):
                return await self._sites[site].absent(files)
            await asyncio.sleep(RETRY_S)
        return []


def _lost(outcome: Outcome, gone: Sequence[str]) -> Outcome:
    named = ", ".join(gone[:MAX_NAMED]) + (", …" if len(gone) > MAX_NAMED else "")
    text = f"its exit record says done, but {named} in its site's store is missing or not whole"
    return msgspec.structs.replace(outcome, cause="lost", message=text, sizes=())


async def find_lost(
    state: RunState,
    sites: Sequence[Site],
    requests: AttemptRequests,
    unreachable: Collection[int] = (),
) -> LostFiles:
    """Find files that, according to the log, are in the store of a site, but are missing or differ
    there. Returns (workflow, file, site) of each. All files at ``unreachable`` sites count as lost.
    At any other site that does not answer no file counts as lost. If ``checksums`` is ``all``, lost
    outputs at ORIGIN are included."""
    by_digest = state.settings.checksums == "all"
    lost: list[tuple[int, int, int]] = []
    for index, site in enumerate(sites):
        names: dict[str, tuple[int, int]] = {}
        contents: dict[str, Content] = {}
        for w in state.workflows:
            for file in range(len(w.workflow.files)):
                if w.is_stored(file, index):
                    name = stored_as(w, file)
                    names[name] = (w.index, file)
                    content = w.content(file)
                    contents[name] = content if by_digest else Content(content.size_bytes)
        if index in unreachable:
            lost += [(*file, index) for file in names.values()]
            continue
        with contextlib.suppress(TransientError):
            lost += [(*names[name], index) for name in await site.absent(contents)]
    if by_digest:
        with contextlib.suppress(TransientError):
            lost += await asyncio.to_thread(_lost_outputs, state, requests)
    return tuple(lost)


def _lost_outputs(state: RunState, requests: AttemptRequests) -> list[tuple[int, int, int]]:
    """The collected outputs that are missing at ORIGIN or differ."""
    origin = state.network.bit(ORIGIN)
    collected = [
        (w, file)
        for w in state.workflows
        for file in range(len(w.workflow.files))
        if w.present[file] & origin and w.workflow.files[file].producer is not None
    ]
    return [
        (w.index, file, ORIGIN)
        for w, file in collected
        if not matches(
            w.content(file), measure_here(requests.output_path(w.index, file), digest=True)
        )
    ]
