"""What a run tells others: notifications, and numbers for Prometheus."""
