"""Why some claims do not hold here: the part of the page of `bags` that people write."""

DIFFERENCES = """
## What differs, and why

What holds is what the chapter is about: the centralized architecture is the best and separate
clusters are by far the worst; selection policies do not matter up to a load of 50% and matter much
at 80% and more, where S-T, which is the most common one, is several times worse than S-BoT; STFR
has the best NSL and FPF the lowest makespan; bursts are expensive. The rest has these causes.

- **Load.** The thesis does not say how its month-long traces of some 60,000 tasks keep 3,500
  processors 20 to 95% busy: with the run times of Table 5.3 these tasks are two hours of work for
  them. Here arrivals are drawn together until the work is the load times what the sites can do: at
  60%, the 19 hours of 20,000 tasks (`--quick`) to 15 minutes, the 2.6 days of 60,000 to 85. What
  runs after the last arrival counts as load too, so that hardly a task waits at 60%; there, all
  selection policies are one, and the effects that the thesis sees from 60% on begin at 80% here.
  Their factors are smaller as well: 4 instead of 16 for the NSL of S-T and S-BoT.
- **FPLT and S-T.** The largest task of all that wait goes first, so that small bags wait until the
  queue is empty. That makes FPLT the worst policy in NSL once tasks wait, while the thesis has it
  among the best. FPF and ECT take tasks as they come, and come out ahead of it here.
- **Fair selection policies.** S-BoT is a queue of bags: behind a large bag all others wait. The
  fair policies let small bags of other users pass, which lowers the mean NSL; there are over a
  thousand users here, most of them with few bags. In the thesis the order is the other way round.
- **ECT-P.** Most users submit a few bags only, and a class of owner, application, size and site
  has no past when its first tasks come. They are placed by a guess, and wait in a queue although
  other sites are idle, which RR and WQR never do. The thesis does not say what ECT-P does for
  classes without a past. The same holds for ECT with estimates that are wrong by up to 10,000%:
  FPLT and STFR, which send tasks to processors that are free, do not suffer from them.
- **Size.** The NSL is a makespan over the sum of the run times, so that it decreases with the size
  of a bag for every policy as long as there are more idle processors than tasks. It does under real
  load too.
- **Run time.** A workload of longer tasks with the same load is the same workload on a slower clock
  here, so that no ratio changes.
- **FCONDOR.** Users come back to a site that was full when its tasks have ended, and the sites with
  idle processors are found in at most 20 steps; its results stay near those of csp. What sep-c has
  done at the end at 95% is near the thesis' 53%.
"""
