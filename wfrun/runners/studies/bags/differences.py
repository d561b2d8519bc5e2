"""Why some claims do not hold here: the part of the page of `bags` that people write."""

DIFFERENCES = """
## What differs, and why

What holds is what the chapter is about: the centralized architecture is the best and separate
clusters are by far the worst; selection policies do not matter up to a load of 50% and matter much
at 80% and more, where S-T, which is the most common one, is many times worse than S-BoT; STFR has
the best NSL and FPF the lowest makespan; predictions cost something, but beat knowing nothing;
bursts are expensive. The causes of the rest were looked for by changing one thing at a time in the
workload of the quick study (its seed 0); numbers below that are in no table come from such runs.

- **Load.** The thesis does not say how its month-long traces with some 60,000 tasks keep 3,500
  processors 20 to 95% busy. By the model, a month of 20 streams has some 700,000 tasks, and their
  run times of six minutes on average are 2% of what the processors can do. Here 60,000 tasks,
  which are 2.6 days of arrivals, are drawn together: at 60% to 76 minutes, a day to half an hour.
  Run times are cut to 26 minutes, which takes away 42% of the work: without that, tasks of up to
  six hours would hold processors for longer than bags arrive. The load is that of the time in
  which bags arrive; 56% of the processors are in use with FPLT at a load of 60%, 89% at 95%.
- **A load of 60%.** Up to there hardly a task waits under CSP, and all selection policies are one;
  the effects that the thesis sees from 60% on begin at 80% here. It is not the cut: with tasks of
  up to six hours S-T and S-BoT are the same at 60%, too, and so they are with 175,000 tasks of up
  to 1.7 hours that keep 52% of the processors busy. It takes larger bursts than those of the model:
  where the bags of an eighth of the time arrive at once, the NSL of S-T is 2.5 times that of S-BoT.
- **FPLT and S-T.** The largest task of all that wait goes first, so that small bags wait until the
  queue is empty. That makes FPLT the worst policy in NSL once tasks wait, while the thesis has it
  among the best. FPF, which differs in nothing but the order of the tasks, is seven times better
  at 95%, and with S-T as good as FPLT is with S-BoT. If all tasks run equally long, S-T, S-BoT and
  S-U-T give the same within 1%.
- **Fair selection policies.** Bags of a user's application are alike here, as they are in logs
  (`wfrun/parsers/generate/bots.py`); else there would be nothing to predict from. Users of short
  tasks have consumed little, so that S-U-T takes their small work first. If users have nothing to
  do with run times, fairness has a price as in the thesis: at 95% the NSL is 2.01 with S-BoT, 2.03
  with S-U-GRR, 2.13 with S-U-BoT and 2.17 with S-U-T; S-U-RR still comes out ahead, with 1.76. The
  sizes of bags play no part: without those of more than 50 tasks S-U-T is as far ahead of S-BoT.
- **Knowing run times.** ECT and ECT-P put tasks into the queue of a site while others may have idle
  processors; where that rests on a wrong number, a short task waits for a long one. FPLT and STFR,
  which send tasks to processors that are free, do not suffer from wrong estimates. 29% of all tasks
  are in the first bag of their application, for which ECT-P has no past to go by. A past that says
  little is worse: if all tasks are taken for one class, the NSL at 60% is 2.6 instead of 0.64. So
  it may be under real load, where ECT-P has by far the worst NSL.
- **WQR4x under real load.** Replicas keep 86% of the processors busy at a load of 25%, and tasks
  that come then wait for some of them to end.
- **Size.** The NSL is a makespan over the sum of the run times, so that it decreases with the size
  of a bag for almost every policy, at 95% as well as at 60%, and under real load. FPLT is the
  exception: with large bags tasks wait already at 60%.
- **Run time.** A workload of longer tasks with the same load is the same workload on a slower clock
  here, so that no ratio changes.
- **FCONDOR.** A user's tasks are submitted one by one; the first that has to wait stays, and the
  next goes to the next site, so that the idle processors of 20 sites are soon found. Up to 60% it
  differs from CSP by the speed of the processors alone: users do not ask for the fastest. If users
  change only after a whole bag, which the thesis may mean, fcondor is nearer to sep-c: at 80% its
  NSL is 9.7 instead of 3.5, and 80% of the tasks are done in time instead of 90%.
- **Tasks done in time.** At 95%, 40% with sep-c; the thesis has 53%. CSP with FPLT does the longest
  first, and so fewer by number than fcondor.
"""
