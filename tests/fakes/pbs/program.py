"""``program.py DIRECTORY COMMAND ARGUMENT…``: a PBS of one node whose state is in DIRECTORY.

There is no server: each command takes the lock, reads the state, and starts what can start. A
process watches over each job that runs (``job``) and does the same when that ends.

As in OpenPBS 23.06, a job's script is run by a login shell, which reads ``~/.profile`` and the name
of the script from its standard input; ``-V`` passes nothing, ``-v`` does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOST = "pbshost"
QUEUE = "workq"
GRACE_S = 2.0
"""Between SIGTERM and SIGKILL; 10 s in PBS."""
LOOK_S = 0.1
_OPTIONS = "a:A:c:C:e:hI:j:J:k:l:m:M:N:o:p:P:q:r:R:S:u:v:VW:z"
_ENDED = ("obittime", "Stageout_status", "Exit_status", "history_timestamp")
_BEGUN = ("resources_used", "exec_host", "exec_vnode", "stime", "session_id", "jobdir", "run_count")

LIMITS = {
    "user": (38, "Maximum number of jobs for user {user} already in complex"),
    "queue": (38, "Maximum number of jobs for user {user} already in queue workq"),
    "all": (38, "Maximum number of jobs already in complex"),
    "waiting": (38, "Maximum number of jobs in 'Q' state for user {user} already in complex"),
    "generic": (38, "would exceed complex's per-user limit"),
    "ncpus": (39, "would exceed per-user limit on resource ncpus in complex"),
}
"""Limits on jobs by their names in the configuration: exit code and message of qsub. Source: a live
OpenPBS 23.06.06; pbs_messages.c."""

Job = dict[str, Any]


class RefusedError(Exception):
    """The answer is a recording."""

    def __init__(self, recording: str, *changes: tuple[str, str]) -> None:
        super().__init__(recording)
        self.recording = recording
        self.changes = changes


class SaidError(Exception):
    """The answer is one line."""

    def __init__(self, exit_code: int, line: str) -> None:
        super().__init__(line)
        self.exit_code = exit_code


class Pbs:
    """The state, while the lock is held."""

    def __init__(self, directory: Path, state: dict[str, Any]) -> None:
        self.directory = directory
        self.config = json.loads((directory / "config.json").read_text())
        self.state = state

    @property
    def jobs(self) -> dict[str, Job]:
        """By number, in the order of their submission."""
        return self.state["jobs"]  # type: ignore[no-any-return]

    def recording(self, name: str) -> tuple[str, int]:
        """What a command printed, and its exit code."""
        text = (Path(self.config["recordings"]) / f"{name}.txt").read_text()
        match = re.fullmatch(r"\$ [^\n]*\n(.*)\[exit (\d+)\]\n*", text, re.DOTALL)
        assert match is not None, name
        return match[1], int(match[2])

    def schedule(self) -> None:
        """Start what can start. Narrow jobs overtake a wide one that waits: there is no
        ``strict_ordering``."""
        if (self.directory / "ended").exists() or not self.config["started"]:
            return
        elements = [(job, e) for job in self.jobs.values() for e in job["elements"].values()]
        free = self.config["slots"]
        free -= sum(job["ncpus"] for job, e in elements if e["state"] in "RE")
        for number, job in self.jobs.items():
            if job.get("is_held"):
                continue
            for index, element in job["elements"].items():
                if element["state"] != "Q" or job["ncpus"] > free:
                    continue
                free -= job["ncpus"]
                element.update(state="R", started_s=time.time())
                argv = [sys.executable, "-I", "-S", __file__, str(self.directory), "job"]
                subprocess.Popen(
                    [*argv, number, index],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[Pbs]:
    """What is changed in the state is kept, whatever happens."""
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = directory / "state.json"
        state = {"next": 0, "jobs": {}}
        with contextlib.suppress(FileNotFoundError):
            state = json.loads(path.read_text())
        pbs = Pbs(directory, state)
        try:
            yield pbs
        finally:
            fresh = directory / "state.new"
            fresh.write_text(json.dumps(pbs.state))
            fresh.rename(path)


# -- qsub


def qsub(pbs: Pbs, arguments: list[str]) -> int:
    options, rest = _options(arguments)
    job = _request(pbs, options)
    script = Path(rest[0]).read_text() if rest else sys.stdin.read()
    user = pwd.getpwuid(os.getuid())
    first, last = job.pop("range")
    job.update(
        user=user.pw_name,
        home=os.environ.get("HOME", user.pw_dir),
        arguments=" ".join(arguments),
        shell=options.get("S", ["/bin/sh"])[-1],
        environment=_passed(options.get("v", [""])[-1]),
        created_s=time.time(),
    )
    # The waiting elements of a held array stay Q.
    state = "H" if "h" in options and not job["is_array"] else "Q"
    job["is_held"] = "h" in options
    indices = range(first, last + 1) if job["is_array"] else [""]
    job["elements"] = {str(index): {"state": state} for index in indices}
    _check_limits(pbs, job)
    number = str(pbs.state["next"])
    pbs.state["next"] += 1
    pbs.jobs[number] = job
    path = pbs.directory / f"{number}.SC"
    path.write_text(script)
    path.chmod(0o700)
    pbs.schedule()
    print(name_of(number, job))
    return 0


def _passed(variables: str) -> dict[str, str]:
    """The variables of ``-v``; a name alone has its value here."""
    pairs = (part.partition("=") for part in variables.split(",") if part)
    return {name: value if equals else os.environ[name] for name, equals, value in pairs}


def _check_limits(pbs: Pbs, job: Job) -> None:
    config = pbs.config
    if not config["enabled"]:
        raise SaidError(173, "Queue is not enabled")
    largest = min(config["max_array"], config["queue_max_array"] or config["max_array"])
    if job["is_array"] and len(job["elements"]) > largest:
        raise SaidError(3, "Array job exceeds server or queue size limit")
    states = [
        (other["ncpus"], e["state"])
        for other in (*pbs.jobs.values(), job)
        for e in other["elements"].values()
        if e["state"] != "F"
    ]
    for name, limit in config["limits"].items():
        count = len(states)
        if name == "waiting":
            count = sum(state == "Q" for _, state in states)
        elif name == "ncpus":
            count = sum(cores for cores, _ in states)
        if count > limit:
            code, text = LIMITS[name]
            raise SaidError(code, text.format(user=job["user"]))


def _options(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    found: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        letter, value = rest[0][1:2], rest.pop(0)[2:]
        if not letter or letter not in _OPTIONS:
            raise RefusedError(
                "qsub-unicode", ("illegal -N value", f"invalid option -- '{letter}'")
            )
        if f"{letter}:" in _OPTIONS:
            found.setdefault(letter, []).append(value or rest.pop(0))
        else:
            found[letter] = []
    return found, rest


def _request(pbs: Pbs, options: dict[str, list[str]]) -> Job:
    if "J" in options and options.get("r", ["y"])[-1] == "n":
        text = "cannot submit non-rerunable Array Job"
        raise RefusedError("qsub-unicode", ("illegal -N value", text))
    name = options.get("N", ["STDIN"])[-1]
    if len(name) > 236:
        raise RefusedError("qsub-name-too-long")
    if not re.fullmatch(r"[\w.+-]+", name, re.ASCII):
        raise RefusedError("qsub-unicode")
    if options.get("q", [QUEUE])[-1] != QUEUE:
        raise RefusedError("qsub-bad-queue")
    resources = {"select": "1:ncpus=1"}
    for each in options.get("l", []):
        resource, _, value = each.partition("=")
        if resource not in ("select", "walltime", "place"):
            raise RefusedError("qsub-bad-resource2", ("foo", resource))
        resources[resource] = value
    chunk = dict(part.split("=", 1) for part in resources["select"].split(":")[1:])
    for resource in chunk:
        if resource not in ("ncpus", "mem"):
            raise RefusedError("qsub-bad-resource", ("ngpus", resource))
    first, last = map(int, options.get("J", ["0-0"])[-1].split("-"))
    return {
        "name": name,
        "is_array": "J" in options,
        "range": (first, last),
        "select": resources["select"],
        "ncpus": int(chunk.get("ncpus", "1")),
        "mem": chunk.get("mem"),
        "walltime": resources.get("walltime"),
        "output": options.get("o", [None])[-1],
    }


# -- a job


def job(directory: Path, number: str, index: str) -> None:
    """Run one job, or one element of an array, to its end."""
    with locked(directory) as pbs:
        described = pbs.jobs[number]
        element = described["elements"][index]
        if "ended_by" in element:
            _end(pbs, element, 256 + signal.SIGTERM)
            return
        spool = directory / f"{number}.{index}.OU"
        with spool.open("ab") as file:
            child = subprocess.Popen(
                ["-sh"],
                executable=described["shell"],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=described["home"],
                env=_environment(directory, described, number, index),
                start_new_session=True,
            )
        element["session"] = child.pid
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
        stdin.write(f"{directory}/{number}.SC\n".encode())
    over = _watch(directory, described, number, index, child)
    # The first shell dies of a SIGTERM at once, and the rest of its session is killed after it.
    _signal(child.pid, signal.SIGKILL)
    with locked(directory) as pbs:
        if pbs.jobs[number]["elements"][index].get("session") == child.pid:
            pbs.jobs[number]["elements"][index]["state"] = "E"
        time_s = pbs.config["stage_out_s"]
    time.sleep(time_s)
    _deliver(directory, spool, described, number, index)
    with locked(directory) as pbs:
        element = pbs.jobs[number]["elements"][index]
        if element.get("session") != child.pid:
            return  # requeued
        code = child.returncode
        exit_status = -29 if over == "walltime" else 256 - code if code < 0 else code
        if over:
            element["over"] = over
        _end(pbs, element, exit_status)


def _watch(
    directory: Path, described: Job, number: str, index: str, child: subprocess.Popen[bytes]
) -> str | None:
    """Wait until the job's shell has ended; end it at its limits and after a qdel. Returns the
    limit that it has exceeded."""
    allowed_s = _seconds(described["walltime"])
    began_s, told_s, over = time.monotonic(), None, None
    name = name_of(number, described, index)
    while child.poll() is None:
        time.sleep(0.02 if time.monotonic() < began_s + 1 else LOOK_S)
        now_s = time.monotonic()
        text = None
        if told_s is None and allowed_s is not None and now_s > began_s + allowed_s:
            over, text = "walltime", f"walltime {int(now_s - began_s)} exceeded limit {allowed_s}"
        elif told_s is None and (described["mem"] or "").endswith("kb"):
            limit_kb = int(described["mem"].removesuffix("kb"))
            if (used_kb := _memory_kb(directory, name)) > limit_kb:
                over, text = "mem", f"mem {used_kb}kb exceeded limit {limit_kb}kb"
        if text is not None:
            told_s = now_s
            with (directory / f"{number}.{index}.OU").open("a") as file:
                file.write(f"=>> PBS: job killed: {text}\n")
            _cut(directory, name, json.loads((directory / "config.json").read_text())["gap_s"])
        state = json.loads((directory / "state.json").read_text())
        if told_s is None and "ended_by" in state["jobs"][number]["elements"][index]:
            told_s = now_s  # qdel has sent the SIGTERM
        if told_s is not None and now_s > told_s + GRACE_S:
            _signal(child.pid, signal.SIGKILL)
    return over


def _cut(directory: Path, name: str, gap_s: float) -> None:
    """Send SIGTERM to the processes of a job, children first, as pbs_mom does: a shell whose child
    has died goes on. ``gap_s`` is the time between two generations."""
    parents = {}
    for pid in _processes(directory, name):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(fields[1])

    def depth(pid: int) -> int:
        return 1 + depth(parents[pid]) if pid in parents else 0

    last = 0
    for pid in sorted(parents, key=depth, reverse=True):
        if last and depth(pid) < last:
            time.sleep(gap_s)
        last = depth(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _memory_kb(directory: Path, name: str) -> int:
    """Resident memory of all processes of a job."""
    pages = 0
    for pid in _processes(directory, name):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def _processes(directory: Path, name: str) -> list[int]:
    """Processes of a job. Several of these servers may run beside each other."""
    marks = (f"\0PBS_JOBID={name}\0".encode(), f"\0PBS_FAKE={directory}\0".encode())
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = b"\0" + (path / "environ").read_bytes()
            if all(mark in environment for mark in marks):
                found.append(int(path.name))
    return found


def _deliver(directory: Path, spool: Path, described: Job, number: str, index: str) -> None:
    """Copy the job's output over the file of ``-o``. The retries of a live server take 33 s."""
    output = described["output"]
    if output in (None, os.devnull):
        return
    target = Path(output.replace("^array_index^", index))
    if target.is_dir():
        target = target / f"{name_of(number, described, index)}.OU"
    try:
        shutil.copyfile(spool, target)
    except OSError:
        with (directory / "undelivered").open("a") as file:
            file.write(f"{target}\n")


