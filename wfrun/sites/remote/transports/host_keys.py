"""Errors of host keys, shared by all transports."""

from __future__ import annotations

import shlex

from wfrun.engine.errors import InfeasibleError


def changed_key(where: str, shown: str, known: str, name: str, file: str) -> InfeasibleError:
    """The error of a host whose key differs from the known key of ``name`` in ``file``."""
    return InfeasibleError(
        f"THE HOST KEY OF {where} HAS CHANGED: it shows {shown}, known is {known}. Either somebody "
        "intercepts the connection, or its administrators have changed the key",
        hint="Ask the administrators. If they changed it, forget the old key:\n"
        f"  ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(file)}",
    )


def unknown_key(where: str, shown: str, accept: str) -> InfeasibleError:
    """The error of a host whose key is not known yet; ``accept`` is the command to trust the
    key."""
    return InfeasibleError(
        f"the host key of {where} is not known: {shown}",
        hint="Compare the fingerprint with the one that its administrators publish. If it is the "
        f"same, accept it:\n  {accept}",
    )
