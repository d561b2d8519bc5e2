"""Notifications of whole runs: real commands, a real web server, a real SSH server."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.runners.harness import MARK, PATIENCE_S, Done, Engine, Job, User, lines_of, wait_until
from tests.servers.ssh import FaultySSH
from tests.servers.web import Web
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.notices import notice_targets
from wfrun.runners.run.notices.notice_targets import carry_out

HOSTILE = "`touch hit` $(touch hit) ; touch hit"


def run(user: User, *words: str | Path, script: str = "true") -> Done:
    document = user.write([Job("a", script)])
    return user.wfrun(
        document, "--run-dir", "run", "--retries", "0", "--retry-delay", "0", *words
    )  # fmt: skip


def all_logged(user: User) -> list[dict[str, Any]]:
    return [json.loads(line) for line in user.ask("events", "run", "--json").out.splitlines()]


def logged(user: User) -> list[dict[str, Any]]:
    """The ends of notifications in the log."""
    return [e for e in all_logged(user) if e["event"] == "notification-ended"]


# Commands


def test_a_command_has_the_facts_and_its_output_is_kept(user: User) -> None:
    command = 'cat > said.json; echo "$WFRUN_ON $WFRUN_RUN $WFRUN_TASKS_DONE" >> record; echo out'
    done = run(user, "--on", f"finished={command}", "--on", "failed=touch never")
    assert done.status == 0, done.text
    assert (user.folder / "record").read_text() == "finished run 1\n"
    said = json.loads((user.folder / "said.json").read_text())
    assert said.pop("at_s") >= said.pop("elapsed_s") > 0
    assert said.pop("host")
    assert said.pop("text").startswith("wfrun: run run is done: 1 task in 0:00:0")
    assert said == {
        "version": 1, "on": "finished", "run": "run", "directory": str(user.folder / "run"),
        "outcome": "done", "reason": None, "site": None,
        "tasks": {"total": 1, "done": 1, "failed": 0, "blocked": 0, "not_needed": 0,
                  "dispatched": 0},
    }  # fmt: skip
    kept = user.folder / "run" / "notifications.log"
    assert kept.read_text().endswith(" finished: done\n  out\n")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [e["on"] for e in logged(user)] == ["finished"]
    assert user.wfrun("resume", "run").status == 0
    assert (user.folder / "record").read_text() == "finished run 1\n"
    assert not (user.folder / "never").exists()


def test_foreign_text_is_no_command(user: User) -> None:
    command = 'echo "$WFRUN_TEXT" "$WFRUN_REASON" > said'
    done = run(user, "--on", f"failed={command}", script=f"echo '{HOSTILE}' >&2; exit 3")
    assert done.status == 1, done.text
    assert HOSTILE in (user.folder / "said").read_text()
    assert not list(user.folder.rglob("hit"))


@pytest.mark.slow
def test_a_failed_notification_is_said_once_and_changes_nothing(user: User) -> None:
    done = run(user, "--on", "finished=echo no mail here >&2; exit 7")
    assert done.status == 0, done.text
    assert done.err.count("notification on finished failed: exit status 7: no mail here") == 1
    assert [e["error"] for e in logged(user)] == ["exit status 7: no mail here"]


@pytest.mark.slow
def test_a_kill_during_a_notification_repeats_it_and_nothing_else(user: User) -> None:
    """At least once: the log does not have its end."""
    command = "echo x >> record; while [ ! -e go ]; do sleep 0.02; done"
    words = ["--run-dir", "run", "--on", f"finished={command}"]
    engine = user.start(user.write([Job("a", "true")]), *words)
    assert wait_until(lambda: engine.ended or len(lines_of(user.folder / "record")) == 1)
    assert not engine.ended, engine.told
    engine.kill()
    (user.folder / "go").touch()
    for _ in range(2):
        assert user.wfrun("resume", "run").status == 0
        assert len(lines_of(user.folder / "record")) == 2
    assert user.is_alone()


@pytest.mark.slow
def test_an_interrupt_ends_the_wait_for_a_notification(user: User) -> None:
    words = ["--run-dir", "run", "--on", "finished=echo x >> record; sleep 1000"]
    engine = user.start(user.write([Job("a", "true")]), *words)
    assert wait_until(lambda: engine.ended or bool(lines_of(user.folder / "record")))
    engine.signal(signal.SIGINT)
    done = engine.done()
    assert done.status == 0, done.text
    assert user.is_alone()
    assert logged(user) == []


@pytest.mark.slow
def test_a_stalled_run_says_so_once_for_each_stall(user: User) -> None:
    """Each task waits until the notification has been sent that it causes."""
    script = f"until [ $(cat {user.folder}/record | wc -l) -ge {{}} ]; do sleep 0.02; done"
    jobs = [Job("a", script.format(1)), Job("b", script.format(2), parents=["a"])]
    (user.folder / "record").touch()
    stalled = 'echo "$WFRUN_TEXT" >> record; echo "$WFRUN_REASON"'
    done = user.wfrun(
        user.write(jobs), "--run-dir", "run", "--stalled-after", "1.5", "--on", f"stalled={stalled}"
    )
    assert done.status == 0, done.text
    lines = (user.folder / "record").read_text().splitlines()
    assert "nothing has moved for 0:00:02, 0 of 2 tasks are done" in lines[0]
    assert "1 of 2 tasks are done" in lines[-1]
    assert "1 task waiting for pred" in (user.folder / "run/notifications.log").read_text()
    # On a slow machine the run may stall more often, but never twice without a movement between.
    kinds = [e["event"] for e in all_logged(user)]
    between = " ".join(kinds).split("notification-ended")[1:-1]
    assert len(between) == len(lines) - 1
    assert all("attempt-started" in part or "attempt-ended" in part for part in between)


BAD_POLICY = """
import sys
from wfrun.engine.policies.placement import PLACEMENT
class Bad(PLACEMENT["round-robin"]):
    def place(self, *given):
        raise KeyError("broken")
