#!/usr/bin/env python3
"""Gathers what mFitplane found for each overlap into the table that mBgModel reads.

    concat_fits.py IMAGES.TBL FITS.TBL FIT.TXT...

Does the work of Montage's mConcatFit, which Debian does not package. A fit is named after the two
images whose difference it describes: ``fit__A__B.txt`` is of ``A.fits`` minus ``B.fits``. Fits
that failed (too few pixels) are left out, as mBgModel expects.
"""

import os
import re
import sys

COLUMNS = (
    ("a", "double"), ("b", "double"), ("c", "double"), ("crpix1", "double"), ("crpix2", "double"),
    ("xmin", "double"), ("xmax", "double"), ("ymin", "double"), ("ymax", "double"),
    ("xcenter", "double"), ("ycenter", "double"), ("npixel", "double"), ("rms", "double"),
    ("boxx", "double"), ("boxy", "double"), ("boxwidth", "double"), ("boxheight", "double"),
    ("boxang", "double"),
)  # fmt: skip


def counters(images_path: str) -> "dict[str, int]":
    """The counter that mImgtbl gave to each image, by the image's name without ``.fits``."""
    found = {}
    with open(images_path) as table:
        for row in table:
            if not row.startswith(("|", "\\")) and row.strip():
                words = row.split()
                found[os.path.splitext(os.path.basename(words[-1]))[0]] = int(words[0])
    return found


def row_of(fit_path: str, counter_of: "dict[str, int]") -> str:
    """One row of the table; empty for a fit that failed."""
    with open(fit_path) as file:
        text = file.read()
    if 'stat="OK"' not in text:
        return ""
    _, plus, minus = os.path.splitext(os.path.basename(fit_path))[0].split("__")
    values = dict(re.findall(r"(\w+)=([-+.\deE]+|nan)", text))
    cells = [f"{counter_of[plus]:7d}", f"{counter_of[minus]:7d}"]
    # Copied as text: mBgModel reads some of them as integers, and stops at the "e" of an exponent.
    cells += [f"{values[name]:>16}" for name, _ in COLUMNS]
    return " " + " ".join(cells) + " \n"


def main() -> None:
    images_path, out_path, *fit_paths = sys.argv[1:]
    counter_of = counters(images_path)
    names = [f"{'plus':>7}", f"{'minus':>7}"] + [f"{name:>16}" for name, _ in COLUMNS]
    kinds = [f"{'int':>7}"] * 2 + [f"{kind:>16}" for _, kind in COLUMNS]
    with open(out_path, "w") as out:
        out.write("|" + "|".join(names) + "|\n|" + "|".join(kinds) + "|\n")
        for path in sorted(fit_paths):
            out.write(row_of(path, counter_of))


main()
