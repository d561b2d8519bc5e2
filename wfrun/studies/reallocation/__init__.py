"""``wfrun study reallocation``: moldable jobs that move between the queues of several clusters
(RR-7365)."""
