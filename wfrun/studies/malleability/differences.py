"""The parts of the page written by hand, on the full study."""

SUMMARY = """\
The thesis lets jobs grow into idle processors of the DAS-3 in two ways. FPSMA offers all of them to
the earliest started job, EGS shares them equally. Running jobs have precedence (PRA) or waiting
ones (PWA), which then shrink the running ones. It concludes that malleability shortens execution
times and raises utilization, that FPSMA outperforms EGS under PRA, and that they are alike under
PWA.

Malleability does both here, with every setting that was tried. FPSMA does not outperform EGS under
PRA: with five clusters and a job every two minutes, a cluster hardly ever runs two malleable jobs
at once, and with one job both policies are the same. In one cluster they differ. The conclusion
comes back there if a change of size costs 5 to 60 s and the cluster has 64 or 96 processors: FPSMA
is then faster by 5 to 10%, as EGS changes sizes about twice as often. With fewer processors EGS
is faster, cost or not. Under PWA both are alike, unless all processors are in one cluster of 48 or
more, where EGS is faster if changes cost nothing. What the thesis says of overload under PWA (many
jobs at 2 processors, GADGET at 600 s) appears with 24 processors or fewer, the far worse response
times of EGS never."""

_SAME = "one malleable job a cluster: both policies are the same"
CAUSES: dict[int, str] = {
    2: _SAME + "; holds in one cluster of 64 or 96 if a change of size costs time",
    4: "PRA grows a new job one pass later; sizes and shrinks are the same",
    10: _SAME + "; holds in one cluster of 20 to 48",
    11: "depends on a free choice: holds with 272 processors and the optimum at 0.25",
    12: "as 11",
    15: "holds in one cluster of 96 if a change of size costs time",
    17: _SAME + "; holds in one cluster",
    18: "unexplained; holds in one cluster of 20",
    19: "depends on a free choice: holds with 20 and 24 processors",
    21: "free choice: holds with 20 to 32 processors, or if a change of size costs 20 or 60 s",
    22: "as 19",
    23: "the thesis contradicts itself: see below",
    24: "in one cluster slower by 31 to 39% if a change of size costs 60 s; a factor of 2 never",
    26: "holds in one cluster of 64 or 96 in some settings with a cost of changes",
    27: "depends on a free choice: holds if a change of size costs 60 s",
}

DIFFERENCES = """
## What differs, and why

Numbers are those of the full study.

- **Policies that are the same (claims 2, 7, 8, 10, 14, 15, 17).** With five clusters the results
  of FPSMA and EGS under PRA are equal to the last digit. Worst Fit sends a new job to the cluster
  with the most idle processors, where none runs, and a policy that works on each cluster
  separately has one job to grow. So all seven claims fail by equality, and with any number of
  processors from 20 to 272 (with random arrivals they are nearly equal). The experiment
  that changes this alone is *one cluster*: there EGS has more grow operations (claim 17), and up to
  48 processors fewer jobs at 2 (claim 10), as the thesis says.
- **The main conclusion (claim 2)** comes back where several jobs share a cluster, a change of size
  costs time, and processors are enough for a few jobs to grow. Without a cost EGS has the shorter
  response times with W_m in one cluster of 20 to 48 processors (242 s beside 327 s with 24), and
  both are within 1% in one of 64 to 128. A cost of 20 s makes FPSMA faster in one of 64 (214 s
  beside 233 s) and 96 (192 s beside 210 s), with W_mr by 1 to 2%. Each pass of EGS grows all jobs,
  and each of them stops for the cost: EGS has 1.7 to 2.3 times the grow operations. With 20 s the
  policies are alike under PWA, too, as the thesis says (claim 3), and the utilization of EGS is
  higher (claim 15, with 96): a job that stops keeps its processors. In one cluster of 48 jobs wait
  for processors, which EGS hands out more evenly, and a cost makes it better still (387 s beside
  451 s). In five clusters no cost makes a difference. The thesis has Figure 3.3 from one cluster,
  says that growing costs submissions to GRAM and a suspension, and has no number for either. So the
  cause is possible and no more: it needs one cluster where the text has five.
- **Tried without effect on claim 2**: the optimum at 0.25 to 0.75 of the maximum sizes, that is the
  efficiency of large sizes and what a smaller maximum would do; 20 to 272 processors in five
  clusters; a pass at each arrival and end, or every 60 s; a threshold; refused processors offered
  again; random arrivals.
- **Larger sizes and longer tail with EGS (claims 7, 8, 14)** hold in no setting. The tail of EGS is
  the longer one with a cost in one cluster (400 s beside 322 s with 96 and 20 s), but not by half,
  and not with W_mr. Unexplained.
- **PWA as PRA (claim 4).** At the low load no job shrinks and the maxima are the same. Response
  times differ by 1 to 4%, because a job that PRA places grows in the pass after, 10 s later.
- **Two groups (claims 11 and 12).** GADGET would have to stay above 400 s under PRA. It takes 251 s
  here with W_m, since it grows to 16 processors and more. With all 272 processors and the optimum
  at a quarter of the maximum, jobs grow far beyond it and are slow again: then both claims hold.
- **A contradiction (claim 23).** GADGET takes 600 s under PWA, "30% higher than with PRA", so about
  460 s under PRA. That is its run time with 3 processors by any curve through the numbers of Figure
  3.3. But under PRA few jobs stay at 2 processors, and the policies are said to differ by how many
  more they give. Both cannot be with the maxima of 46 and the processors of the DAS-3.
- **Overload under PWA (claims 18 to 27).** At 2 processors each, W'm needs 24 processors on
  average. With 24 in five clusters three of four jobs stay at 2 and GADGET takes 550 s; with 20,
  jobs wait 17 minutes. But then both policies wait alike: with all jobs at
  their minimum there is nothing to decide. The far worse response time of EGS with W'm (claims 24
  and 25) is unexplained; if a change costs 60 s in one cluster of 64 or 96, EGS takes 31 to 39%
  longer (499 s beside 381 s), which is the right direction and not twice as long.

Not varied: the programs are drawn independently with equal probability; rigid jobs are of both
programs; concurrent users are a fixed number of processors that KOALA may not use, since the thesis
says that they did not disturb the measures; a shrink is for the first waiting job, in the cluster
where it reclaims the fewest processors. The base of 64 processors, and a pass every 10 s, are ours.
"""
