"""The order of placements: which eligible task is placed next, and what keeps it from starving."""
