"""Puts the affinities of all dockings into a table and a picture.

    affinities.py OUTPUTS_DIR MOLECULES_DIR [PICTURE]

MOLECULES_DIR is what ``dock --write`` wrote. Writes PICTURE (``affinities.png``) and beside it a
table with the same name, in CSV.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from itertools import combinations
from math import dist
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Atom = tuple[str, str, tuple[float, float, float]]
"""An atom: residue, Vina's type, position in ångströms."""

COLOURS = {"C": "0.35", "A": "0.35", "O": "tab:red", "N": "tab:blue", "H": "0.8"}
HALOGENS = {"F": "tab:green", "Cl": "tab:green", "Br": "tab:brown"}
BOND_A, HYDROGEN_BOND_A = 1.98, 1.2
"""Maximum length of a bond, and minimum distance of atoms without one, in ångströms."""
SLICE_A = 4.0
"""Maximum height above or below the molecule of the residues that are drawn, in ångströms."""


def read_model(path: Path) -> list[Atom]:
    """The atoms of the first model of a PDBQT file."""
    atoms = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("ENDMDL"):
            break
        if line.startswith("ATOM"):
            place = (float(line[30:38]), float(line[38:46]), float(line[46:54]))
            atoms.append((line[17:26], line[77:].strip(), place))
    return atoms


def draw_bars(axes: Axes, found: dict[str, list[float]]) -> None:
    """The best affinity of each molecule as a bar, and a dot for each docking."""
    names = list(found)
    axes.barh(names, [min(found[name]) for name in names], color="tab:blue", alpha=0.5)
    for name in names:
        axes.plot(found[name], [name] * len(found[name]), "k.", ms=5)
    axes.invert_yaxis()
    axes.invert_xaxis()
    axes.set_xlabel("affinity [kcal/mol]; a dot for each seed")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def draw_sticks(axes: Axes, atoms: list[Atom], width: float, alpha: float) -> None:
    """Bonds from above, each half in its atom's colour; the upper ones last."""
    bonds = [
        (first, second)
        for first, second in combinations(atoms, 2)
        if dist(first[2], second[2])
        < (HYDROGEN_BOND_A if "HD" in (first[1], second[1]) else BOND_A)
    ]
    for first, second in sorted(bonds, key=lambda bond: bond[0][2][2]):
        middle = [(a + b) / 2 for a, b in zip(first[2], second[2], strict=True)]
        for _, kind, place in (first, second):
            colour = HALOGENS.get(kind) or COLOURS[kind[0]]
            ends = ([place[0], middle[0]], [place[1], middle[1]])
            axes.plot(*ends, color=colour, linewidth=width, alpha=alpha, solid_capstyle="round")


def draw_pose(axes: Axes, receptor: list[Atom], pose: list[Atom]) -> None:
    """The docked molecule and the helices around it, along the bundle's axis."""
    height = sum(place[2] for _, _, place in pose) / len(pose)
    near = {residue for residue, _, place in receptor if abs(place[2] - height) < SLICE_A}
    draw_sticks(axes, [atom for atom in receptor if atom[0] in near], 1.2, 0.5)
    draw_sticks(axes, pose, 5, 1)
    axes.set(aspect="equal", xlim=(-12, 12), ylim=(-12, 12), xlabel="x [Å]", ylabel="y [Å]")


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    outputs, molecules = Path(sys.argv[1]), Path(sys.argv[2])
    picture = Path((*sys.argv, "affinities.png")[3])
    found: defaultdict[str, list[float]] = defaultdict(list)
    best: dict[str, Path] = {}
    for path in sorted(outputs.glob("*.json")):
        result = json.loads(path.read_text())
        name, affinity = result["ligand"], result["affinities"][0]
        if affinity < min(found[name], default=0):
            best[name] = path.with_suffix(".pdbqt")
        found[name].append(affinity)
    if not best:
        print(f"there are no results (*.json) in {outputs}", file=sys.stderr)
        return 1
    ranked = {name: found[name] for name in sorted(found, key=lambda name: min(found[name]))}
    with picture.with_suffix(".csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ligand", "best affinity [kcal/mol]", "worst of the seeds", "dockings"])
        for name, affinities in ranked.items():
            table.writerow([name, min(affinities), max(affinities), len(affinities)])
            print(f"{name:>15} {min(affinities):7.2f} kcal/mol")
    first = next(iter(ranked))
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_bars(left, ranked)
    draw_pose(right, read_model(molecules / "receptor.pdbqt"), read_model(best[first]))
    right.set_title(f"{first} among the four helices", fontsize="medium")
    figure.savefig(picture, dpi=120)
    print(f"{sum(map(len, found.values()))} dockings: {picture}, {picture.with_suffix('.csv')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
