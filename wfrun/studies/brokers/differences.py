"""The parts of the page of the study of brokers that are written by hand."""

SUMMARY = """\
The thesis runs workflows on the real DAS-3. Head nodes that serve thousands of tasks and copies
become overloaded and decide the makespans; the simulations of its section 6.3 have no head nodes.
Task throttling, a limit on the number of concurrent tasks of each workflow, relieves the head nodes
and hardly increases makespans.

Head nodes are overloaded here, too. A limit of 25 divides their load by 13 or more (thesis: 4), but
the load is at most 100% only with one policy, whose makespan then grows by 44%: a load counts
waiting operations here. With a limit of 150 the makespan is within 25% of that without a limit. For
one workflow, makespans are within 5% of the measured ones, except for a large workflow with
All-Clusters, which takes half as long here. For five large workflows Single Cluster is the best
policy, as in the thesis, but All-Clusters is not the worst. The costs of head nodes are fitted to
two makespans, and do not reproduce the waits in the queues.
"""
"""The conclusions of the thesis, and which of them hold here."""

_FREE = "unexplained: does not hold with head nodes that cost nothing, either"
_LOAD = "unexplained; the load counts waiting operations: see *Load of the head node* (not tested)"
_ONE = "unexplained: see *All-Clusters for one CyberShake-1000*"
CAUSES: dict[int, str] = {
    2: _ONE,
    4: "unexplained; the overflow of Cluster Minimization may be the cause (not tested)",
    9: _FREE,
    10: _FREE,
    11: _FREE,
    12: "not distinguishable with head nodes that cost nothing: see *Where five workflows wait*",
    13: _FREE,
    14: "unexplained: see *Cluster Minimization for five CyberShake-1000*",
    18: _LOAD,
    19: _LOAD,
    21: _ONE,
    23: _LOAD,
}
"""Why claims do not hold here, by number."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

- **Montage-100 is Inspiral-100.** From the makespans and NSLs of Montage-100 in Tables 6.6 and 6.7
  follows a critical path of 1,066 to 1,071 s. All tasks of the published Montage-100 together take
  1,079 s, and its critical path is 71 s. The critical path of the published Inspiral-100 is 1,333
  s, which is 1,066 s at 1.25 times the reference speed. The critical paths of the other rows, 177
  and 203 s, are those of CyberShake-30 (222 s) and CyberShake-1000 (255 s) by the same factor.
  Table 6.2 also has 1,260 s and 23 MB for Inspiral-30 and -50 with Montage-100. These are the
  means of Inspiral-30, -50 and -100; with Montage-100 the mean is 152 MB. Both workflows are
  simulated here.
- **Tasks took their documented run times.** CyberShake-30 took 244 s in the thesis. Its critical
  path at the reference speed is 222 s, and each of its four levels adds 5.5 s of QWT and FTD.
  Inspiral-100 took 1,380 s: its critical path is 1,333 s, and six levels of 7 s make it 1,373 s.
  Processors of 1.25 times the reference speed, to which the NSLs refer, would have been faster.
  Tasks therefore take the same time on all clusters here.
- **Transfers of Single Cluster.** According to the text *no inter-cluster file transfers take
  place* with Single Cluster, but its FTD is that of the other policies (0.99, 1.00 and 1.01 s).
  The FTD of the thesis therefore counts copies that do not depend on the placement, such as copies
  from the submission site. Here files stay where they are made, and FTD counts only copies between
  clusters.
- **Sizes.** The FTD of CyberShake-1000 is 20 to 50 times smaller than that of CyberShake-30. In the
  published documents the mean file is 14 times smaller, and a task has 2 MB instead of 39 MB.
- **Less communication is better (section 6.4.3).** Single Cluster has no communication between
  clusters and the largest makespan for one CyberShake-1000 in Table 6.6.
"""

