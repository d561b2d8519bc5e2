"""A head node that has no Python for the agent, while its nodes have one: a few of the suite's
tests by plain commands. The machine's Python is hidden from the agent alone."""

from __future__ import annotations

import pytest

from tests.integration.conformance import ClusterOnTestbed, access_of
from wfrun.engine.model import Access
from wfrun.sites.remote.agent_client import AgentHost, NoPythonError

FEW = frozenset(
    {
        "test_a_success_took_its_time",
        "test_cancelled_only_if_queued",
        "test_clean_keeps_logs",
        "test_find_after_the_site_was_let_go",
        "test_inputs_and_outputs",
        "test_log_while_it_runs_and_of_nothing",
        "test_odd_file_names",
    }
)


async def _refuse(host: AgentHost) -> None:
    raise NoPythonError("it is hidden")


class TestPlainHost(ClusterOnTestbed):
    name = "alpha"

    @pytest.fixture(autouse=True)
    def _without_agent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AgentHost, "start", _refuse)

    def login(self) -> Access:
        return access_of("alpha", "openssh")

    def queue(self, slots: int) -> str:
        return f"slots{slots}"


for _name in dir(TestPlainHost):
    if _name.startswith("test_") and _name not in FEW:
        setattr(TestPlainHost, _name, None)  # what pytest does not take for a test
