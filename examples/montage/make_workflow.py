"""Makes the raw tiles of a synthetic sky and the workflow that turns them into a colour mosaic.

    make_workflow.py OUT_DIR [--tiles 3x3] [--seed 1]

Needs the Montage toolkit (Debian: ``apt-get install montage``). The workflow has the structure of
the well-known Montage workflows: for each of three bands every tile is projected to one grid, the
differences of overlapping tiles are fitted by planes, one background model is made of all of them
and taken from each tile, and the tiles are added. OUT_DIR then holds the tiles, ``montage.dax``
and, for check.py, what the mosaic has to look like.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from xml.sax.saxutils import escape, quoteattr

from sky import BANDS, PIXEL_DEG, Component, make_sky, position_deg, write_tables

HERE = Path(__file__).parent

TILE_PX = 360
PITCH_PX = 240
"""Distance between the centres of neighbouring tiles: a third of each tile overlaps the next."""
MARGIN_PX = 20
SHRINK = 2
NOISE = 8.0
BACKGROUND = 1200.0
"""Maximum background of a tile. The galaxy's arms are about a tenth as bright."""
TILT = 25.0
"""Half the maximum difference of the background between two corners of a tile."""

FINAL = frozenset(
    file
    for name in ("mosaic", "uncorrected")
    for file in (f"{name}.png", *(f"{name}_{band}.fits" for band in BANDS))
)
"""The final outputs."""


@dataclass(frozen=True, slots=True)
class Job:
    """One task. Words of ``arguments`` that are names of its files become file references."""

    id: str
    program: str
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """From the trial: seconds by program, bytes by ``kind_of`` a file."""

    runtime_s: Mapping[str, float]
    size_bytes: Mapping[str, int]


def tool(*command: str, cwd: Path | None = None) -> None:
    """Run one program of the toolkit, which reports errors on stdout."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0 or 'stat="ERROR"' in done.stdout:
        sys.exit(f"{' '.join(command)}\nfailed: {done.stdout}{done.stderr}")


def write_header(
    path: Path, size_px: tuple[int, int], at_px: tuple[float, float], rotation_deg: float
) -> None:
    """A FITS header template: a tangential projection around a point of the field."""
    ra, dec = position_deg(*at_px)
    path.write_text(
        "SIMPLE  = T\nBITPIX  = -64\nNAXIS   = 2\n"
        f"NAXIS1  = {size_px[0]}\nNAXIS2  = {size_px[1]}\n"
        "CTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\nEQUINOX = 2000\n"
        f"CRVAL1  = {ra:.8f}\nCRVAL2  = {dec:.8f}\n"
        f"CDELT1  = {-PIXEL_DEG}\nCDELT2  = {PIXEL_DEG}\n"
        f"CRPIX1  = {(size_px[0] + 1) / 2}\nCRPIX2  = {(size_px[1] + 1) / 2}\n"
        f"CROTA2  = {rotation_deg:.4f}\nEND\n",
        encoding="ascii",
    )


def make_tiles(out: Path, columns: int, rows: int, seed: int) -> list[str]:
    """Write the raw tiles of all bands, the mosaic's header and the truth; the tiles' names."""
    rng = Random(seed)
    size = (
        PITCH_PX * (columns - 1) + TILE_PX + 2 * MARGIN_PX,
        PITCH_PX * (rows - 1) + TILE_PX + 2 * MARGIN_PX,
    )
    sky = make_sky(*size, rng)
    write_header(out / "mosaic.hdr", size, (0, 0), 0)
    tiles = [f"{column}_{row}" for column, row in product(range(columns), range(rows))]
    padded = TILE_PX + 2 * padding_px(sky)
    with tempfile.TemporaryDirectory() as scratch:
        for tile in tiles:
            column, row = map(int, tile.split("_"))
            at = ((column - (columns - 1) / 2) * PITCH_PX, (row - (rows - 1) / 2) * PITCH_PX)
            rotation = rng.uniform(-3, 3)
            write_header(Path(scratch, f"{tile}.hdr"), (padded, padded), at, rotation)
        for band in BANDS:
            make_band(out, Path(scratch), sky, band, tiles, rng)
    return tiles


def padding_px(sky: tuple[Component, ...]) -> int:
    """Maximum distance from a tile at which a source is still visible in it."""
    return math.ceil(1.5 * max(component.width_px for component in sky))


def make_band(
    out: Path,
    scratch: Path,
    sky: tuple[Component, ...],
    band: str,
    tiles: Sequence[str],
    rng: Random,
) -> None:
    """Raw tiles, each with noise and a tilted background of its own; the truth has neither."""
    sources = write_tables(sky, scratch, band)
    padding, size = str(padding_px(sky)), str(TILE_PX)
    for tile in tiles:
        level = rng.uniform(TILT, BACKGROUND)
        a, b, c = (level + rng.uniform(-TILT, TILT) for _ in range(3))
        corners = [f"{value:.4f}" for value in (a, b, c, a + c - b)]
        header, padded = str(scratch / f"{tile}.hdr"), str(scratch / "padded.fits")
        tool("mMakeImg", "-n", str(NOISE), "-b", *corners, *sources, header, padded)
        raw = str(out / f"raw_{band}_{tile}.fits")
        tool("mSubimage", "-p", padded, raw, padding, padding, size, size)
    full = str(scratch / f"{band}.fits")
    tool("mMakeImg", *sources, str(out / "mosaic.hdr"), full)
    tool("mShrink", full, str(out / f"truth_{band}.fits"), str(SHRINK))


def find_overlaps(out: Path, tiles: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of tiles that overlap, as mImgtbl and mOverlaps see it (alike in all bands)."""
    with tempfile.TemporaryDirectory() as scratch:
        for tile in tiles:
            os.symlink(out.resolve() / f"raw_{BANDS[0]}_{tile}.fits", Path(scratch, f"{tile}.fits"))
        tool("mImgtbl", ".", "images.tbl", cwd=Path(scratch))
        tool("mOverlaps", "images.tbl", "overlaps.tbl", cwd=Path(scratch))
        rows = Path(scratch, "overlaps.tbl").read_text(encoding="ascii").splitlines()
    pairs = (row.split()[2:4] for row in rows if not row.startswith(("|", "\\")))
    ordered = (sorted(name.removesuffix(".fits") for name in pair) for pair in pairs)
    return sorted((first, second) for first, second in ordered)


