"""Programs that run on the machines of sites. They are copied into a run's directory there.

They need the standard library of Python >= 3.6 alone, and import nothing of wfrun but each other.
On a machine of a site they do so by bare names, here as ``wfrun.sites.node.<name>``.
"""

from pathlib import Path

FOLDER = Path(__file__).parent

_RUNNER = (
    "python.sh",
    "limits.py",
    "runner.py",
    "starter.py",
    "environment.py",
    "slots.py",
    "logs.py",
    "log_limits.py",
    "store.py",
    "digests.py",
    "outputs.py",
    "processes.py",
)
LAUNCHER_PROGRAMS = (
    *_RUNNER,
    "queue_runner.py",
    "journals.py",
    "stdio_channel.py",
    "launch.sh",
    "launcher.py",
)
"""For a host that is reached by SSH and has no batch system."""
JOB_PROGRAMS = (*_RUNNER, "cuts.py", "batch_job.py", "job.sh", "job.py")
"""For a cluster."""
BATCH_LAUNCHER_PROGRAMS = (
    "queue_runner.py",
    "journals.py",
    "batch_launcher.sh",
    "batch_launcher.py",
    "channels.py",
    "connections.py",
    "encryption.py",
    "signing.py",
    "remote_commands.py",
    "rsh_agent.py",
    "malleable_end.py",
    "malleable_programs.py",
)
"""For a cluster with ``dispatch: launchers``, in addition to JOB_PROGRAMS."""
