"""The study of thesis chapter 5: bags of tasks."""
