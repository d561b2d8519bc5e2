"""Puts the results of the sweep into one table and one picture.

    plot.py OUTPUTS_DIR [PICTURE]

Writes PICTURE (``pivoting.png``) and beside it a table with the same name, in CSV.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

PANELS = {
    "backward_error": "backward error ‖b − Ax‖ / ‖b‖",
    "fill_in": "fill-in: elements of L + U per element of A",
    "cpu_s": "CPU time of the factorization [s]",
}
MARKS = "os^D"
EXACT = 1e-10
"""Backward error that is good enough."""


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    outputs, picture = Path(sys.argv[1]), Path((*sys.argv, "pivoting.png")[2])
    rows = [json.loads(path.read_text()) for path in outputs.glob("*.json")]
    if not rows:
        print(f"there are no results (*.json) in {outputs}", file=sys.stderr)
        return 1
    rows.sort(key=lambda row: (row["matrix"], row["threshold"]))
    with picture.with_suffix(".csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    figure = Figure(figsize=(12, 4), layout="constrained")
    matrices = list(dict.fromkeys(row["matrix"] for row in rows))
    for axes, (column, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for matrix, mark in zip(matrices, MARKS, strict=False):
            found = [row for row in rows if row["matrix"] == matrix]
            thresholds = [row["threshold"] for row in found]
            axes.loglog(thresholds, [row[column] for row in found], mark + "-", ms=4, label=matrix)
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("pivoting threshold")
        axes.grid(alpha=0.3)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(picture, dpi=120)
    print(f"{len(rows)} factorizations: {picture}, {picture.with_suffix('.csv')}")
    for matrix in matrices:
        found = [row for row in rows if row["matrix"] == matrix]
        best, worst = (f(row["backward_error"] for row in found) for f in (min, max))
        least, most = (f(row["fill_in"] for row in found) for f in (min, max))
        print(f"{matrix:>10}: error {best:.0e} to {worst:.0e}, fill-in {least:.0f} to {most:.0f}")
        exact = [row["fill_in"] for row in found if row["backward_error"] < EXACT]
        if exact:
            print(f"{'':>10}  least fill-in with an error below {EXACT:.0e}: {min(exact):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
