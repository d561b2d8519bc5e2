"""Carries out one notification: a shell command, or JSON that is posted to a URL.

Both are processes with a time limit, each in its own process group. Their input and output are
files, so that processes that they leave behind hold no pipe of the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.explain.visible import message_block
from wfrun.engine.settings import Settings
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.notices import post_json

LIMIT_S = 30.0
"""Timeout of a notification, in seconds. The end of a run waits for notifications."""
MAX_OUTPUT_BYTES = 1 << 16
"""Maximum size of the output of a notification, in bytes. A notification that writes more is
ended."""
_POLL_S = 0.1
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def check_targets(settings: Settings) -> None:
    """Raise InvalidError for a command or URL of the option ``on`` that cannot work."""
    for name, target in settings.on.items():
        if "\0" in target:
            raise InvalidError(f"--on {name}: the command has a NUL character")
        if _SCHEME.match(target):
            _expanded(name, target)


def _expanded(name: str, url: str) -> str:
    """Replace environment variables in a URL by their values, so that secrets appear in no command
    line and in no log. Raises InvalidError, without the URL, if a variable is not set or the URL is
    invalid."""
    for match in _VARIABLE.finditer(url):
        variable = match[1] or match[2]
        if not os.environ.get(variable):
            raise InvalidError(
                f"--on {name}: the environment variable {variable}, which its URL names, is not set"
            )
    url = _VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], url)
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable()
    except ValueError:
        valid = False
    if not valid or " " in url:
        raise InvalidError(f"--on {name}: this is no valid URL")
    if parts.scheme.lower() not in ("http", "https"):
        raise InvalidError(
            f"--on {name}: a URL begins with http:// or https://, and not {parts.scheme}://"
        )
    if parts.username is not None:
        raise InvalidError(
            f"--on {name}: a URL cannot have a user name or a password",
            hint="use a command, such as curl with a file of its own",
        )
    return url


async def carry_out(
    target: str, payload: Mapping[str, Any], variables: Mapping[str, str], run: RunDir
) -> str:
    """Run the command, or post to the URL. Returns the reason of a failure; empty after a
    success."""
    try:
        said = json.dumps(payload, indent=2).encode() + b"\n"
        if _SCHEME.match(target):
            # The URL may be a secret, so it is on no command line.
            url = _expanded(str(payload["on"]), target)
            argv = [sys.executable, "-I", str(Path(post_json.__file__)), str(LIMIT_S / 2)]
            return await _run(argv, url.encode() + b"\n" + said, {}, run, payload)
        return await _run(["/bin/sh", "-c", target], said, variables, run, payload)
    except WfrunError as error:
        return error.message
    except (OSError, ValueError) as error:  # no process, a full disk, a NUL
        return f"it cannot be carried out: {error}"


async def _run(
    argv: list[str], stdin: bytes, variables: Mapping[str, str], run: RunDir, payload: Any
) -> str:
    with (
        tempfile.TemporaryFile(dir=run.path) as given,
        tempfile.TemporaryFile(dir=run.path) as output,
    ):
        given.write(stdin)
        given.seek(0)
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=given,
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        error = "it was ended with wfrun"
        try:
            error = await _until_end(process, output)
        finally:
            # Also what the command left in the background: it ends with the notification.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            _keep(run, str(payload["on"]), error, output)
        return error


async def _until_end(process: asyncio.subprocess.Process, output: IO[bytes]) -> str:
    """Wait for the end of a process. Returns the reason of a failure; empty after a success."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + LIMIT_S
    waiter = asyncio.ensure_future(process.wait())
    try:
        while not waiter.done():
            await asyncio.wait([waiter], timeout=_POLL_S)
            if os.fstat(output.fileno()).st_size > MAX_OUTPUT_BYTES:
                return f"it wrote more than {MAX_OUTPUT_BYTES} bytes"
            if loop.time() > end_s:
                return f"it took longer than {LIMIT_S:g} s"
    finally:
        waiter.cancel()
    status = waiter.result()
    if status == 0:
        return ""
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    last = _content(output).strip().rpartition("\n")[2]
    return f"{how}: {last}" if last else how


def _content(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")


def _keep(run: RunDir, on: str, error: str, output: IO[bytes]) -> None:
    """Append the result and the output of a notification to the run's file of notifications."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [f"{at} {on}: {error or 'done'}", *_content(output).splitlines()]
    text = "\n  ".join(message_block(line) for line in lines) + "\n"
    with contextlib.suppress(OSError):
        fd = os.open(
            run.notifications, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        with open(fd, "a", encoding="utf-8") as file:
            file.write(text)
