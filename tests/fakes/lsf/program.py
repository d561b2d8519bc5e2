"""``program.py DIRECTORY COMMAND ARGUMENT…``: an LSF whose state is in DIRECTORY.

There is no server: each command takes the lock, reads the state, and starts what can start. A
process watches over each job that runs (``job``) and does the same when that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUEUE = "normal"
GAP_S = 1.0
"""Between the signals that end a job; 10 s in LSF (JOB_TERMINATE_INTERVAL)."""
LOOK_S = 0.1
_OPTIONS = {"-J", "-cwd", "-oo", "-o", "-n", "-R", "-M", "-gpu", "-W", "-q", "-P"}
_FLAGS = {"-rn", "-H"}
_ENDED = ("DONE", "EXIT")
_SIGNALS = {"TERM_RUNLIMIT": (signal.SIGUSR2,), "TERM_OWNER": (), "TERM_MEMLIMIT": ()}
"""What precedes SIGINT, SIGTERM and SIGKILL."""
REASONS = {
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_MEMLIMIT": "job killed after reaching LSF memory usage limit",
    "TERM_OWNER": "job killed by owner",
}

Job = dict[str, Any]


class SaidError(Exception):
    """The answer is one that is recorded; ``changes`` are made in it."""

    def __init__(self, recording: str, *changes: tuple[str, str]) -> None:
        super().__init__(recording)
        self.recording = recording
        self.changes = changes


class Lsf:
    """The state, while the lock is held."""

    def __init__(self, directory: Path, state: dict[str, Any]) -> None:
        self.directory = directory
        self.config = json.loads((directory / "config.json").read_text())
        self.state = state

    @property
    def jobs(self) -> dict[str, Job]:
        """By number, in the order of their submission."""
        return self.state["jobs"]  # type: ignore[no-any-return]

    def say(self, recording: str, *changes: tuple[str, str]) -> int:
        """Print what a command printed; returns its exit code."""
        text = (Path(self.config["recordings"]) / f"{recording}.txt").read_text()
        match = re.fullmatch(r"[^\n]*\n(.*?)(?:\[stderr\]\n(.*))?\[exit (\d+)\]\n", text, re.DOTALL)
        assert match is not None, recording
        for stream, said in ((sys.stdout, match[1]), (sys.stderr, match[2] or "")):
            for old, new in changes:
                said = said.replace(old, new)
            stream.write(said)
        return int(match[3])

    def schedule(self) -> None:
        """Start what can start; narrow jobs overtake a wide one that waits."""
        if (self.directory / "ended").exists():
            return
        free = dict(self.config["hosts"])
        for job in self.jobs.values():
            for element in job["elements"].values():
                if element["stat"] == "RUN":
                    for host in element["hosts"]:
                        free[host] -= job["each"]
        for number, job in self.jobs.items():
            for index, element in job["elements"].items():
                hosts = [host for host in free if free[host] >= job["each"]][: job["nodes"]]
                if element["stat"] != "PEND" or len(hosts) < job["nodes"]:
                    continue
                for host in hosts:
                    free[host] -= job["each"]
                element.update(stat="RUN", hosts=hosts)
                argv = [sys.executable, "-I", "-S", __file__, str(self.directory), "job"]
                subprocess.Popen(
                    [*argv, number, index],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[Lsf]:
    """What is changed in the state is kept, whatever happens."""
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = directory / "state.json"
        state = {"next": 101, "jobs": {}}
        with contextlib.suppress(FileNotFoundError):
            state = json.loads(path.read_text())
        lsf = Lsf(directory, state)
        try:
            yield lsf
        finally:
            fresh = directory / "state.new"
            fresh.write_text(json.dumps(lsf.state))
            fresh.rename(path)


# -- bsub


def bsub(lsf: Lsf, arguments: list[str]) -> int:
    options, flags, rest = {"-n": "1", "-R": "", "-q": QUEUE, "-W": "", "-M": ""}, set(), arguments
    while rest and rest[0].startswith("-"):
        if rest[0] in _OPTIONS:
            options[rest[0]] = rest[1]
            rest = rest[2:]
        elif rest[0] in _FLAGS:
            flags.add(rest[0])
            rest = rest[1:]
        else:
            raise SaidError("bsub-option", ("-rn", rest[0]))
    if options["-q"] != QUEUE:
        raise SaidError("bsub-queue", ("nowhere", options["-q"]))
    wanted = re.fullmatch(
        r"(?:select\[.*?\] )?span\[(hosts=1|ptile=\d+)\](?: rusage\[mem=\d+MB\])?", options["-R"]
    )
    if wanted is None:
        raise SaidError("bsub-resource")
    slots = int(options["-n"])
    each = slots if wanted[1] == "hosts=1" else int(wanted[1].partition("=")[2])
    name = re.fullmatch(r"([\w.-]+)(?:\[1-(\d+)\])?", options["-J"])
    assert name is not None, options["-J"]
    count = int(name[2] or 1)
    if count > lsf.config["max_array"]:
        raise SaidError("bsub-array-large")
    if slots > sum(lsf.config["hosts"].values()):
        raise SaidError("bsub-wide")
    user = pwd.getpwuid(os.getuid()).pw_name
    pending = sum(
        e["stat"] == "PEND" for job in lsf.jobs.values() for e in job["elements"].values()
    )
    limit = lsf.config["max_pending"]
    if limit is not None and pending + count > limit:
        raise SaidError("bsub-limit", ("griduser", user))
    number = str(lsf.state["next"])
    lsf.state["next"] += 1
    lsf.jobs[number] = {
        "name": name[1],
        "user": user,
        "is_array": name[2] is not None,
        "each": each,
        "nodes": slots // each,
        "limit_s": 60 * int(options["-W"]) if options["-W"] else None,
        "mem": options["-M"],
        "output": options["-oo"],
        "cwd": options["-cwd"],
        "environment": dict(os.environ),  # LSF passes it to the job
        "elements": {
            str(index): {"stat": "PSUSP" if "-H" in flags else "PEND"}
            for index in (range(1, count + 1) if name[2] else [0])
        },
    }
    path = lsf.directory / f"{number}.sh"
    path.write_text(sys.stdin.read())
    path.chmod(0o700)
    lsf.schedule()
    return lsf.say("bsub-ok", ("101", number))


# -- a job


def job(directory: Path, number: str, index: str) -> None:
    """Run one job, or one element of an array, to its end."""
    with locked(directory) as lsf:
        described = lsf.jobs[number]
        element = described["elements"][index]
        if element["stat"] != "RUN":
            return  # it was killed meanwhile
        spool = directory / f"{number}.{index}.out"
        with spool.open("wb") as file:
            child = subprocess.Popen(
                [directory / f"{number}.sh"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=described["cwd"],
                env=_environment(directory, described, number, index, element["hosts"]),
                start_new_session=True,
            )
        element["session"] = child.pid
    reason = _watch(directory, described, number, index, child)
    _signal(child.pid, signal.SIGKILL)
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    with locked(directory) as lsf:
        element = lsf.jobs[number]["elements"][index]
        element.update(stat="EXIT" if code or reason else "DONE", code=code, reason=reason)
        lsf.schedule()
    said = f"{reason}: {REASONS[reason]}.\n" if reason else ""
    said += f"Exited with exit code {code}.\n" if code else "Successfully completed.\n"
    target = Path(described["output"].replace("%I", index))
    with contextlib.suppress(OSError):
        report = f"Sender: LSF System <lsfadmin@{element['hosts'][0]}>\n\n{said}\n"
        target.write_text(f"{report}The output (if any) follows:\n\n{spool.read_text()}\n")


def _environment(
    directory: Path, described: Job, number: str, index: str, hosts: list[str]
) -> dict[str, str]:
    own = {
        "LSB_JOBID": number,
        "LSB_JOBINDEX": index,
        "LSB_JOBNAME": described["name"],
        "LSB_QUEUE": QUEUE,
        "LSB_HOSTS": " ".join(host for host in hosts for _ in range(described["each"])),
        "LSB_MCPU_HOSTS": " ".join(f"{host} {described['each']}" for host in hosts),
        "LSF_FAKE": str(directory),
    }
    return {**described["environment"], **own}


def _watch(
    directory: Path, described: Job, number: str, index: str, child: subprocess.Popen[bytes]
) -> str:
    """Wait until the job's shell has ended; end it at its limits and after a bkill. Returns the
    reason of its end by LSF; empty: it has ended itself."""
    began_s, reason, due = time.monotonic(), "", []
    while child.poll() is None:
        time.sleep(0.02 if time.monotonic() < began_s + 1 else LOOK_S)
        now_s = time.monotonic()
        if not reason:
            reason = _over(directory, described, number, index, now_s - began_s)
            if reason:
                numbers = (*_SIGNALS[reason], signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
                due = [(now_s + n * GAP_S, each) for n, each in enumerate(numbers)]
        while due and due[0][0] <= now_s:
            for pid in _processes(directory, number, index):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, due[0][1])
            due.pop(0)
    return reason


def _over(directory: Path, described: Job, number: str, index: str, age_s: float) -> str:
    """Why LSF ends this job now; empty: it does not."""
    state = json.loads((directory / "state.json").read_text())
    limits = state["jobs"][number]["elements"][index]
    if "killed" in limits:
        return "TERM_OWNER"
    # Of a limit in minutes a test has no time to see the end.
    ratio = json.loads((directory / "config.json").read_text()).get("limit_ratio", 1.0)
    if described["limit_s"] is not None and age_s > described["limit_s"] * ratio:
        return "TERM_RUNLIMIT"
    if described["mem"]:
        pages = 0
        for pid in _processes(directory, number, index):
            with contextlib.suppress(OSError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") >> 20 > int(described["mem"].removesuffix("MB")):
            return "TERM_MEMLIMIT"
    return ""


def _processes(directory: Path, number: str, index: str) -> list[int]:
    """Processes of a job. Several of these servers may run beside each other."""
    marks = (f"LSF_FAKE={directory}", f"LSB_JOBID={number}", f"LSB_JOBINDEX={index}")
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = b"\0" + (path / "environ").read_bytes()
            if all(f"\0{mark}\0".encode() in environment for mark in marks):
                found.append(int(path.name))
    return found


def _signal(session: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)


# -- the other commands


def bkill(lsf: Lsf, arguments: list[str]) -> int:
    failure = 0
    for argument in arguments:
        found = _find(lsf, argument)
        if not found:
            failure = lsf.say("bkill-unknown", ("999", argument))
        for number, index, element in found:
            if element["stat"] == "RUN":
                element["killed"] = True
            elif element["stat"] not in _ENDED:
                element.update(stat="EXIT", code=None, reason="TERM_OWNER")
            print(f"Job <{_label(lsf, number, index)}> is being terminated")
    lsf.schedule()
    return failure


def bresume(lsf: Lsf, arguments: list[str]) -> int:
    for argument in arguments:
        for number, index, element in _find(lsf, argument):
            if element["stat"] == "PSUSP":
                element["stat"] = "PEND"
                print(f"Job <{_label(lsf, number, index)}> is being resumed")
    lsf.schedule()
    return 0


def _label(lsf: Lsf, number: str, index: str) -> str:
    return f"{number}[{index}]" if lsf.jobs[number]["is_array"] else number


def _find(lsf: Lsf, argument: str) -> list[tuple[str, str, Job]]:
    """The elements of ``7``, ``7[2]`` or ``7[2-4,9]``."""
    match = re.fullmatch(r"(\d+)(?:\[([\d,-]+)\])?", argument, re.ASCII)
    elements = lsf.jobs.get(match[1], {}).get("elements", {}) if match else {}
    wanted = set(elements)
    if match is not None and match[2]:
        ends = [part.split("-") for part in match[2].split(",")]
        wanted = {str(n) for part in ends for n in range(int(part[0]), int(part[-1]) + 1)}
    return [(match[1], i, e) for i, e in elements.items() if match and i in wanted]


def bjobs(lsf: Lsf, arguments: list[str]) -> int:
    if arguments[0] == "-noheader":
        ((_, _, element),) = _find(lsf, arguments[-1])
        print(f"{_clock(lsf.config['left_s'])} L" if "left_s" in lsf.config else "-")
        return 0
    assert arguments[:3] == ["-json", "-hms", "-o"], arguments
    fields, rest = arguments[3].split(), arguments[4:]
    shows_ended = "-a" in rest and lsf.config["remembers"]
    named = [word for word in rest if word.isdigit()]
    records: list[dict[str, str]] = []
    for argument in named or list(lsf.jobs):
        found = [f for f in _find(lsf, argument) if shows_ended or f[2]["stat"] not in _ENDED]
        if named and not found:
            records.append({"JOBID": argument, "ERROR": f"Job <{argument}> is not found"})
        for number, index, element in found:
            job, stat = lsf.jobs[number], element["stat"]
            each = f"{job['each']}*" if job["each"] > 1 else ""
            reason = element.get("reason", "")
            name = f"{job['name']}[{index}]" if job["is_array"] else job["name"]
            values = {
                "jobid": number,
                "jobindex": index,
                "job_name": name,
                "user": job["user"],
                "stat": stat,
                "slots": str(job["each"] * job["nodes"]),
                "exec_host": ":".join(each + host for host in element.get("hosts", ())),
                "pend_reason": "Job slot limit reached: 1 host;" if stat == "PEND" else "",
                "runtimelimit": _clock(job["limit_s"]),
                "exit_code": str(element.get("code") or ""),
                "exit_reason": f"{reason}: {REASONS[reason]}" if reason else "",
            }
            records.append({field.upper(): values[field] for field in fields})
    document = {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}
    print(json.dumps(document, indent=2))
    return 255 if any("ERROR" in record for record in records) else 0


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def bhist(lsf: Lsf, arguments: list[str]) -> int:
    assert arguments[:2] == ["-l", "-a"], arguments
    blocks = []
    for argument in arguments[2:]:
        for number, index, element in _find(lsf, argument):
            text = f"\nJob <{_label(lsf, number, index)}>, User <{lsf.jobs[number]['user']}>\n"
            date = "Thu Mar 13 20:17:30 2025"
            for host in element.get("hosts", ())[:1]:
                text += f"{date}: Dispatched 1 Task(s) on Host(s) <{host}>;\n"
            if element["stat"] == "DONE":
                text += f"{date}: Done successfully. The CPU time used is 0.1 seconds;\n"
            elif element["stat"] == "EXIT":
                text += f"{date}: Exited with exit code {element['code']};\n"
                if element["reason"]:
                    said = f"{element['reason']}: {REASONS[element['reason']]}"
                    text += f"{date}: Completed <exit>; {said};\n"
            blocks.append(text)
    print(f"{'-' * 78}\n".join(blocks), end="")
    return 0 if blocks else 255


def bqueues(lsf: Lsf, arguments: list[str]) -> int:
    if arguments[0] == "-w" and arguments[1] != QUEUE:
        raise SaidError("bsub-queue", ("nowhere", arguments[1]), (" Job not submitted.", ""))
    return lsf.say("bqueues")


def blaunch(arguments: list[str]) -> None:
    """Run a command on another host, which is this machine."""
    assert arguments[0] == "-n", arguments
    os.execvp(arguments[2], arguments[2:])


def main() -> int:
    """Run one command."""
    directory, name, *arguments = sys.argv[1:]
    with open(Path(directory) / "calls", "a") as calls:
        calls.write(json.dumps([name, *arguments]) + "\n")
    if name == "job":
        job(Path(directory), *arguments)
        return 0
    if name == "blaunch":
        blaunch(arguments)
    with locked(Path(directory)) as lsf:
        commands = {
            "bsub": bsub, "bkill": bkill, "bresume": bresume, "bjobs": bjobs, "bhist": bhist,
            "bqueues": bqueues,
        }  # fmt: skip
        try:
            return commands[name](lsf, arguments) if name in commands else lsf.say(name)
        except SaidError as said:
            return lsf.say(said.recording, *said.changes)


if __name__ == "__main__":
    sys.exit(main())
