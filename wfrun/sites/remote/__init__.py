"""The connection to a cluster: transports, the agent, files."""
