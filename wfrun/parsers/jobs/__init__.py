"""Documents of parallel jobs: YAML, and workload logs whose jobs become synthetic jobs."""