PLACEMENT["bad"] = Bad
from wfrun.runners.cli.main import main
sys.exit(main())
"""


@pytest.mark.slow
def test_a_run_that_wfrun_has_to_leave_has_failed(user: User) -> None:
    words = ["run", str(user.write([Job("a", "true")])), "--run-dir", "run", "--policy", "bad"]
    notify = 'failed=echo "$WFRUN_OUTCOME:$WFRUN_REASON" > said'
    done = user.launch([sys.executable, "-c", BAD_POLICY, *words, "--on", notify]).done()
    assert done.status == 3, done.text
    assert "policy 'bad' raised KeyError: 'broken'" in (user.folder / "said").read_text()
    assert (user.folder / "said").read_text().startswith(":")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_targets, "LIMIT_S", 0.5)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("sleep 1000 & echo $! > child; wait", "longer than 0.5 s"),
        ("sleep 1000 & echo $! > child", ""),
        ("sleep 1000 & echo $! > child; head -c 100000 /dev/zero; wait", "more than 65536 bytes"),
        ("kill -9 $$", "signal 9"),
    ],
)
async def test_nothing_of_a_command_stays(
    command: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.chdir(tmp_path)
    found = await carry_out(command, {"on": "failed"}, {}, RunDir(tmp_path))
    assert error in found
    assert bool(error) == bool(found)
    if (tmp_path / "child").exists():
        child = int((tmp_path / "child").read_text())
        assert wait_until(lambda: not is_alive(child))
    assert (tmp_path / "notifications.log").stat().st_size < 100_000


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# URLs


class Hook(Web):
    """A web server that keeps what is posted, with the command lines of that moment."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.command_lines = b""
        super().__init__()
        self.RequestHandlerClass = _Posts


class _Posts(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hook = self.server
        assert isinstance(hook, Hook)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                hook.command_lines += path.read_bytes()
            except OSError:
                continue
        if self.path == "/silent":
            hook.released.wait(PATIENCE_S)
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json"
        hook.posted.append((self.path, json.loads(body)))
        self.send_response({"/busy": 503, "/moved": 307}.get(self.path, 200))
        self.send_header("Location", f"{hook.url}/elsewhere")
        self.end_headers()
        self.wfile.write(b"the answer")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    yield server
    server.end()


def test_json_is_posted_and_the_secret_in_the_url_is_nowhere(
    user: User, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cr3t")
    url = f"{hook.url}/${{HOOK_SECRET}}/x"
    done = run(user, "--on", f"failed={url}", script="echo why >&2; exit 3")
    assert done.status == 1, done.text
    ((path, said),) = hook.posted
    assert path == "/s3cr3t/x"
    assert (said["on"], said["outcome"], said["tasks"]["failed"]) == ("failed", "failed", 1)
    assert "why" in said["reason"]
    assert b"s3cr3t" not in hook.command_lines
    assert b"post_json" in hook.command_lines  # the process that would show it
    for file in (user.folder / "run").rglob("*"):
        assert not file.is_file() or b"s3cr3t" not in file.read_bytes(), file
    assert "s3cr3t" not in done.text
    assert user.ask("report", "run", "-o", "page.html").status == 0
    page = (user.folder / "page.html").read_text()
    assert hook.url not in page
    assert "HOOK_SECRET" not in page


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("busy", "answered 503 Service Unavailable: the answer"),
        ("moved", "answered 307 Temporary Redirect: redirects are not followed"),
    ],
)
async def test_an_answer_that_is_no_success(
    path: str, error: str, hook: Hook, tmp_path: Path
) -> None:
    found = await carry_out(f"{hook.url}/{path}", {"on": "failed"}, {}, RunDir(tmp_path))
    assert error in found
    assert [path for path, _ in hook.posted] == [f"/{path}"]


