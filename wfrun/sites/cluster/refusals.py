"""Jobs in the queue that the batch system says it will never start."""

from __future__ import annotations

import logging
import time

from wfrun.engine.errors import TransientError
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.cluster.head_node import COMMAND_S, HeadNode, answer, parsed

_LOGGER = logging.getLogger(__name__)

ASK_AGAIN_S = 60.0
"""Minimum interval between queries of the nodes while jobs wait for nodes out of service."""


class RefusedJobs:
    """Finds jobs that may start when all nodes are in service, although the batch system says that
    it will never start them."""

    def __init__(self, head: HeadNode) -> None:
        self._head = head
        self._asked_s = float("-inf")
        self._waiting: set[str] = set()
        """Keys of attempts that wait for nodes, as of the last query."""

    async def confirmed(self, refused: dict[str, str]) -> dict[str, str]:
        """Return the entries of ``refused`` (reasons of the batch system by attempt key) whose
        attempts never start. Empty if the nodes cannot be queried now, or if attempts wait for
        nodes and the last query of the nodes was less than ASK_AGAIN_S ago."""
        argv = self._head.system.nodes()
        self._waiting &= refused.keys()
        if argv is None or not refused:
            return refused
        if self._waiting and time.monotonic() < self._asked_s + ASK_AGAIN_S:
            return {}
        self._asked_s = time.monotonic()
        try:
            host = await self._head.connection.host()
            result = await host.run(argv, env=self._head.system.environment, timeout_s=COMMAND_S)
        except TransientError as error:
            _LOGGER.info("site %s: %s", self._head.site, error.message)
            return {}
        exit_code, output, _ = answer(result)
        waiting = set()
        for key, reason in refused.items():
            try:
                if parsed(lambda said=reason: self._head.system.may_start(said, output)):  # type: ignore[misc]
                    waiting.add(key)
            except QueueUnknownError as error:
                # A user who may not see the nodes: the batch system is taken at its word.
                _LOGGER.info("site %s: exit code %s: %s", self._head.site, exit_code, error.message)
                break
        for key in sorted(waiting - self._waiting):
            text = "site %s: the job of attempt %s waits for nodes that are out of service: %s"
            _LOGGER.warning(text, self._head.site, key, refused[key])
        self._waiting = waiting
        return {key: reason for key, reason in refused.items() if key not in waiting}
