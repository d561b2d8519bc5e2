"""Claims: processors that placeholder jobs hold for one job, and the queue of jobs for them."""
