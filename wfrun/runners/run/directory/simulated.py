"""How logs of simulated runs differ."""

SIMULATED_ID = "s"
"""Id of simulated runs. Ids of real ones are longer."""