def jobs_of_band(
    band: str, tiles: Sequence[str], overlaps: Sequence[tuple[str, str]]
) -> Iterator[Job]:
    """The jobs of one band: a mosaic with background correction and one without."""
    projected = [f"proj_{band}_{tile}.fits" for tile in tiles]
    corrected = [f"corr_{band}_{tile}.fits" for tile in tiles]
    for tile, out in zip(tiles, projected, strict=True):
        raw = f"raw_{band}_{tile}.fits"
        yield Job(
            f"project_{band}_{tile}", "mProjectPP", ("-X", raw, out, "mosaic.hdr"),
            (raw, "mosaic.hdr"), (out, area(out)),
        )  # fmt: skip
    images = f"images_{band}.tbl"
    yield Job(f"table_{band}", "mImgtbl", (".", images), tuple(projected), (images,))
    fits = []
    for first, second in overlaps:
        pair = [f"proj_{band}_{first}", f"proj_{band}_{second}"]
        files = [f"{name}.fits" for name in pair]
        difference, fit = f"diff__{'__'.join(pair)}.fits", f"fit__{'__'.join(pair)}.txt"
        name = f"{band}_{first}_{second}"
        yield Job(
            f"diff_{name}", "mDiff", (*files, difference, "mosaic.hdr"),
            (*files, *map(area, files), "mosaic.hdr"), (difference,),
        )  # fmt: skip
        yield Job(f"fit_{name}", "mFitplane", ("-s", fit, difference), (difference,), (fit,))
        fits.append(fit)
    table, model = f"fits_{band}.tbl", f"corrections_{band}.tbl"
    yield Job(
        f"concat_{band}", "concat_fits.py", (images, table, *fits),
        ("concat_fits.py", images, *fits), (table,),
    )  # fmt: skip
    yield Job(f"model_{band}", "mBgModel", (images, table, model), (images, table), (model,))
    for tile, image, out in zip(tiles, projected, corrected, strict=True):
        yield Job(
            f"correct_{band}_{tile}", "mBackground", ("-t", image, out, images, model),
            (image, area(image), images, model), (out, area(out)),
        )  # fmt: skip
    table = f"corrected_{band}.tbl"
    yield Job(f"table2_{band}", "mImgtbl", (".", table), tuple(corrected), (table,))
    yield from jobs_of_mosaic(f"mosaic_{band}", table, corrected)
    yield from jobs_of_mosaic(f"uncorrected_{band}", images, projected)


def jobs_of_mosaic(name: str, table: str, images: Sequence[str]) -> Iterator[Job]:
    full, small = f"{name}_full.fits", f"{name}.fits"
    yield Job(
        f"add_{name}", "mAdd", ("-e", table, "mosaic.hdr", full),
        (table, "mosaic.hdr", *images, *map(area, images)), (full,),
    )  # fmt: skip
    yield Job(f"shrink_{name}", "mShrink", (full, small, str(SHRINK)), (full,), (small,))


