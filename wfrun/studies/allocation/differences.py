"""Causes of the differences from the paper: the part of the page written by hand."""

SUMMARY = """\
The paper compares 14 ways to send parallel jobs to the sites of a grid. It concludes that simple
ones are the best: MPL and LBal_S, which go by the processors that jobs ask for, before MLp and MST,
and that neither run time estimates nor schedules of the sites help.

Here MST, which asks each site when the job would start, is the best in every metric, and LBal_S and
MPL come next: information does help. Processors are the better load than run times or work, as it
says. If schedules keep what jobs have requested, and MPL counts the new job, the paper's order
appears: it rests on answers of sites that ignore early ends. Sites that plan anew answer better.
"""
"""The conclusions of the paper, and which of them hold here."""

_READING = "*Another reading of the paper*"
CAUSES: dict[int, str] = {
    **dict.fromkeys((1, 2, 3, 4), f"not refuted with {_READING}, where MPL and LBal_S are best"),
    5: f"12% in Grid1 with {_READING}; Grid2, where LBal_S is better than MPL, is unexplained",
    6: f"holds with {_READING}",
    7: f"227% and 252% with {_READING}: see *Positions 9 to 14, and 300%*",
    8: "the paper's Table 4 contradicts it: see *Positions 9 to 14*",
    10: "the ends of all weeks are tested, the paper has one makespan: see *Makespans*",
    12: "MCT alone differs by more, whose queues are long: see *Weighted completion times*",
    13: f"holds with {_READING}",
    15: f"not refuted with {_READING}: MLp 31%, MST 54%",
}
"""Why claims do not hold here, by number."""

