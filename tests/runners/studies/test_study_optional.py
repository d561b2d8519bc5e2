"""``wfrun study optional``: its systems beside a slow one written from the paper, and a small
study."""

from __future__ import annotations

from math import inf
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from wfrun.runners.cli.main import cli
from wfrun.runners.metrics.optional_bags import deserved_core_s
from wfrun.studies.optional import command, paper
from wfrun.studies.optional.claims import CLAIMS
from wfrun.studies.optional.experiments import (
    BASE,
    BY_RATE,
    FAIR_QUEUE,
    FULL,
    VARIANTS,
    OptionalCell,
    OptionalRow,
    OptionalScale,
    cells,
    run_cell,
)
from wfrun.studies.optional.rules import PRINTED
from wfrun.studies.optional.scenarios import (
    CONSECUTIVE,
    DIURNAL,
    REGULAR,
    SCENARIOS,
    SIMULTANEOUS,
    VARIED,
    OptionalClient,
    arrival_rate,
    clients_of,
)
from wfrun.studies.optional.systems import (
    LEGACY,
    QUEUE,
    SERVERS,
    OptionalOutcome,
    SystemSetting,
    one_queue,
    queue_at_each_server,
)

TINY = OptionalScale(1, 1, 1, 1, (3, 100, 190, 300), (3, 30))


class Slow:
    """All servers of sections 3.2, 4.1 and 5.1, written from the paper: requests are looked through
    at every moment at which something happens. ``submitted``: of the legacy system."""

    def __init__(
        self, clients: list[OptionalClient], servers: int, submitted: int | None = None
    ) -> None:
        self.clients, self.servers, self.submitted = clients, servers, submitted
        count = len(clients)
        self.completed, self.killed = [0] * count, 0
        self.used_s = [[0.0] * servers for _ in clients]
        """r_allocated so far, at each server."""
        self.mandatory_left = [paper.MANDATORY] * count
        self.mandatory_s = [0.0] * count
        self.here: set[int] = set()
        self.gone: set[int] = set()
        self.queues: list[list[tuple[int, bool]]] = [[] for _ in range(servers)]
        """(client, whether mandatory), in the order of submission."""
        self.running: list[tuple[int, bool, float] | None] = [None] * servers
        """And the start."""

    def run(self) -> OptionalOutcome:
        now_s = 0.0
        while len(self.gone) < len(self.clients):
            for server in range(self.servers):
                self.end(server, now_s)
            for client, about in enumerate(self.clients):
                if about.arrival_s == now_s:
                    self.arrive(client)
            for client in sorted(self.here):
                due = self.clients[client].deadline_s <= now_s
                if due and not self.mandatory_left[client]:
                    self.leave(client, now_s)
            for server in range(self.servers):
                self.look(server, now_s)
            now_s = self.next_s(now_s)
        return OptionalOutcome(
            tuple(self.completed), tuple(map(sum, self.used_s)), tuple(self.mandatory_s),
            self.killed,
        )  # fmt: skip

    def next_s(self, now_s: float) -> float:
        times = [client.arrival_s for client in self.clients]
        times += [client.deadline_s for client in self.clients]
        times += [self.end_s(task) for task in self.running if task is not None]
        return min((at_s for at_s in times if at_s > now_s), default=inf)

    def end_s(self, task: tuple[int, bool, float]) -> float:
        return task[2] + self.clients[task[0]].task_s

    def end(self, server: int, now_s: float) -> None:
        task = self.running[server]
        if task is None or self.end_s(task) > now_s:
            return
        client, mandatory, _ = task
        self.running[server] = None
        self.used_s[client][server] += self.clients[client].task_s
        self.completed[client] += 1
        if mandatory:
            self.mandatory_left[client] -= 1
            self.mandatory_s[client] = now_s
        elif self.submitted is None:
            self.queues[server].append((client, False))

    def arrive(self, client: int) -> None:
        self.here.add(client)
        for number in range(self.submitted or paper.MANDATORY):
            self.queues[number % self.servers].append((client, number < paper.MANDATORY))
        if self.submitted is None:
            for queue in self.queues:
                queue.append((client, False))

    def leave(self, client: int, now_s: float) -> None:
        self.here.remove(client)
        self.gone.add(client)
        for server, task in enumerate(self.running):
            self.queues[server] = [one for one in self.queues[server] if one[0] != client]
            if task is not None and task[0] == client:
                self.stop(server, now_s)

    def stop(self, server: int, now_s: float) -> None:
        task = self.running[server]
        assert task is not None
        self.used_s[task[0]][server] += now_s - task[2]
        self.running[server] = None

    def look(self, server: int, now_s: float) -> None:
        queue, task = self.queues[server], self.running[server]
        mandatory = next((one for one in queue if one[1]), None)
        if self.submitted is not None:
            first = queue[0] if queue else None
        elif mandatory is not None:
            first = mandatory
            if task is not None and not task[1]:
                self.stop(server, now_s)
                self.killed += 1
                queue.append((task[0], False))
        else:
            first = min(queue, key=lambda one: self.used_s[one[0]][server], default=None)
        if self.running[server] is None and first is not None:
            queue.remove(first)
            self.running[server] = (*first, now_s)


