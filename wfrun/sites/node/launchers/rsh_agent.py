"""Starts a command on another node of a job's claim, as ``ssh`` would: an agent for Open MPI.

    rsh_agent.py HOST COMMAND...

mpirun runs this agent (``plm_rsh_agent``) for each node of its host file. The agent passes the
command to the launcher of this node (``remote_commands.py``) and waits for the command's end. Then
it prints the last part of the command's output on stderr, and exits with the command's status; with
255, like ssh, if the command was not started. If the agent ends early, the command is ended. It
needs only the standard library of Python >= 3.6.
"""

import json
import os
import socket
import struct
import sys

CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid of a peer, as SO_PEERCRED returns them; see unix(7)."""


def uid_of(peer: socket.socket) -> int:
    """The uid of the process at the other end of a Unix socket."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(found)[1])


def main() -> int:
    """Start the command; returns its status."""
    asked = {
        "attempt": os.environ["WFRUN_ATTEMPT"],
        "host": sys.argv[1],
        "command": " ".join(sys.argv[2:]),
    }
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect("\0" + os.environ["WFRUN_REMOTE"])
    if uid_of(peer) != os.getuid():
        raise OSError("the launcher is one of another user")
    peer.sendall(json.dumps(asked).encode() + b"\n")
    with peer.makefile("rb") as stream:
        line = stream.readline()
    if not line:
        raise OSError("the launcher has ended")
    answer = json.loads(line.decode())
    sys.stderr.write(answer["text"])
    return int(answer["status"])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write("wfrun: no process could be started on another node: %s\n" % error)
        sys.exit(255)
