"""Causes of the claims that do not hold here: the part of the page of `bags` written by hand.

It refers to the tables of `wfrun.studies.bags.cause_tables`, and has no numbers that a
change of the code may change.
"""

SUMMARY = """\
The thesis schedules bags of tasks on several clusters. It concludes: policies that know tasks and
processors are better than policies that know nothing; in busy systems the selection policy matters;
S-BoT, which selects whole bags in order of arrival, is the best selection policy, and S-U-T is the
best fair one; accurate run times are not needed; one central queue is the best architecture, and
separate clusters are the worst.

The simulations confirm the best and the worst architecture, and the gain from known run times. The
selection policy matters at loads of 80% and more, not from 50% on. At 95% the NSL of S-T is six
times that of S-BoT. S-BoT is within 11% of the best selection policy, but much better than S-T
alone; S-U-T is not the best fair policy. Very inaccurate estimates increase the NSL by up to 47%.
Three of the four main claims that do not hold contradict other statements of the thesis, as do some
details.
"""
"""The conclusions of the thesis, and which of them hold here."""

_MODEL = "see *Where the thesis contradicts itself*"
_LOAD = "up to 60% no task waits: see *A load of 60%*"
_USERS = "see *Users and fairness*"
_STREAMS = "see *Streams*"
CAUSES: dict[int, str] = {
    1: _MODEL,
    2: "holds if the tasks of a bag are submitted together: see *Real load*",
    3: "holds if run times are shuffled among all tasks: see *Real load*",
    4: _MODEL,
    5: "unexplained; see *The length of a day*",
    8: _MODEL,
    9: "speeds and replicas: see *RR*",
    16: "see *Size*",
    17: _MODEL,
    19: "see *Wrong estimates*",
    21: _LOAD,
    22: f"{_LOAD}; at 95% {_USERS}",
    23: "holds with 175,000 tasks: see *FPLT and S-T*",
    24: _LOAD,
    **dict.fromkeys((25, 26, 27, 28, 29), _USERS),
    34: "unexplained; on the text, see *Where the thesis contradicts itself*",
    35: "see *fcondor* and *Streams*",
    36: _STREAMS,
    37: _STREAMS,
}
"""Why claims do not hold here, by number."""

ON_REAL_CLUSTERS = """
## On real clusters

Three logs of 400 tasks in 62 to 87 bags, of 10 s on average, were drawn as in the study. They
arrived at one engine, which ran them by FPLT in launchers at two Slurm clusters and Grid Engine on
one machine, 40 slots in all. The same bags were simulated at 40 slots
(`python bench/testbed_bags.py`, once for each load). NSL has the values of each log in brackets.

| load | selection | makespan [s] | simulated | NSL | simulated |
|---|---|---|---|---|---|
| 80% | s-bot | 25.0 | 22.7 | 1.67 (1.04, 1.61, 2.36) | 1.45 |
| 80% | s-t | 28.2 | 28.6 | 2.92 (2.16, 1.30, 5.29) | 3.20 |
| 80% | s-u-t | 24.8 | 23.4 | 1.61 (1.12, 1.07, 2.64) | 1.49 |
| 80% | s-u-rr | 23.7 | 22.1 | 1.36 (0.91, 0.96, 2.22) | 1.18 |
| 95% | s-bot | 28.1 | 26.6 | 2.18 (1.96, 1.49, 3.08) | 2.03 |
| 95% | s-t | 39.7 | 40.7 | 5.05 (6.53, 3.33, 5.30) | 5.70 |
| 95% | s-u-t | 29.6 | 26.3 | 2.22 (1.97, 1.78, 2.91) | 1.81 |
| 95% | s-u-rr | 28.7 | 25.7 | 1.83 (1.58, 1.06, 2.85) | 1.57 |

At 95% S-T has the highest NSL with each log, 1.7 to 3.3 times that of S-BoT; at 80% with two of
three. S-BoT and S-U-T differ by at most 19% at 95%, in both directions. S-U-RR has the lowest NSL
with each log at both loads, as at loads of 80% and more in the simulations of this study. Makespans
are 2% below to 13% above the simulated ones, and NSL 11% below to 23% above.

Runs of one log differ. In a repetition at 95%, S-BoT had 2.18, 1.87 and 2.89, S-T 4.20, 1.73 and
5.88, S-U-T 1.96, 1.47 and 3.23, and S-U-RR 1.47, 1.34 and 2.75: with the second log S-T was not
worse than S-BoT. The cause is not known. The first bag starts the launchers: in the repetition a
site requested all at once instead of two at a time, and the last of them started 4 to 10 s after
the first bag, but 11 to 20 s with S-BoT, which was the first run of each testbed. Three logs show
which policies are far apart, not whether S-BoT or S-U-T is better.

A testbed on one machine cannot show speeds that differ, thousands of processors, or days of
arrivals. Its two cores were busy with other work, so that tasks started late at times.
"""

