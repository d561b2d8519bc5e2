"""One real run: the loop, its clocks, the store, and what carries actions out."""
