"""Where chapter 6 of the thesis contradicts itself: a part of the page written by hand."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

These claims cannot agree with numbers, or with a model, that the thesis gives elsewhere.

- **wf-large1 on one cluster is not the best (claims 12 and 13).** According to Table 6.2 a
  workflow of wf-large1 takes 410 s on a reference cluster, and to Table 6.3 its tasks wait for
  49 s on average with Single Cluster, for 4.6 s (3.2 s of queue, 1.44 s of transfers) with
  All-Clusters. The critical paths of the published documents are 255 s (CyberShake-1000, 3 levels)
  and 368 s (Montage-1000, 9 levels), 312 s on average. For All-Clusters to be worse than 410 s,
  its waits would have to add more than 98 s to the critical path, which nine average waits, 41 s,
  do not. Simulated with these documents, Single Cluster takes 405 and 466 s, All-Clusters 278 and
  406 s.
- **Throttling and waits (claims 33, 34 and 39).** In Table 6.5 a throttled task of
  5 x CyberShake-100 waits for longer, at the grid, in queues and for files together: 21 s instead
  of 0.02 s with File-Aware, 69 s instead of 29 s with Cluster Minimization. The text says that both
  policies improve, and that throttled File-Aware outperforms File-Aware. For 5 x CyberShake-1000
  the throttled policies, with waits of 134 and 140 s, are said to outperform HEFT, with 128 s.
- **Coarsening with background load (claim 24)** is not among these: Table 6.3 has waits, in
  queues and for files, of 93.3 s with Coarsening, 42.4 and 43.4 s with File-Aware and Cluster
  Minimization, which speak against the text, but mean waits do not decide makespans.
- **HEFT and waits (claim 31).** In Table 6.5 a task of 50 x CyberShake-100 waits for 121 s with
  HEFT and for 101 s with throttled File-Aware. Here the NSL of throttled File-Aware is smaller than
  that of HEFT, too. The total makespan of HEFT is the smallest, as the text says.
- **Throttling and transfers (claim 38).** The text refers to Table 6.5, where the throttle
  decreases the transfers in five of six pairs and increases those of Cluster Minimization for
  5 x CyberShake-100 from 12 to 12.8. The claim leaves this pair out.
- **The overflow of Cluster Minimization (claims 19 and 29).** Without idle processors it sends
  tasks to the cluster of the last one (section 6.1.3). In Table 6.3 its tasks wait for 3.3 and
  0.4 s, as those of All-Clusters (3.2 and 0.4 s), which balances the queues: no overflow goes to
  one cluster. In Table 6.5 they wait for 406 s (5 x CyberShake-1000), more than with any other
  policy (123 to 182 s): it does. One rule does not give both: the claims on single workflows need
  the one, those on several the other.
- **Regard for transfers (claim 42).** Section 6.3.3 says in general that policies that consider
  communication, File-Aware and Coarsening in Table 6.1, are better than those that do not. Section
  6.3.1 says that, against File-Aware, selecting fast processors pays off for Cluster Minimization,
  which does not know files, and that the order of the policies depends on the workload. In Table
  6.3, without background load, a task waits in queues and for files for 4.6 s (wf-large1) and 0.9 s
  (wf-large2) with All-Clusters, but for 5.4 and 2.3 s with File-Aware, and for 34 and 9.9 s with
  Coarsening. With background load the table agrees with the claim; only this part is tested here.
- **The load of a cluster (claim 2).** Section 6.1.3 defines it as the requested processors over the
  size of the cluster. All-Clusters then spreads a small workflow over an idle system, with as many
  transfers as the clusters' ratio gives. Table 6.3 has 4 and 10 transfers for a small workflow,
  which means one cluster, as the text says: loads below one are equal there.
- **One engine or several (claim 34).** In section 6.1.2 each workflow has a broker of its own, in
  which HEFT cannot know what the other brokers are about to place; with its "perfectly accurate"
  completion times (section 6.1.3) it can. Table 6.5 has the first: 4.87 s of transfers for
  5 x CyberShake-1000, ten times those of File-Aware. Here one engine schedules all workflows and
  knows all placements, so that HEFT stays ahead of the throttled policies.
"""
