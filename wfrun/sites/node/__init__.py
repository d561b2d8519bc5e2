"""Programs that run on the machines of sites. They are copied into a run's directory there.

They need only the standard library of Python >= 3.6, and import nothing of wfrun but each other. At
a site they are in one folder and import each other by bare names. Here they are in subpackages and
import each other as ``wfrun.sites.node.<room>.<name>``.
"""

from pathlib import Path

FOLDER = Path(__file__).parent

LAUNCH_HERE = (
    f"import sys; sys.path[:0] = {[str(FOLDER / room) for room in ('launchers', 'tasks')]!a}; "
    "del sys.argv[0]; from launcher import main; main()"
)
"""Code for ``python -c`` that runs the launcher from its subpackage. Its first argument, the path
of the launcher's program, only makes the process recognizable in lists of processes."""

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
"""Files for a host that is reached by SSH and has no batch system."""
JOB_PROGRAMS = (*_RUNNER, "jobs/cuts.py", "jobs/batch_job.py", "jobs/job.sh", "jobs/job.py")
"""Files for a cluster."""
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
"""Further files, besides JOB_PROGRAMS, for a cluster with ``dispatch: launchers``."""
