"""What users see of runs: progress, reports, logs of tasks."""
