"""Commands through login shells: users of clusters have sh, bash, zsh, csh, tcsh or fish."""

from __future__ import annotations

import string

_PLAIN = frozenset((string.ascii_letters + string.digits + " %+,-./:;<=>@_&|()").encode())
"""Means itself between single quotes in every shell, and between double quotes in sh."""


def portable(command: str) -> str:
    """A line of ASCII that every login shell hands to POSIX sh as ``command``, byte for byte.

    What shells disagree about (quotes, ``$``, ``!``, line ends, bytes that are no characters) is
    written in octal for the ``%b`` of printf (POSIX.1-2017, XCU printf). Raises ValueError for a
    command with a NUL.
    """
    data = command.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError("a command can't have a NUL in it")
    coded = "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in data)
    return f'exec /bin/sh -c \'eval "$(printf %b "{coded}")"\''
