"""What runs on head nodes is counted in the log, and shown at the end."""

from __future__ import annotations

import io

from rich.console import Console

from wfrun.engine.core.interpreter import Interpreter
from wfrun.engine.events import RunEnded, RunResumed, RunStarted, Settings, SiteCounted
from wfrun.engine.model import SiteSpec
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.run.sites.usage import HeadNodeUsage
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.transports.local_transport import LocalTransport


async def test_what_an_agent_ran_is_told_once() -> None:
    connection = Connection(("localhost",), lambda host, may_ask: LocalTransport())
    await connection.open(lambda reason: None)
    try:
        usage = HeadNodeUsage({3: connection}, lambda: 7.0)
        host = await connection.host()
        for _ in range(2):
            await host.run(["true"])
        (event,) = await usage.new_counts()
        assert (event.at_s, event.site, event.connections) == (7.0, 3, 1)
        assert event.commands["true"] == 2
        assert event.cpu_s > 0
        assert await usage.new_counts() == []
        await host.run(["true"])
        (event,) = await usage.new_counts()
        assert (event.connections, event.commands) == (0, {"true": 1})
    finally:
        await connection.close()


async def test_a_site_that_was_never_reached_is_not_told_of() -> None:
    connection = Connection(("nowhere",), lambda host, may_ask: LocalTransport())
    assert await HeadNodeUsage({0: connection}, lambda: 7.0).new_counts() == []


def test_the_summary_shows_the_sum_of_all_engines() -> None:
    interpreter = Interpreter({})
    sites = (SiteSpec("alpha", 4), SiteSpec("here", 2))
    for event in (
        RunStarted(0.0, "r1", Settings(policy="round-robin"), sites, (), 0),
        SiteCounted(60.0, 0, 1, {"sbatch": 1, "squeue": 10}, 0.5),
        RunResumed(61.0),
        SiteCounted(70.0, 0, 1, {"squeue": 2}, 0.26),
        RunEnded(71.0, "done"),
    ):
        interpreter.apply(event)
    text = io.StringIO()
    Console(file=text, width=200).print(summary(interpreter.state))
    line = "head node of alpha: 2 connections, 13 commands (12 squeue, 1 sbatch), 0.8 s CPU"
    assert line in text.getvalue()
    assert "head node of here" not in text.getvalue()
