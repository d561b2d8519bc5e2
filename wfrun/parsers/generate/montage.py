"""Montage: a mosaic of the sky from overlapping images.

Structure: Bharathi et al., "Characterization of scientific workflows", WORKS 2008, section III-A,
and Juve et al., "Characterizing and profiling scientific workflows", FGCS 29(3), 2013. Figures:
fitted to the published synthetic documents of 25 to 1,000 tasks.

``images`` mProjectPP, one mDiffFit for each pair of images that overlap, mConcatFit, mBgModel, an
mBackground for each image, mImgTbl, mAdd, mShrink, mJPEG: 2 x images + overlaps + 6 tasks. There
are four overlaps an image, as in the published documents, fewer in small workflows where there are
not that many pairs. Sizes 11, 14, 15 and all from 17 on are possible; the nearest possible size is
generated.

The serial steps take time in proportion to the images. Unlike in the published documents, where all
mDiffFit write files of the same two names, each writes its own. As in those documents, mConcatFit
waits for all mDiffFit and reads one pair of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import SPREAD, LogNormal, Normal
from wfrun.parsers.generate.sketch import Sketch, nearest

SMALLEST = 11

PROJECT_S = Normal(13.58, 0.24, 13.0, 14.3)
DIFF_S = Normal(10.59, 0.10, 10.3, 10.9)
BACKGROUND_S = Normal(10.74, 0.17, 10.2, 11.2)
CONCAT_S_PER_OVERLAP = 0.08
MODEL_S_PER_OVERLAP = 0.13
TABLE_S_PER_IMAGE = 0.40
ADD_S_PER_IMAGE = 0.60
SHRINK_S = (3.3, 0.114)
JPEG_S = (0.5, 0.012)
"""Run time of mJPEG in seconds: (constant part, part added for each image)."""

RAW_BYTES = 4_222_080
PROJECTED_BYTES = Normal(4_160_000, 13_000, 4_110_000, 4_200_000)
DIFFERENCE_BYTES = LogNormal(285_000, 100_000, 20_000, 430_000)
FIT_BYTES = 271
HEADER_BYTES = 304
MOSAIC_BYTES = (40e6, 1.6e6)
SHRUNKEN_RATIO = 0.04
JPEG_RATIO = 0.12
IMAGE_LINE_BYTES = 167
FIT_LINE_BYTES = 210
CORRECTION_LINE_BYTES = 53
NEW_IMAGE_LINE_BYTES = 406

_OTHERS = 6
_TASKS_PER_IMAGE = 6
"""Each image adds two tasks of its own and four overlaps."""


class _Shape(NamedTuple):
    images: int
    overlaps: int


def _fit(tasks: int) -> _Shape | None:
    """Find the smallest number of images that gives a workflow of ``tasks`` tasks and has enough
    pairs for the overlaps, as in the published documents.

    None if no number of images gives exactly ``tasks`` tasks.
    """
    images = max(2, -(-(tasks - _OTHERS) // _TASKS_PER_IMAGE))
    while True:
        overlaps = tasks - _OTHERS - 2 * images
        if overlaps < images - 1:  # some image would overlap with none
            return None
        if overlaps <= images * (images - 1) // 2:
            return _Shape(images, overlaps)
        images += 1


def pairs(images: int, overlaps: int) -> Iterator[tuple[int, int]]:
    """Yield ``overlaps`` pairs of overlapping images. The images cover the sky row by row; pairs of
    neighbours come first."""
    width = max(2, round(images**0.5))
    offsets = dict.fromkeys([1, width, width + 1, width - 1, *range(1, images)])
    left = overlaps
    for offset in offsets:
        for first in range(min(left, images - offset)):
            yield first, first + offset
        left -= min(left, max(0, images - offset))
        if left == 0:
            return


def build(tasks: int, rng: Random) -> Workflow:
    """Generate a Montage workflow of the possible size nearest to ``tasks``."""
    shape = nearest(tasks, SMALLEST, _fit)
    images, overlaps = shape
    sketch = Sketch("montage", 2 * images + overlaps + _OTHERS, rng)
    header = sketch.initial("region.hdr", HEADER_BYTES)
    projected = []
    for image in range(images):
        raw = sketch.initial(f"2mass-atlas-{image:05d}.fits", RAW_BYTES)
        size = PROJECTED_BYTES.draw(rng)
        written = [(f"p2mass-atlas-{image:05d}{part}.fits", size) for part in ("", "_area")]
        projected.append(sketch.task("mProjectPP", PROJECT_S.draw(rng), [header, raw], written))
    differences: list[int] = []
    for number, (one, other) in enumerate(pairs(images, overlaps)):
        read = [header, *projected[one], *projected[other]]
        written = [
            (f"fit.{number:06d}.txt", FIT_BYTES),
            (f"diff.{number:06d}.fits", DIFFERENCE_BYTES.draw(rng)),
        ]
        differences += sketch.task("mDiffFit", DIFF_S.draw(rng), read, written)
    corrections = _background_model(sketch, shape, differences)
    corrected: list[int] = []
    for image in range(images):
        read = [corrections, *projected[image]]
        size = sketch.size_bytes(projected[image][:1])
        written = [(f"c2mass-atlas-{image:05d}{part}.fits", size) for part in ("", "_area")]
        corrected += sketch.task("mBackground", BACKGROUND_S.draw(rng), read, written)
    _mosaic(sketch, images, header, corrected)
    return sketch.workflow()


def _background_model(sketch: Sketch, shape: _Shape, differences: list[int]) -> int:
    """Add the tasks that fit a background model. Return the index of the file of corrections, which
    make the images agree where they overlap."""
    rng = sketch.rng
    listed = sketch.initial("fits_list.tbl", 27 * shape.overlaps)
    fits = sketch.task(
        "mConcatFit",
        CONCAT_S_PER_OVERLAP * shape.overlaps * SPREAD.draw(rng),
        [listed, *differences[-2:]],
        [("fits.tbl", FIT_LINE_BYTES * shape.overlaps)],
        after=differences,
    )
    images = sketch.initial("pimages.tbl", IMAGE_LINE_BYTES * shape.images)
    corrections = sketch.task(
        "mBgModel",
        MODEL_S_PER_OVERLAP * shape.overlaps * SPREAD.draw(rng),
        [images, *fits],
        [("corrections.tbl", CORRECTION_LINE_BYTES * shape.images)],
    )
    return corrections[0]


def _mosaic(sketch: Sketch, images: int, header: int, corrected: list[int]) -> None:
    rng = sketch.rng
    table = sketch.initial("cimages.tbl", IMAGE_LINE_BYTES * images)
    listed = sketch.task(
        "mImgTbl",
        TABLE_S_PER_IMAGE * images * SPREAD.draw(rng),
        [table, *corrected],
        [("newcimages.tbl", NEW_IMAGE_LINE_BYTES * images)],
    )
    size = (MOSAIC_BYTES[0] + MOSAIC_BYTES[1] * images) * SPREAD.draw(rng)
    mosaic = sketch.task(
        "mAdd",
        ADD_S_PER_IMAGE * images * SPREAD.draw(rng),
        [header, *listed],
        [("mosaic.fits", size), ("mosaic_area.fits", size)],
    )
    shrunken = sketch.task(
        "mShrink",
        (SHRINK_S[0] + SHRINK_S[1] * images) * SPREAD.draw(rng),
        mosaic,
        [("shrunken.fits", SHRUNKEN_RATIO * size)],
    )
    sketch.task(
        "mJPEG",
        (JPEG_S[0] + JPEG_S[1] * images) * SPREAD.draw(rng),
        shrunken,
        [("shrunken.jpg", JPEG_RATIO * SHRUNKEN_RATIO * size)],
    )
