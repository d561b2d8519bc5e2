"""Checks the boards of all walks, and draws the best one and what going back is good for.

    best.py OUTPUTS_DIR [PICTURE]

Reads the puzzles where it is called, and writes PICTURE (``eternity.png``). Exit status 1 says that
a board breaks the rules.
"""

from __future__ import annotations

import colorsys
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

Edges = tuple[int, ...]
"""Colours of the top, right, bottom and left edge."""

CORNERS = ((0, 0), (1, 0), (1, 1), (0, 1))
"""Corners of a cell, in the order of its edges."""
RIM, EMPTY = "#444444", "#f2f2f2"


def read_pieces(size: int) -> list[Edges]:
    lines = Path(f"puzzle-{size}.txt").read_text(encoding="ascii").splitlines()
    return [tuple(map(int, line.split())) for line in lines[1:]]


def lay(result: dict[str, Any]) -> list[Edges]:
    """The pieces of a board from the top left on. Raises ValueError if they do not match or a piece
    is used twice."""
    size, board = result["size"], result["board"]
    pieces = read_pieces(size)
    if len({number for number, _ in board}) < len(board):
        raise ValueError("a piece lies twice")
    turned = [pieces[number][turn:] + pieces[number][:turn] for number, turn in board]
    for at, (top, right, bottom, left) in enumerate(turned):
        row, column = divmod(at, size)
        if (
            top != (turned[at - size][2] if row else 0)
            or left != (turned[at - 1][1] if column else 0)
            or (right == 0) != (column == size - 1)
            or (bottom == 0) != (row == size - 1)
        ):
            raise ValueError(f"the piece in row {row + 1}, column {column + 1} does not match")
    return turned


def draw_board(axes: Axes, size: int, laid: list[Edges]) -> None:
    colours = sorted({colour for edges in read_pieces(size) for colour in edges} - {0})
    palette = {0: RIM}
    for number, colour in enumerate(colours):  # neighbours in hue differ in lightness
        hue = number / len(colours)
        palette[colour] = "#{:02x}{:02x}{:02x}".format(
            *(
                round(255 * part)
                for part in colorsys.hls_to_rgb(hue, (0.35, 0.55, 0.75)[number % 3], 0.8)
            )
        )
    triangles, fills = [], []
    for at, edges in enumerate(laid):
        row, column = divmod(at, size)
        for edge, colour in enumerate(edges):
            ends = (CORNERS[edge], CORNERS[(edge + 1) % 4], (0.5, 0.5))
            triangles.append([(column + x, row + y) for x, y in ends])
            fills.append(palette[colour])
    axes.set_facecolor(EMPTY)
    axes.add_collection(PolyCollection(triangles, facecolors=fills, edgecolors="none"))
    axes.hlines(range(size + 1), 0, size, colors="white", linewidth=0.8)
    axes.vlines(range(size + 1), 0, size, colors="white", linewidth=0.8)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal", xticks=[], yticks=[])


def draw_walks(axes: Axes, results: list[dict[str, Any]]) -> None:
    """Draw the filled part of the board over the number of pieces taken back."""
    shares: defaultdict[int, defaultdict[float, list[float]]]
    shares = defaultdict(lambda: defaultdict(list))
    for result in results:
        shares[result["size"]][result["back"]].append(100 * result["placed"] / result["size"] ** 2)
    for (size, by_back), mark in zip(sorted(shares.items()), "os^Dv", strict=False):
        backs = sorted(by_back)
        (line,) = axes.plot(
            backs, [fmean(by_back[b]) for b in backs], mark + "-", ms=5, label=f"{size}×{size}"
        )
        low, high = ([pick(by_back[b]) for b in backs] for pick in (min, max))
        axes.fill_between(backs, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({r["back"] for r in results}))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("pieces taken back at a dead end, on average")
    axes.set_ylabel("pieces that lie, % of the board")
    axes.set_ylim(0, 103)
    axes.set_title("mean and range over the seeds", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend()


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    outputs, picture = Path(sys.argv[1]), Path((*sys.argv, "eternity.png")[2])
    results = []
    for path in sorted(outputs.glob("*.json")):
        result = json.loads(path.read_text())
        try:
            lay(result)
        except ValueError as error:
            print(f"{path}: WRONG: {error}", file=sys.stderr)
            return 1
        results.append(result)
    if not results:
        print(f"there are no results (*.json) in {outputs}", file=sys.stderr)
        return 1
    largest = max(result["size"] for result in results)
    best = max((r for r in results if r["size"] == largest), key=lambda r: int(r["placed"]))
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_board(left, largest, lay(best))
    left.set_title(
        f"the best board: {best['placed']} of {largest**2} pieces, all edges match",
        fontsize="medium",
    )
    draw_walks(right, results)
    figure.savefig(picture, dpi=120)
    print(f"{len(results)} boards, all keep the rules: {picture}")
    for size in sorted({r["size"] for r in results}):
        found = [r for r in results if r["size"] == size]
        first = max(found, key=lambda r: int(r["placed"]))
        solved = sum(r["placed"] == size**2 for r in found)
        print(
            f"{size:>3}×{size:<3} best: {first['placed']} of {size**2} pieces"
            f" (back {first['back']:g}, seed {first['seed']}); solved by {solved} of {len(found)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
