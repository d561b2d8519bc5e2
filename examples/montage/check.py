"""Checks a mosaic against the sky that its tiles were made of.

    check.py WORKFLOW_DIR OUTPUTS_DIR

What is left of the mosaic when the true sky and one plane (which nobody can know) are taken away
has to be noise, and much less than without the correction of the tiles' backgrounds. Exit status 1
says that it is not.
"""

from __future__ import annotations

import math
import sys
from array import array
from pathlib import Path

BANDS = ("red", "green", "blue")
RESIDUAL_LIMIT = 8.0
"""Median absolute residual, in counts. A tile's noise has a standard deviation of 8."""
GAIN_LIMIT = 4.0
"""The uncorrected mosaic has to be at least so many times worse."""


def read_fits(path: Path) -> tuple[int, array[float]]:
    """Width and pixels of a FITS image of 64-bit floats; see the FITS Standard 4.0, section 4."""
    data = path.read_bytes()
    cards: dict[str, str] = {}
    offset = 0
    while "END" not in cards:
        card = data[offset : offset + 80].decode("ascii")
        cards[card[:8].strip()] = card[10:].split("/")[0].strip()
        offset += 80
    if cards["BITPIX"] != "-64":
        raise SystemExit(f"{path}: has {cards['BITPIX']} bits a pixel, -64 expected")
    width, height = int(cards["NAXIS1"]), int(cards["NAXIS2"])
    start = math.ceil(offset / 2880) * 2880
    pixels = array("d", data[start : start + 8 * width * height])
    if sys.byteorder == "little":
        pixels.byteswap()
    return width, pixels


def solve(matrix: list[list[float]]) -> list[float]:
    """The solution of three linear equations, given as rows of four numbers."""
    for column in range(3):
        pivot = max(range(column, 3), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in range(3):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [
                    a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)
                ]
    return [matrix[row][3] / matrix[row][row] for row in range(3)]


def residual(mosaic: Path, truth: Path) -> float:
    """Median absolute difference of two images but for a plane, where both have pixels."""
    width, seen = read_fits(mosaic)
    truth_width, true = read_fits(truth)
    if (width, len(seen)) != (truth_width, len(true)):
        raise SystemExit(f"{mosaic}: is not as large as {truth}")
    points = [
        (i % width, i // width, a - b)
        for i, (a, b) in enumerate(zip(seen, true, strict=True))
        if not math.isnan(a) and b < 1200  # where stars are bright, resampling decides
    ]
    if len(points) < len(seen) / 2:
        raise SystemExit(f"{mosaic}: more than half of the pixels are blank")
    sums = [[0.0] * 4 for _ in range(3)]
    for x, y, value in points:
        terms = (1.0, x, y)
        for row in range(3):
            for column in range(3):
                sums[row][column] += terms[row] * terms[column]
            sums[row][3] += terms[row] * value
    level, slope_x, slope_y = solve(sums)
    left = sorted(abs(value - level - slope_x * x - slope_y * y) for x, y, value in points)
    return left[len(left) // 2]


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    workflow, outputs = Path(sys.argv[1]), Path(sys.argv[2])
    good = True
    for band in BANDS:
        truth = workflow / f"truth_{band}.fits"
        corrected = residual(outputs / f"mosaic_{band}.fits", truth)
        uncorrected = residual(outputs / f"uncorrected_{band}.fits", truth)
        good = good and corrected < RESIDUAL_LIMIT and uncorrected > GAIN_LIMIT * corrected
        print(f"{band:>6}: off by {corrected:.1f} counts, {uncorrected:.1f} without the correction")
    for name in ("mosaic.png", "uncorrected.png"):
        good = good and (outputs / name).read_bytes().startswith(b"\x89PNG\r\n")
    print(f"the mosaic is {'as it should be' if good else 'WRONG'}: {outputs / 'mosaic.png'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
