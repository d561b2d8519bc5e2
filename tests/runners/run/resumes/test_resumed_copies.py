"""Copies of large files that go on after a lost connection, and in the next engine of a run."""

from __future__ import annotations

import subprocess
from hashlib import sha256

import pytest

from tests.network.network import Network
from tests.runners.harness import Job, User, wait_until
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.transfers.endpoints.endpoint import KEPT_PATTERN
from wfrun.sites.transfers.resume import RESUME_BYTES

SIZE_BYTES = RESUME_BYTES + (32 << 20)
CATALOG = """\
sites:
  one: {{kind: ssh, host: one, ssh_config: {config}, slots: 1, directory: /home/user/wfrun}}
"""


@pytest.mark.slow
def test_the_next_engine_goes_on_with_a_copy(network: Network, user: User) -> None:
    large = user.folder / "large"
    with large.open("wb") as file:
        for number in range(SIZE_BYTES >> 20):
            file.write(bytes([number]) * (1 << 20))
    user.catalog(CATALOG.format(config=network.ssh_config))
    document = user.write([Job("read", "sha256sum < large > sum", ["large"], ["sum"], ["sum"])])
    network.shape("submit", "one", rate=20e6)
    words = ("run", document, "--sites", "sites.yaml", "--run-dir", "run", "--retry-delay", "0.1")
    engine = user.start(*words)
    store = network.hosts["one"].home / "wfrun"

    def left_bytes() -> int:
        return sum(part.stat().st_size for part in store.rglob(KEPT_PATTERN))

    assert wait_until(lambda: left_bytes() > 30 << 20)
    # The processes of the connections; the server itself stays.
    pid = network.pids["one"]
    subprocess.run(
        ["nsenter", "-t", str(pid), "-a", "pkill", "-KILL", "-f", "sshd: user"], check=True
    )
    assert wait_until(lambda: left_bytes() > 60 << 20)
    engine.kill()
    before = left_bytes()
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    (ended,) = [
        event for event in Store(user.folder / "run").load()
        if isinstance(event, ev.TransferEnded) and event.destination == 0
    ]  # fmt: skip
    assert ended.size_bytes == SIZE_BYTES
    assert ended.sent_bytes is not None
    assert ended.sent_bytes < SIZE_BYTES - before + (10 << 20)
    outputs = user.folder / "run" / "outputs"
    assert (outputs / "sum").read_text() == f"{sha256(large.read_bytes()).hexdigest()}  -\n"
