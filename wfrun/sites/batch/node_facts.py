"""Facts about a batch system that the programs on its nodes need."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Start(msgspec.Struct, frozen=True):
    """A command that starts a program on other nodes of its job."""

    words: tuple[str, ...]
    """The command, before the words of the program. The first word is looked for in PATH.
    ``{host}`` stands for the name of a node. A command without ``{host}`` starts the program on all
    nodes but the first. It may have ``{hosts}`` (their names, with commas), ``{count}`` (their
    number) and ``{cores}`` (the number of cores on each)."""
    number: str = ""
    """The variable with the number of a process, from 0, if one command starts the program on all
    nodes but the first; else empty."""
    environment: Mapping[str, str] = {}
    """Variables for the command."""
    by_shell: bool = False
    """Whether a shell on the other node reads the words of the program, as with ssh."""


class NodeFacts(msgspec.Struct, frozen=True):
    """Facts about a batch system that the programs on its nodes need.

    The facts are sent to each site as ``bin/batch_system.json``, which ``batch_job.py`` reads
    there. Variables belong to the environment of a job. Commands are lines for ``/bin/sh``. An
    empty name or command means that the batch system has none.
    """

    node: str = ""
    """The variable with the batch system's name of a node, if that may differ from the host name.
    The variable's name consists of capital letters, digits and underscores."""
    end_s: str = ""
    """The variable with the time at which the job is ended, in seconds since the epoch."""
    walltime_s: str = ""
    """The variable with the walltime of the job, in seconds."""
    left: str = ""
    """The command that prints the time left: seconds, or ``[[days-]hours:]minutes:seconds``. Other
    output means that no end is known. Only launchers run the command, and only if ``end_s`` and
    ``walltime_s`` give no time."""
    hosts: str = ""
    """The command that prints the job's nodes, the first one first, as the first word of each line.
    Names may be repeated. Only jobs on several nodes and parallel jobs run the command."""
    starts: tuple[Start, ...] = ()
    """Commands that start a program on the other nodes; the first command that exists on the node
    is used."""
    warnings: tuple[str, ...] = ("SIGUSR1", "SIGUSR2", "SIGXCPU")
    """Signals to all processes of a job that precede its end by SIGTERM or SIGKILL."""
