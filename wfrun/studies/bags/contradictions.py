"""Where chapter 5 of the thesis contradicts itself: a part of the page written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.studies.common.claim import Answer

CONTRADICTED = frozenset({1, 4, 8, 17, 34})
"""Numbers of the claims that contradict the thesis' own numbers or model, by the simulations that
CONTRADICTIONS names."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

The tables named here are those of the section on causes.

- **Sizes of bags under real load (claim 1).** The load is 25%, and section 5.4.4 says that up to
  50% there is spare capacity. In the model (section 5.1.1) a bag arrives as a whole. Without waits
  its makespan is its longest task, and the NSL, which divides by the sum of all tasks, falls with
  every task: bags of 5 to 19 tasks have an NSL below the average. The line *all tasks of a bag
  submitted together* of the first table shows it. That the tasks of a bag are submitted one after
  another changes the order of the classes, but this is no wait, which the text gives as the cause.
- **FPLT with S-T (claims 4 and 8 against 23 and 24).** FPLT and FPF choose the same processors.
  With S-T, FPLT takes the largest task of all bags first; FPF takes tasks in the order of arrival,
  so that with S-T it does almost what FPLT does with S-BoT: the table *The order of tasks*.
  Section 5.4.4 says that the NSL of S-BoT is up to 16 times lower than that of the others, among
  them S-T. Then the NSL of FPF under S-T must also be many times lower than that of FPLT. Section
  5.4.1 says of the same policies under S-T that the balance of FPLT is among the best and that the
  NSL of FPF is poor.
- **NSL by size (claim 17 against 16).** With five times as many tasks in a bag, the sum of their
  run times is five times as large. Makespans grow by 35% to 80% according to the text, thus the
  NSL has to fall for every policy to about a third, and not for STFR alone: the table *The size of
  bags*, also at a load at which tasks wait.
- **fcondor (claim 34).** The text says of loads below 50% and of loads of 50% and more alike that
  the NSL of fcondor is similar to that of sep-c, and calls these results mixed; the first sep-c is
  taken as csp here.
- **Tasks done (claim 37 beside 33 and 35).** The thesis calls sep-c the worst and fcondor similar
  to it, but has fewer tasks done with fcondor (44%) than with sep-c (53%). Here it is one or the
  other, by the streams of the clusters: the table *Tasks done*.
- **Load.** Section 5.3.3 has workloads of some 60,000 tasks, real ones a month long; it does not
  say how long the generated ones are. At a load of 60% of 3,568 processors tasks would have to run
  for 26 hours each in a month, and for two hours in the 2.6 days in which the model's 20 streams
  have 60,000; those of the model run for six minutes, those of Figure 5.5 for three hours at most.
  In a month the streams have some 700,000 tasks, 2% of the capacity. Here the arrivals are
  compressed.
"""


def contradicted(found: Sequence[Answer]) -> int:
    """The number of claims that do not hold and contradict the thesis itself."""
    return sum(one.number in CONTRADICTED and not one.holds for one in found)
