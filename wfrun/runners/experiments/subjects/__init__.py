"""Subjects of experiments: documents, workloads of bags, past runs."""
