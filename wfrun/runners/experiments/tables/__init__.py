"""Results of experiments: their file, tables, pictures."""
