"""Causes of the claims that do not hold here: the part of the page of `bags` written by hand."""

DIFFERENCES = """
## What differs, and why

The main results of the chapter hold: the centralized architecture is the best and separate clusters
are by far the worst; selection policies do not matter up to a load of 50% and matter much at 80%
and more, where S-T, the most common one, is many times worse than S-BoT; STFR has the best NSL and
FPF the smallest makespan; predictions are worse than exact run times, but better than no
information; bursts are expensive. To find the causes of the differences, one property at a time of
the workload of the quick study (its seed 0) was changed; numbers below that are in no table come
from such runs.

- **Load.** The thesis does not say how its month-long traces with some 60,000 tasks keep 3,500
  processors 20 to 95% busy. According to the model, a month of 20 streams has some 700,000 tasks,
  whose run times of six minutes on average are 2% of the capacity. Here the arrivals of 60,000
  tasks, 2.6 days, are compressed: at 60% to 76 minutes, a day to half an hour. Run times are cut to
  26 minutes, which removes 42% of the work: otherwise tasks of up to six hours would hold
  processors for longer than bags arrive. The load is that of the time in which bags arrive; 56% of
  the processors are in use with FPLT at a load of 60%, 89% at 95%.
- **A load of 60%.** Up to this load hardly any task waits under CSP, and all selection policies
  give the same results; the effects that the thesis sees from 60% on begin at 80% here. The cut of
  run times is not the cause: S-T and S-BoT are also equal at 60% with tasks of up to six hours, and
  with 175,000 tasks of up to 1.7 hours that keep 52% of the processors busy. The effects need
  larger bursts than those of the model: if the bags of each eighth of the time arrive together, the
  NSL of S-T is 2.5 times that of S-BoT.
- **FPLT and S-T.** The largest waiting task goes first, so that small bags wait until the queue is
  empty. Once tasks wait, FPLT therefore has the worst NSL, while in the thesis it is among the
  best. FPF, which differs only in the order of the tasks, is seven times better at 95%, and with
  S-T as good as FPLT with S-BoT. If all tasks have equal run times, S-T, S-BoT and S-U-T agree
  within 1%.
- **Fair selection policies.** Bags of one application of a user are similar here, as in logs
  (`wfrun/parsers/generate/bots.py`); otherwise run times could not be predicted. Users of short
  tasks have consumed little, so that S-U-T selects their small tasks first. If run times do not
  depend on users, fairness has a price as in the thesis: at 95% the NSL is 2.01 with S-BoT, 2.03
  with S-U-GRR, 2.13 with S-U-BoT and 2.17 with S-U-T; S-U-RR is still the best, with 1.76. The
  sizes of bags have no effect: without bags of more than 50 tasks S-U-T is as far ahead of S-BoT.
- **Knowing run times.** ECT and ECT-P put tasks into the queue of a site while other sites may have
  idle processors; if the estimates are wrong, a short task waits for a long one. FPLT and STFR send
  tasks to idle processors, so that wrong estimates do not harm them. 29% of all tasks are in the
  first bag of their application, for which ECT-P has no history. An uninformative history is worse:
  if all tasks form one class, the NSL at 60% is 2.6 instead of 0.64. This may also be the cause
  under real load, where ECT-P has by far the worst NSL.
- **WQR4x under real load.** Replicas keep 86% of the processors busy at a load of 25%, and new
  tasks wait until some of them end.
- **Size.** The NSL is a makespan over the sum of the run times, so that it decreases with the size
  of a bag for almost every policy, at 95% as well as at 60%, and under real load. FPLT is the
  exception: with large bags tasks wait already at 60%.
- **Run time.** Here a workload of longer tasks with the same load is the same workload on a slower
  clock, so that no ratio changes.
- **FCONDOR.** A user's tasks are submitted one by one; the first that has to wait stays, and the
  next one goes to the next site, so that the idle processors of 20 sites are soon found. Up to 60%
  it differs from CSP only by the speed of the processors: users do not ask for the fastest. If
  users change only after a whole bag, which the thesis may mean, fcondor is nearer to sep-c: at 80%
  its NSL is 9.7 instead of 3.5, and 80% of the tasks are done in time instead of 90%.
- **Tasks done in time.** At 95%, 40% with sep-c; the thesis has 53%. CSP with FPLT executes the
  longest tasks first, and therefore fewer tasks than fcondor.
"""
