"""What the catalog reader needs to know about a kind of site. The kinds are in
`wfrun.sites.kinds`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

CONNECTION_KEYS = (
    "host",
    "hosts",
    "user",
    "port",
    "ssh_config",
    "known_hosts",
    "transport",
    "patience",
    "gridftp",
    "direct",
    "direct_key",
    "direct_host",
    "direct_port",
    "rclone",
)
"""Keys of a site behind a connection."""

QUEUE_KEYS = (
    "queue",
    "account",
    "options",
    "dispatch",
    "launchers",
    "poll_min",
    "poll_max",
    "max_array",
    "max_jobs",
    "node_cores",
    "scavenge",
)
"""Keys of a site with any batch system."""


class CatalogKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of site, as far as its catalog entries are concerned."""

    name: str
    """The value of ``kind``."""
    is_remote: bool
    """Whether the site is reached over a connection, which `SiteSpec.access` describes."""
    keys: tuple[str, ...] = ()
    """Catalog keys that this kind accepts in addition to those of every site."""
    own_keys: Mapping[str, Callable[[Any], str]] = {}
    """Converter of each key that only this batch system has. The values are stored in
    ``Access.batch_settings``."""
