"""Programs that run on the machines of sites. They are copied into a run's directory there.

They need the standard library of Python >= 3.6 alone, and import nothing of wfrun but each other.
There they are in one folder, and import each other by bare names; here they are in rooms, and do so
as ``wfrun.sites.node.<room>.<name>``.
"""

from pathlib import Path

FOLDER = Path(__file__).parent

LAUNCH_HERE = (
    f"import sys; sys.path[:0] = {[str(FOLDER / room) for room in ('launchers', 'tasks')]!a}; "
    "del sys.argv[0]; from launcher import main; main()"
)
"""Runs the launcher from its room. The first argument is the path of the program, by which lists of
processes name it."""

_RUNNER = (
    "tasks/python.sh",
    "tasks/limits.py",
    "tasks/runner.py",
    "tasks/starter.py",
    "tasks/environment.py",
    "tasks/slots.py",
    "tasks/logs.py",
    "tasks/log_limits.py",
    "tasks/store.py",
    "tasks/digests.py",
    "tasks/outputs.py",
    "tasks/processes.py",
)
LAUNCHER_PROGRAMS = (
    *_RUNNER,
    "launchers/queue_runner.py",
    "launchers/journals.py",
    "launchers/stdio_channel.py",
    "launchers/launch.sh",
    "launchers/launcher.py",
)
"""For a host that is reached by SSH and has no batch system."""
JOB_PROGRAMS = (*_RUNNER, "jobs/cuts.py", "jobs/batch_job.py", "jobs/job.sh", "jobs/job.py")
"""For a cluster."""
BATCH_LAUNCHER_PROGRAMS = (
    "launchers/queue_runner.py",
    "launchers/journals.py",
    "launchers/batch_launcher.sh",
    "launchers/batch_launcher.py",
    "channels/channels.py",
    "channels/connections.py",
    "channels/encryption.py",
    "channels/signing.py",
    "launchers/remote_commands.py",
    "launchers/rsh_agent.py",
    "launchers/malleable_end.py",
    "launchers/malleable_programs.py",
)
"""For a cluster with ``dispatch: launchers``, in addition to JOB_PROGRAMS."""
