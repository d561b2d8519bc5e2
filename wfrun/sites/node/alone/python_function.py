"""Calls a function of a Python file: as a command, or in a child of a warm interpreter.

It needs only the standard library of Python >= 3.6. It is sent to a site as an input of the tasks
that use it, under the name ``wfrun_function.py``, and is run there as their command:

    python3 wfrun_function.py FILE FUNCTION ARGUMENTS RESULT

imports FILE as a module, calls its FUNCTION, and writes the return value, as JSON, to RESULT.
ARGUMENTS is a JSON object:

    {"args": [...], "kwargs": {...}}   arguments of the call
    {"files": [[where, file], ...]}    the JSON content of each file replaces an argument: ``where``
                                       is a positional argument's number, from 0, or a keyword

To avoid starting an interpreter for each task, a launcher runs this file once, as

    python3 wfrun_function.py --serve

with a socket as standard input, and requests a process for each task (``WarmInterpreter``). The
server forks twice and the intermediate child exits at once, so that the launcher, a subreaper,
becomes the parent of the process and treats it like any other task. The process overwrites
WFRUN_ATTEMPT in its initial environment, which /proc shows.

Request: length (4 bytes), JSON {"argv", "env", "cwd", "pins"}, with the three standard streams as
ancillary data of the first byte. Answer: the pid (4 bytes). When the server is ready, before any
request, it sends 0.
"""

import json
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from types import CodeType
    from typing import Any, Callable, Dict, List, Optional, Tuple

NAME = "wfrun_function.py"
"""Name of this file at a site."""
MARK = "WFRUN_ATTEMPT"
"""Environment variable with the attempt's key, as in ``processes.py``."""
MARK_BYTES = 200
"""Space in bytes for an attempt's key in the server's environment: the key's maximum length."""
PATIENCE_S = 60.0
"""Timeout in seconds of the start of an interpreter and of each of its answers."""
SAME = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME", "VIRTUAL_ENV")
"""Prefixes of the environment variables that an interpreter reads when it starts."""
_LENGTH = struct.Struct("=i")


# ------------------------------------------------------------------------------------ the command


def _call(argv: "List[str]", code: "Optional[CodeType]") -> None:
    """Call the function and write its result. ``code``: the compiled FILE; None: compile it."""
    path, function, arguments, result = argv
    sys.path[0] = os.getcwd()  # where the other inputs are; the file itself may be a link
    name = os.path.basename(path)
    module = type(sys)(name[:-3] if name.endswith(".py") else name)
    module.__file__ = os.path.abspath(path)
    sys.modules[module.__name__] = module
    exec(code or _compiled(path), module.__dict__)
    words = json.loads(arguments)
    args, kwargs = words.get("args", []), words.get("kwargs", {})
    for where, file in words.get("files", []):
        with open(file, encoding="utf-8") as stream:
            value = json.load(stream)
        if isinstance(where, int):
            args[where] = value
        else:
            kwargs[where] = value
    text = json.dumps(getattr(module, function)(*args, **kwargs))
    with open(result, "w", encoding="utf-8") as stream:
        stream.write(text)


def _compiled(path: str) -> "CodeType":
    with open(path, "rb") as file:
        return compile(file.read(), os.path.basename(path), "exec", dont_inherit=True)


def _call_and_exit(argv: "List[str]", code: "Optional[CodeType]" = None) -> None:
    """Run ``_call``, wait for threads, run exit handlers, flush the standard streams, and exit. The
    interpreter's complete shutdown would take longer than all these steps."""
    status = 0
    try:
        _call(argv, code)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if status and not isinstance(end.code, int):
            sys.stderr.write("%s\n" % end.code)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 1
    try:
        if "threading" in sys.modules:  # those that are no daemons are waited for
            sys.modules["threading"]._shutdown()
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()
        sys.stderr.flush()
        sys.stdout.flush()
    except OSError:
        status = status or 120
    finally:
        os._exit(status & 0xFF)


# --------------------------------------------------------------------------- the warm interpreter


def serve() -> "Tuple[List[str], Optional[CodeType]]":
    """Fork a process for each request. In the new process, return the arguments and the compiled
    file. In the server, never return: the server exits when its socket is closed."""
    import ctypes
    import gc
    import socket

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    mark = getenv(MARK.encode())
    channel = socket.socket(fileno=os.dup(0))
    os.chdir("/")
    codes: "Dict[Tuple[str, int, int], CodeType]" = {}
    channel.sendall(_LENGTH.pack(0))
    # Objects that the collector ignores stay shared with the children (Python >= 3.7).
    getattr(gc, "freeze", int)()
    while True:
        request, streams = _receive(channel)
        code = _known(os.path.join(request["cwd"], request["argv"][2]), codes)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            for fd in streams:
                os.close(fd)
            continue
        pid = os.fork()
        if pid:
            os.setpgid(pid, pid)
            channel.sendall(_LENGTH.pack(pid))
            os._exit(0)
        os.setpgid(0, 0)
        channel.close()
        _settle_in(request, streams)
        key = request["env"][MARK].encode()
        ctypes.memmove(mark, key.ljust(MARK_BYTES, b"\0"), MARK_BYTES)
        return request["argv"][2:], code


