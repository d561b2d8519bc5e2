"""The parts of the page written by hand, on the full study."""

SUMMARY = """\
The thesis lets jobs grow into idle processors of the DAS-3 in two ways. FPSMA offers all of them to
the earliest started job, EGS shares them equally. Running jobs have precedence (PRA) or waiting
ones (PWA), which then shrink the running ones. It concludes that malleability shortens execution
times and raises utilization, that FPSMA outperforms EGS under PRA, and that they are alike under
PWA.

Malleability does both here, with every setting that was tried. FPSMA does not outperform EGS under
PRA: with five clusters and a job every two minutes, a cluster hardly ever runs two malleable jobs
at once, and with one job both policies are the same. In one cluster they differ, but FPSMA is then
faster in one setting of six, by 1%. Under PWA they are alike, unless all processors are in one
cluster of 48 or more, where EGS is faster. What the thesis says of overload under PWA (many jobs
at 2 processors, GADGET at 600 s) appears with 24 processors or fewer, the far worse response times
of EGS never."""

_SAME = "one malleable job a cluster: both policies are the same"
CAUSES: dict[int, str] = {
    2: _SAME,
    4: "PRA grows a new job one pass later; sizes and shrinks are the same",
    10: _SAME + "; holds in one cluster of 20 to 48",
    11: "depends on a free choice: holds with 272 processors and the optimum at 0.25",
    12: "as 11",
    17: _SAME + "; holds in one cluster",
    18: "unexplained; holds in one cluster of 20",
    19: "depends on a free choice: holds with 20 and 24 processors",
    21: "depends on a free choice: holds with 20 to 32 processors",
    22: "as 19",
    23: "the thesis contradicts itself: see below",
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
- **The main conclusion (claim 2)** does not come back there: with W_m EGS has the shorter response
  times in one cluster of 20, 24, 32 and 48 processors (242 s beside 327 s with 24), FPSMA in one of
  64 (170 s beside 172 s), and with 128 they are within 0.2%. A cost of changes of size, which would
  burden EGS with its more operations, was tried with 5, 20 and 60 s in five clusters and with 20 s
  in one of 48: no difference. Unexplained.
- **Larger sizes, longer tail and higher utilization with EGS (claims 7, 8, 14, 15)** hold in no
  setting. In one cluster EGS has the lower utilization under PRA. Unexplained.
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
  and 25) is unexplained.

Not varied: the programs are drawn independently with equal probability; rigid jobs are of both
programs; concurrent users are a fixed number of processors that KOALA may not use, since the thesis
says that they did not disturb the measures; a shrink is for the first waiting job, in the cluster
where it reclaims the fewest processors. The base of 64 processors, and a pass every 10 s, are ours.
"""
