"""The cache of container images at a site that is reached over a connection.

The cache is the directory ``images`` beside the directories of runs. An image that has arrived in
the store of a run is linked into the cache. A later run links the image from the cache into its own
store, and nothing is sent. If the cache fails, the image is sent, and the copy does not fail.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Literal

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.sites.stored import MIN_READ_S, command_of, matches
from wfrun.sites.transfers.endpoints.endpoint import endpoint_name
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint

_LOGGER = logging.getLogger(__name__)


async def through_cache(
    site: RemoteEndpoint,
    name: str,
    key: str,
    expected: Content,
    send: Callable[[], Awaitable[Receipt]],
) -> Receipt:
    """Link an image from the cache into the site's store. If the cache does not have it, call
    ``send``, and add the image to the cache. The receipt has the number of bytes that were sent."""
    begun_s = time.monotonic()
    cache = str(PurePosixPath(site.path(name)).parents[2] / "images")
    if not await _is_usable(site, cache):
        return await send()
    if await _ask("take", site, cache, name, key, expected) and (
        expected.digest is None
        or matches(expected, await site.measure(site.path(name), expected.size_bytes))
    ):
        return Receipt(0, time.monotonic() - begun_s, expected.digest)
    receipt = await send()
    await _ask("keep", site, cache, name, key, expected)
    return receipt


async def _is_usable(site: RemoteEndpoint, cache: str) -> bool:
    """Make the directory of the cache, or check that only the user has access to the existing one.
    Returns False if the directory cannot be used."""
    try:
        await (await site.connection.host()).make_private(cache)
    except InfeasibleError as error:
        _LOGGER.warning(
            "site %s: images of containers are not kept for later runs: %s",
            endpoint_name(site),
            error.message,
        )
        return False
    return True


async def _ask(
    ask: Literal["take", "keep"],
    site: RemoteEndpoint,
    cache: str,
    name: str,
    key: str,
    expected: Content,
) -> bool:
    """Ask the site to link an image from the cache (``take``) or into it (``keep``). Returns
    whether it did. The program that answers is ``wfrun/sites/node/alone/images.py``."""
    question = {
        "ask": ask,
        "cache": cache,
        "sha256": expected.sha256,
        "stored": site.path(name),
        "part": site.part(name, key),
    }
    try:
        host = await site.connection.host()
        result = await host.run(
            command_of("alone/images.py"), stdin=json.dumps(question).encode(), timeout_s=MIN_READ_S
        )
    except WfrunError as error:
        _LOGGER.info("site %s: %s", endpoint_name(site), error.message)
        return False
    if result.errors:
        said = result.errors[-500:].decode("utf-8", "replace").strip()
        _LOGGER.info("site %s: cache of images: %s", endpoint_name(site), said)
    return result.exit_code == 0 and result.output.strip() == b"true"
