"""Documents that join a run that is under way."""
