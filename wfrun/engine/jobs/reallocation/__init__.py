"""Reallocation: waiting jobs move to the queue of another site that would finish them sooner.

Use: give `reallocate` the queues of all sites (`Queues`), the name of an algorithm and `Limits`. It
changes the queues as it decides, and returns the jobs that it placed (`Placed`). Placed jobs with
``is_moved`` go to another site. `LrmQueues` implements `Queues` over queue models
(`wfrun.engine.queues`). In a simulation the models are the queues themselves. For a real grid, copy
the observed queues into models: a round then costs one query per site. Carry out a move as *cancel,
then submit*; a job that starts before it is cancelled stays where it is.

Source: RR-7365, sections 3.2.2 and 3.2.3. The limits on repeated moves and the cost of files are
beyond the paper.
"""

from wfrun.engine.jobs.reallocation.algorithms import ALGORITHMS, reallocate
from wfrun.engine.jobs.reallocation.lrm_queues import LrmQueues, QueueJob
from wfrun.engine.jobs.reallocation.queues import Limits, Placed, QueueOffer, Queues, WaitingJob

__all__ = [
    "ALGORITHMS",
    "Limits",
    "LrmQueues",
    "Placed",
    "QueueJob",
    "QueueOffer",
    "Queues",
    "WaitingJob",
    "reallocate",
]
