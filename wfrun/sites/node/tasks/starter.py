"""Makes sandboxes and starts processes in them."""

import contextlib
import errno
import os
import stat
import time

if not hasattr(os, "posix_spawn"):  # Python 3.6 and 3.7: an import needs open files
    import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    from wfrun.sites.node.tasks.environment import Setup
    from wfrun.sites.node.tasks.limits import max_running, open_files
    from wfrun.sites.node.tasks.logs import MAX_PACKED_BYTES, MAX_SPARE_LOGS, Log, Logs, Pack
    from wfrun.sites.node.tasks.processes import boot_clock, kill_leftovers
    from wfrun.sites.node.tasks.slots import THREADS, RunningAttempt, Slots
    from wfrun.sites.node.tasks.store import (
        AttemptError,
        inside,
        link_input,
        make_parent,
        mode_of,
        remove,
        remove_tree,
    )

    Request = Dict[str, Any]
else:
    from environment import Setup
    from limits import max_running, open_files
    from logs import MAX_PACKED_BYTES, MAX_SPARE_LOGS, Log, Logs, Pack
    from processes import boot_clock, kill_leftovers
    from slots import THREADS, RunningAttempt, Slots
    from store import AttemptError, inside, link_input, make_parent, mode_of, remove, remove_tree

SPARE_MARGIN = 8
"""Number of spare sandboxes and pairs of logs in addition to one for each core: ended tasks keep
theirs until they are settled."""
SHORT_S = 0.1
"""Maximum run time of a short task, in seconds. While tasks are short, sandboxes and logs get their
final names only if a task fails or prints."""
FUNCTION = "wfrun_function.py"
"""Program name of tasks that are Python functions (``python_function.py``)."""


