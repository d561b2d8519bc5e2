"""Why some claims do not hold here: the part of the study's page that people write."""

DIFFERENCES = """
## What differs, and why

What Table 6.3 has agrees where both follow from the text: queue waits in the idle system (Single
Cluster, Round Robin, All-Clusters, HEFT and File-Aware within a few seconds); with background
load, whose run times and bursts were chosen to come near Round Robin's, the queue waits of large
workflows within a factor of about two, but for All-Clusters and HEFT-P; and, with the published
documents (`--corpus`), the numbers of transfers of Round Robin for large workflows. The rest has
these causes.

- **Workflows.** Generated ones have the published structure and distributions, but CyberShake's
  large files grow with its size in the published documents and do not in the generator, and its
  tasks share them differently: about twice the transfers. With the documents, the output sizes of
  wf-small1 and wf-large1 are those of Table 6.2 to the MB (2246, 2866). Those of wf-small2 are not:
  23 MB and 1260 s are what Inspiral-30, -50 and -100 have, with Montage-100 it is 152 MB.
- **All-Clusters.** Its load counts running and queued processors over the cluster's size (section
  6.1.3), so here it goes round queues and spreads even small workflows. In the thesis it makes 4
  transfers for a small workflow, which is one cluster, and with background load waits as long as
  Round Robin (573 s). That is not what a load with those terms does: for small workflows it looks
  rounded down to whole numbers (tried here, with the published documents: no transfers for small
  workflows in the idle system and 1 to 3 with background load, 382 for wf-large1, thesis 366). The
  long waits with background load follow from neither. They decide the
  claims that All-Clusters is among the worst, and that policies with more information beat it.
- **Cluster Minimization.** With no idle processor anywhere, tasks go where the last one went
  (section 6.1.3), and one cluster gets the whole overflow: queue waits of tens of seconds for
  wf-large2 in the idle system. Table 6.3 has 0.4 s and 638 transfers, those of All-Clusters next to
  it. Sending the overflow to the least loaded cluster instead (tried here, with the published
  documents) gives queue waits of 3.7 s for wf-large1 and 0.5 s for wf-large2, and 528 transfers for
  wf-large1, where the thesis has 3.3 s, 0.4 s and 495; so that is what its program seems to have
  done. As the text has it, here it is no better than File-Aware for large workflows, and
  throttling, which avoids the overflow, helps it more.
- **wf-large1 without background load.** The thesis' figure has Single Cluster and Coarsening best.
  Its own table gives tasks of Single Cluster a wait of 49 s, and of All-Clusters 4.6 s, with
  transfers; here the same waits (and the same delays, charged once) make Single Cluster worst, as
  for wf-large2. Makespans could turn only by transfers of minutes on the critical path. A transfer
  takes a minute here where it is longest (600 MB over 10 MB/s).
- **File transfer delay.** A task whose file is on its way to the site already waits for it here.
  The thesis seems to charge each transfer to one task; so charged, Round Robin agrees (column
  *FTD once*). For Inspiral and SIPHT, whose files are small, the thesis' delays are 0.5 to 0.8 s
  for every transfer, whatever the policy: a constant cost, which Table 2.1 does not have (its
  latencies are 0.03 to 1.45 ms).
- **Background load.** Bursts on FCFS queues make waits with a heavy tail: a few runs that place one
  critical task behind an hour's burst make the mean, and confidence intervals are wide. By medians
  HEFT-P is next to HEFT and the small workflows are similar, as the thesis says. File-Aware and
  Coarsening place by transfer cost alone once no cluster is idle, so they meet these queues, as
  does HEFT-P when two short jobs precede a burst of long ones. The four months of the DAS-3's log
  have other bursts than these.
- **Several workflows.** All instances are scheduled by one engine that sees at once what it has
  placed for the others. Where brokers of their own see each other late, they meet in the same
  queues and links: HEFT suffers in the thesis (4.87 s of delay for 5 x CyberShake-1000) and does
  not here, and File-Aware needs no throttle for 5 x CyberShake-100.
"""
