"""Login shells: how to write commands that any of them passes on to POSIX sh, and the profile of
each, which sets the environment."""

from __future__ import annotations

import string

_PLAIN = frozenset((string.ascii_letters + string.digits + " %+,-./:;<=>@_&|()").encode())
"""Bytes that are literal in single quotes of every shell and in double quotes of sh."""


_PROFILES = {
    "csh": "~/.login",
    "tcsh": "~/.login",
    "zsh": "~/.zprofile",
    "fish": "~/.config/fish/config.fish",
}


def profile_of(shell: str) -> str:
    """The user's profile that the login shell at the path ``shell`` reads at a login."""
    return _PROFILES.get(shell.rpartition("/")[2], "~/.profile")


def portable(command: str) -> str:
    """Encode a command as a line of ASCII from which every login shell starts it in POSIX sh.

    All bytes that shells treat differently (quotes, ``$``, ``!``, line ends, undecodable bytes) are
    written in octal for the ``%b`` of printf (POSIX.1-2017, XCU printf). Raises ValueError for a
    command with a NUL byte.
    """
    data = command.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError("a command cannot have a NUL byte")
    coded = "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in data)
    return f'exec /bin/sh -c \'eval "$(printf %b "{coded}")"\''