def _settle_in(request: "Dict[str, Any]", streams: "List[int]") -> None:
    """Set the directory, standard streams, environment and cores of a new process."""
    if request["pins"]:
        os.sched_setaffinity(0, request["pins"])
    os.chdir(request["cwd"])
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["env"])


def _known(path: str, codes: "Dict[Tuple[str, int, int], CodeType]") -> "Optional[CodeType]":
    """Return the compiled file, and cache it in ``codes``. None if it cannot be compiled: the task
    then compiles the file itself, and fails with the error."""
    try:
        stat = os.stat(path)
        identity = (os.path.basename(path), stat.st_ino, stat.st_mtime_ns)
        if identity not in codes:
            codes[identity] = _compiled(path)
        return codes[identity]
    except Exception:  # of any kind, from the compiler
        return None


def _receive(channel: "socket.socket") -> "Tuple[Dict[str, Any], List[int]]":
    """Receive the next request and its standard streams. Exits if the socket is closed."""
    import array

    streams = array.array("i")
    head, ancillary, _, _ = channel.recvmsg(_LENGTH.size, 4 * streams.itemsize * 4)
    for _, _, data in ancillary:
        streams.frombytes(data[: len(data) - len(data) % streams.itemsize])
    if not head:
        os._exit(0)
    head += _exactly(channel, _LENGTH.size - len(head))
    return json.loads(_exactly(channel, _LENGTH.unpack(head)[0]).decode()), list(streams)


def _exactly(channel: "socket.socket", count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            raise EOFError("the other end is gone")
        data += more
    return data


# ------------------------------------------------------------------------------- in the launcher


class WarmInterpreter:
    """The launcher's side of a warm interpreter. The constructor starts it.

    ``program`` is the path of the interpreter, ``script`` the path of this file. The constructor
    calls ``spawn(program, argv, environment, streams)``, which starts a process and returns its
    pid. Raises OSError or EOFError if the start fails.
    """

    def __init__(
        self,
        spawn: "Callable[[str, List[str], Dict[str, str], List[int]], int]",
        program: str,
        script: str,
        environment: "Dict[str, str]",
    ) -> None:
        import socket

        self._program = program
        self._alike = alike(environment)
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(PATIENCE_S)
        null = os.open(os.devnull, os.O_WRONLY)
        argv = [program, os.path.realpath(script), "--serve"]
        environment = dict(environment, **{MARK: "-" * MARK_BYTES})
        try:
            self.pid = spawn(program, argv, environment, [theirs.fileno(), null, 2])
        finally:
            theirs.close()
            os.close(null)
        _exactly(self._channel, _LENGTH.size)

    def can(self, program: str, environment: "Dict[str, str]") -> bool:
        """Whether a task with this program and environment may run in a child of this
        interpreter."""
        return (
            program == self._program
            and alike(environment) == self._alike
            and len(environment[MARK]) <= MARK_BYTES
        )

    def start(
        self,
        argv: "List[str]",
        environment: "Dict[str, str]",
        streams: "List[int]",
        pins: "List[int]",
    ) -> int:
        """Start a process in the current directory and in its own process group; returns its pid.
        After OSError or EOFError it is unknown whether the process was started."""
        import array
        import socket

        words = {"argv": argv, "env": environment, "cwd": os.getcwd(), "pins": list(pins)}
        text = json.dumps(words).encode()
        data = _LENGTH.pack(len(text)) + text
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))
        sent = self._channel.sendmsg([data], [rights])
        self._channel.sendall(data[sent:])
        return int(_LENGTH.unpack(_exactly(self._channel, _LENGTH.size))[0])


def alike(environment: "Dict[str, str]") -> "Dict[str, str]":
    """The variables of ``environment`` that an interpreter reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(SAME)}


def main() -> None:
    """Run the command, or the server."""
    if sys.argv[1:] == ["--serve"]:
        _call_and_exit(*serve())
    elif len(sys.argv) == 5:
        _call_and_exit(sys.argv[1:])
    else:
        sys.exit("usage: %s FILE FUNCTION ARGUMENTS RESULT" % NAME)


if __name__ == "__main__":
    main()
