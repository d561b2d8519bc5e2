"""What differs from the paper: the end of the page."""

DIFFERENCES = """
## On real clusters

100 jobs of 1, 2 and 4 processors, 12 s long on average, arrived at two Slurm clusters and Grid
Engine on one machine, mapped by MCT, without reallocation and with MCT all-cancellation every 10 s
(`wfrun jobs LOG --emulate --arrivals`; `python bench/testbed_jobs.py`; load 0.9, three logs):

| | mean wait [s] | mean response [s] | mean slowdown, of each log | moves |
|---|---|---|---|---|
| without | 22.8 | 37.6 | 4.66 (5.76, 2.49, 5.73) | 0 |
| with | 10.7 | 25.4 | 2.42 (2.57, 2.49, 2.21) | 64 |

Responses become shorter by 36% and 48% with two logs. With the third, where MCT without moves is as
good as MST, they become 8% longer: a moved job waits for another cycle of a batch system, which
counts beside jobs of seconds.

## Differences from the paper

- **Traces.** Those of Grid'5000 are not public here. Generated users submit bursts of similar
  jobs; an application uses its own share of its walltimes, distributed as in CTC-SP2 and SDSC-SP2.
  The paper gives numbers of jobs, not their sizes, times or load, and its text has no result from
  which the load would follow.
- **CTC and SDSC.** The logs are the cleaned ones of the archive; the paper keeps "bad" jobs. Their
  first 182 days (January to June 2008) have 42,837 jobs of CTC, where the paper has 42,873, and
  17,726 of SDSC, where it has 15,615. They load the clusters of section 4.3.1 to 64% and 76%, but
  CTC in its first five days to 20%, and in its first ten to 40%.
- **The begin.** All clusters are idle when a trace begins. The fewer days are simulated, the larger
  is the part of the jobs that meet short queues.
- **Jobs that run past their walltime** are killed at its end; jobs larger than their cluster are
  left out.
- **References.** The paper has 28, one for each platform and trace (28 and 1,120 experiments, which
  it adds up to 1,158). Here each seed has one, since it draws the types of the jobs, which decide
  how long they run; *one reference* above has types that belong to no seed.
- **Queues.** By the text no reservation is put off (section 3.2.2). The source of Simbatch, the
  simulator of section 4.1, plans all waiting jobs again, in the order of their queue, whenever a
  job ends or is cancelled; a job may then start later than planned. So do the queues here;
  *reservations hold* above follows the text.
- **A move of the regular algorithm** goes to another site. At its own site a job keeps its
  reservation; all-cancellation may submit it there with another size, which is not counted as a
  move.
- **Of equal completions** the smaller size and the first site win; the paper does not say.
"""
