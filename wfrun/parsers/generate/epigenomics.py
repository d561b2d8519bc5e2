"""Epigenomics: maps short DNA reads of several sequencer lanes to a genome.

Structure: Bharathi et al., "Characterization of scientific workflows", WORKS 2008, section III-C,
and Juve et al., "Characterizing and profiling scientific workflows", FGCS 29(3), 2013. Figures:
fitted to the published synthetic document of 997 tasks.

fastqSplit splits the reads of each lane into chunks. Each chunk goes through filterContams,
sol2sanger, fastq2bfq and map. mapMerge joins the maps of a lane. If there are several lanes,
another mapMerge joins their maps. maqindex and pileup are the last tasks. One lane makes 4 x chunks
+ 4 tasks, several lanes make 2 x lanes + 4 x chunks + 3. Hence multiples of four from 8 on have one
lane, and odd numbers from 15 on (except 17) have several lanes of about 35 chunks. The nearest of
these sizes is generated.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import SPREAD, LogNormal, Normal
from wfrun.parsers.generate.sketch import Sketch, nearest, shares

SMALLEST = 8

MAP_S = LogNormal(15_700.0, 4_070.0, 9_000.0, 28_000.0)
PILEUP_S = Normal(6_100.0, 200.0, 5_500.0, 6_700.0)
SPLIT_S_PER_BYTE = 0.148e-6
FILTER_S_PER_BYTE = 0.132e-6
SANGER_S_PER_BYTE = 0.070e-6
BFQ_S_PER_BYTE = 0.152e-6
MERGE_LANE_S_PER_BYTE = 0.475e-6
MERGE_ALL_S_PER_BYTE = 0.630e-6
INDEX_S_PER_BYTE = 0.00087e-6

LANE_BYTES = Normal(369e6, 88e6, 220e6, 480e6)
CHUNK_SPREAD = LogNormal(1.0, 0.5, 0.2, 4.0)
CLEAN_RATIO = Normal(0.5, 0.02, 0.4, 0.6)
SANGER_RATIO = LogNormal(0.81, 0.2, 0.4, 1.6)
BFQ_RATIO = Normal(0.237, 0.02, 0.18, 0.3)
MAP_RATIO = 1.087
MERGE_RATIO = 0.98
COMPRESSED_RATIO = 0.047
SUMMARY_RATIO = 0.0029
INDEX_RATIO = 0.0179
PILEUP_RATIO = 2.2
GENOME_BYTES = 5_304_606_607

_CHUNKS_PER_LANE = 35


class _Shape(NamedTuple):
    lanes: int
    chunks: int
    """Number of chunks in all lanes."""


def _fit(tasks: int) -> _Shape | None:
    if tasks % 4 == 0:
        return _Shape(1, (tasks - 4) // 4)
    if tasks % 2 == 0:
        return None
    lanes = max(2, round(tasks / (4 * _CHUNKS_PER_LANE + 2)))
    if (tasks - 2 * lanes - 3) % 4:
        lanes += 1
    chunks = (tasks - 2 * lanes - 3) // 4
    return _Shape(lanes, chunks) if chunks >= lanes else None


def build(tasks: int, rng: Random) -> Workflow:
    """Generate an Epigenomics workflow of the possible size nearest to ``tasks``."""
    lanes, chunks = nearest(tasks, SMALLEST, _fit)
    total = 4 * chunks + (4 if lanes == 1 else 2 * lanes + 3)
    sketch = Sketch("epigenomics", total, rng)
    genome: list[int] = []
    merged: list[int] = []
    for lane, count in enumerate(shares(chunks, lanes)):
        maps: list[int] = []
        for chunk, file in enumerate(_split(sketch, lane, count)):
            stem = f"chr21.{lane}.{chunk}"
            reads = _prepare(sketch, stem, file)
            if not genome:
                genome.append(sketch.initial("chr21.BS.bfa", GENOME_BYTES))
            written = [(f"{stem}.nocontam.map", MAP_RATIO * sketch.size_bytes([reads]))]
            maps += sketch.task("map_chr21", MAP_S.draw(rng), [*genome, reads], written)
        if lanes == 1:
            merged = maps
        else:
            size = sketch.size_bytes(maps)
            merged += sketch.task(
                "mapMerge_chr21",
                MERGE_LANE_S_PER_BYTE * size * SPREAD.draw(rng),
                maps,
                [(f"chr21_{lane}.nocontam.map", MERGE_RATIO * size)],
            )
    _finish(sketch, merged, MERGE_LANE_S_PER_BYTE if lanes == 1 else MERGE_ALL_S_PER_BYTE)
    return sketch.workflow()


def _split(sketch: Sketch, lane: int, count: int) -> range:
    rng = sketch.rng
    size = LANE_BYTES.draw(rng)
    reads = sketch.initial(f"chr21{lane}.sfq", size)
    weights = [CHUNK_SPREAD.draw(rng) for _ in range(count)]
    unit = size / sum(weights)
    return sketch.task(
        "fastqSplit_chr21",
        SPLIT_S_PER_BYTE * size * SPREAD.draw(rng),
        [reads],
        [(f"chr21.{lane}.{chunk}.sfq", unit * weight) for chunk, weight in enumerate(weights)],
    )


def _prepare(sketch: Sketch, stem: str, reads: int) -> int:
    """Add the tasks that filter and convert one chunk. Return the index of the file that map
    reads."""
    rng = sketch.rng
    size = sketch.size_bytes([reads])
    clean = CLEAN_RATIO.draw(rng) * size
    written = [(f"{stem}.nocontam.sfq", clean), (f"{stem}.contam.sfq", size - clean)]
    runtime_s = FILTER_S_PER_BYTE * size * SPREAD.draw(rng)
    file = sketch.task("filterContams_chr21", runtime_s, [reads], written)[0]
    for name, rate, ratio, suffix in (
        ("sol2sanger_chr21", SANGER_S_PER_BYTE, SANGER_RATIO, "fq"),
        ("fastq2bfq_chr21", BFQ_S_PER_BYTE, BFQ_RATIO, "bfq"),
    ):
        size = sketch.size_bytes([file])
        written = [(f"{stem}.nocontam.{suffix}", ratio.draw(rng) * size)]
        file = sketch.task(name, rate * size * SPREAD.draw(rng), [file], written)[0]
    return file


def _finish(sketch: Sketch, maps: list[int], merge_s_per_byte: float) -> None:
    rng = sketch.rng
    size = sketch.size_bytes(maps)
    merged = sketch.task(
        "mapMerge_chr21",
        merge_s_per_byte * size * SPREAD.draw(rng),
        maps,
        [
            ("chr21.nocontam.map", MERGE_RATIO * size),
            ("chr21.nocontam.map.zr", COMPRESSED_RATIO * size),
            ("chr21.nocontam.map.vm", SUMMARY_RATIO * size),
        ],
    )
    index_size = INDEX_RATIO * size
    index = sketch.task(
        "maqindex_chr21",
        INDEX_S_PER_BYTE * size * SPREAD.draw(rng),
        merged[:1],
        [("chr21.nocontam.chr.map", index_size)],
    )
    genome = sketch.initial("chr21.BSnull.bfa", GENOME_BYTES)
    sketch.task(
        "pileup_chr21",
        PILEUP_S.draw(rng),
        [genome, *index],
        [("chr21.nocontam.chr.pileup", PILEUP_RATIO * index_size)],
    )
