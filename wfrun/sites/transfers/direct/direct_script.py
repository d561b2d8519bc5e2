"""The shell script by which a site sends a file to another site with its own SSH client.

Host keys are checked strictly: against those that this machine has verified, which the script
contains, and those that the source knows itself. Nothing is left at the source: keys and
configuration are in a private directory as long as the client runs. The client ends with the input
of the script, so that no client outlives the connection from this machine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from wfrun.engine.model import Access
from wfrun.sites.remote.transports.transport import Address

CONNECT_S = 20
"""Timeout of the connection between the sites."""

_OPTIONS = {
    "BatchMode": "yes",
    "CheckHostIP": "no",
    "ClearAllForwardings": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ControlMaster": "no",
    "ControlPath": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "LogLevel": "ERROR",
    "PermitLocalCommand": "no",
    "ServerAliveCountMax": "4",
    "ServerAliveInterval": "30",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
}
NOT_PREPARED = 90
"""Exit code of a script that could not prepare its directory. No client uses this code."""
_SCRIPT = f"""\
LC_ALL=C; export LC_ALL
umask 077
d=$(mktemp -d /tmp/wfrun.XXXXXXXXXX) && cd "$d" || exit {NOT_PREPARED}
trap 'rm -rf "$d"' EXIT
trap 'kill "$p"; exit 129' HUP INT TERM
{{files}} &&
printf 'UserKnownHostsFile %s/known_hosts ~/.ssh/known_hosts\\n' "$d" >> config &&
printf 'Include ~/.ssh/config /etc/ssh/ssh_config\\n' >> config &&
ln -s {{source}} file || exit {NOT_PREPARED}
{{under_input}}
"""
UNDER_INPUT = """\
exec 3<&0
{client} 3<&- & p=$!
(read -r _; kill "$p") <&3 > /dev/null 2>&1 & w=$!
exec 3<&-
wait "$p"; code=$?
kill "$w"
exit "$code"
"""
"""Part of a script that runs a client, with its redirections, until the input of the script ends.
The script must kill ``$p`` in its trap for signals."""
_HOST = re.compile(r"[A-Za-z0-9_.:\[\]%][A-Za-z0-9_.:\[\]%-]*", re.ASCII)
_USER = re.compile(r"[\w.@+$][\w.@+$-]*", re.ASCII)


def is_plain(address: Address) -> bool:
    """Whether host and user can stand in a configuration of SSH."""
    return bool(_HOST.fullmatch(address.host) and _USER.fullmatch(address.user))


def seen_by_others(address: Address | None, access: Access) -> Address | None:
    """The address of a site for other sites; None if the catalog has to state it."""
    if address is None:  # wfrun runs there itself
        if access.direct_host is None or access.user is None:
            return None
        return Address(access.direct_host, access.direct_port or 22, access.user, ())
    host = access.direct_host or address.host
    return address._replace(host=host, port=access.direct_port or address.port)


def sending_script(
    client: Sequence[str],
    source: str,
    to: Address,
    access: Access,
    files: Mapping[str, str] | None = None,
) -> str:
    """The script that runs ``client`` at a site with this ``access``. The script makes these files
    in the client's directory: ``config``, the configuration of SSH; ``file``, a link to the path
    ``source``; and ``files``, contents by name."""
    name = to.host if to.port == 22 else f"[{to.host.strip('[]')}]:{to.port}"
    known = "".join(f"{name} {key}\n" for key in to.host_keys)
    written = {"known_hosts": known, "config": _config(to, access), **(files or {})}
    return _SCRIPT.format(
        files=" &&\n".join(f"printf %s {shlex.quote(text)} > {n}" for n, text in written.items()),
        source=shlex.quote(source),
        under_input=UNDER_INPUT.format(client=f"{shlex.join(client)} < /dev/null > /dev/null"),
    )


def _config(to: Address, access: Access) -> str:
    options = {**_OPTIONS, "Port": str(to.port), "User": to.user}
    if access.direct == "forward":
        options["IdentityAgent"] = "SSH_AUTH_SOCK"
    elif access.direct_key is not None:
        options |= {"IdentityAgent": "none", "IdentitiesOnly": "yes"}
        options["IdentityFile"] = access.direct_key
    lines = [f"{name} {value}\n" for name, value in options.items()]
    # OpenSSH before 7.3 does not know these two.
    return "".join(["IgnoreUnknown Include,IdentityAgent\n", *lines])


def remote_path(to: Address, path: str) -> str:
    """A path at another site as rsync and scp write it."""
    host = to.host.strip("[]")
    return f"[{host}]:{path}" if ":" in host else f"{host}:{path}"
