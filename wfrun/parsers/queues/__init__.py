"""What the commands of batch systems print about their queues, as records."""
