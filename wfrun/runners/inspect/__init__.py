"""What users see of runs."""
