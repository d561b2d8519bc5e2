"""The study of thesis chapter 6: workflows."""
