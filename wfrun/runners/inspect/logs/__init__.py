"""What attempts have printed."""