DIFFERENCES = """
## On real clusters

100 jobs of 1, 2 and 4 processors, 12 s long on average, arrived at two Slurm clusters and Grid
Engine on one machine (`wfrun jobs LOG --emulate --arrivals`; `python bench/testbed_jobs.py`; load
0.9, three logs, each strategy once on each):

| strategy | knows | mean wait [s] | mean slowdown, of each log |
|---|---|---|---|
| MPL | sizes | 8.0 | 1.97 (1.95, 1.95, 2.01) |
| LBal_S | sizes | 8.9 | 2.20 (2.41, 2.27, 1.93) |
| MST | plans | 10.6 | 2.56 (2.72, 2.55, 2.40) |
| MCT | plans | 22.8 | 4.66 (5.76, 2.49, 5.73) |

The order is that of the paper: MPL and LBal_S need no more information than sizes, MCT is the last.
Three logs of some minutes show no more than this; the machine was busy with other work, and jobs of
seconds wait for the cycles of the batch systems, too.

## What differs, and why

Six strategies are the best by wait and slowdown in both grids, here as in the paper: MPL, LBal_S,
MLp, MST, MWT and MLB. Makespans hardly differ, and Random waits about 500 times as long as MPL in
Grid1 in both. Numbers are those of the full study, 26 weeks of Grid1; the changes are those of *One
change at a time*.

- **LBal_S is better than MPL, and MLp and MLB are near MPL.** LBal_S weighs the new job, the sums
  of MPL, MLp and MLB do not: Table 1 adds it in the formulas of LBal alone, and takes the sums "at
  time r_j". If they count it, LBal_S waits 18% longer than MPL in Grid1 (paper: 11%), MLp 119%
  (119%) and MLB 522% (463%). These numbers suggest that the paper's programs count the new job. In
  Grid2 LBal_S and MPL are then 4% apart, the other way.
- **MST is the best here.** It knows the schedules of the sites, which are planned anew at every
  question. If a plan in the order of the queue gives nothing back when jobs end early, MST waits
  85% longer in Grid1 than MPL that counts the new job (paper: 80%), its slowdown is 100% larger
  (91%). Jobs request more than their run time, so that such a plan is longer than the queue. Ties
  to the largest or to the least loaded site, and requests that hold, leave MST the best. In the
  paper's Table 6 MST balances sizes and work best of all (LBal_s, LBal_w); in Grid1 it does so here
  with such plans only. What sites answer when jobs end early is not in the paper.
- **Verdicts.** With both changes MPL and LBal_S are first and second in the mean of the metrics in
  both grids, MLp and MST next, and information does not help; no claim on MPL and LBal_S is
  refuted, but the differences between LBal_S, MPL and MLp in Grid2 are too small for a verdict
  (*Another reading of the paper*). The changes are not taken into the strategies: Table 1 is
  followed as it is printed, and real sites plan anew.
- **What level 3 asks.** A site answers by a plan with a reservation for each waiting job, in the
  order of the queue (conservative backfilling), although it runs EASY, in which only the first job
  has one. With a dry run of EASY, which a site could answer as well, MCT waits 3,677 s (with plans
  3,650 s) and MWT 598 s (575 s). MST waits 66 s (69 s), and is the best with either; a second
  simulator, written apart, has 65 s. The plans are no cause of the differences.
- **MCT.** Table 1 does not count the new job: a job goes to a small idle site although a large one
  would start it as soon. With the job counted the wait is a third; with the plans above as well it
  is 1,010% longer than that of MPL (paper: 1,256%).
- **The weighted strategies.** With such plans MWWT_S, MWWT_W and MWWT_T wait 19, 40 and 173 times
  as long as MPL that counts the new job (paper: 174, 156 and 82). Sums may also count all jobs that
  were ever allocated, as section 2 defines n_i; section 3 speaks of unfinished jobs. MSWCT_W comes
  near the paper only if ended jobs count: each site then gets the same work whatever its size, and
  the wait is 199 times that of MPL (paper: 703). LBal_T comes near it only with two changes: ended
  jobs count, and sums are not divided by the processors of the site. LBal_W becomes worse still
  with both, which the paper does not have: this cause is plausible, not certain. The formulas of
  LBal to the letter change little.
- **Positions 9 to 14, and 300%.** The paper's own Table 4 has LBal_W on position 7 in Grid1 and
  LBal_T on position 7 in Grid2, before MCT, and its Figure 5 LBal_W on position 7: the first claim
  fails on its own numbers. MWT and MLB are 297% and 329% worse than MPL in Grid1 with both changes
  (paper: 152% and 290%), and less in Grid2, so that the mean of the grids stays below 300%.
- **Weighted completion times** of all but MCT are within 0.03% of each other; MCT, whose queues are
  the longest of the seven, is 0.15% from MST. Table 4 rounds to whole percents, and cannot tell.
- **Makespans.** The paper has one, that of the whole period. Here it is equal for six of the seven
  up to 0.001%, and 0.3% longer with MLp (paper: 1%). The verdict is on the ends of all weeks, where
  the long queues of MCT count.
- **Overruns.** LANL has 40,180 jobs past their requests, at which a plan expects the processors at
  once. With requests raised to the run time, MST waits 10% less, and MPL, LBal_S and MCT change by
  at most 4%.
- **Grid2** lacks the DAS-2 here, with 400 of its 2,194 processors, most of its jobs and its
  four smallest sites. Differences between strategies are smaller there than in the paper, with the
  other reading, too: this part remains unexplained without the trace.

What was checked against section 5 and is as in the paper: filters, time zones, sizes (17% of the
jobs of Grid1 have 1 processor, 22, 8, 16 and 8% have 8, 16, 32 and 64; paper: 18, 20, 9, 14 and
8%), immediate allocation, admissible sites, estimates for EASY and for levels 2 and 3, degradations
of the metrics of all jobs and their mean. Not in the paper: the weeks, and what sites answer. Where
the text was unclear: the loads of LBal in Table 1 have the new job at every site, and are taken
with the job at the site that gets it, as its words say; run times p of LBal_T are taken as
estimates, since strategies do not know others; t_w of a running job is the wait that it has had.
"""
