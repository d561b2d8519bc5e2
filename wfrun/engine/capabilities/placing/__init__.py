"""The order of placements: which eligible task is placed next, how wide tasks are kept from
starving, and how many tasks may be placed at a time (throttle)."""
