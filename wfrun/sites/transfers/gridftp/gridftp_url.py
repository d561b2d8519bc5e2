"""URLs of files for ``globus-url-copy``."""

from __future__ import annotations

import re
from urllib.parse import quote

from wfrun.engine.model import GridFtpServer

PASSED = re.compile(r"[ -~]+")
"""Names that the client passes on correctly. The client (10.12) sends a line break, percent-encoded
or not, within its command to the server, where the line break begins another command. The client
drops other control characters, and decodes bytes from 0x80 wrongly."""


def local_url(path: str) -> str | None:
    """The URL of a file of this machine; None if the client cannot pass on its name."""
    return f"file://{quote(path)}" if PASSED.fullmatch(path) else None


def server_url(server: GridFtpServer, path: str) -> str | None:
    """The URL of a file of a site; None if the file is not below the server's root, or if the
    client cannot pass on its name."""
    root = server.root.rstrip("/")
    if not path.startswith(f"{root}/") or not PASSED.fullmatch(path):
        return None
    return f"{server.url}{quote(path[len(root) :])}"