async def test_a_server_that_does_not_answer(hook: Hook, tmp_path: Path, quick: None) -> None:
    found = await carry_out(f"{hook.url}/silent", {"on": "failed"}, {}, RunDir(tmp_path))
    assert "timed out" in found or "longer than 0.5 s" in found  # a busy machine


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    found = await carry_out("http://127.0.0.1:1/x", {"on": "failed"}, {}, RunDir(tmp_path))
    assert "127.0.0.1:1 cannot be reached" in found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("done=true", "--on has 'done', but knows finished, failed, needs-login, stalled"),
        ("failed", "'failed' is not WHEN=COMMAND|URL"),
        ("failed=ftp://host/x", "begins with http:// or https://, and not ftp://"),
        ("failed=https://host/$NO_SUCH_NAME", "variable NO_SUCH_NAME"),
        ("failed=https://me:word@host/", "cannot have a user name or a password"),
        ("failed=https:///x", "no valid URL"),
    ],
)
def test_a_wrong_option_is_refused_before_the_start(user: User, given: str, message: str) -> None:
    done = user.ask("run", user.write([Job("a", "true")]), "--run-dir", "run", "--on", given)
    assert done.status == 2, done.text
    assert message in " ".join(done.err.split())
    assert "word" not in done.err.replace("password", "")
    assert not (user.folder / "run").exists()


# Logins

QUICK = """
import sys
from wfrun.runners.cli.main import main
from wfrun.sites.local import direct_launcher
from wfrun.sites.remote.connection import Connection
direct_launcher.RESTART_DELAYS_S = (0.05,)
Connection.__init__.__kwdefaults__.update(delays_s=(0.05,), login_delay_s=0.05)
sys.exit(main())
"""
"""The command that tries a lost connection again at once."""


@pytest.fixture
def far(user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultySSH]:
    monkeypatch.setenv(MARK, user.environment[MARK])  # for the commands of the server
    server = FaultySSH(user.folder / "far", "far")
    user.catalog(
        f"sites:\n  far: {{kind: ssh, host: far, ssh_config: {server.ssh_config}, slots: 1, "
        f"directory: {server.home}/work}}\n"
    )
    yield server
    server.close()


@pytest.mark.slow
def test_a_site_that_needs_a_login_is_named_once_each_time(user: User, far: FaultySSH) -> None:
    key, record = far.authorized, user.folder / "record"

    def start(*words: str | Path) -> Engine:
        return user.launch([sys.executable, "-c", QUICK, *map(str, words)])

    def kinds() -> list[str]:
        return [event["event"] for event in all_logged(user)]

    def revoke() -> None:
        far.authorized = "another"
        far.lose_connections()

    folder = user.folder
    job = Job("a", f"touch {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.02; done")
    words = ["--sites", "sites.yaml", "--run-dir", "run"]
    notify = 'echo "$WFRUN_SITE: $WFRUN_REASON" | head -1 >> record'
    engine = start("run", user.write([job]), *words, "--on", f"needs-login={notify}")
    assert wait_until(lambda: engine.ended or (user.folder / "begun").exists())
    assert not engine.ended, engine.told
    revoke()
    assert wait_until(lambda: engine.ended or "notification-ended" in kinds()), engine.told
    assert "far: " in record.read_text()

    engine.kill()
    engine = start("resume", "run")
    assert wait_until(
        lambda: engine.ended or "site-paused" in " ".join(kinds()).partition("run-resumed")[2]
    ), engine.told
    far.authorized = key
    assert wait_until(lambda: engine.ended or "login-done" in kinds()), engine.told
    assert len(record.read_text().splitlines()) == 1

    revoke()
    assert wait_until(lambda: engine.ended or len(record.read_text().splitlines()) == 2)
    far.authorized = key
    (user.folder / "go").touch()
    done = engine.done()
    assert done.status == 0, done.text
    assert len(record.read_text().splitlines()) == 2
