"""The parts of the page of the study of brokers that are written by hand."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

- **Montage-100 is Inspiral-100.** Tables 6.6 and 6.7 have makespans and NSLs of Montage-100 that
  give a critical path of 1,066 to 1,071 s. All tasks of the published Montage-100 together take
  1,079 s, its critical path 71 s. The critical path of the published Inspiral-100 is 1,333 s,
  which is 1,066 s at 1.25 times the reference speed. The critical paths of the other rows, 177
  and 203 s, are those of CyberShake-30 (222 s) and CyberShake-1000 (255 s) by the same factor.
  Table 6.2, too, has 1,260 s and 23 MB for a workload with Montage-100 (152 MB). Both are
  simulated here.
- **The tasks took the documented times.** CyberShake-30 took 244 s: its critical path at the
  reference speed, 222 s, and four levels of 5.5 s (QWT and FTD); so did Inspiral-100 (1,333 s and
  six levels of 7 s are 1,373 s; 1,380 s in the table). The NSLs are relative to a processor of
  1.25 times that speed. Here tasks take the same time on all clusters.
- **Transfers of Single Cluster.** *No inter-cluster file transfers take place* with Single
  Cluster, yet its FTD is that of the other policies (0.99, 1.00 and 1.01 s). FTD therefore counts
  copies that do not depend on the placement, as those from the submission site do. Here files
  stay where they are made, and FTD counts copies between clusters alone.
- **Sizes.** FTD of CyberShake-1000 is 20 to 50 times smaller than that of CyberShake-30; its
  tasks pass files of a fourteenth of the mean size (2 MB and 39 MB for each task).
- **Less communication is better (section 6.4.3).** Single Cluster has none, and is the worst for
  one CyberShake-1000 in Table 6.6.
"""

DIFFERENCES = """
## What differs, and why

With two costs of a head node fitted to two makespans, makespans are within 25% of the others in
Tables 6.6 and 6.7 (Inspiral-100 for Montage-100), except those of All-Clusters for one
CyberShake-1000 and those of five workflows that are named below. The table at the end has one
change of the model at a time.

- **Where five workflows wait.** A head node submits a task in 1.2 s, and a cluster of 85 nodes
  with a load of 35% ends two tasks of 22.8 s in this time. Tasks therefore wait for their
  submission (column *head*), and most find idle processors after it. The thesis has waits of this
  length in the queues of All-Clusters (103 s), where with *head nodes that cost nothing* they are
  here, too. How its runner divided the wait between submission and queue, the text does not say.
- **All-Clusters for one CyberShake-1000** spreads the submissions evenly over five head nodes,
  and is the fastest here. Its 1,101 s in Table 6.6 would be 200 submissions and their copies at
  each, or four to five seconds for each task, three times as long as those of Single Cluster. The
  thesis names the transfers between clusters; with copies that are dear enough, five workflows
  take twice as long as in Table 6.7 (tried: 2.5 s a copy at either end). Not explained.
- **Cluster Minimization for several workflows** sends what exceeds the idle processors to the
  cluster of the last task, where a FCFS queue builds up. Its makespan for five CyberShake-1000
  hardly depends on the head nodes. With the rule that is in the text the brokers choose the same
  clusters, as in Table 6.7 for Montage-100, where the thesis calls it the worst for this reason.
- **Single Cluster for five CyberShake-1000.** Only four tasks of such a workflow are eligible at
  first, fewer than the loads of clusters differ by. In some repetitions two brokers choose the
  same cluster, and the head node there serves both. With *other users that hold 35% of each
  cluster* each workflow has a cluster of its own, as the thesis says of its experiment.
- **Load of the head node.** Here it counts every operation that waits, so that it is not bounded
  by the number of processes of a service. Limits therefore reduce it by more than the factors of
  2 and 4, for policies that use Delft all the time. Cluster Minimization without a limit uses
  Delft little.
- **FTD** is smaller here, see above.
"""
