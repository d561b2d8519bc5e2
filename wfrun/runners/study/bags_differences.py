"""Why some claims do not hold here: the part of the page of `bags` that people write."""

DIFFERENCES = """
## What differs, and why
"""