def make_jobs(tiles: Sequence[str], overlaps: Sequence[tuple[str, str]]) -> list[Job]:
    """The whole workflow, each job after those whose files it reads."""
    jobs = [job for band in BANDS for job in jobs_of_band(band, tiles, overlaps)]
    for name in ("mosaic", "uncorrected"):
        shown: list[str] = []
        for band in BANDS:
            shown += [f"-{band}", f"{name}_{band}.fits", "-0.05s", "99.6%", "1"]
        inputs = tuple(f"{name}_{band}.fits" for band in BANDS)
        jobs.append(
            Job(
                f"view_{name}", "mViewer", (*shown, "-out", f"{name}.png"), inputs, (f"{name}.png",)
            )
        )
    return jobs


def area(image: str) -> str:
    """The file of pixel areas that Montage keeps beside an image."""
    return image.removesuffix(".fits") + "_area.fits"


def kind_of(file: str) -> str:
    """Files of one kind have about the same size."""
    suffix = "_area" if file.endswith("_area.fits") else ""
    return (
        file.removesuffix(".fits").split("_")[0] + ("_full" * file.endswith("_full.fits")) + suffix
    )


def measure(out: Path, tiles: Sequence[str], overlaps: Sequence[tuple[str, str]]) -> Costs:
    """Run the workflow of two overlapping tiles by hand, and note run times and sizes."""
    pair = overlaps[0]
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for job in make_jobs(pair, [pair]):
            sandbox = Path(scratch, job.id)
            sandbox.mkdir()
            for name in job.inputs:
                made = Path(scratch, name)
                os.symlink(made if made.exists() else out.resolve() / name, sandbox / name)
            program = f"./{job.program}" if job.program in job.inputs else job.program
            started = time.perf_counter()
            tool(program, *job.arguments, cwd=sandbox)
            seconds[job.program].append(time.perf_counter() - started)
            for name in job.outputs:
                sizes[kind_of(name)] = (sandbox / name).stat().st_size
                (sandbox / name).rename(Path(scratch, name))
    for file in out.glob("*.*"):
        sizes[kind_of(file.name)] = file.stat().st_size
    return Costs({program: min(times) for program, times in seconds.items()}, sizes)


def write_dax(path: Path, jobs: Sequence[Job], costs: Costs) -> None:
    """DAX 3.6. Edges follow from the files, and are written out all the same."""
    producer = {name: job for job in jobs for name in job.outputs}
    with path.open("w", encoding="utf-8") as dax:
        dax.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        dax.write('<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="montage">\n')
        for job in jobs:
            write_job(dax.write, job, costs)
        for job in jobs:
            parents = {producer[name].id: None for name in job.inputs if name in producer}
            if parents:
                dax.write(f"  <child ref={quoteattr(job.id)}>")
                dax.writelines(f"<parent ref={quoteattr(parent)}/>" for parent in parents)
                dax.write("</child>\n")
        dax.write("</adag>\n")


def write_job(write: Callable[[str], object], job: Job, costs: Costs) -> None:
    files = {*job.inputs, *job.outputs}
    words = [
        f"<file name={quoteattr(word)}/>" if word in files else escape(word)
        for word in job.arguments
    ]
    runtime_s = costs.runtime_s[job.program]
    write(f'  <job id={quoteattr(job.id)} name="{job.program}" runtime="{runtime_s:.4f}">\n')
    write(f"    <argument>{' '.join(words)}</argument>\n")
    for link, names in (("input", job.inputs), ("output", job.outputs)):
        for name in names:
            keep = "true" if link == "input" or name in FINAL else "false"
            extra = ' executable="true"' if name == job.program else ""
            size = costs.size_bytes[kind_of(name)]
            write(f'    <uses name={quoteattr(name)} link="{link}" size="{size}"')
            write(f' transfer="{keep}"{extra}/>\n')
    write("  </job>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--tiles", default="3x3", help="columns x rows of tiles (default: 3x3)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if shutil.which("mProjectPP") is None:
        sys.exit("The Montage toolkit is not in PATH. On Debian: apt-get install montage")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    columns, rows = map(int, options.tiles.split("x"))
    shutil.copy(HERE / "concat_fits.py", out)
    tiles = make_tiles(out, columns, rows, options.seed)
    overlaps = find_overlaps(out, tiles)
    jobs = make_jobs(tiles, overlaps)
    write_dax(out / "montage.dax", jobs, measure(out, tiles, overlaps))
    print(f"{out / 'montage.dax'}: {len(jobs)} tasks, {len(tiles)} tiles in {len(BANDS)} bands")


if __name__ == "__main__":
    main()