class Starter:
    """Claims attempts, makes their sandboxes and starts their processes. Sandboxes and empty logs
    of ended attempts are reused as spare ones (see ``Logs``)."""

    def __init__(
        self,
        directory: str,
        slots: Slots,
        pack_logs: bool = False,
        variables: "Optional[List[str]]" = None,
    ) -> None:
        """``variables``: names of the environment variables that tasks inherit; None: all."""
        self._directory = directory
        self.attempts = directory + "/attempts/"
        self.store = directory + "/files"
        self._slots = slots
        self._null = os.open(os.devnull, os.O_RDONLY)
        self._spares: "List[str]" = []
        self._logs = Logs(self.attempts)
        self._pack = Pack(directory + "/logs") if pack_logs else None
        self.max_running, self._max_spare_logs = max_running(MAX_SPARE_LOGS)
        """Maximum number of attempts with open logs, from the limit on open files."""
        self.spare_limit = 0
        """Maximum number of spare sandboxes, and of pairs of spare logs."""
        self.helpers: "Optional[Set[int]]" = None
        """Set to which the pid of the warm interpreter is added; None: no such interpreter is used.
        """
        self._interpreter: "Any" = None
        """The WarmInterpreter; None: not started yet, False: it has failed."""
        self.reach: "Optional[Callable[[RunningAttempt, str], Dict[str, str]]]" = None
        """Takes an attempt and the path of its node file. Returns the environment variables with
        which it starts processes on other nodes of its claim. None: tasks cannot do so."""
        self.has_short_tasks = False
        """Whether the last settled task was short (SHORT_S)."""
        self._programs: "Dict[Tuple[str, str], str]" = {}
        self._inherited = variables
        self._base: "Dict[str, str]" = {}
        """The inherited environment variables of all tasks. Set at the first start, when the
        launcher has removed its own variables."""

    def claim(self, attempt: RunningAttempt, is_known: "Callable[[], bool]") -> None:
        """Claim an attempt. Raises FileExistsError if another process, or this one earlier, has
        claimed it. ``is_known`` returns whether this process has seen the attempt's end."""
        attempt.out = self._logs.claim(attempt.key + ".out", is_known)

    def start(self, attempt: RunningAttempt, out: Log) -> None:
        """Start an attempt. ``out`` is its log of stdout, which is also its claim. Raises
        AttemptError, OSError or ValueError if the attempt cannot be started; ``undo`` then removes
        its sandbox."""
        request = attempt.request
        base = attempt.sandbox = self.attempts + attempt.key
        opened: "List[int]" = []
        try:
            if attempt.err is None:
                attempt.err = self._logs.open(attempt.key + ".err")
            is_redirected = request["stdin"] or request["stdout"] or request["stderr"]
            has_files = request["inputs"] or request["outputs"] or hosts_of(request)
            if attempt.setbacks:
                remove_tree(base)  # the last try may have failed to
            if not self._spares:
                os.mkdir(base, 0o755)
            elif self.has_short_tasks and not (is_redirected or has_files):
                # A rename costs more than it is worth: nobody looks into it unless the task fails.
                base = attempt.sandbox = self._spares.pop()
            else:
                os.rename(self._spares.pop(), base)
            if request["inputs"] or request["outputs"]:
                self._place_files(request, base)
            streams = [self._null, out.fd, attempt.err.fd]
            if is_redirected:
                streams = self._redirect(request, base, streams, opened)
            # The task inherits the current directory, which the launcher uses for nothing else.
            os.chdir(base)
            given, declared = self._variables(attempt)
            self._base = self._base or inherited(self._inherited)
            environment = dict(self._base, **given)
            environment.update(declared)
            attempt.setup = None
            if request["resources"].get("container") or request.get("environment"):
                setup = Setup(request, base, self._directory)
                attempt.setup = setup if setup.is_needed else None
            if attempt.setup is None:
                argv = request["argv"]
                program = self._program(argv[0], environment.get("PATH", os.defpath))
            else:
                argv = attempt.setup.write(given, declared)
                program = argv[0]
            attempt.started_s = time.time()
            attempt.boot_s = boot_clock()
            attempt.pid = self._spawn(attempt, program, argv, environment, streams)
        finally:
            for fd in opened:
                os.close(fd)

    def vanished_input(self, attempt: RunningAttempt) -> "Optional[str]":
        """The name of an input that was removed from the store while its task ran, so that its
        symbolic link in the sandbox is dangling; None: there is none. Hard links keep the file."""
        for link in attempt.request["inputs"]:
            path = attempt.sandbox + "/" + link["name"]
            with contextlib.suppress(OSError):  # a setback, which says nothing
                if os.path.islink(path) and not mode_of(path):
                    return str(link["name"])
        return None

    def undo(self, attempt: RunningAttempt) -> None:
        """Remove the sandbox of an attempt whose start has failed. Its logs stay: one of them is
        its claim."""
        if attempt.sandbox:
            remove_tree(attempt.sandbox)

    def show(self, attempt: RunningAttempt) -> None:
        """Give the logs of a running attempt their final names, so that users find them."""
        with contextlib.suppress(OSError):
            if attempt.out is not None:
                self._logs.show(attempt.out, attempt.key + ".out")
            if attempt.err is not None:
                self._logs.show(attempt.err, attempt.key + ".err")

    def retire(self, attempt: RunningAttempt, empty_sandbox: bool) -> "Optional[List[Any]]":
        """Close or reuse the logs of an ended attempt. With ``empty_sandbox`` empty its sandbox,
        and remove or reuse it; else keep the sandbox under its final name. Returns the place of the
        attempt's output in the pack; None: the output is in the logs."""
        base = attempt.sandbox
        named = self.attempts + attempt.key
        limit = self.spare_limit
        packed = None
        if self._pack is not None and limit and attempt.out is not None and attempt.err is not None:
            packed = self._pack_logs(self._pack, attempt, attempt.out, attempt.err)
        logs = min(2 * limit, self._max_spare_logs)
        if attempt.out is not None:
            self._logs.retire(attempt.out, attempt.key + ".out", logs, True)
        if attempt.err is not None:
            self._logs.retire(attempt.err, attempt.key + ".err", logs, False)
        if base and empty_sandbox:
            self._clear(base, named, limit)
        elif base and base != named:
            with contextlib.suppress(OSError):
                os.rename(base, named)
        return packed

    def _pack_logs(
        self, pack: Pack, attempt: RunningAttempt, out: Log, err: Log
    ) -> "Optional[List[Any]]":
        """Move the output of a task to the pack; returns its place. None: it stays in the logs,
        since it is empty, too long, or cannot be written."""
        try:
            sizes = os.fstat(out.fd).st_size, os.fstat(err.fd).st_size
            if not 0 < sum(sizes) <= MAX_PACKED_BYTES:
                return None
            packed = pack.add(attempt.key, (out, sizes[0]), (err, sizes[1]))
            os.ftruncate(out.fd, 0)
            os.ftruncate(err.fd, 0)
        except OSError:  # e.g. the disk is full
            return None
        return packed

    def _clear(self, base: str, named: str, limit: int) -> None:
        """Empty a sandbox and keep it as a spare one, or remove it if there are ``limit`` spare
        ones already."""
        if len(self._spares) >= limit:
            remove_tree(base)
            return
        try:
            for name in os.listdir(base):
                if not remove(base + "/" + name):  # the next task would find it
                    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), base)
            if base == named:
                base = self._logs.spare_name()
                os.rename(named, base)
        except OSError:
            remove_tree(base)
            remove_tree(named)
        else:
            self._spares.append(base)

    def close(self) -> None:
        """Remove spare sandboxes and logs."""
        while self._spares:
            remove_tree(self._spares.pop())
        self._logs.close()

    def _place_files(self, request: "Request", sandbox: str) -> None:
        """Link the inputs into a sandbox, and make the directories of the outputs. Raises
        AttemptError if an input is not in the store."""
        for link in request["inputs"]:
            stored = self.store + "/" + link["stored"]
            if not mode_of(stored):
                raise AttemptError(
                    "staging", "its input %r is not in the site's store" % link["name"]
                )
            path = sandbox + "/" + inside(link["name"])
            if "/" in link["name"]:
                make_parent(path)
            link_input(stored, path)
        for output in request["outputs"]:
            if "/" in inside(output["name"]):
                make_parent(sandbox + "/" + output["name"])

    def _redirect(
        self, request: "Request", sandbox: str, streams: "List[int]", opened: "List[int]"
    ) -> "List[int]":
        """Replace each of the three ``streams`` that the request redirects by a file of the
        sandbox; returns the streams. New file descriptors are added to ``opened``."""
        stdin, stdout, stderr = request["stdin"], request["stdout"], request["stderr"]
        if stdin:
            try:
                streams[0] = os.open(sandbox + "/" + inside(stdin), os.O_RDONLY)
            except FileNotFoundError:
                raise AttemptError("staging", "its standard input %r is absent" % stdin) from None
            opened.append(streams[0])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        for number, name in ((1, stdout), (2, stderr)):
            if not name:
                continue
            if number == 2 and name == stdout:
                streams[2] = streams[1]
                continue
            path = sandbox + "/" + inside(name)
            make_parent(path)
            remove(path)  # the link of an input of the same name, not the stored file
            streams[number] = os.open(path, flags, 0o644)
            opened.append(streams[number])
        return streams

    def _variables(self, attempt: RunningAttempt) -> "Tuple[Dict[str, str], Dict[str, str]]":
        """The environment variables that a task gets in addition to the inherited ones: first those
        of its site and its grant (threads, GPUs), then those of its document and its node file."""
        cores, _, gpus, _ = attempt.grant
        given = dict.fromkeys(THREADS, str(cores))
        site = attempt.request.get("environment")
        if site:
            given.update(site["variables"])
        if gpus:
            given["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        declared = dict(attempt.request["env"], WFRUN_ATTEMPT=attempt.key)
        hosts = hosts_of(attempt.request)
        if hosts:
            declared.update(self._node_file(attempt, hosts))
        return given, declared

    def _node_file(self, attempt: RunningAttempt, hosts: "List[str]") -> "Dict[str, str]":
        """Write the node file of a parallel task; returns the environment variables for it. Raises
        AttemptError if there are not as many hosts as requested.

        The file has a line for each core with the name of its host: the format of PBS, which every
        mpirun reads. mpirun starts a process for each line, so each process gets one thread.
        """
        asked = attempt.request["resources"]
        claimed = several_claimed(attempt.request)
        if len(hosts) != asked["nodes"] and not claimed:
            text = "it needs %d nodes, and its job has these: %s"
            raise AttemptError("node", text % (asked["nodes"], " ".join(hosts)))
        path = self.attempts + attempt.key + "/.wfrun-nodes"
        counts = [node["processes"] for node in claimed]
        counts = counts or [asked["cores"] // asked["nodes"]] * len(hosts)
        with open(path, "w") as file:
            for host, count in zip(hosts, counts):
                file.write((host + "\n") * count)
        variables = dict(dict.fromkeys(THREADS, "1"), WFRUN_NODEFILE=path)
        if claimed and self.reach is not None:
            variables.update(self.reach(attempt, path))
        return variables

    def _program(self, name: str, path: str) -> str:
        """Find the executable ``name`` by the search path ``path``. Relative paths are relative to
        the sandbox, the current directory. Absolute results are cached. Raises AttemptError."""
        found = self._programs.get((name, path))
        if found is not None:
            return found
        if "/" in name:
            candidates = [name]
        else:
            candidates = [os.path.join(entry, name) for entry in path.split(os.pathsep)]
        for candidate in candidates:
            mode = mode_of(candidate)
            if mode and not stat.S_ISDIR(mode) and os.access(candidate, os.X_OK):
                if candidate.startswith("/"):
                    self._programs[name, path] = candidate
                return candidate
        for candidate in candidates:
            if mode_of(candidate):
                raise AttemptError(
                    "launch-failed", "executable %r is not executable (see chmod)" % candidate
                )
        where = "is absent" if "/" in name else "is not in the site's PATH (%s)" % path
        raise AttemptError("launch-failed", "executable %r %s" % (name, where))

    def _spawn(
        self,
        attempt: RunningAttempt,
        program: str,
        argv: "List[str]",
        environment: "Dict[str, str]",
        streams: "List[int]",
    ) -> int:
        """Start the process of an attempt; returns its pid."""
        pins = attempt.grant[3]
        if pins:
            os.sched_setaffinity(0, pins)  # inherited by the task
        try:
            if self.helpers is not None and argv[1:2] == [FUNCTION]:
                pid = self._start_function(program, argv, environment, streams, pins)
                if pid:
                    return pid
            try:
                return spawn(program, argv, environment, streams)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a #! line, which execvp(3) gives to the shell too.
                return spawn("/bin/sh", ["sh", program, *argv[1:]], environment, streams)
        except FileNotFoundError:
            self._programs.clear()
            text = "executable %r, or the interpreter that its first line names, is absent"
            raise AttemptError("launch-failed", text % program) from None
        finally:
            if pins:
                os.sched_setaffinity(0, self._slots.allowed)

    def _start_function(
        self,
        program: str,
        argv: "List[str]",
        environment: "Dict[str, str]",
        streams: "List[int]",
        pins: "List[int]",
    ) -> int:
        """Start a Python function in a child of the warm interpreter; returns its pid. 0: it has to
        be started as a command, since it needs another interpreter or the warm one has failed.
        Raises AttemptError if the warm interpreter dies."""
        assert self.helpers is not None
        try:
            if self._interpreter is None:
                path = os.path.realpath(argv[1])
                names: "Dict[str, Any]" = {"__name__": "wfrun_function"}
                with open(path, "rb") as file:
                    exec(compile(file.read(), path, "exec"), names)
                self._interpreter = names["WarmInterpreter"](spawn, program, path, environment)
                self.helpers.add(self._interpreter.pid)
            if not (self._interpreter and self._interpreter.can(program, environment)):
                return 0
        except Exception as error:
            os.write(2, b"Python functions are started as commands: %r\n" % error)
            self._interpreter = False
            return 0
        try:
            return int(self._interpreter.start(argv, environment, streams, pins))
        except (OSError, EOFError) as error:
            self._interpreter = False
            kill_leftovers({environment["WFRUN_ATTEMPT"]}, [])
            raise AttemptError("lost", "its warm interpreter is gone: %s" % error) from None


def inherited(names: "Optional[List[str]]") -> "Dict[str, str]":
    """The environment variables of this process that tasks inherit: those in ``names``, where a
    final ``*`` stands for any characters; None: all."""
    if names is None:
        return dict(os.environ)
    whole = {name for name in names if not name.endswith("*")}
    starts = tuple(name[:-1] for name in names if name.endswith("*"))
    return {
        name: value
        for name, value in os.environ.items()
        if name in whole or name.startswith(starts)
    }


def spawn(
    program: str, argv: "List[str]", environment: "Dict[str, str]", streams: "List[int]"
) -> int:
    """Start a process in the current directory and in its own process group; returns its pid.
    ``streams``: file descriptors for stdin, stdout and stderr. Raises OSError."""
    posix_spawn = getattr(os, "posix_spawn", None)
    if posix_spawn is None:  # Python 3.6 and 3.7
        return popen(program, argv, environment, streams)
    dup2 = getattr(os, "POSIX_SPAWN_DUP2", 1)
    low = open_files.below(streams)
    actions = [(dup2, stream, number) for number, stream in enumerate(low)]
    open_files.lower()
    try:
        return int(posix_spawn(program, argv, environment, file_actions=actions, setpgroup=0))
    finally:
        open_files.restore()


def popen(
    program: str, argv: "List[str]", environment: "Dict[str, str]", streams: "List[int]"
) -> int:
    """Implements ``spawn`` for Python versions without posix_spawn."""
    process = subprocess.Popen(
        argv,
        executable=program,
        env=environment,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        start_new_session=True,
        preexec_fn=open_files.lower,  # noqa: PLW1509 - Popen opens a pipe, so not before it
    )
    process.returncode = 0  # We wait for it ourselves.
    return process.pid


def hosts_of(request: "Request") -> "List[str]":
    """The names of the nodes of a task that gets a node file; empty for other tasks. A parallel job
    without nodes of its own runs on ``localhost``."""
    hosts: "List[str]" = [node["name"] for node in several_claimed(request)]
    hosts = hosts or request.get("hosts") or []
    return hosts or (["localhost"] if request["resources"].get("parallel") else [])


def several_claimed(request: "Request") -> "List[Dict[str, Any]]":
    """The nodes of a task's claim (ClaimedNode of ``wfrun.engine.exchange``), if the claim has
    several nodes or the task is malleable; else empty."""
    claimed: "List[Dict[str, Any]]" = request.get("claimed") or []
    return claimed if len(claimed) > 1 or request.get("malleable") else []
