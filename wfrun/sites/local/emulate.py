"""Emulated tasks: real processes with a task's run time, which write files of its output sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wfrun.engine.exchange import AttemptRequest


def emulated(
    request: AttemptRequest, *, runtime_s: float, output_sizes: Sequence[int]
) -> AttemptRequest:
    """Return ``request`` with its command replaced by one that sleeps ``runtime_s`` seconds and
    then writes the outputs. The request's own environment variables are removed.

    ``output_sizes`` has the size in bytes of each of ``request.outputs``, in order. The files are
    sparse and occupy no space. Negative times and sizes count as 0. If a standard stream is an
    output, its file gets its size too. The command needs ``sh``, ``sleep`` and ``truncate`` (GNU
    coreutils or busybox); no shell is started if one program suffices. Raises ValueError unless
    there is one size for each output.
    """
    if len(output_sizes) != len(request.outputs):
        raise ValueError(f"{len(output_sizes)} sizes for {len(request.outputs)} outputs")
    names_by_size: dict[int, list[str]] = {}
    for output, size_bytes in zip(request.outputs, output_sizes, strict=True):
        names_by_size.setdefault(max(0, size_bytes), []).append(output.name)
    commands = [("truncate", "-s", str(size), "--", *n) for size, n in names_by_size.items()]
    if runtime_s > 0:
        commands.insert(0, ("sleep", f"{runtime_s:.6f}"))
    # Variables such as PATH and LD_PRELOAD choose what a program is, and an emulated document is no
    # code: neither its command nor its environment counts.
    return msgspec.structs.replace(request, argv=_one_command(commands), env={})


def _one_command(commands: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return one shell command that runs ``commands`` in sequence; the last one replaces the shell.
    A single command is returned unchanged; without commands, ``true`` is returned.

    File names are arguments of the script and never part of its text.
    """
    if not commands:
        return ("true",)
    if len(commands) == 1:
        return commands[0]
    script = []
    words: list[str] = []
    for command in commands:
        first = len(words) + 1
        words.extend(command)
        script.append(" ".join(f'"${{{n}}}"' for n in range(first, len(words) + 1)))
    script[-1] = f"exec {script[-1]}"
    return ("sh", "-c", " && ".join(script), "sh", *words)
