"""The run id that marks the logs of simulated runs."""

SIMULATED_ID = "s"
"""Id of simulated runs. Ids of real ones are longer."""
