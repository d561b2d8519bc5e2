"""Tasks of a run: eligibility, attempts, retries, repetition, reuse; bags of tasks."""
