"""CyberShake: the earthquake hazard of one place.

Structure: Bharathi et al., "Characterization of scientific workflows", WORKS 2008, section III-B,
and Juve et al., "Characterizing and profiling scientific workflows", FGCS 29(3), 2013. Figures:
fitted to the published synthetic documents of 30 to 1,000 tasks.

ExtractSGT cuts strain Green tensors for a rupture out of two files of 20 GB. For each variation
SeismogramSynthesis makes a seismogram, and PeakValCalcOkaya takes its peaks. ZipSeis packs all
seismograms, and ZipPSA packs all peaks. This makes extracts + 2 x variations + 2 tasks. There are
as many extracts as in the published documents of this size; above 1,000 tasks, one for 250 tasks.
Sizes 5, 7 and all from 8 on are possible; the nearest possible size is generated.

As in the published documents, the two last steps wait for all others and read no files.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import SPREAD, Normal, Uniform
from wfrun.parsers.generate.sketch import Sketch, nearest, shares

SMALLEST = 5

EXTRACT_S = Normal(133.0, 38.0, 70.0, 205.0)
SYNTHESIS_S = Uniform(21.8, 65.1)
PEAK_S = Uniform(0.55, 1.63)
ZIP_SEISMOGRAMS_S_PER_FILE = 0.0188
ZIP_PEAKS_S_PER_FILE = 0.0077

TENSOR_BYTES = Normal(20.0e9, 0.25e9, 19.4e9, 20.7e9)
EXTRACTED_BYTES = Normal(250e6, 60e6, 125e6, 350e6)
VARIATION_BYTES = Uniform(1.8e6, 5.4e6)
SEISMOGRAM_BYTES = 24_000
PEAKS_BYTES = 216
ZIPPED_SEISMOGRAM_BYTES = 4_305
ZIPPED_PEAKS_BYTES = 21.3

_OTHERS = 2
_TASKS_PER_EXTRACT = 250
_EXTRACTS = ((30, 2), (50, 4), (100, 8), (1000, 4))
"""Numbers of tasks and of extracts of the published documents."""


class _Shape(NamedTuple):
    extracts: int
    variations: int


def _fit(tasks: int) -> _Shape | None:
    extracts = _extracts(tasks)
    if (tasks - extracts) % 2:
        extracts -= 1
    variations = (tasks - _OTHERS - extracts) // 2
    return _Shape(extracts, variations) if variations >= extracts else None


def _extracts(tasks: int) -> int:
    """Number of extracts, interpolated between the published documents."""
    if tasks <= _EXTRACTS[0][0]:
        return _EXTRACTS[0][1]
    for (low, fewer), (high, more) in pairwise(_EXTRACTS):
        if tasks <= high:
            return round(fewer + (more - fewer) * (tasks - low) / (high - low))
    return round(tasks / _TASKS_PER_EXTRACT)


def build(tasks: int, rng: Random) -> Workflow:
    """Generate a CyberShake workflow of the possible size nearest to ``tasks``."""
    extracts, variations = nearest(tasks, SMALLEST, _fit)
    sketch = Sketch("cybershake", extracts + 2 * variations + _OTHERS, rng)
    seismograms: list[int] = []
    extracted = [_extract(sketch, number) for number in range(extracts)]
    for tensors, count in zip(extracted, shares(variations, extracts), strict=True):
        for _ in range(count):
            number = len(seismograms)
            variation = sketch.initial(f"variation-{number:05d}.txt", VARIATION_BYTES.draw(rng))
            seismograms += sketch.task(
                "SeismogramSynthesis",
                SYNTHESIS_S.draw(rng),
                [variation, *tensors],
                [(f"Seismogram_{number:05d}.grm", SEISMOGRAM_BYTES)],
            )
    peaks: list[int] = []
    for number, seismogram in enumerate(seismograms):
        written = [(f"PeakVals_{number:05d}.bsa", PEAKS_BYTES)]
        peaks += sketch.task("PeakValCalcOkaya", PEAK_S.draw(rng), [seismogram], written)
    sketch.task(
        "ZipSeis",
        ZIP_SEISMOGRAMS_S_PER_FILE * variations * SPREAD.draw(rng),
        [],
        [("Cybershake_Seismograms.zip", ZIPPED_SEISMOGRAM_BYTES * variations)],
        after=seismograms,
    )
    sketch.task(
        "ZipPSA",
        ZIP_PEAKS_S_PER_FILE * variations * SPREAD.draw(rng),
        [],
        [("Cybershake_PSA.zip", ZIPPED_PEAKS_BYTES * variations)],
        after=peaks,
    )
    return sketch.workflow()


def _extract(sketch: Sketch, number: int) -> range:
    rng = sketch.rng
    size = TENSOR_BYTES.draw(rng)
    read = [sketch.initial(f"FFI_{number:05d}_{axis}.sgt", size) for axis in ("fx", "fy")]
    read.append(sketch.initial(f"rupture-{number:05d}.txt", VARIATION_BYTES.draw(rng)))
    size = EXTRACTED_BYTES.draw(rng)
    written = [(f"FFI_{number:05d}_sub{axis}.sgt", size) for axis in ("fx", "fy")]
    return sketch.task("ExtractSGT", EXTRACT_S.draw(rng), read, written)
