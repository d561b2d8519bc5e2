"""Where chapter 5 of the thesis contradicts itself: a part of the page written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.studies.common.claim import Answer

CONTRADICTED = frozenset({1, 4, 8, 17, 19, 21, 22, 34})
"""Numbers of the claims that contradict the thesis's own numbers or model, according to the
simulations that CONTRADICTIONS names."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

The tables named here are those of the section on causes.

- **Sizes of bags under real load (claim 1).** The load is 25%, and section 5.4.4 says that capacity
  is to spare up to 50%. In the model (section 5.1.1) a bag arrives as a whole. If no task waits,
  the makespan of a bag is the run time of its longest task. The NSL divides the makespan by the sum
  of the run times of all tasks, and therefore falls with the number of tasks: bags of 5 to 19 tasks
  have an NSL below the average. The first table shows this in the line *all tasks of a bag
  submitted together*. In the log the tasks of a bag are submitted one after another, which changes
  the order of the classes. This delay is no wait in a queue, which the text gives as the cause.
- **FPLT with S-T (claims 4 and 8 against 23 and 24).** FPLT and FPF choose the same processors.
  With S-T, FPLT takes the largest task of all bags first, and FPF takes tasks in the order of
  arrival. FPF with S-T is therefore nearly FPLT with S-BoT: the table *The order of tasks*. Section
  5.4.4 says that the NSL of S-BoT is up to 16 times lower than that of other selection policies,
  among them S-T. Under S-T the NSL of FPF must then be many times lower than that of FPLT. Section
  5.4.1, however, ranks the balance of FPLT under S-T among the best, and calls the NSL of FPF under
  S-T poor.
- **A load of 60% (claims 21 and 22 against 14).** The text says that selection is important at
  loads of 50% and more, and that S-BoT is much better than S-T at 60%. It also says that, with
  S-T at a load of 60%, evenly spread arrivals give similar results as realistic ones. With evenly
  spread arrivals no task waits at this load, and all selection policies are equal: the table
  *From which load on tasks wait*. With realistic arrivals S-T is then similar to a system in
  which no task waits, and no policy can be much better. At loads of 80% and more, where tasks
  wait, claim 21 holds here; claim 22 does not (*Users and fairness* below).
- **Null overall inaccuracy (claim 19).** The conclusion is about estimates whose mean error is 0.
  In the experiment (section 5.4.3) an estimate is at least 1 s, however negative its error is: at
  an inaccuracy of 10,000% the mean estimate is 25 times the mean run time. The claim holds here
  without a monitoring period, a free choice (*Wrong estimates* below).
- **NSL by size (claim 17 against 16).** A bag with five times as many tasks has a five times larger
  sum of run times. According to the text its makespan grows by 35% to 80%. The NSL then falls to
  about a third for every policy, not for STFR alone: the table *The size of bags*, which also has a
  load at which tasks wait.
- **fcondor (claim 34).** The text says that the NSL of fcondor is similar to that of sep-c for
  loads below 50%, says the same for loads of 50% and more, and calls these results mixed. The first
  sep-c is read as csp here.
- **Tasks done (claim 37 beside 33 and 35).** The thesis calls sep-c the worst architecture and
  fcondor similar to sep-c, but reports fewer tasks done with fcondor (44%) than with sep-c (53%).
  In the simulations only one of the two statements holds at a time; the streams of the clusters
  decide which one: the table *Tasks done*.
- **Load.** The workloads of section 5.3.3 have some 60,000 tasks. The real ones last a month; the
  length of the generated ones is not given. To keep 3,568 processors 60% busy for a month, 60,000
  tasks would have to run for 26 hours each. The 20 streams of the model have 60,000 tasks in 2.6
  days; at a load of 60% each would have to run for two hours. The tasks of the model run for six
  minutes on average, the tasks of Figure 5.5 for three hours at most. In a month the streams have
  some 700,000 tasks, which use 2% of the capacity. Here the arrivals are compressed.
"""


def contradicted(found: Sequence[Answer]) -> int:
    """Number of the claims that do not hold here and are among `CONTRADICTED`."""
    return sum(one.number in CONTRADICTED and not one.holds for one in found)
