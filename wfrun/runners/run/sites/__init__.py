"""The sites of a run, made from its catalog."""
