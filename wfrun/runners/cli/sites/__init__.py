"""Commands about sites."""
