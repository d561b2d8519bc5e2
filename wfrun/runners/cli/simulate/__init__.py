"""Commands that are used before a run: simulations, plans, generated documents."""
