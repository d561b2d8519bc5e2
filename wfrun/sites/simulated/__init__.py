"""Sites, queues and the network in virtual time."""
