"""Claims: processors that placeholders hold for one job, and the queue of jobs that wait for
claims."""
