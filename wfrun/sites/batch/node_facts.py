"""What the programs on a node have to know of their batch system."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Start(msgspec.Struct, frozen=True):
    """A command that starts a program on other nodes of its job."""

    words: tuple[str, ...]
    """The command, before the words of the program. The first word is looked for in PATH.
    ``{host}`` stands for the name of a node. A command without it starts the program on all nodes
    but the first, and may have ``{hosts}`` (their names, with commas), ``{count}`` (their number)
    and ``{cores}`` (the number of cores on each)."""
    number: str = ""
    """The variable with the number of the process, from 0, where one command starts all."""
    environment: Mapping[str, str] = {}
    """Variables for the command."""
    by_shell: bool = False
    """Whether a shell on the other node reads the words of the program, as with ssh."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What the programs on a node have to know of their batch system.

    It is sent to each site as ``bin/batch_system.json``, and read by ``batch_job.py`` there.
    Variables are those of the environment of a job; an empty name or command: there is none.
    Commands are lines for ``/bin/sh``.
    """

    node: str = ""
    """The variable with the system's own name of a node, where that may not be the host name. Of
    capital letters, digits and underscores."""
    end_s: str = ""
    """The variable with the time at which the job is ended, in seconds since the epoch."""
    walltime_s: str = ""
    """The variable with the walltime of the job, in seconds."""
    left: str = ""
    """The command that prints the time left: seconds, or ``[[days-]hours:]minutes:seconds``.
    Anything else means that no end is known. Only launchers ask, and only without ``end_s``."""
    hosts: str = ""
    """The command that prints the job's nodes, the first one first: the first word of each line.
    Names may be repeated. Only jobs on several nodes and parallel jobs ask."""
    starts: tuple[Start, ...] = ()
    """Commands that start a program on the other nodes; the first one that exists here is used."""
    warnings: tuple[str, ...] = ("SIGUSR1", "SIGUSR2", "SIGXCPU")
    """Signals to all processes of a job that precede its end by SIGTERM or SIGKILL."""
