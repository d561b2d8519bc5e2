"""Causes of the claims that do not hold here: the part of the page of `bags` written by hand.

It refers to the tables of `wfrun.studies.bags.cause_tables`, and has no numbers that a
change of the code may change.
"""

SUMMARY = """\
The thesis schedules bags of tasks on several clusters. It concludes that policies that know tasks
and processors are better; that the order in which tasks are selected matters in busy systems, with
whole bags in order of arrival (S-BoT) best and S-U-T best of the fair ones; that accurate run times
are not needed; and that one central queue is the best architecture and separate clusters the worst.

The best and the worst architecture are as it says, and so is what knowledge of run times gains.
Selection matters at 80% and more, not from 50% on; at 95% S-T has six times the NSL of S-BoT, which
is within 11% of the best, and S-U-T is not the best of the fair ones. Very inaccurate estimates
cost up to 47% of the NSL. Some of the other claims contradict each other, or the thesis' model.
"""
"""What the paper concludes, and what holds here."""

DIFFERENCES = """
## What differs, and why

The main results of the chapter are those of the thesis: the centralized architecture is the best
and separate clusters of unequal load are the worst; selection policies do not matter up to a load
of 50% and matter much at 80% and more, where S-T, the most common one, is many times worse than
S-BoT; STFR has the best NSL at high load; bursts are expensive. Each cause below was tested by a
change of one thing: the tables are those of the section on causes.

- **Load.** The thesis does not say how workloads of some 60,000 tasks keep 3,500 processors 20 to
  95% busy (see above). Here the arrivals of 60,000 tasks of the model, 2.6 days,
  are compressed: at 60% to about 76 minutes, a day to half an hour. Run times are cut, because
  tasks of up to six hours would hold processors for longer than bags arrive. The load is that of
  the time in which bags arrive.
- **A load of 60% (claims 21, 22 and 24).** Up to this load hardly any task waits under csp, and all
  selection policies give the same results. The effects that the thesis sees from 60% on begin
  between 70% and 80% here: the table *From which load on tasks wait*. The arrivals are the cause:
  with the same bags in bursts, S-T is behind S-BoT at a lower load. The longest run times are not:
  with tasks cut to a third or a tenth of the length S-T and S-BoT are also equal at 60% (tried, not
  in the tables), although the peak of the daily cycle then lasts for longer than a task. If 60,000
  tasks arrive in about a day of the model, tasks wait in its peak at 60%, too, and S-T is behind
  S-BoT; but not in each of the workloads. If the load changes how often bags arrive and not the
  days, with tasks in proportion to the load, the results are similar to those of the study: the
  table *The length of a day*.
- **FPLT and S-T (claims 4, 8 and 23).** The largest waiting task goes first, so that small bags
  wait until the queue is empty. Once tasks wait, FPLT therefore has the worst NSL, while in the
  thesis it is among the best: the table *The order of tasks*. How many times worse S-T is grows
  with the number of tasks that wait, thus with the length of the workload at high load. With
  175,000 tasks, as the largest workload of the thesis has, it is as many times as there, and with
  60,000 less than half of that: the table *The number of tasks*. The thesis does not say which
  workload has how many.
- **Real load (claims 1 to 3).** In the log the tasks of a bag are submitted one after another, so
  that the makespan of short tasks is mostly the time of their submission. If bags are submitted as
  a whole, the NSL falls with the size, and those of 2 to 4 and of over 200 tasks are below the
  average, as in the thesis (claim 2); for claim 1 see above. The log's large bags have shorter
  tasks than its small ones; if run times are shuffled, the makespan increases with every class of
  size, as in the thesis (claim 3).
- **RR (claim 9).** RR, WQR4x and STFR ignore speeds, and their makespans are larger than those of
  FPF at a load of 60%, too, where no task waits. The speeds are the larger part of the difference:
  with equal ones about 40% of it remains. The rest are the replicas, whose processors are idle
  again only with the next report: without replicas, or without a monitoring period, makespans are
  smaller. See the table *Policies that know nothing*. The speeds of the clusters are assumed here,
  since the thesis gives their range alone.
- **Size (claim 16).** ECT and FPF, which know speeds, have the smallest increases, as ECT and FPLT
  in the thesis, and the policies with replicas larger ones. The increase of FPLT is 13% to 37% in
  four workloads of five, where that of ECT is 14% to 31%, and 77% in the fifth, in which tasks wait
  (claim 4). The text has the makespan of WQR4x grow by more than 80%; replicas matter where tasks
  wait, and at 60% few do. The table *The size of bags* has 80%, too.
- **Wrong estimates (claim 19).** FPLT and STFR send tasks to idle processors, so that wrong
  estimates do little harm; ECT keeps tasks for the processor that is the first to complete them by
  the estimates. Without a monitoring period the NSL of ECT hardly depends on them, with equal
  speeds it does: the table *Wrong estimates*. The mean error is not 0 as the text has it: an
  estimate is at least 1 s, so that with an inaccuracy of 10,000% the mean estimate is 25 times the
  run time.
- **Users and fairness (claims 22, 25 and 27 to 31).** Each cluster has users of its own, some 2,000
  in all, three quarters of whom have one or two bags: a fair policy favours them over those with
  many waiting tasks, and with them small bags. If a rank of users is one user at all clusters,
  S-U-Prio, S-U-T and S-U-GRR are worse than S-BoT, so that their fairness has a price as in the
  thesis, and S-U-BoT and S-U-RR are not: the table *Fair selection policies*. With bags that are
  alike, users of short tasks have used little, and S-U-T selects their tasks first: a cause of
  claims 25 to 27. S-U-RR stays close to the best with each change, and also if a round of S-U-RR is
  one eligible set with a task of each user (tried, not in the tables): it serves small bags first,
  as a shared processor does.
- **ECT-P.** As in the model of the thesis, bags of an application are independent here; the history
  of an application knows no more than the sizes of its tasks. `wfrun generate bags --likeness 0.5`
  has bags that are alike, as in logs.
- **WQR4x.** Replicas keep processors busy that new tasks then wait for, also under real load.
- **Run time (claim 18).** Without a monitoring period a workload of longer tasks with the same load
  is the same workload on a slower clock, so that no ratio changes; with one, short tasks wait
  relatively longer for the report: the table *The period of the monitoring service*. It also has
  STFR, whose NSL depends on the period more than that of policies without replicas (claim 5).
- **fcondor (claims 34 and 35).** A user's tasks are submitted one by one; the first that has to
  wait stays, and the next one goes to the next site, so that the idle processors of 20 sites are
  soon found. Users who change after whole bags find fewer: at 60% fcondor is then between csp and
  sep-c, and at 95% it has a lower NSL than with changes within bags.
- **Streams (claims 35 to 37).** The clusters have 64 to 620 processors and equal streams of bags,
  so that at each load small clusters are overloaded and large ones idle. With streams in proportion
  to the processors sep-c is no longer the worst at 95%, where it is nearer to fcondor, and the
  shares of tasks done with sep-c and fcondor come near those of the thesis: the tables
  *Architectures* and *Tasks done*. They also show the tasks done by twice the time of the last
  arrival: by then csp is done with all of them, and separate clusters with equal streams are not.
  Before, csp has fewer tasks done than fcondor, because FPLT takes the longest ones first.
"""
