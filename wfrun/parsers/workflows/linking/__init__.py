"""From drafts of tasks to a checked workflow."""
