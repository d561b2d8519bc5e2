"""The shell script that sets up the environment of a task, then runs the task.

It is used for a site with a prologue and for a task in a container; other tasks are started
directly. The script runs in the sandbox, in stages. It writes the name of its stage to a file:

    shell    a login shell reads its profiles, if the site has a prologue
    1, 2, …  the items of the prologue run
    image    the checksum of the container's image is tested, before its first use at this site
    program  the program, or the container runtime, is searched for in PATH

When the task starts, the file is emptied. If the script ends earlier, by `exit 0` in a profile, a
syntax error or a signal, the file shows that the setup has failed, and at which stage.
"""

import os
import re
from shlex import quote

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Callable, Dict, List, Optional

    from wfrun.sites.node.tasks.store import AttemptError, inside

    Request = Dict[str, Any]
else:
    from store import AttemptError, inside

SCRIPT = ".wfrun-script"
STAGE = ".wfrun-stage"
"""Names of two files in the sandbox: the script, and the file with the script's stage."""
STOP_S = 2
"""Time in seconds between SIGTERM and SIGKILL in a container of a runtime in _DETACHED. Shorter
than ``runner.GRACE_S``, after which only the runtime's client would be killed."""

_DETACHED = ("docker", "podman")
"""Runtimes whose containers run outside of the process group of their client."""
_LOGIN = 'exec 3<&0 4>&1 </dev/null >&2 && exec "$@"'
"""Connects the task's standard input and output to descriptors 3 and 4, so that the login shell
neither reads that input nor prints into that output."""
_FAILED_TO_START = {
    "apptainer": (255, r"^FATAL: "),
    "singularity": (255, r"^FATAL: "),
    "docker": (125, r"^docker: "),
    "podman": (125, r"^Error: "),
}
"""By runtime: the exit code and a pattern of stderr that together show that no container could be
started. The exit code alone is not enough, since a task may exit with it too."""


