"""What an experiment simulates: documents, workloads, past runs."""
