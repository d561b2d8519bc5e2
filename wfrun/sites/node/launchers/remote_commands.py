"""Commands that a job starts on the other nodes of its claim, without a login there.

``rsh_agent.py`` asks the launcher of its node over a Unix socket. The launcher asks the engine, and
the engine asks the launcher of the other node, which starts the command. If both nodes have one
launcher, it starts the command without the engine. ``batch_launcher.py`` describes the messages.

A command runs in its own sandbox, with the job's inputs. The sandbox is also its HOME: Open MPI
starts processes in HOME if the directory of mpirun does not exist, as at another site. These
processes get the user's HOME back. The output of a command goes to a file in the sandbox, and the
end of it is part of the answer; then the sandbox is removed.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Callable, Dict, List, Optional, Set

    from wfrun.sites.node.launchers import rsh_agent
    from wfrun.sites.node.tasks import processes, store
    from wfrun.sites.node.tasks.environment import Setup
    from wfrun.sites.node.tasks.slots import THREADS
    from wfrun.sites.node.tasks.starter import inherited, several_claimed, spawn

    Request = Dict[str, Any]
    Message = Dict[str, Any]
else:
    import processes
    import rsh_agent
    import store
    from environment import Setup
    from slots import THREADS
    from starter import inherited, several_claimed, spawn

MAX_LINE_BYTES = 1 << 20
"""Maximum length of an agent's request, in bytes."""
SHARED_MEMORY = "/dev/shm"
OWN_MEMORY = "wfrun-"
"""Prefix of the names of our directories in SHARED_MEMORY."""
OUTPUT = ".wfrun-output"
"""Name of the file in the sandbox with a command's stdout and stderr."""
NOT_STARTED = 255
"""Exit status of a command that could not be started: that of ssh(1) in this case."""
RESOURCE_MANAGERS = "^slurm,gridengine,tm,lsf,alps,loadleveler"
"""Value of an Open MPI parameter that excludes these resource managers: they know only the nodes of
the launcher's own batch job."""


