"""Output about runs for users: progress, tables, texts, pictures, help pages."""