def random_clients(seed: int) -> list[OptionalClient]:
    random = Random(seed)
    arrivals_s = sorted(random.uniform(0, 30) for _ in range(random.randint(1, 5)))
    return [
        OptionalClient(a, a + random.uniform(5, 60), random.uniform(0.7, 3)) for a in arrivals_s
    ]


def assert_alike(found: OptionalOutcome, slow: OptionalOutcome, seed: int) -> None:
    assert found.completed == slow.completed, seed
    assert found.killed == slow.killed, seed
    assert found.allocated_s == pytest.approx(slow.allocated_s), seed
    assert found.mandatory_s == pytest.approx(slow.mandatory_s), seed


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_servers_do_what_the_paper_says(servers: int) -> None:
    """With run times of their own no two clients have the same allocation, so that nothing is drawn
    at random."""
    for seed in range(25):
        clients = random_clients(seed)
        setting = SystemSetting(PRINTED, 0.0, same_order=True)
        found = queue_at_each_server(clients, servers, setting, seed)
        assert_alike(found, Slow(clients, servers).run(), seed)
    assert found.killed or seed


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 3])
def test_the_legacy_system_does_what_the_paper_says(servers: int) -> None:
    unhappy = 0
    for seed in range(25):
        clients = random_clients(seed)
        for submitted in (3, 20, 60):
            setting = SystemSetting("", 0.0, submitted, same_order=True)
            found = queue_at_each_server(clients, servers, setting, seed)
            assert_alike(found, Slow(clients, servers, submitted).run(), seed)
            unhappy += found.unhappy(clients)
    assert unhappy > 10


def test_a_client_cancels_at_all_servers_once_its_last_mandatory_task_is_done() -> None:
    """Two servers. The mandatory tasks of the second client wait behind those of the first, longer
    at server 0, where there are more; its optional ones at server 1 go on until then."""
    clients = [OptionalClient(0.0, 4.5, 1.0), OptionalClient(0.1, 5.0, 1.1)]
    setting = SystemSetting("", 0.0, 11, same_order=True)
    found = queue_at_each_server(clients, 2, setting, 0)
    assert_alike(found, Slow(clients, 2, 11).run(), 0)
    assert found.unhappy(clients) == 1


def test_one_server_and_one_queue_are_the_same() -> None:
    for seed in range(10):
        clients = random_clients(seed)
        setting = SystemSetting(PRINTED, 0.0)
        one, other = (run(clients, 1, setting, seed) for run in (one_queue, queue_at_each_server))
        assert_alike(one, other, seed)


