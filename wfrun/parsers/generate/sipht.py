"""Sipht: looks for genes of small RNAs in bacterial genomes.

Structure: Bharathi et al., "Characterization of scientific workflows", WORKS 2008, section III-E,
and Juve et al., "Characterizing and profiling scientific workflows", FGCS 29(3), 2013. Figures:
fitted to the published synthetic documents of 30 to 1,000 tasks.

Each genome has an independent part. It consists of about 18 Patser, whose results Patser_concate
joins; Findterm, RNAMotif, Transterm and Blast, from whose results SRNA makes candidates; FFN_Parse,
three Blast and a Blast_QRNA of the candidates; and SRNA_annotate, which gathers all results. That
makes 12 tasks and the Patser for each genome. There is one genome for about 30 tasks, so all sizes
from 13 on are possible.

Blast and Blast_QRNA each read about 880 files of other genomes, which all parts share.
"""

from __future__ import annotations

from random import Random

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import Distribution, LogNormal, Normal
from wfrun.parsers.generate.sketch import Sketch, shares

SMALLEST = 13

RUNTIMES_S: dict[str, Distribution] = {
    "Patser": Normal(1.277, 0.29, 0.6, 2.1),
    "Patser_concate": Normal(0.077, 0.022, 0.03, 0.13),
    "Findterm": LogNormal(1_250.0, 390.0, 600.0, 2_600.0),
    "RNAMotif": Normal(34.0, 6.2, 20.0, 50.0),
    "Transterm": Normal(56.0, 14.0, 28.0, 90.0),
    "Blast": Normal(2_500.0, 465.0, 1_500.0, 3_600.0),
    "SRNA": Normal(357.0, 92.0, 160.0, 560.0),
    "FFN_Parse": Normal(1.6, 0.22, 1.1, 2.2),
    "Blast_candidate": Normal(5.06, 0.97, 2.8, 7.5),
    "Blast_QRNA": Normal(1_425.0, 80.0, 1_220.0, 1_640.0),
    "Blast_synteny": Normal(33.0, 0.01, 32.9, 33.1),
    "Blast_paralogues": Normal(5.1, 1.15, 2.4, 7.9),
    "SRNA_annotate": Normal(1.6, 0.42, 0.7, 2.7),
}

OUTPUTS: dict[str, tuple[tuple[str, float], ...]] = {
    "Findterm": (
        ("findterm.out", 134),
        ("findterm.err", 0),
        ("term.txt", 20.6e6),
        ("term_candidates_non_redund", 328e3),
        ("rna.ps", 2.9e3),
        ("vienna_input_tmp", 3.86e6),
        ("vienna_output", 4.30e6),
        ("vienna_index_tmp", 4.2e6),
    ),
    "RNAMotif": (("rnamotif.out", 1.03e6), ("rnamotif.err", 310)),
    "Transterm": (("transterm.out", 448e3), ("transterm.err", 96)),
    "Blast": (("blast.err", 549), ("blast.out", 512), ("BLAST_sorted.out", 4.74e6)),
    "SRNA": (
        ("candidates", 82e3),
        *((f"candidates.{number:02d}", 0.45e6) for number in range(12)),
        ("srna.out", 340e3),
    ),
    "FFN_Parse": (("parsed.ffn", 0.75e6),),
    "Blast_candidate": (
        ("BLAST", 13e3),
        ("blast_candidate.out", 3.0e3),
        ("blast_candidate.err", 545),
    ),
    "Blast_QRNA": (
        ("QRNA.gff", 170e3),
        *((f"QRNA.{number:02d}", 0.5e6) for number in range(7)),
    ),
    "Blast_synteny": (("synteny.txt", 0.9e6),),
    "Blast_paralogues": (("paralogues.txt", 0.8e6),),
    "SRNA_annotate": tuple((f"annotation.{number}", 0.2e6) for number in range(7)),
}
"""The outputs of each task: the end of the file's name and the mean size in bytes."""

PATSER_BYTES = Normal(90_500, 26_000, 45_000, 140_000)
SIZE_SPREAD = LogNormal(1.0, 0.15, 0.6, 1.6)
GENOME_BYTES = LogNormal(5.6e6, 1.5e6, 2.0e6, 9.0e6)
TABLE_BYTES = 341e3
GENES_BYTES = 4.75e6
ANNOTATED_BYTES = 13.2e6
MATRIX_BYTES = 170_917
PARTNER_BYTES = Normal(370e3, 100e3, 10e3, 1e6)
PARTNERS = 880

TOOLS = (("blasta", 786_856), ("xdformat", 380_164), ("time", 11_944))

_TASKS_OF_A_GENOME = 12
_ALL_TASKS_OF_A_GENOME = 30.25


