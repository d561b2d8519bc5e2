"""One simulated run: a real run's loop and core in virtual time."""
