"""The output of attempts: stdout and stderr."""
