"""The user's SSH agent, which a site may be allowed to use."""

from __future__ import annotations

import os

from wfrun.engine.errors import InfeasibleError


def check_agent(host: str, socket: str | None) -> str:
    """Return the path of the agent's socket: ``socket`` if configured, else that of SSH_AUTH_SOCK.
    Raises InfeasibleError, with ``host`` in its message, if there is no agent."""
    path = os.path.expanduser(socket or os.environ.get("SSH_AUTH_SOCK", ""))
    if not path or not os.path.exists(path):
        raise InfeasibleError(
            f"there is no SSH agent here that could be forwarded to {host}",
            hint="Start one with your key, then wfrun: eval $(ssh-agent); ssh-add",
        )
    return path
