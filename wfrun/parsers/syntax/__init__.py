"""YAML and XML documents of unknown origin, and the values in them."""