DIFFERENCES = """
## What differs, and why

The main results of the chapter are reproduced. The centralized architecture is the best, and
separate clusters of unequal load are the worst. Selection policies do not matter up to a load of
50%. They matter much at 80% and more, where the most common one, S-T, is many times worse than
S-BoT. STFR has the best NSL at high load. Bursts are expensive. Each cause below was tested by
changing one thing; the tables are those of the section on causes.

- **Load.** The thesis does not say how workloads of some 60,000 tasks keep 3,500 processors 20 to
  95% busy (see above). Here the 60,000 tasks of a workload, 2.6 days of the model, arrive in a
  shorter time: at a load of 60% in about 76 minutes, so that a day of the model takes half an hour.
  Run times are cut: a task of six hours would otherwise hold its processor for longer than bags
  arrive. The load is measured over the time in which bags arrive.
- **A load of 60% (claims 21, 22 and 24).** Up to this load hardly any task waits under csp, and all
  selection policies give the same results. The differences that the thesis sees from 60% on begin
  between 70% and 80% here: the table *From which load on tasks wait*. The arrivals are the cause.
  When the same bags arrive in bursts, S-T is worse than S-BoT at a lower load. The longest run
  times are not the cause. With tasks cut to a third or a tenth of their length, S-T and S-BoT are
  also equal at 60% (tried, not in the tables), although the peak of the daily cycle is then longer
  than a task. When 60,000 tasks arrive in about a day of the model, tasks also wait in its peak at
  60%, and S-T is worse than S-BoT, but not in each workload. When the load changes how often bags
  arrive and leaves the length of a day, with a number of tasks in proportion to the load, the
  results are similar to those of the study: the table *The length of a day*.
- **FPLT and S-T (claims 4, 8 and 23).** FPLT starts the largest waiting task first, so that small
  bags wait until the queue is empty. Once tasks wait, FPLT therefore has the worst NSL; in the
  thesis its NSL is among the best: the table *The order of tasks*. The ratio of the NSL of S-T to
  that of S-BoT grows with the number of waiting tasks, and therefore with the number of tasks of a
  workload at high load. With 175,000 tasks, the size of the largest workload of the thesis, the
  ratio is that of the thesis; with 60,000 tasks it is less than half: the table *The number of
  tasks*. The thesis does not give the size of each workload.
- **Real load (claims 1 to 3).** In the log the tasks of a bag are submitted one after another. The
  makespan of a bag of short tasks is therefore mostly the time of its submission. If bags are
  submitted as a whole, the NSL falls with the size of the bag, and bags of 2 to 4 and of over 200
  tasks have an NSL below the average, as in the thesis (claim 2); for claim 1 see above. Large bags
  of the log have shorter tasks than small ones. If run times are shuffled among all tasks, the
  makespan increases with every class of size, as in the thesis (claim 3).
- **RR (claim 9).** RR, WQR4x and STFR ignore speeds. Their makespans are larger than those of FPF
  also at a load of 60%, at which no task waits. The speeds are the larger part of the difference:
  about 40% of it remains with equal speeds. The replicas are the rest: the resource manager learns
  that the processor of a replica is idle only by the next report. Without replicas, and also
  without a monitoring period, makespans are smaller. See the table *Policies that know nothing*.
  The speeds of the clusters are assumed here, since the thesis gives only their range.
- **Size (claim 16).** ECT and FPF, which know speeds, have the smallest increases here; in the
  thesis ECT and FPLT have. The policies with replicas have larger increases. In four workloads of
  five the makespan of FPLT increases by 13% to 37%, and that of ECT by 14% to 31%. In the fifth
  workload tasks wait, and FPLT increases by 77% (claim 4). In the text the makespan of WQR4x grows
  by more than 80%. Replicas matter where tasks wait; at 60% few tasks do. The table *The size of
  bags* also has a load of 80%.
- **Wrong estimates (claim 19).** FPLT and STFR send tasks to idle processors, so that wrong
  estimates do little harm. ECT keeps a task for the processor that completes it first according to
  the estimates. The NSL of ECT hardly depends on the errors without a monitoring period, and
  depends on them with equal speeds: the table *Wrong estimates*. The mean error is not 0, as the
  text says: an estimate is at least 1 s, so that at an inaccuracy of 10,000% the mean estimate is
  25 times the mean run time.
- **Users and fairness (claims 22, 25 and 27 to 31).** Each cluster has users of its own, some 2,000
  in all. Three quarters of the users have one or two bags. A fair policy favours these users, and
  with them small bags, over users with many waiting tasks. If each rank is one user at all
  clusters, S-U-Prio, S-U-T and S-U-GRR are worse than S-BoT: their fairness has a price, as in the
  thesis. S-U-BoT and S-U-RR are not worse: the table *Fair selection policies*. If the bags of an
  application are alike, users of short tasks have used little, and S-U-T selects their tasks first;
  this is a cause of claims 25 to 27. S-U-RR is close to the best policy with each change, also if
  one round of S-U-RR is one eligible set with a task of each user (tried, not in the tables): it
  serves small bags first, as a shared processor does.
- **ECT-P.** Bags of an application are independent of each other here, as in the model of the
  thesis. The history of an application therefore tells only the sizes of its tasks. `wfrun generate
  bags --likeness 0.5` makes bags that are alike, as in logs.
- **WQR4x.** Replicas occupy processors for which new tasks then wait, also under real load.
- **Run time (claim 18).** Without a monitoring period, a workload of longer tasks at the same load
  is the same workload on a slower clock, so that no ratio changes. With a monitoring period, short
  tasks wait longer for the report relative to their run times: the table *The period of the
  monitoring service*. The table also has STFR: its NSL depends more on the period than the NSL of
  policies without replicas (claim 5).
- **fcondor (claims 34 and 35).** The tasks of a user are submitted one by one. A task that has to
  wait stays where it is, and the user's next task goes to the next site, so that users soon find
  the idle processors of 20 sites. Users who change the site only after whole bags find fewer:
  fcondor is then between csp and sep-c at 60%, and at 95% its NSL is lower than with changes within
  bags.
- **Streams (claims 35 to 37).** The clusters have 64 to 620 processors and equal streams of bags.
  At each load small clusters are therefore overloaded, and large ones idle. With streams in
  proportion to the processors, sep-c is not the worst at 95%, its results are nearer to those of
  fcondor, and the shares of tasks done with sep-c and fcondor are near those of the thesis: the
  tables *Architectures* and *Tasks done*. The tables also show the tasks done by twice the time of
  the last arrival: by then csp has done all tasks, and separate clusters with equal streams have
  not. At the last arrival csp has done fewer tasks than fcondor, because FPLT takes the longest
  tasks first.
"""
