"""The part of a catalog entry that names the GridFTP server of a site: docs/gridftp.md."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from wfrun.engine.model import GridFtpServer
from wfrun.parsers.syntax.limits import CONTROL
from wfrun.parsers.syntax.sections import Section, in_words

GRIDFTP_KEYS = ("url", "root")
_SCHEMES = ("gsiftp", "ftp", "sshftp")
# Host and user become arguments of programs such as ssh, so neither begins with a hyphen.
_SERVER = re.compile(
    r"(?:(?P<user>[^@/]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?P<port>:\d{1,5})?/?",
    re.ASCII,
)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_MAX_PORT = 65535


def read_gridftp(site: Section) -> GridFtpServer | None:
    """Read ``gridftp``: a URL, or a mapping with ``url`` and ``root``; None where it is absent."""
    if not isinstance(site.values.get("gridftp"), dict):
        url = site.take("gridftp", _url, None)
        return None if url is None else GridFtpServer(url)
    section = site.inner("gridftp", f"'gridftp' of {site.title}", GRIDFTP_KEYS)
    if not section.has("url"):
        hint = "Write 'url: gsiftp://HOST:PORT'."
        raise section.error(f"{section.title} has no 'url'", hint=hint)
    return GridFtpServer(section.take("url", _url, ""), section.take("root", _root, "/"))


def _url(value: Any) -> str:
    scheme, found, rest = value.partition("://") if isinstance(value, str) else ("", "", "")
    if not found or scheme not in _SCHEMES:
        known = ", ".join(f"{each}://" for each in _SCHEMES)
        raise ValueError(f"it must be a URL that begins with one of {known}")
    server = _SERVER.fullmatch(rest)
    if server is None:
        raise ValueError(
            f"it must be {scheme}://HOST:PORT, without a path; 'root' names another root"
        )
    user, port = server["user"], server["port"]
    if user is not None and ":" in user:
        raise ValueError("it has a password, which everybody can read in the run directory")
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(f"{user!r} is not a user name")
    if user is not None and scheme != "sshftp":
        raise ValueError(f"{scheme}:// takes no user; sshftp:// does")
    if port is not None and not 0 < int(port[1:]) <= _MAX_PORT:
        raise ValueError(f"{port[1:]} is not a port")
    return f"{scheme}://{rest.rstrip('/')}"


def _root(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or CONTROL.search(value):
        raise ValueError(f"it must be an absolute path, not {in_words(value)}")
    return posixpath.normpath(f"/{value.lstrip('/')}")
