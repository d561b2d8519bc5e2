"""The parts of the page of the study of brokers that are written by hand."""

SUMMARY = """\
The thesis runs workflows on the real DAS-3: head nodes that serve thousands of tasks and copies
become overloaded and decide the makespans, which the simulations of its section 6.3 do not show;
a limit of the tasks of each workflow (task throttling) relieves them and costs little.

Head nodes are overloaded here, too. A limit of 25 divides their load by four and more, and with 150
the makespan is within 25% of that without a limit. One workflow takes what the thesis measured,
within 5%, but for a large one with All-Clusters, which takes half as long here. For five large
workflows Single Cluster is the best, as measured, but All-Clusters not the worst. Costs of head
nodes that are fitted to two makespans do not give the waits in the queues.
"""
"""What the paper concludes, and what holds here."""

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

For one workflow, makespans are within 5% of Table 6.6 (Inspiral-100 for Montage-100), except that
of All-Clusters for CyberShake-1000, which is half as long. For five, they are 3% to 37% shorter
than in Table 6.7 for the small workflows, and up to 46% longer for
CyberShake-1000. The table below has one change of the model at a time.

- **Where five workflows wait.** A head node submits a task in 1.2 s, and a cluster of 85 nodes
  with a load of 35% ends two or three tasks of 22.8 s in this time. Tasks therefore wait for
  their submission (column *head*, 273 s with All-Clusters), and most find idle processors after
  it. With *head nodes that cost nothing* they wait in the queues (250 s), as in the thesis (103
  s), but not as it says: 76% of the tasks with All-Clusters wait for more than 100 s (thesis:
  37%), and more of them, 82%, with Single Cluster. This cause gives the waits a place, and does
  not make the claims on them hold (table below the claims): not explained. How the thesis' runner
  divided the wait between submission and queue, the text does not say.
- **All-Clusters for one CyberShake-1000** spreads the submissions evenly over five head nodes,
  and is the fastest here. The thesis names the transfers between clusters as the reason of its
  1,101 s. Dearer ones do not explain it: with 3 s of both head nodes for each copy one workflow
  takes 730 to 770 s, and five take 4,500 s, far more than the 2,860 s of Table 6.7. A broker that
  copies one file at a time explains it, with 940 and 1,030 s in two repetitions, but not Cluster
  Minimization, which then takes 1,280 s instead of the 719 s of Table 6.6: it has more transfers
  than All-Clusters, as in the thesis' simulations (495 and 366 in Table 6.3). Not explained.
- **Cluster Minimization for five CyberShake-1000** sends what exceeds the idle processors to the
  cluster of the last task, where a FCFS queue builds up. Its makespan hardly depends on the head
  nodes (2,792 s if they cost nothing). The thesis names the same cause for five Montage-100.
  Without these costs it takes 3.2 times as long as the best policy, with them 1.6 times: they delay
  the others, so that contention makes the policies more alike (claim 14).
- **Single Cluster for five CyberShake-1000.** Only four tasks of such a workflow are eligible at
  first, fewer than the loads of clusters differ by. In five of twelve repetitions two brokers
  choose the same cluster, and the head node there serves both. With *other users that hold 35% of
  each cluster* each workflow has a cluster of its own, as the thesis says of its experiment, and
  takes 1,323 s (thesis: 1,413 s).
- **Load of the head node.** Here it counts every operation that waits, so that it is not bounded
  by the number of processes of a service. Limits therefore reduce it by more than the factors of
  2 and 4, for policies that use Delft all the time. Cluster Minimization without a limit uses
  Delft little.
- **FTD** is smaller here, see above.
"""