def _end(pbs: Pbs, element: Job, exit_status: int) -> None:
    element.update(state="F", ended_s=time.time(), exit=exit_status)
    pbs.schedule()


def _environment(directory: Path, described: Job, number: str, index: str) -> dict[str, str]:
    own = {
        "HOME": described["home"],
        "LOGNAME": described["user"],
        "USER": described["user"],
        "PATH": "/usr/bin:/bin",
        "PBS_JOBID": name_of(number, described, index),
        "PBS_JOBNAME": described["name"],
        "PBS_QUEUE": QUEUE,
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_FAKE": str(directory),
    }
    if index:
        own["PBS_ARRAY_INDEX"] = index
    return {**own, **described["environment"], **{k: own[k] for k in own if k != "PATH"}}


def _signal(session: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)


# -- qdel


def qdel(pbs: Pbs, arguments: list[str]) -> int:
    failure = 0
    for argument in arguments:
        if argument in ("-W", "force"):
            continue
        try:
            number, elements = find(pbs, argument, "qdel")
            if all(e["state"] == "F" for e in elements):
                label = name_of(number, pbs.jobs[number])
                raise RefusedError("qdel-finished", ("0.pbshost", label))
        except RefusedError as refused:
            failure = complain(pbs, refused)
            continue
        for element in elements:
            if element["state"] == "R":
                element["ended_by"] = pwd.getpwuid(os.getuid()).pw_name
                if "session" in element:
                    _signal(element["session"], signal.SIGTERM)
            elif element["state"] not in "EF":
                element.update(state="F", ended_s=time.time())
    pbs.schedule()
    return failure


