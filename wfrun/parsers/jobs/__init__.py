"""Documents of parallel jobs: YAML, and logs whose jobs are taken as synthetic ones."""
