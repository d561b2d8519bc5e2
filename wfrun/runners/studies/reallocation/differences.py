"""What differs from the paper: the end of the page."""

DIFFERENCES = """
## Differences from the paper

- **Traces.** Those of Grid'5000 are not public here. Generated users submit bursts of similar
  jobs; an application uses its own share of its walltimes, distributed as in CTC-SP2 and SDSC-SP2.
  The paper gives numbers of jobs, not their sizes, times or load. The logs of CTC and SDSC are the
  cleaned ones of the archive, their first 180 days; the paper keeps "bad" jobs.
- **Jobs that run past their walltime** are killed at its end; jobs larger than their cluster are
  left out.
- **References.** The paper has 28, one for each platform and trace. Here each seed has one, since
  it draws the types of the jobs, which decide how long they run.
- **A move of the regular algorithm** goes to another site. At its own site a job keeps its
  reservation; all-cancellation may submit it there with another size, which is not counted as a
  move.
- **Of equal completions** the smaller size and the first site win; the paper does not say.
"""
