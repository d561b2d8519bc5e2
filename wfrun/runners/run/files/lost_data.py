"""Compares what the log and exit records say of files with the stores of the sites.

A record may survive a power loss that its outputs do not: nobody waits until they are on the disk.
So an end that is only read from a record counts after its outputs were found in the store. What a
living launcher reports itself needs no look: while it lives, its machine has lost nothing.
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
"""Interval between questions to a site that does not answer."""
LostFiles = tuple[tuple[int, int, int], ...]
"""(workflow, file, site) of each."""
MAX_NAMED = 3
"""Maximum number of files that a message names."""


class RecordCheck:
    """Checks the outcomes that sites have read from exit records."""

    def __init__(self, sites: Sequence[Site], requests: AttemptRequests) -> None:
        self._sites = sites
        self._requests = requests

    async def checked(self, site: int, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """The outcomes by key. An outcome is ``lost`` if an output is missing in the store or
        differs. Waits until the site answers."""
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
        """(workflow, file) of each missing input of attempts that missed one. Waits until the site
        answers, because a node does not suffice: if its view of a shared file system is old, or it
        does not see it, it misses files that exist."""
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
    """The files, as (workflow, file, place), that are missing in the store of a site, or differ
    there. All files at ``unreachable`` sites count, because nobody waits for these sites. No file
    of another site out of reach counts, because nothing is known of it. With ``checksums all`` also
    outputs at ORIGIN."""
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
