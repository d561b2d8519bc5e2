"""Commands before a run: simulations, plans, generated documents."""
