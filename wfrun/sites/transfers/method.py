"""The protocol of a transfer method, and the location of a file."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec.structs import replace

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content, Receipt
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.local.disk import absent


class Location(NamedTuple):
    """A file or directory at a site."""

    endpoint: Endpoint
    name: str
    """Name in the site's store; an absolute path at ORIGIN."""

    @property
    def path(self) -> str:
        """Absolute path of the file at its site."""
        return self.endpoint.path(self.name)


async def with_digest(source: Location, expected: Content) -> Content:
    """The content that a copy must have. If the copy is to be verified, this includes the digest of
    the source. The source is read if its digest is not known. Raises InfeasibleError if the source
    is absent."""
    if expected.digest is not None or not expected.verify:
        return expected
    found = await source.endpoint.measure(source.path, expected.size_bytes)
    if found is None:
        raise absent(source.path)
    return replace(expected, digest=found.digest)


class MethodFailedError(TransientError):
    """The method does not work between the two sites. The cause is neither the file nor a full
    destination, so another method may carry the file."""


class NotCarriedError(InfeasibleError):
    """The method does not carry this file; another one does. The message continues a sentence that
    begins with the name of the method."""


class TransferMethod(Protocol):
    """One way of copying files between two endpoints."""

    computes_digest: bool
    """Whether the method computes the digest of a source while it copies. For other methods the
    digest of each source is computed first, if copies are verified."""

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        """Whether this method works between the two endpoints. The method may ask the sites, and
        then keeps their answers, since this is called before every copy."""

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        """Copy one file or directory, and replace any file or directory of the destination's name.

        The name shows what was there before until it shows the whole file: the copy is written as
        ``part_name(key)`` in the same directory, compared with ``expected`` there, and renamed. A
        copy that fails or is cancelled removes its part, unless ``keeps_part`` leaves it for the
        next copy of the file. No two copies under way have the same ``key``.

        A large copy holds a slot of both endpoints (``hold_slots``); many small files share one
        message or command without a slot.

        Raises InfeasibleError when the source is absent or the destination cannot take the file
        (full, read-only, no permission), TransientError for any other failure. Their subclasses
        NotCarriedError and MethodFailedError let the router try another method.
        """

    def close(self) -> None:
        """Abort the running copies and release threads and processes."""
