"""The run id that marks the logs of simulated runs."""

SIMULATED_ID = "s"
"""Id of simulated runs. The ids of real runs are longer."""