DIFFERENCES = """
## What differs, and why

For one workflow, makespans are within 5% of Table 6.6 (Inspiral-100 for Montage-100), except that
of All-Clusters for CyberShake-1000, which is half as long. For five workflows, makespans of the
small workflows are 3% to 37% shorter than in Table 6.7, and those of CyberShake-1000 up to 46%
longer. The table below changes one part of the model at a time.

- **Where five workflows wait.** A head node submits a task in 1.2 s. In this time a cluster of 85
  nodes with a load of 35% ends two or three tasks of 22.8 s. Tasks therefore wait for their
  submission (column *head*, 273 s with All-Clusters), and after it most find idle processors. With
  *head nodes that cost nothing* tasks wait in the queues, 250 s with All-Clusters (thesis: 103 s).
  But 76% of the tasks with All-Clusters then wait for more than 100 s (thesis: 37%), and more, 82%,
  with Single Cluster. The costs of head nodes are the cause that tasks wait before their
  submission. They are not the cause that the claims on queue waits do not hold (table below the
  claims); this is unexplained. The text does not say how the runner of the thesis divided a wait
  between submission and queue.
- **All-Clusters for one CyberShake-1000** distributes the submissions evenly over five head nodes,
  and is the fastest policy here. In the thesis it takes 1,101 s, because of transfers between
  clusters. Two changes were tried. If each copy takes 3 s of both head nodes, one workflow takes
  730 to 770 s, and five take 4,500 s, far more than the 2,860 s of Table 6.7. If a broker copies
  one file at a time, one workflow takes 940 and 1,030 s in two repetitions, but Cluster
  Minimization then takes 1,280 s (Table 6.6: 719 s): Cluster Minimization has more transfers than
  All-Clusters, as in the simulations of the thesis (495 and 366 in Table 6.3). Neither change gives
  both makespans: this is unexplained.
- **Cluster Minimization for five CyberShake-1000** sends all tasks that exceed the idle processors
  to the cluster of the last task, where they wait in a FCFS queue, as in the thesis for five
  Montage-100. It takes 2,792 s if head nodes cost nothing, 3.2 times as long as the best policy,
  and otherwise 1.6 times. But without it, too, head nodes make the policies more alike: the ratio
  of claim 14 is then 1.32 with them and 1.43 without. Unexplained.
- **Single Cluster for five CyberShake-1000.** At first such a workflow has only four eligible
  tasks, fewer than the differences between the loads of the clusters. In five of twelve repetitions
  two brokers therefore choose the same cluster, whose head node serves both. With *other users hold
  35% of each cluster* each workflow has a cluster of its own, as in the thesis, and the makespan is
  1,323 s (thesis: 1,413 s).
- **Load of the head node (claims 18, 19 and 23).** The load counts every waiting operation, and a
  head node serves one operation at a time. The load reported by `top` counts running processes,
  whose number a service limits. This may be why limits divide the load by more than 2 and 4, for
  the policies that always use Delft. Cluster Minimization without a limit hardly uses Delft, and
  has a smaller load without a limit than with a limit of 150.
- **FTD** is smaller here: see *Transfers of Single Cluster*.
"""

_SMALL = "unexplained: see *One workflow of 50 tasks* (not tested)"
_NOISE = "see *Makespans and waits of five workflows*"
_COMMANDS = "see *Load with a limit*"
EMULATED_CAUSES: dict[int, str] = {
    24: _SMALL,
    25: _SMALL,
    26: _SMALL,
    27: _NOISE,
    28: _NOISE,
    30: _NOISE,
    31: "unexplained: see *Three clusters for five workflows* (not tested)",
    32: "unexplained: see *No overload* (not tested)",
    33: _NOISE,
    34: _NOISE,
    35: _NOISE,
    36: _COMMANDS,
    37: _COMMANDS,
}
"""Why claims do not hold in the emulation, by number."""

EMULATED_SUMMARY = """
Emulated on a testbed of one machine, wfrun's agents and batch commands for five workflows of 50
tasks use 8% to 20% of one processor on the head nodes. A limit does not change this: the load comes
from commands, not from running tasks. The testbed is too small and too busy to tell which policy is
the best (*Emulated*, below).
"""
"""What the emulation shows, in the full study."""

EMULATED_DIFFERENCES = """
What differs, and why:

- **No overload.** For five workflows agents and commands use at most 20% of one processor on the
  three head nodes together. wfrun has one agent for each broker and cluster, and one command can
  submit many tasks. Workflows of 1,000 tasks were not tested.
- **Load with a limit.** The load comes from commands, not from running tasks. With a limit of 5 at
  most 25 tasks are dispatched at a time instead of 91, but there are more commands (449 instead of
  365), as fewer tasks are submitted by each. CPU time, makespan and load are about the same. The
  thesis attributes its load to the number of running tasks.
- **All-Clusters** uses twice the CPU time of the other policies on head nodes: each broker submits
  to all three clusters, and it has the most transfers.
- **One workflow of 50 tasks** is a small one for 40 processors. Its tasks wait 1 s in queues, and
  makespans differ by 4%. The thesis, too, has similar makespans for its small workflows.
- **Three clusters for five workflows.** In the thesis Single Cluster gives each workflow a cluster
  of its own. Here workflows share clusters, and tasks wait longer than with All-Clusters.
- **Makespans and waits of five workflows** vary too much between repetitions: intervals of
  makespans are ±14% to ±27%. The tasks alone need 19 s of all processors. Makespans of 94 to 106 s
  are mostly the time of batch systems, copies and brokers, on two processors that other programs
  used, too.
"""
"""Causes of what differs in the emulation, from the full study."""

EMULATED_LIMITS = """
What one machine cannot show:

- Nodes, head nodes and brokers share its processors. A busy head node therefore delays the tasks
  and the brokers, too, and other work on the machine delays all of them.
- The load counts what wfrun does on head nodes. It counts neither the daemons of the batch systems
  nor SSH servers nor copies over SSH, which the `top` of the thesis counts, nor processes that
  wait.
- Links have the speed of memory and no latency: a transfer between clusters costs its commands and
  little else.
- There are no other users, and 40 processors. A workflow has a twentieth of the tasks of the one in
  the thesis.
- Only tasks are scaled in time. A job takes a second or so to start, and seconds pass before its
  end is noticed, about as long as a task.
"""
"""What the testbed cannot show."""
