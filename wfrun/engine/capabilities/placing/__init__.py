"""The order of placements: which eligible task is placed next, and how wide tasks are kept from
starving."""
