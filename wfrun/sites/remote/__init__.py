"""What lies behind one connection to a cluster: transports, the agent, files."""
