"""``wfrun watch``: the display of a run from any terminal, drawn from its log."""