class _Common:
    """Files that all genomes share, created when they are first read."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._files: dict[str, int] = {}
        self._partners: list[int] = []

    def file(self, name: str, size_bytes: float) -> int:
        if name not in self._files:
            self._files[name] = self._sketch.initial(name, size_bytes)
        return self._files[name]

    def tools(self) -> list[int]:
        return [self.file(name, size) for name, size in TOOLS]

    def partners(self) -> list[int]:
        if not self._partners:
            self._partners = [
                self._sketch.initial(f"IGR_{n:03d}.txt", PARTNER_BYTES.draw(self._sketch.rng))
                for n in range(PARTNERS)
            ]
        return self._partners


def build(tasks: int, rng: Random) -> Workflow:
    """Generate a Sipht workflow of ``tasks`` tasks."""
    most = tasks // SMALLEST
    genomes = min(most, max(1, round(tasks / _ALL_TASKS_OF_A_GENOME)))
    sketch = Sketch("sipht", tasks, rng)
    common = _Common(sketch)
    for genome, patsers in enumerate(shares(tasks - _TASKS_OF_A_GENOME * genomes, genomes)):
        _genome(sketch, common, f"NC_{genome:05d}", patsers)
    return sketch.workflow()


def _genome(sketch: Sketch, common: _Common, stem: str, patsers: int) -> None:
    rng = sketch.rng
    fna_bytes = GENOME_BYTES.draw(rng)
    motifs: list[int] = []
    for number in range(patsers):
        settings = common.file("patser.in", 14)
        if not motifs:
            fna = sketch.initial(f"{stem}.fna", fna_bytes)
        alphabet = common.file("alphabet", 16)
        matrix = common.file(f"matrix-{number:03d}.txt", MATRIX_BYTES)
        written = [(f"{stem}_PatserOut{number:03d}.txt", PATSER_BYTES.draw(rng))]
        runtime_s = RUNTIMES_S["Patser"].draw(rng)
        motifs += sketch.task("Patser", runtime_s, [settings, fna, alphabet, matrix], written)
    joined = sketch.task(
        "Patser_concate",
        RUNTIMES_S["Patser_concate"].draw(rng),
        motifs,
        [(f"{stem}_PatserOut.txt", sketch.size_bytes(motifs))],
    )
    found = _search(sketch, common, stem, fna)
    candidates, summary = found[0], found[-1]
    results = _compare(sketch, common, stem, candidates)
    matrix = common.file("access_matrix.txt", MATRIX_BYTES)
    read = [matrix, common.file("sRNAPredict.in", 1_198), *joined, candidates, summary, *results]
    _task(sketch, stem, "SRNA_annotate", read)


def _search(sketch: Sketch, common: _Common, stem: str, fna: int) -> range:
    """Add the tasks that search for candidates. Return the indices of the files of candidates,
    which SRNA writes."""
    terms = _task(sketch, stem, "Findterm", [fna, common.file("RNAfold", 591_942)])
    descriptor = common.file("RNAM_descriptor.txt", 17_626)
    motifs = _task(sketch, stem, "RNAMotif", [fna, descriptor])
    expected = common.file("expterm.dat", 45_788)
    table = common.file(f"{stem}.ptt", TABLE_BYTES)
    terminators = _task(sketch, stem, "Transterm", [fna, expected, table])
    hits = _task(sketch, stem, "Blast", [*common.tools(), *common.partners()])
    read = [
        common.file("access_genomes.txt", 83_722),
        common.file("sRNAPredict.in", 1_198),
        sketch.initial(f"{stem}.gbk", ANNOTATED_BYTES),
        fna,
        table,
        common.file("All_known_sRNAs.txt", 1_028_403),
        *terms,
        *motifs,
        *terminators,
        *hits[1:],
    ]
    return _task(sketch, stem, "SRNA", read)


def _compare(sketch: Sketch, common: _Common, stem: str, candidates: int) -> list[int]:
    """Add the tasks that compare the candidates with known genes and other genomes. Return the
    indices of their results."""
    genes = sketch.initial(f"{stem}.ffn", GENES_BYTES)
    table = common.file(f"{stem}.ptt", TABLE_BYTES)
    parsed = _task(sketch, stem, "FFN_Parse", [genes, table, candidates])
    known = common.file("known_sRNAs.txt", 172_432)
    results = [*_task(sketch, stem, "Blast_candidate", [known, *common.tools(), candidates])]
    read = [*common.tools(), common.file("mix_tied_linux.cfg", 11_964), *common.partners()]
    results.append(_task(sketch, stem, "Blast_QRNA", [*read, candidates])[0])
    known = common.file("known_ORFs.txt", 1_419_426)
    read = [known, *common.tools(), candidates, *parsed]
    results += _task(sketch, stem, "Blast_synteny", read)
    results += _task(sketch, stem, "Blast_paralogues", [*common.tools(), candidates])
    return results


def _task(sketch: Sketch, stem: str, name: str, inputs: list[int]) -> range:
    rng = sketch.rng
    spread = SIZE_SPREAD.draw(rng)
    written = [(f"{stem}_{ending}", size * spread) for ending, size in OUTPUTS[name]]
    return sketch.task(name, RUNTIMES_S[name].draw(rng), inputs, written)
