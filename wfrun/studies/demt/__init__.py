"""SPAA 2004: moldable jobs packed for two criteria."""
