"""The parts of the page written by hand, on the full study."""

SUMMARY = """\
The paper packs moldable jobs into one cluster for two criteria: the last completion (C_max) and
the weighted sum of completions (Σ w C). Its algorithm, DEMT, fills batches of doubling lengths
with the largest weight. It says that Σ w C is around 2 times its lower bound and never above 2.5,
C_max 1.9 times, and that DEMT should be preferred for real applications, since its Σ w C depends
little on the jobs.

C_max is as the paper says on average, and DEMT takes a tenth of a second for 400 jobs. Σ w C is
not: 2.5 times the bound on average, and more than that in nearly half of the runs. With jobs of
Downey's speedups DEMT has by far the best Σ w C, and with highly parallel jobs it is the best for
50 and 100 of them; in 11 of the other 13 points the list of the dual approximation's sizes by
weight over run time is better in both criteria. What the text leaves open does not explain it."""

_SUM = "unexplained; no free choice changes it by more than 0.1"
_LENGTH = "free choice: see *C_max of DEMT with weakly parallel jobs*"
CAUSES: dict[int, str] = {
    **dict.fromkeys((1, 4, 6, 10, 16), _SUM),
    5: _LENGTH,
    7: f"{_LENGTH}: 1.72 with 100 jobs",
    8: "unexplained: see *The others with weakly parallel jobs*",
    11: "unexplained: see *Highly parallel jobs*",
    19: "unexplained: see *Mixed jobs*",
}
"""Why claims do not hold here, by number."""

DIFFERENCES = """
## What differs, and why

Numbers are those of the full study; the changes are those of *Free choices*.

- **Highly and weakly are swapped in the text.** p(j) = p(j-1)·(X + j)/(1 + j) with X = 0.9 gives
  a speedup of 1.6 on 200 processors, and with X = 0.1 one of 62, but X is centred on 0.9 for
  *highly* parallel jobs. The study takes 1 - X. As printed, the two workloads change places in
  all tables, and claims on each would be of the other.
- **The jobs of Cirne and Berman.** The paper names their model without its parameters, and these
  were not found in any source that could be read for this study. The speedups here are those of
  A. B. Downey (UCB/CSD-97-933), on which their model stands, with an average parallelism A that
  is log-uniform from 1 to 200, as the Parallel Workloads Archive gives it for Downey's model, and
  a variance σ of 1. With σ = 0 and σ = 2 DEMT stays the best in Σ w C (2.07 and 2.28 with 100
  jobs; the next is above 3.3). So the verdicts of this workload are on Downey's jobs, not on the
  paper's.
- **Σ w C of DEMT (claims 1, 4, 6, 10, 16)** is 2.4 to 2.8 with jobs of the recurrence. With 100
  jobs none of the free choices changes it by more than 0.1: the order of the batches, the
  approximation of C_max that the lengths start from, and a list by weight over run time instead
  of batches. The program as printed is the same bound but for 0.2%. Unexplained.
- **C_max of DEMT with weakly parallel jobs (claims 5 and 7)** depends on a free choice. The
  paper's C*_max is "an approximation of the optimal makespan": the length that the dual
  approximation accepts here. With the length of the schedule that it finds, which is up to 3/2 of
  that, C_max is 1.72 with 100 jobs instead of 2.21, and Σ w C the same.
- **The others with weakly parallel jobs (claim 8)** are nearer to the bound than "around 1.5":
  weighted LPTF and SAF reach it, Sequential and the list of the shelves stay below 1.3.
  Unexplained.
- **Highly parallel jobs (claim 11).** DEMT is the best with 50 and 100 jobs. Gang is better with
  25, weighted LPTF and SAF with 200 and 400. Unexplained.
- **Mixed jobs (claim 19).** The list in the order of the shelves gets worse with the number of
  jobs, from 3.1 to 5.9, as in the paper; weighted LPTF does not. The text calls it the largest
  processing time first, and then says that it sorts by the ratio of weight and run time, which is
  what the study does. Whether the other order would get worse was not tested.

Where the text is unclear, and not varied: small jobs are stacked one stack after another; the
list algorithms use the sizes of the knapsack, not those after its jobs have been rearranged; a
job that no batch has taken goes into further batches of the last length.
"""