class Asked:
    """A command that a job on this node has requested, and the connection to its agent."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.received = b""
        self.message: "Optional[Message]" = None
        """Message with the command, for the launcher that is to run it; None: the agent's request
        is not complete yet."""
        self.is_local = False


class SharedMemory:
    """A directory for the shared memory of a command. Without it Open MPI would take the processes
    of two launchers on one machine for processes of one node."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._lock = lock
        """File descriptor of the directory, which is locked while this process lives."""

    @classmethod
    def make(cls, id: str) -> "Optional[SharedMemory]":
        """Make a directory; None if that fails. It is locked, then renamed to its final name, so
        that other launchers do not remove it as a leftover (``remove_left_memory``)."""
        path = "%s/%s%s" % (SHARED_MEMORY, OWN_MEMORY, id)
        new = "%s/.%s%s" % (SHARED_MEMORY, OWN_MEMORY, id)
        try:
            os.mkdir(new, 0o700)
            lock = os.open(new, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(new, path)
        except OSError:
            return None
        return cls(path, lock)

    def remove(self) -> None:
        """Remove the directory and release the lock."""
        store.remove_tree(self.path)
        os.close(self._lock)


def remove_left_memory() -> None:
    """Remove the shared-memory directories that killed launchers of this user have left on this
    node. These are the directories that no process has locked."""
    with contextlib.suppress(OSError):
        for name in os.listdir(SHARED_MEMORY):
            # With a dot: the launcher was killed before it renamed the directory.
            if name.startswith((OWN_MEMORY, "." + OWN_MEMORY)):
                with contextlib.suppress(OSError):  # it is locked, or somebody else's
                    _remove_if_left("%s/%s" % (SHARED_MEMORY, name))


def _remove_if_left(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            store.remove_tree(path)
    finally:
        os.close(lock)


class Command:
    """A command that runs on this node."""

    def __init__(self, id: str, sandbox: str, memory: "Optional[SharedMemory]") -> None:
        self.id = id
        self.sandbox = sandbox
        self.memory = memory
        """Shared memory of its processes; None: it has no directory of its own."""
        self.ends = False
        """Whether it is being ended."""


class RemoteCommands:
    """The commands that jobs on this node request, and the commands that run on this node."""

    def __init__(
        self,
        directory: str,
        launcher: str,
        node: int,
        poller: "select.poll",
        helpers: "Set[int]",
        say: "Callable[[str], None]",
        request_of: "Callable[[str], Optional[Request]]",
    ) -> None:
        """``helpers``: the set to which pids of commands are added. ``say`` sends a line to the
        engine. ``request_of`` returns the request of a running attempt by key."""
        self.running: "Dict[int, Command]" = {}
        """Commands that run here, by pid."""
        self.is_closing = False
        """Whether the launcher is ending all tasks. The ends of commands are not reported then,
        since they say nothing about the commands."""
        self._directory = directory
        self._launcher = launcher
        self._node = node
        self._poller = poller
        self._helpers = helpers
        self._say = say
        self._request_of = request_of
        self._name = ""
        self._server: "Optional[socket.socket]" = None
        self._asked: "Dict[int, Asked]" = {}
        """Commands with a connected agent, by file descriptor of its socket."""
        self._unanswered: "Dict[str, Asked]" = {}
        """Commands whose end is not known yet, by id, also after their agent has gone."""
        self._started = 0
        self._answers: "Dict[str, Message]" = {}
        """Reported ends of commands that ran here, by id, for repeated requests."""

    # -- for jobs on this node

    def variables(self, node_file: str) -> "Dict[str, str]":
        """Environment variables that make Open MPI 4 start its daemons with our agent. The first
        call opens the socket for agents."""
        if self._server is None:
            self._name = "wfrun-%s" % os.urandom(16).hex()
            self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._server.bind("\0" + self._name)
            self._server.listen(128)
            self._server.setblocking(False)
            self._poller.register(self._server.fileno(), select.POLLIN)
        agent = "%s -I -S %s/bin/rsh_agent.py" % (sys.executable, self._directory)
        return {
            "WFRUN_REMOTE": self._name,
            "WFRUN_RSH": agent,
            "OMPI_MCA_plm": "rsh",
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_orte_leave_session_attached": "1",
            "OMPI_MCA_orte_default_hostfile": node_file,
            "OMPI_MCA_orte_set_default_slots": "1",
            # The names of the nodes are known here alone.
            "OMPI_MCA_if_base_do_not_resolve": "1",
            "OMPI_MCA_ras": RESOURCE_MANAGERS,
            # Processors of the same node may be those of another job.
            "OMPI_MCA_hwloc_base_binding_policy": "none",
        }

    def owns(self, fd: int) -> bool:
        """Whether a file descriptor reported by the poller belongs to an agent's connection or to
        the socket at which agents connect."""
        return fd in self._asked or (self._server is not None and fd == self._server.fileno())

    def turn(self, fd: int) -> None:
        """Accept an agent, or read from one."""
        asked = self._asked.get(fd)
        if asked is None:
            self._accept()
            return
        try:
            data = asked.peer.recv(MAX_LINE_BYTES)
            asked.received += data
            if not data or len(asked.received) > MAX_LINE_BYTES:
                self._close(asked)
            elif asked.message is None and asked.received.endswith(b"\n"):
                self._ask(asked)
        except (OSError, ValueError, KeyError, TypeError):  # it is no agent, or has gone
            self._close(asked)

    def _accept(self) -> None:
        assert self._server is not None
        with contextlib.suppress(OSError):  # it has gone already
            peer, _ = self._server.accept()
            if rsh_agent.uid_of(peer) != os.getuid():
                peer.close()
                return
            self._asked[peer.fileno()] = Asked(peer)
            self._poller.register(peer.fileno(), select.POLLIN)

    def _ask(self, asked: Asked) -> None:
        """Handle an agent's complete request: start the command here, or pass it to the engine."""
        said = json.loads(asked.received.decode())
        request = self._request_of(said["attempt"])
        nodes = {} if request is None else {n["name"]: n for n in several_claimed(request)}
        node = nodes.get(said["host"])
        self._started += 1
        asked.message = {"id": "%s.%d.%d" % (self._launcher, self._node, self._started)}
        if node is None or request is None:
            text = "wfrun: the job has no node %s\n" % said["host"]
            self._answer(asked, {"status": NOT_STARTED, "text": text})
            return
        asked.message.update(
            launcher=node["launcher"],
            node=node["node"],
            attempt=said["attempt"],
            command=said["command"],
            inputs=request["inputs"],
            env=request["env"],
        )
        self._unanswered[asked.message["id"]] = asked
        asked.is_local = node["launcher"] == self._launcher and node["node"] == self._node
        if asked.is_local:
            self.start(dict(asked.message, environment=request.get("environment")))
        else:
            self._say(json.dumps({"remote": asked.message}))

    def _close(self, asked: Asked) -> None:
        """Disconnect an agent. If its command has not ended, end it."""
        fd = asked.peer.fileno()
        if fd < 0:
            return
        self._poller.unregister(fd)
        del self._asked[fd]
        asked.peer.close()
        if asked.message is None or asked.message["id"] not in self._unanswered:
            return
        if asked.is_local:
            self.end(asked.message["id"])
        else:
            self._say(json.dumps({"hangup": asked.message["id"]}))

    def _answer(self, asked: Asked, answer: "Message") -> None:
        with contextlib.suppress(OSError):  # the agent has gone
            asked.peer.sendall(json.dumps(answer).encode() + b"\n")
        self._close(asked)

    def on_answer(self, answer: "Message") -> None:
        """Pass the end of a requested command, with its exit status and output, to its agent, and
        disconnect the agent. Ignore an answer that is not awaited any more."""
        asked = self._unanswered.pop(answer["id"], None)
        if asked is not None:
            self._answer(asked, answer)

    def hang_up(self, attempt: str) -> bool:
        """End the commands that an ended attempt has requested. Returns whether the end of any of
        these commands is not known yet."""
        for asked in self._of(attempt):
            self._close(asked)
        return bool(self._of(attempt))

    def forget(self, attempt: str) -> None:
        """Forget the unanswered commands of an attempt: their ends are not awaited any more."""
        for asked in self._of(attempt):
            assert asked.message is not None
            del self._unanswered[asked.message["id"]]

    def forget_nodes(self, attempt: str, launchers: "Set[str]") -> None:
        """End and forget the commands of an attempt on the nodes of ``launchers``, which it has
        given back."""
        for asked in self._of(attempt):
            assert asked.message is not None
            if asked.message["launcher"] in launchers:
                self._close(asked)
                self._unanswered.pop(asked.message["id"], None)

    def _of(self, attempt: str) -> "List[Asked]":
        """The unanswered commands of an attempt."""
        return [
            asked
            for asked in self._unanswered.values()
            if asked.message is not None and asked.message["attempt"] == attempt
        ]

    def say_again(self) -> None:
        """Repeat the requests for unanswered commands over a new connection to an engine."""
        for id, asked in self._unanswered.items():
            if not asked.is_local:
                self._say(json.dumps({"remote": asked.message}))
                if asked.peer.fileno() < 0:
                    self._say(json.dumps({"hangup": id}))

    # -- for jobs on other nodes

    def start(self, message: "Message") -> None:
        """Start a command on this node. If it has ended before, report its end again."""
        id = message["id"]
        if id in self._answers:
            self._report(self._answers[id])
        elif all(command.id != id for command in self.running.values()):
            sandbox = "%s/attempts/%s@%s" % (self._directory, message["attempt"], id)
            try:
                self._start(message, sandbox)
            except (store.AttemptError, OSError, ValueError) as error:
                store.remove_tree(sandbox)
                self._report({"id": id, "status": NOT_STARTED, "text": "wfrun: %s\n" % error})

    def _start(self, message: "Message", sandbox: str) -> None:
        os.mkdir(sandbox, 0o755)
        for link in message["inputs"]:
            path = sandbox + "/" + store.inside(link["name"])
            store.make_parent(path)
            store.link_input(self._directory + "/files/" + store.inside(link["stored"]), path)
        given = dict.fromkeys(THREADS, "1")
        declared = dict(message["env"], WFRUN_ATTEMPT=message["attempt"], HOME=sandbox)
        memory = SharedMemory.make(message["id"])
        if memory is not None:
            declared["OMPI_MCA_btl_vader_backing_directory"] = memory.path
            # Its usual one is that of all jobs of the user, each of which removes it at its end.
            declared["OMPI_MCA_orte_tmpdir_base"] = memory.path
        home = os.environ.get("HOME", "")
        if home and not set(home) & set(" \t"):
            declared["OMPI_MCA_orte_fork_agent"] = "env HOME=" + home
        site = message.get("environment")
        argv = ["/bin/sh", "-c", message["command"]]
        if site:
            given.update(site["variables"])
            pseudo = {"argv": argv, "resources": {}, "environment": site, "key": message["attempt"]}
            setup = Setup(pseudo, sandbox, self._directory)
            if setup.prologue:
                argv = setup.write(given, declared)
        environment = dict(inherited(None), **given)
        environment.update(declared)
        output = os.open(sandbox + "/" + OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            os.chdir(sandbox)
            pid = spawn(argv[0], argv, environment, [null, output, output])
        finally:
            os.close(null)
            os.close(output)
        self._helpers.add(pid)
        self.running[pid] = Command(message["id"], sandbox, memory)

    def on_ended(self, pid: int, status: int) -> None:
        """Called when a command on this node has ended: report its end and remove its files."""
        command = self.running.pop(pid)
        text = store.tail(command.sandbox + "/" + OUTPUT)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if not self.is_closing:
            self._report({"id": command.id, "status": code, "text": text})
        store.remove_tree(command.sandbox)
        if command.memory is not None:
            command.memory.remove()

    def _report(self, answer: "Message") -> None:
        self._answers[answer["id"]] = answer
        if answer["id"] in self._unanswered:
            self.on_answer(answer)
        else:
            self._say(json.dumps({"remote_ended": answer}))

    def end(self, id: str) -> None:
        """Send SIGTERM to a command. If it has not started, report that, and never start it."""
        for pid, command in self.running.items():
            if command.id == id:
                command.ends = True
                processes.signal_group(pid, signal.SIGTERM)
        if id not in self._answers and all(each.id != id for each in self.running.values()):
            # It never came, and must not start later.
            self._report({"id": id, "status": NOT_STARTED, "text": ""})

    def end_all(self) -> None:
        """End all commands on this node, since the launcher is ending all tasks."""
        self.is_closing = True
        for command in list(self.running.values()):
            self.end(command.id)

    def kill(self, *, others: bool = False) -> None:
        """Send SIGKILL to the commands that are being ended, or with ``others`` to all."""
        for pid, command in self.running.items():
            if command.ends or others:
                processes.signal_group(pid, signal.SIGKILL)
