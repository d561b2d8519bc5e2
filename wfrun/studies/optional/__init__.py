"""RR-7959: bags with optional tasks (DIET-ethic)."""
