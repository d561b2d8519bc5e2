"""One real run: its loop, clocks, log store, and the dispatcher that carries out the core's
actions."""
