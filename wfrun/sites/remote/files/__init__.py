"""Files of a host, read and written without its agent."""
