"""Copies between any two sites, each by the first transfer method that can carry it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.exchange import ANYTHING, Content, Receipt
from wfrun.engine.model import ORIGIN
from wfrun.sites.contained import contained
from wfrun.sites.transfers.endpoint import Endpoint, part_name
from wfrun.sites.transfers.image_cache import through_cache
from wfrun.sites.transfers.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.method import (
    Location,
    NotCarriedError,
    TransferMethod,
    with_digest,
)
from wfrun.sites.transfers.remote_endpoint import RemoteEndpoint

NO_THREAD = "can't start new thread"
"""The message of the RuntimeError that Python raises when the system has no room for a thread."""


class TransferRouter:
    """The `Transfer` of a run: hands each copy to a transfer method.

    ``methods`` are in order of preference; the last one must be able to carry between any two
    sites. ``endpoints`` are in the order of the sites. ``outputs`` is the only folder of this
    machine, beside the stores of local sites, that is written to.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        methods: Mapping[str, TransferMethod],
        outputs: Path,
        *,
        checksums: bool = False,
    ) -> None:
        """With ``checksums`` a copy is compared by digest, not only by size."""
        self._outputs = outputs
        self._endpoints: dict[int, Endpoint] = {
            ORIGIN: LocalEndpoint(),
            **dict(enumerate(endpoints)),
        }
        self._methods = dict(methods)
        self._serial = itertools.count()
        self._checksums = checksums

    async def copy(
        self,
        source: int,
        source_path: str,
        destination: int,
        destination_path: str,
        expected: Content = ANYTHING,
    ) -> Receipt:
        """Copy one file or directory; ``TransferMethod.copy`` says what is guaranteed. Raises
        InfeasibleError for a destination at ORIGIN outside of ``outputs``."""
        if destination == ORIGIN:
            destination_path = str(contained(self._outputs, destination_path))
        from_, to = self._endpoints[source], self._endpoints[destination]
        # The process id keeps the parts of this engine apart from those that a killed engine has
        # left in the same directory. Two live engines never share one.
        key = f"{os.getpid()}-{next(self._serial)}"
        expected = replace(expected, verify=self._checksums)
        ends = Location(from_, source_path), Location(to, destination_path)
        send = partial(self._send, *ends, key, expected)
        try:
            if expected.sha256 is not None and isinstance(to, RemoteEndpoint):
                return await through_cache(to, destination_path, key, expected, send)
            return await send()
        except WfrunError as error:  # Users know the file by its final name alone.
            final = os.path.basename(destination_path)
            error.message = error.message.replace(part_name(key), final)
            raise

    async def _send(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        """Copy by the first method that can carry it."""
        for method in self._methods.values():
            if await method.can_carry(source.endpoint, destination.endpoint):
                if not method.computes_digest:
                    expected = await with_digest(source, expected)
                try:
                    return await method.copy(source, destination, key, expected)
                except NotCarriedError:
                    continue
                except RuntimeError as error:
                    if NO_THREAD not in str(error):
                        raise
                    raise TransientError(
                        f"this machine has no room for a thread: {error}"
                    ) from error
        raise AssertionError("the last method carries between any two sites")

    def close(self) -> None:
        """Abort the running copies."""
        for method in self._methods.values():
            method.close()