def qrls(pbs: Pbs, arguments: list[str]) -> int:
    for argument in arguments:
        number, elements = find(pbs, argument, "qdel")
        pbs.jobs[number]["is_held"] = False
        for element in elements:
            if element["state"] == "H":
                element["state"] = "Q"
    pbs.schedule()
    return 0


def requeue(pbs: Pbs, arguments: list[str]) -> int:
    """What a kill of the server or of a node does to elements of arrays, ended ones too: their
    processes are gone, and they are queued again. Job numbers jump."""
    for argument in arguments:
        number, _ = find(pbs, argument, "qdel")
        match = re.search(r"\[(\d+)\]", argument)
        indices = [match[1]] if match else list(pbs.jobs[number]["elements"])
        for index in indices:
            name = name_of(number, pbs.jobs[number], index)
            for pid in _processes(pbs.directory, name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            element = pbs.jobs[number]["elements"][index]
            element.clear()
            element["state"] = "Q"
    pbs.state["next"] += 1000
    pbs.schedule()
    return 0


def find(pbs: Pbs, argument: str, verb: str) -> tuple[str, list[Job]]:
    """A job's number, and those of its elements that are meant."""
    match = re.fullmatch(r"(\d+)(\[(\d*)\])?(\.pbshost)?", argument, re.ASCII)
    job = pbs.jobs.get(match[1]) if match else None
    if match is None or job is None or (match[3] and match[3] not in job["elements"]):
        full = argument if argument.endswith(f".{HOST}") else f"{argument}.{HOST}"
        raise RefusedError(f"{verb}-unknown", ("999999.pbshost", full))
    elements = [job["elements"][match[3]]] if match[3] else list(job["elements"].values())
    return match[1], elements


# -- qstat


def qstat(pbs: Pbs, arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(pbs.recording("version")[0], end="")
        return 0
    words = " ".join(arguments).replace("-F json", "").split()
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    named = [word for word in words if not word.startswith("-")]
    if "Q" in flags and named and named != [QUEUE]:
        raise SaidError(170, f"Unknown queue {named[0]}")
    if "Q" in flags or "B" in flags:
        sys.stdout.write(to_json(_offer(pbs, "Queue" if "Q" in flags else "Server")))
        return 0
    if "x" in flags and not pbs.config["history"]:
        raise SaidError(36, "PBS is not configured to maintain job history")
    if "-F json" not in " ".join(arguments):
        sys.exit("qstat: only JSON is played back here")
    shown: dict[str, Any] = {}
    failure = 0
    for argument in named or list(pbs.jobs):
        try:
            number, elements = find(pbs, argument, "qstat")
            is_over = all(e["state"] == "F" for e in elements) and not _is_stuck(pbs, number)
            if is_over and not pbs.config["history"]:
                full = name_of(number, pbs.jobs[number])
                if named:
                    raise RefusedError("qstat-unknown", ("999999.pbshost", full))
                continue
            if named and "x" not in flags and is_over:
                change = ("0.pbshost", name_of(number, pbs.jobs[number]))
                raise RefusedError("qstat-finished-without-x", change)
            shown.update(_shown(pbs, number, "x" in flags, "t" in flags))
        except RefusedError as refused:
            failure = complain(pbs, refused)
    if shown or not failure:
        head = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": HOST}
        sys.stdout.write(to_json({**head, "Jobs": shown} if shown else head))
    return failure


def _offer(pbs: Pbs, kind: str) -> Job:
    """The server or its queue, as recorded, with what was configured."""
    config = pbs.config
    root: Job = json.loads(pbs.recording(f"qstat-{kind[0].replace('S', 'B')}f-json")[0])
    entry = next(iter(root[kind].values()))
    if kind == "Queue":
        entry["enabled"] = str(config["enabled"])
        entry["started"] = str(config["started"])
        if config["queue_max_array"]:
            entry["max_array_size"] = config["queue_max_array"]
        return root
    entry["max_array_size"] = config["max_array"]
    if not config["history"]:
        del entry["job_history_enable"]
    return root


def _is_stuck(pbs: Pbs, number: str) -> bool:
    """Whether this is an array that stays in the queue: seen after a kill of the server."""
    return bool(pbs.config["stuck"] and pbs.jobs[number]["is_array"])


def _shown(pbs: Pbs, number: str, history: bool, elements: bool) -> dict[str, Any]:
    job = pbs.jobs[number]
    states = [e["state"] for e in job["elements"].values()]
    if not history and set(states) == {"F"} and not _is_stuck(pbs, number):
        return {}
    if not job["is_array"]:
        return {name_of(number, job): _entry(pbs, number, "")}
    shown = {name_of(number, job): _array(pbs, number)}
    if elements:
        for index in job["elements"]:
            shown[name_of(number, job, index)] = _entry(pbs, number, index)
    return shown


def _entry(pbs: Pbs, number: str, index: str) -> Job:
    """A job, or an element of an array, in the form of one that was recorded."""
    job = pbs.jobs[number]
    element = job["elements"][index]
    ended, begun = element["state"] == "F", "started_s" in element
    model = "3[0]" if index else "0" if ended else "1" if begun else "7"
    entry = _like(pbs, model, job)
    drop = (*(() if ended else _ENDED), *(() if begun else _BEGUN))
    entry = {key: value for key, value in entry.items() if key not in drop}
    whole_array_ended = all(e["state"] == "F" for e in job["elements"].values())
    entry["job_state"] = "X" if ended and not whole_array_ended else element["state"]
    place = f"({HOST}:ncpus={job['ncpus']}{':mem=' + job['mem'] if job['mem'] else ''})"
    if index:
        entry.update(array_id=name_of(number, job), array_index=int(index))
    if begun:
        end_s = element.get("ended_s", time.time())
        entry["resources_used"] = {
            **entry["resources_used"],
            "ncpus": job["ncpus"],
            "walltime": _clock(end_s - element["started_s"]),
        }
        entry["exec_host"] = f"{HOST}/0" + (f"*{job['ncpus']}" if job["ncpus"] > 1 else "")
        entry["exec_vnode"] = place
        entry["stime"] = _date(element["started_s"])
    if begun:
        entry["comment"] = _comment(job, element, place)
    else:
        _set_wait(pbs, job, entry)
    entry["substate"] = {"Q": 10, "H": 20, "R": 42}.get(element["state"], 92)
    if ended:
        entry["obittime"] = entry["mtime"] = _date(element["ended_s"])
        entry["substate"] = 91 if "ended_by" in element else 92 if not element.get("exit") else 93
        entry.pop("Exit_status", None)
        if "exit" in element:
            entry["Exit_status"] = element["exit"]
    return entry


def _array(pbs: Pbs, number: str) -> Job:
    job = pbs.jobs[number]
    states = [e["state"] for e in job["elements"].values()]
    entry = _like(pbs, "3[]", job)
    waiting = [index for index, e in job["elements"].items() if e["state"] in "QH"]
    begun = len(waiting) < len(states)
    held = "H" if job.get("is_held") else "Q"
    is_over = set(states) == {"F"} and not _is_stuck(pbs, number)
    entry["job_state"] = "F" if is_over else "B" if begun else held
    if entry["job_state"] != "F":
        entry = {key: value for key, value in entry.items() if key not in _ENDED}
    counts = [
        states.count("Q") + states.count("H"),
        states.count("R"),
        states.count("E"),
        states.count("F"),
    ]
    names = ("Queued", "Running", "Exiting", "Expired")
    entry["array_state_count"] = " ".join(map("{}:{}".format, names, counts))
    indices = list(job["elements"])
    entry["array_indices_submitted"] = f"{indices[0]}-{indices[-1]}"
    entry["array_indices_remaining"] = ",".join(waiting) or "-"
    if begun:
        entry["comment"] = f"Job Array Began at {_when(job['created_s'])}"
    else:
        _set_wait(pbs, job, entry)
    return entry


def _like(pbs: Pbs, number: str, job: Job) -> Job:
    """A recorded job with the names of this one."""
    recorded = json.loads(pbs.recording("qstat-xtf-json")[0])["Jobs"]
    entry: Job = dict(recorded[f"{number}.{HOST}"])
    resources = {"mem": job["mem"]} if job["mem"] else {}
    resources.update(ncpus=job["ncpus"], nodect=1, place="free", select=job["select"])
    if job["walltime"]:
        resources["walltime"] = job["walltime"]
    variables = {
        key: value
        for key, value in entry["Variable_List"].items()
        if key not in ("PBS_O_HOME", "PBS_O_LOGNAME")
    }
    home, date = job["home"], _date(job["created_s"])
    variables.update(PBS_O_HOME=home, PBS_O_LOGNAME=job["user"], **job["environment"])
    ours = {
        "Job_Name": job["name"],
        "Job_Owner": f"{job['user']}@{HOST}",
        "Resource_List": resources,
        "Variable_List": variables,
        "Submit_arguments": job["arguments"],
        **dict.fromkeys(("ctime", "mtime", "qtime", "etime", "stime"), date),
        "jobdir": home,
    }
    entry.update({key: value for key, value in ours.items() if key in entry})
    return entry


def _set_wait(pbs: Pbs, job: Job, entry: Job) -> None:
    """Why a job waits: the scheduler comments on all but those that are held."""
    slots = pbs.config["slots"]
    entry.pop("comment", None)
    entry["Hold_Types"] = "u" if job.get("is_held") else "n"
    if job.get("is_held"):
        return
    if not pbs.config["started"]:
        entry["comment"] = "Not Running: Queue not started."
    elif job["ncpus"] > slots:
        numbers = f"(R: {job['ncpus']} A: {slots} T: {slots})"
        entry["comment"] = f"Can Never Run: Insufficient amount of resource: ncpus {numbers}"
    else:
        entry["comment"] = "Not Running: Not enough free nodes available"


def _comment(job: Job, element: Job, place: str) -> str:
    comment = f"Job run at {_when(element['started_s'])} on {place}"
    if element["state"] != "F":
        return comment
    if "ended_by" in element:
        return f"{comment} and terminated by {element['ended_by']}@{HOST}"
    if "over" in element:
        return f"{comment} and exceeded resource {element['over']}"
    return f"{comment} and {'failed' if element.get('exit') else 'finished'}"


# -- pbsnodes


def pbsnodes(pbs: Pbs, arguments: list[str]) -> int:
    if "-F" not in arguments:
        sys.exit("pbsnodes: only JSON is played back here")
    root = json.loads(pbs.recording("pbsnodes-json")[0])
    running = [
        (name_of(number, job, index), job["ncpus"])
        for number, job in pbs.jobs.items()
        for index, e in job["elements"].items()
        if e["state"] in "RE"
    ]
    node = root["nodes"][HOST]
    node["jobs"] = [name for name, _ in running]
    node["resources_available"]["ncpus"] = pbs.config["slots"]
    node["resources_assigned"]["ncpus"] = sum(cores for _, cores in running)
    node["state"] = "free" if sum(n for _, n in running) < pbs.config["slots"] else "job-busy"
    if pbs.config["down"]:
        down = json.loads(json.dumps(node))
        down.update(state="down", jobs=[], resources_assigned={})
        down["resources_available"]["ncpus"] = pbs.config["down"]
        root["nodes"]["pbshost2"] = down
    sys.stdout.write(to_json(root))
    return 0


# -- forms


def name_of(number: str, job: Job, index: str | None = None) -> str:
    """``7.pbshost``, ``3[].pbshost`` or ``3[1].pbshost``."""
    return f"{number}[{index or ''}].{HOST}" if job["is_array"] else f"{number}.{HOST}"


def to_json(root: object) -> str:
    """As OpenPBS 23.06 prints it: indented by four spaces, without tabs."""
    return json.dumps(root, indent=4, separators=(",", ":"), ensure_ascii=False) + "\n"


def complain(pbs: Pbs, refused: RefusedError) -> int:
    """Print what was recorded; returns the exit code."""
    text, code = pbs.recording(refused.recording)
    for old, new in refused.changes:
        text = text.replace(old, new)
    sys.stderr.write(text)
    return code


def _date(at_s: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(at_s))


def _when(at_s: float) -> str:
    return time.strftime("%a %b %d at %H:%M", time.localtime(at_s))


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def _seconds(clock: str | None) -> int | None:
    if clock is None:
        return None
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


COMMANDS = {
    "qsub": qsub, "qstat": qstat, "qdel": qdel, "qrls": qrls, "pbsnodes": pbsnodes,
    "requeue": requeue,
}  # fmt: skip


def main() -> int:
    directory, command, *arguments = sys.argv[1:]
    if command == "job":
        job(Path(directory), *arguments)
        return 0
    with locked(Path(directory)) as pbs:
        pbs.schedule()
        with (pbs.directory / "calls").open("a") as calls:
            calls.write(json.dumps([command, *arguments]) + "\n")
        try:
            return COMMANDS[command](pbs, arguments)
        except RefusedError as refused:
            return complain(pbs, refused)
        except SaidError as said:
            print(f"{command}: {said}", file=sys.stderr)
            return said.exit_code


if __name__ == "__main__":
    sys.exit(main())
