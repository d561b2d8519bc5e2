"""What runs on the machines of sites: files of the standard library for Python >= 3.6, which import
nothing of wfrun but each other, by their bare names. They are put into a run's directory there."""

from pathlib import Path

FOLDER = Path(__file__).parent

_RUNNER = ("python.sh", "runner.py", "starter.py", "slots.py", "logs.py", "journals.py", "store.py",
           "processes.py")  # fmt: skip
LAUNCHER_PROGRAMS = (*_RUNNER, "launch.sh", "launcher.py")
"""For a host that is reached by SSH alone."""
JOB_PROGRAMS = (*_RUNNER, "job.sh", "job.py")
"""For a cluster."""
BATCH_LAUNCHER_PROGRAMS = (
    "batch_launcher.sh",
    "batch_launcher.py",
    "batch_job.py",
    "channels.py",
    "connections.py",
    "signing.py",
    "allocated.sh",
)
"""For a cluster with ``dispatch: launchers``, beside the programs of jobs."""
