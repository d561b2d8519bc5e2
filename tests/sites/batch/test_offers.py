"""What batch systems tell of their queues and limits, as real ones printed it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sites.batch.recordings import GRID_ENGINE, OPENPBS, SLURM, recorded
from wfrun.sites.batch.grid_engine import offer as grid_engine_offer
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import BatchQueue, Offer, clock_s, size_bytes
from wfrun.sites.batch.pbs import offer as pbs_offer
from wfrun.sites.batch.pbs.survey import PBS
from wfrun.sites.batch.slurm import offer as slurm_offer

GIB = 1 << 30


def slurm(name: str, config: str = "", associations: str = "") -> Offer:
    return slurm_offer.read_offer(recorded(SLURM, name).output, config, associations)


def grid_engine(**others: str) -> Offer:
    names = {"queues": "queues", "summary": "summary", "environments": "environments",
             "complexes": "complexes", "hosts": "exec-hosts", "config": "config"}  # fmt: skip
    texts = {name: recorded(GRID_ENGINE, file).output for name, file in names.items()}
    return grid_engine_offer.read_offer(**{**texts, **others})


MEMORY = grid_engine().queues[0].choices["memory_resource"]


OPENPBS_ANSWERS = {"queues": "qstat-Qf-json", "nodes": "pbsnodes-json"}


def pbs(queues: str | None = None, nodes: str | None = None, server: str | None = None) -> Offer:
    read = pbs_offer.read_json_objects
    return pbs_offer.offer_of(
        read(queues or recorded(OPENPBS, "qstat-Qf-json").output, "Queue"),
        read(nodes or recorded(OPENPBS, "pbsnodes-json").output, "nodes"),
        read(server or recorded(OPENPBS, "qstat-Bf-json").output, "Server"),
    )


# -- Slurm


def test_partitions_of_an_idle_slurm() -> None:
    offer = slurm("sinfo", recorded(SLURM, "config").output)
    main, short = offer.queues
    assert main == BatchQueue(
        "main", is_default=True, cores=16, idle_cores=16, node_cores=4,
        node_memory_bytes=4 * GIB, node_gpus=0, walltime_s=86400,
    )  # fmt: skip
    assert (short.name, short.is_default, short.walltime_s) == ("short", False, 600)
    assert offer.max_array == 1000
    assert (offer.max_jobs, "MaxJobCount" in offer.max_jobs_why) == (100, True)
    assert offer.best() is main
    assert offer.queue(None) is main
    assert offer.queue("short") is short
    assert offer.queue("long") is None


def test_partitions_of_a_busy_slurm() -> None:
    main = slurm("sinfo-busy").queues[0]
    # One node of four is drained; on two of the others 3 of 4 cores are taken.
    assert (main.cores, main.down_cores, main.idle_cores) == (16, 4, 6)


def test_a_partition_that_is_down() -> None:
    offer = slurm("sinfo-down")
    assert [queue.is_open for queue in offer.queues] == [True, False]


def test_the_limit_of_an_account_goes_before_that_of_all() -> None:
    offer = slurm("sinfo", recorded(SLURM, "config").output, associations="\n500\n200\n")
    assert (offer.max_jobs, offer.max_jobs_why) == (200, "MaxSubmitJobs of your account")
    no_accounting = recorded(SLURM, "assoc-none")
    assert no_accounting.exit_code != 0


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", 0),
        ("gpu:4", 4),
        ("gpu:a100:2(S:0-1)", 2),
        ("lscratch:900,gpu:v100:4,gpu:k80:2", 6),
        ("gpu:tesla:1(S:0),fpga:2", 1),
    ],
)
def test_gpus_of_a_node(gres: str, gpus: int) -> None:
    line = f"p|p*|up|infinite|8|1000|{gres}|1|idle|0/8/0/8\n"
    assert slurm_offer.read_offer(line, "", "").queues[0].node_gpus == gpus


def test_an_endless_partition_has_no_limit_and_one_of_days_has() -> None:
    line = "p|p|up|{}|8|1000|(null)|1|idle|0/8/0/8\n"
    found = [
        slurm_offer.read_offer(line.format(limit), "", "").queues[0].walltime_s
        for limit in ("infinite", "n/a", "30:00", "7-00:00:00", "2-12:00:00")
    ]
    assert found == [None, None, 1800, 604800, 216000]


@pytest.mark.parametrize("output", ["", "garbage\n", "a|b|c\n", "a|a|up|1|1|1|1|1|idle|x/y\n"])
def test_no_answer_of_sinfo(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        slurm_offer.read_offer(output, "", "")


# -- Grid Engine


def test_a_grid_engine() -> None:
    offer = grid_engine()
    assert offer.queues == (
        BatchQueue(
            "all.q", cores=8, idle_cores=8, node_cores=8, node_memory_bytes=8 * GIB,
            choices={"parallel_environment": ("smp",), "memory_resource": MEMORY},
        ),
    )  # fmt: skip
    assert offer.max_array == 2000
    assert offer.max_jobs is None
    # The one consumable first; what can only be looked at is not there.
    assert MEMORY[0] == "h_vmem"
    assert "mem_used" not in MEMORY
    assert offer.picks_queue


def test_what_differs_between_hosts_of_a_queue() -> None:
    queues = recorded(GRID_ENGINE, "queues").output
    queues = queues.replace("slots                 8", "slots                 1,[n1=4],[@big=16]")
    queues = queues.replace(
        "h_rt                  INFINITY", "h_rt                  24:00:00,[@big=48:00:00]"
    )
    queues = queues.replace(
        "pe_list               smp", "pe_list               make mpi, \\\n                      smp"
    )
    queue = grid_engine(queues=queues).queues[0]
    assert (queue.node_cores, queue.walltime_s) == (16, 86400)
    assert queue.choices["parallel_environment"] == ("smp",)


def test_a_parallel_environment_over_several_nodes_is_none() -> None:
    environments = recorded(GRID_ENGINE, "environments").output
    spread = environments.replace("$pe_slots", "$fill_up")
    queue = grid_engine(environments=spread).queues[0]
    assert queue.choices["parallel_environment"] == ()
    assert "No parallel environment" in queue.notes[0]
    assert grid_engine().queues[0].notes == ()


def test_parallel_environments_with_so_many_cores_on_each_node_are_one_choice() -> None:
    one = recorded(GRID_ENGINE, "environments").output
    mpi = [one.replace("smp", f"mpi-{cores}").replace("$pe_slots", str(cores)) for cores in (8, 16)]
    queues = recorded(GRID_ENGINE, "queues").output.replace(
        "pe_list               smp", "pe_list               mpi-16 smp mpi-8"
    )
    queue = grid_engine(queues=queues, environments=one + "".join(mpi)).queues[0]
    assert queue.choices["parallel_environment"] == ("smp", "mpi-{cores}")


def test_no_task_is_wider_than_its_parallel_environment() -> None:
    one = recorded(GRID_ENGINE, "environments").output
    few = one.replace("slots              999", "slots              4")
    assert grid_engine(environments=few).queues[0].node_cores == 4
    queues = recorded(GRID_ENGINE, "queues").output.replace("smp", "smp few")
    both = grid_engine(queues=queues, environments=one + few.replace("smp", "few"))
    assert both.queues[0].node_cores == 8


def test_an_interactive_queue_is_no_queue() -> None:
    queues = recorded(GRID_ENGINE, "queues").output.replace("BATCH INTERACTIVE", "INTERACTIVE")
    with pytest.raises(QueueUnknownError):
        grid_engine(queues=queues)


def test_without_what_only_some_sites_answer() -> None:
    offer = grid_engine(environments="", complexes="", hosts="", config="")
    assert offer.queues[0].cores == 8
    assert offer.queues[0].choices == {"parallel_environment": ()}


@pytest.mark.parametrize("summary", ["", "garbage", "CLUSTER QUEUE\n----\nall.q what\n"])
def test_no_answer_of_qstat(summary: str) -> None:
    with pytest.raises(QueueUnknownError):
        grid_engine(summary=summary)


# -- PBS


def test_a_pbs() -> None:
    offer = pbs()
    assert offer.queues == (
        BatchQueue(
            "workq", is_default=True, cores=8, idle_cores=5, node_cores=8,
            node_memory_bytes=24684096 * 1024, node_gpus=0,
        ),
    )  # fmt: skip
    assert offer.max_array == 10000


def test_limits_of_a_pbs_queue() -> None:
    queues = recorded(OPENPBS, "qstat-Qf-json").output.replace(
        '"enabled":\t"True"',
        '"enabled":\t"False", "max_queued": "[u:PBS_GENERIC=40]",'
        '"resources_max": {"walltime": "12:00:00", "ncpus": 4, "mem": "2gb"}',
    )
    offer = pbs(queues=queues)
    queue = offer.queues[0]
    assert (queue.walltime_s, queue.node_cores, queue.node_memory_bytes) == (43200, 4, 2 * GIB)
    assert not queue.is_open
    assert offer.max_jobs == 40


def test_a_node_that_is_offline() -> None:
    nodes = recorded(OPENPBS, "pbsnodes-json").output.replace('"free"', '"down,offline"')
    queue = pbs(nodes=nodes).queues[0]
    assert (queue.cores, queue.down_cores, queue.idle_cores) == (8, 8, 0)


def test_the_same_nodes_as_text() -> None:
    text = pbs_offer.read_text_objects(recorded(OPENPBS, "pbsnodes-a").output)
    as_json = pbs_offer.read_json_objects(recorded(OPENPBS, "pbsnodes-json").output, "nodes")
    for key in ("state", "resources_available.ncpus", "resources_assigned.ncpus"):
        assert text["pbshost"][key] == as_json["pbshost"][key]


def test_a_pbs_queue_with_smaller_arrays() -> None:
    queues = recorded(OPENPBS, "qstat-Qf-json").output.replace(
        '"enabled":', '"max_array_size": 10, "enabled":'
    )
    offer = pbs(queues=queues)
    assert (offer.max_array, offer.max_array_in(offer.queues[0])) == (10_000, 10)
    assert offer.max_array_in(None) == 10_000


@pytest.mark.parametrize(("setting", "said"), [("True", False), ("False", True), (None, True)])
def test_a_pbs_that_keeps_no_history(setting: str | None, said: bool) -> None:
    """The server shows only attributes that were set."""
    server = recorded(OPENPBS, "qstat-Bf-json").output
    ours = "" if setting is None else f'"job_history_enable":\t"{setting}",'
    server = server.replace('"job_history_enable":\t"True",', ours)
    answers = {name: recorded(OPENPBS, file).output for name, file in OPENPBS_ANSWERS.items()}
    notes = PBS.read({**answers, "server": server}).notes
    assert [("job_history_enable" in note) for note in notes] == ([True] if said else [])
    assert PBS.read({**answers, "server": ""}).notes == ()  # unknown


def test_a_torque() -> None:
    """As pbsnodes(8B), qstat(1B) and queue attributes are shown in the manual of Torque 6.1."""
    nodes = (
        "node01\n     state = free\n     np = 8\n     ntype = cluster\n"
        "     jobs = 0-2/12.head,5/13.head\n"
        "     status = rectime=1795226611,physmem=16384000kb,ncpus=8,\n\tstate=free\n"
        "     gpus = 2\n\nnode02\n     state = offline\n     np = 4\n\n"
    )
    queues = (
        "Queue: batch\n    queue_type = Execution\n    resources_max.walltime = 72:00:00\n"
        "    enabled = True\n    started = True\n\n"
    )
    server = "Server: head\n    default_queue = batch\n    max_job_array_size = 500\n\n"
    read = pbs_offer.read_text_objects
    offer = pbs_offer.offer_of(read(queues), read(nodes), read(server))
    assert offer == Offer(
        queues=(
            BatchQueue(
                "batch", is_default=True, cores=12, down_cores=4, idle_cores=4, node_cores=8,
                node_memory_bytes=16384000 * 1024, node_gpus=2, walltime_s=259200,
            ),
        ),
        max_array=500,
    )  # fmt: skip
    without = pbs_offer.offer_of(read(queues), read(nodes.replace("gpus = 2", "")), {})
    assert without.queues[0].node_gpus is None


@pytest.mark.parametrize("output", ["", "garbage", "[]", '{"Queue": 3}', '{"Queue": {"a": 1}}'])
def test_no_answer_of_pbs(output: str) -> None:
    with pytest.raises(QueueUnknownError):
        pbs_offer.read_json_objects(output, "Queue")


# -- all


def test_sizes_and_times() -> None:
    assert [size_bytes(text) for text in ("8G", "24684096kb", "100mb", "1.5g", "64b", "x")] == [
        8 * GIB, 24684096 * 1024, 100 << 20, 3 * GIB // 2, 64, 0,
    ]  # fmt: skip
    assert [clock_s(text) for text in ("1-00:00:00", "10:00", "90", "INFINITY")] == [
        86400, 600, 90, None,
    ]  # fmt: skip


def test_the_best_queue_is_open_and_in_service() -> None:
    closed = BatchQueue("a", is_default=True, is_open=False, cores=99)
    away = BatchQueue("b", cores=64, down_cores=64)
    small, long = BatchQueue("c", cores=8, walltime_s=60), BatchQueue("d", cores=8, walltime_s=None)
    assert Offer((closed, away, small, long)).best() is long


@given(st.text(alphabet="ab|/:*\n0123456789=,[]{} ", max_size=200))
def test_anything_is_an_offer_or_no_answer(text: str) -> None:
    reads: tuple[Callable[[], Offer], ...] = (
        lambda: slurm_offer.read_offer(text, text, text),
        lambda: grid_engine(queues=text, environments=text, complexes=text, hosts=text),
        lambda: grid_engine(summary=text, config=text),
        lambda: pbs(queues=text),
        lambda: pbs_offer.offer_of(*[pbs_offer.read_text_objects(text)] * 3),
    )
    for read in reads:
        try:
            assert read().queues
        except QueueUnknownError:
            continue