class Setup:
    """The setup of one attempt's environment. Raises AttemptError if the attempt declares a
    container and the site runs none."""

    def __init__(self, request: "Request", sandbox: str, directory: str) -> None:
        """``directory`` is the run's directory at the site."""
        site = request.get("environment") or {}
        self.prologue: "List[str]" = site.get("prologue") or []
        self.sandbox = sandbox
        self._request = request
        self._runtime: "Optional[Dict[str, Any]]" = site.get("container")
        self._directory = directory
        declared = request["resources"].get("container")
        if declared is None and self._runtime is not None and self._runtime.get("image"):
            declared = {"image": self._runtime["image"]}
        self.container: "Optional[Dict[str, Any]]" = declared
        if declared is not None and self._runtime is None:
            text = "its document declares a container, and the site runs none"
            raise AttemptError("environment", text)

    @property
    def is_needed(self) -> bool:
        """Whether the task needs the script."""
        return bool(self.prologue) or self.container is not None

    @property
    def is_detached(self) -> bool:
        """Whether the task runs outside of the attempt's process group (see _DETACHED)."""
        return self.container is not None and self._name in _DETACHED

    @property
    def _name(self) -> str:
        assert self._runtime is not None
        return str(self._runtime["name"])

    def write(self, base: "Dict[str, str]", declared: "Dict[str, str]") -> "List[str]":
        """Write the script; returns the command that runs it. The environment variables ``base``
        are set before the prologue, ``declared`` after it."""
        self._put(STAGE, "shell")
        self._put(SCRIPT, "\n".join(self._script(base, declared)) + "\n")
        path = os.path.join(self.sandbox, SCRIPT)
        if not self.prologue:
            return ["/bin/sh", path]
        shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
        return ["/bin/sh", "-c", _LOGIN, "sh", shell, "-l", path]

    def failure(
        self, code: "Optional[int]", stderr: "Callable[[], str]"
    ) -> "Optional[AttemptError]":
        """The error of the setup of an ended attempt; None if the setup has succeeded. ``code`` is
        the attempt's exit code, ``stderr`` returns the last part of its stderr."""
        try:
            with open(os.path.join(self.sandbox, STAGE)) as file:
                stage = file.read().strip()
        except OSError:
            stage = ""  # the task has removed it
        if not stage:
            return self._not_started(code, stderr)
        ended = "" if code is None else " (exit code %d)" % code
        if stage == "program":
            return self._no_program()
        if stage == "image":
            text = (
                "its container image at the site is not the one that was sent: its checksum differs"
            )
        elif stage.isdigit() and 0 < int(stage) <= len(self.prologue):
            line = self.prologue[int(stage) - 1]
            text = "item %s of the site's prologue failed%s: %s" % (stage, ended, line)
        else:
            text = (
                "the login shell ended before the prologue%s: see ~/.profile and the like" % ended
            )
        return AttemptError("environment", text)

    def _not_started(
        self, code: "Optional[int]", stderr: "Callable[[], str]"
    ) -> "Optional[AttemptError]":
        if self.container is None or self._name not in _FAILED_TO_START:
            return None
        expected, pattern = _FAILED_TO_START[self._name]
        if code != expected or not re.search(pattern, stderr(), re.MULTILINE):
            return None
        return AttemptError("environment", "%s could not start its container" % self._name)

    def _no_program(self) -> AttemptError:
        if self.container is None:
            text = "executable %r is not at the site, or not in the PATH after its prologue"
            return AttemptError("launch-failed", text % self._request["argv"][0])
        program = self._command_of_runtime()[0]
        return AttemptError("environment", "the container runtime %r is not in the PATH" % program)

    def _put(self, name: str, text: str) -> None:
        path = os.path.join(self.sandbox, name)
        # An input of that name would be a link to a file of the store.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    # -- the script

    def _script(self, base: "Dict[str, str]", declared: "Dict[str, str]") -> "List[str]":
        stage = ">|%s" % quote(os.path.join(self.sandbox, STAGE))
        lines = exports(base) if self.prologue else []
        for number, item in enumerate(self.prologue, 1):
            lines += ["echo %d %s" % (number, stage), "eval %s || exit" % quote(item)]
        lines += ["cd %s || exit" % quote(self.sandbox), "unset OLDPWD", *exports(declared)]
        if self.container is None:
            command = self._request["argv"]
        else:
            lines += self._image_check(stage)
            if self._name in ("apptainer", "singularity"):
                # These variables are those of a container with a clean environment.
                prefix = self._name.upper() + "ENV_"
                lines += ['export %s%s="$%s"' % (prefix, n, n) for n in [*base, *declared]]
            command = self._command([*base, *declared])
        lines += ["echo program %s" % stage, "command -v %s >/dev/null || exit" % quote(command[0])]
        lines.append(": %s" % stage)
        if self.prologue:
            lines.append("exec <&3 >&4 3<&- 4>&-")
        words = " ".join(map(quote, command))
        return lines + (self._attended(words) if self.is_detached else ["exec " + words])

    def _attended(self, words: str) -> "List[str]":
        """Lines that run a container and stop it on SIGTERM. The client alone would only pass
        SIGTERM to the first process of the container, which ignores it unless it has a handler."""
        runtime = " ".join(map(quote, self._command_of_runtime()))
        stop = "%s stop --time %d %s" % (runtime, STOP_S, self._container_name)
        return [
            "exec 3<&0",  # the shell gives a background process /dev/null
            words + " <&3 3<&- &",
            "trap %s TERM" % quote(stop + " >/dev/null 2>&1"),
            "wait $!",
            "status=$?",
            # A trap ends `wait`.
            "while kill -0 $! 2>/dev/null; do wait $!; status=$?; done",
            "exit $status",
        ]

    def _image_check(self, stage: str) -> "List[str]":
        assert self.container is not None
        checksum = self.container.get("sha256")
        if not checksum or not self.container.get("is_staged"):
            return []
        path = self._image()
        found = os.stat(path)
        mark = os.path.join(self._directory, "attempts", "image-" + checksum)
        stamp = "%d %d" % (found.st_size, found.st_mtime_ns)
        try:
            with open(mark) as file:
                if file.read().strip() == stamp:
                    return []
        except OSError:
            pass
        # Without this mark the next run reads the cached image in full: see ``images.py``.
        cached = os.path.join(os.path.dirname(self._directory), "images", checksum + ".checked")
        return [
            "echo image %s" % stage,
            'if [ "$(sha256sum <%s | cut -c1-64)" != %s ]; then' % (quote(path), quote(checksum)),
            "rm -f %s; exit 1" % quote(cached),
            "fi",
            "echo %s >|%s" % (quote(stamp), quote(mark)),
        ]

    # -- the command line of the runtime

    def _image(self) -> str:
        """The path or the URL of the image."""
        assert self.container is not None
        image = str(self.container["image"])
        if self.container.get("is_staged"):
            return os.path.realpath(os.path.join(self.sandbox, inside(image)))
        return image if "://" in image else expanded(image)

    @property
    def _container_name(self) -> str:
        return "wfrun-" + str(self._request["key"])

    def _command_of_runtime(self) -> "List[str]":
        assert self._runtime is not None
        if self._name == "command":
            return list(self._runtime["command"])
        return [self._name, *(self._runtime.get("global_options") or [])]

    def _command(self, names: "List[str]") -> "List[str]":
        """The command that runs the task in its container. ``names``: environment variables to
        pass into the container."""
        assert self._runtime is not None
        assert self.container is not None
        argv: "List[str]" = self._request["argv"]
        image = self._image()
        files = os.path.join(self._directory, "files")
        if self._name == "command":
            places = {"{image}": image, "{sandbox}": self.sandbox, "{files}": files}
            return [filled(word, places) for word in self._command_of_runtime()] + argv
        binds = ["%s:%s" % (self.sandbox, self.sandbox), "%s:%s:ro" % (files, files)]
        for bind in self._runtime.get("binds") or []:
            source, colon, rest = bind.partition(":")
            binds.append(expanded(source) + ":" + (rest if colon else expanded(source)))
        binds += self.container.get("mounts") or []
        for bind in binds[:2]:
            if bind.count(":") != 1 + bind.endswith(":ro") or "," in bind:
                raise AttemptError(
                    "environment", "a container cannot see %r, whose name has ':' or ','" % bind
                )
        options = self._runtime.get("options") or []
        if self._name in _DETACHED:
            return [*self._run_options(binds, names), *options, reference(image), *argv]
        words = [*self._command_of_runtime(), "exec", "--cleanenv"]
        for bind in binds:
            words += ["--bind", bind]
        return [*words, "--pwd", self.sandbox, *options, image_of_apptainer(image), *argv]

    def _run_options(self, binds: "List[str]", names: "List[str]") -> "List[str]":
        words = [*self._command_of_runtime(), "run", "--rm", "--interactive"]
        words += ["--name", self._container_name]
        if self._name == "docker":
            # The daemon is root: the task is the user, and cannot become another one.
            words += ["--init", "--user", "%d:%d" % (os.getuid(), os.getgid())]
            words += ["--security-opt", "no-new-privileges"]
        else:
            # Root in a container is the user, whose rights podman has.
            words += ["--quiet", "--user", "0:0"]
        for bind in binds:
            words += ["--volume", bind]
        for name in names:
            words += ["--env", name]  # the value is on no command line
        # Without this the task's words would be arguments of a program that the image names.
        return [*words, "--entrypoint", "", "--workdir", self.sandbox]


def exports(variables: "Dict[str, str]") -> "List[str]":
    """Shell lines that set environment variables."""
    return ["export %s=%s" % (name, quote(value)) for name, value in variables.items()]


def expanded(path: str) -> str:
    """A path of the catalog with ``~`` and ``$NAME`` replaced. Raises AttemptError if the result is
    no absolute path."""
    found = os.path.expanduser(os.path.expandvars(path))
    if not found.startswith("/") or "$" in found:
        raise AttemptError("environment", "%r is no path at the site: %s" % (path, found))
    return found


def filled(word: str, places: "Dict[str, str]") -> str:
    """A word of a command with placeholders such as ``{image}`` replaced by ``places``."""
    return re.sub(r"\{\w+\}", lambda match: places[match.group()], word)


def reference(image: str) -> str:
    """The argument by which docker and podman refer to an image."""
    if image.startswith("docker://"):
        return image[len("docker://") :]
    return "docker-archive:" + image


def image_of_apptainer(image: str) -> str:
    """The argument by which apptainer refers to an image."""
    is_archive = image.endswith((".tar", ".tar.gz", ".tgz")) and "://" not in image
    return "docker-archive:" + image if is_archive else image