def test_what_regular_clients_deserve_by_hand() -> None:
    """100 core seconds each 10 s, over the users present: 100 (1/1 + … + 1/10) for the first."""
    clients = clients_of(REGULAR, 0)
    spans = {str(i): [(c.arrival_s, c.deadline_s)] for i, c in enumerate(clients)}
    deserved = deserved_core_s(spans, paper.SERVERS)
    assert deserved["0"] == pytest.approx(sum(100 / n for n in range(1, 11)))
    assert deserved["0"] == pytest.approx(deserved["9"])
    assert sum(deserved.values()) == pytest.approx(1900)


def test_scenarios_are_those_of_section_5_1() -> None:
    assert {c.arrival_s for c in clients_of(SIMULTANEOUS, 0)} == {0.0}
    assert [c.arrival_s for c in clients_of(CONSECUTIVE, 0)][:3] == pytest.approx([0, 0.1, 0.2])
    assert {c.deadline_s for c in clients_of(CONSECUTIVE, 0)} == {100.0}
    assert [c.deadline_s for c in clients_of(REGULAR, 0)] == [100.0 + 10 * i for i in range(10)]
    counts = [len(clients_of(DIURNAL, seed)) for seed in range(30)]
    expected = sum(arrival_rate(second) / 10 for second in range(100))
    assert sum(counts) / 30 == pytest.approx(expected, rel=0.1)
    assert all(0 <= arrival_rate(second) < 10 for second in range(100))
    times = [c.task_s for seed in range(10) for c in clients_of(VARIED, seed)]
    assert 0.75 <= min(times) < 0.9
    assert 1.85 < max(times) <= 2


def row(system: str, submitted: int = 0, variant: str = BASE) -> OptionalRow:
    return run_cell(
        OptionalCell(scenario=REGULAR, system=system, submitted=submitted, seed=0, variant=variant)
    )


@pytest.mark.slow
def test_regular_arrivals_have_the_papers_numbers_and_three_kinds_of_unfairness() -> None:
    """As printed, a user who comes later gets everything until they have what others have got: the
    first has 100 of 293 deserved core seconds in the end."""
    printed, queue, legacy = row(SERVERS), row(QUEUE), row(LEGACY, paper.BEST_REGULAR)
    assert legacy.completed == paper.LEGACY_REGULAR
    assert printed.completed == pytest.approx(paper.ETHIC_REGULAR, abs=15)
    assert (printed.unhappy, printed.killed) == (0, 27)
    assert printed.unfairness == pytest.approx(1.06, abs=0.05)
    assert queue.unfairness == pytest.approx(1.06, abs=0.05)
    assert printed.lowest == pytest.approx(100 / 293, abs=0.02)
    assert row(SERVERS, 0, BY_RATE).unfairness == pytest.approx(0.6, abs=0.03)
    assert row(SERVERS, 0, FAIR_QUEUE).unfairness < 0.1
    assert legacy.unfairness == pytest.approx(190 / 139.1 - 190 / 292.9, abs=0.02)


def test_the_experiments_of_the_paper() -> None:
    known = cells(FULL)
    assert len(set(known)) == len(known)
    base = [cell for cell in known if cell.variant == BASE and cell.scenario in SCENARIOS]
    ethic = [cell for cell in base if cell.system != LEGACY]
    assert len(ethic) == 2 * 5 * FULL.seeds
    assert FULL.seeds >= 10
    assert {cell.variant for cell in known} == {BASE, *VARIANTS}


@pytest.mark.slow
def test_the_study_is_continued_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    small = {"DEADLINE_S": 20.0, "INTERVAL_S": 2.0, "LARGE_SERVERS": 6, "LARGE_CLIENTS": 4}
    for name, value in small.items():
        monkeypatch.setattr(paper, name, value)
    words = ["study", "optional", "--quick", "--jobs", "1", "--output", str(tmp_path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert f"of {sum(not claim.always for claim in CLAIMS)} claims hold" in result.output
    page = (tmp_path / "page.md").read_text()
    assert page.count("### Figure") == 5
    assert "This is a quick study" in page
    results = (tmp_path / "results.csv").read_text()
    again = CliRunner().invoke(cli, words)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "results.csv").read_text() == results
