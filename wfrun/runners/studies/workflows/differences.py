"""Causes of the claims that do not hold here: the part of the page of the study written by hand."""

DIFFERENCES = """
## What differs, and why

Table 6.3 and our results agree where both follow from the text: queue waits in the idle system
(Single Cluster, Round Robin, All-Clusters, HEFT and File-Aware within a few seconds); with
background load, whose run times and bursts were fitted to Round Robin's queue waits, the queue
waits of large workflows within a factor of about two, except for All-Clusters and HEFT-P; and, with
the published documents (`--corpus`), the numbers of transfers of Round Robin for large workflows.
The other differences have these causes.

- **Workflows.** Generated workflows have the structure and distributions of the published documents
  (docs/generators.md compares them). With the documents, the output
  sizes of wf-small1 and wf-large1 are those of Table 6.2 to the MB (2246, 2866). Those of wf-small2
  are not: Inspiral-30, -50 and -100 have 23 MB and 1260 s; with Montage-100 it is 152 MB.
- **Ties.** The text does not say where File-Aware and Coarsening send a task whose transfers cost
  the same everywhere. Here they take the first cluster of Table 1.2 (`-O ties=catalog`): the
  numbers of transfers and the waits are then nearest to Tables 6.3 and 6.5. Runs of users stay in
  the cluster of the workflow's last task instead, so that several workflows begin in different
  clusters.
- **Idle processors.** Processors behind a waiting job of another user do not count as idle, since a
  FCFS queue would start nothing of ours there. If they did, File-Aware, Coarsening and Cluster
  Minimization would wait for the bursts of others (makespans of wf-large1 with background load: 5
  to 7 times as long).
- **All-Clusters.** Its load counts running and queued processors over the cluster's size (section
  6.1.3), so that here it avoids queues and spreads even small workflows. In the thesis it makes 4
  transfers for a small workflow, which means one cluster, and with background load it waits as long
  as Round Robin (573 s). A load with those terms does not have this effect; for small workflows the
  load seems to be rounded down to whole numbers (tried here, with the published documents: no
  transfers for small workflows in the idle system and 1 to 3 with background load, 382 for
  wf-large1, thesis 366). Neither definition explains the long waits with background load. They
  decide the claims that All-Clusters is among the worst, and that policies with more information
  beat it.
- **Cluster Minimization.** If no cluster has an idle processor, tasks go to the cluster of the last
  one (section 6.1.3), which gets the whole overflow: queue waits of tens of seconds for wf-large2
  in the idle system. Table 6.3 has 0.4 s there, and Table 6.5 has 406 s (see above). Implemented
  as in the text, the policy is no better than File-Aware for large workflows here, and throttling,
  which avoids the overflow, helps it more.
- **File transfer delay.** Here a task also waits for a file that is already being transferred to
  the site. The thesis seems to charge each transfer to one task; charged in this way, Round Robin
  agrees (column *FTD once*). For Inspiral and SIPHT, whose files are small, the thesis' delays are
  0.5 to 0.8 s for every transfer, whatever the policy: a constant cost, which Table 2.1 does not
  have (its latencies are 0.03 to 1.45 ms).
- **Background load.** Bursts on FCFS queues make waits with a heavy tail: a few runs that place one
  critical task behind a burst of an hour determine the mean, and confidence intervals are wide. By
  medians the small workflows are similar, as the thesis says. The four months of the DAS-3's log
  have different bursts.
- **Several workflows.** One engine schedules all instances and knows immediately what it has
  placed for the others (see above). Separate brokers see each other's placements late, and meet in
  the same queues and links.
"""
