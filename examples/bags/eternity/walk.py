"""Searches for a solution of an edge-matching puzzle by random walks.

    walk.py PUZZLE --back MEAN --seed SEED [--steps 500000]

A walk puts pieces down row by row, each time a random one of those that fit. Where none fits it
takes back a random number of pieces, MEAN on average, and goes on from there. When it has been at
as many dead ends as the board has cells, times 20, without getting further than before, it starts
anew with an empty board. Prints one JSON object with the best partial solution that was found in
so many steps: the size, how many pieces lie, and from the top left on each one's number and how
often it is turned to the left. Needs Python 3.6 alone.
"""

import argparse
import json
import random


class Puzzle:
    """The pieces, indexed by where they fit."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="ascii") as file:
            lines = [tuple(map(int, line.split())) for line in file]
        self.size = lines[0][0]
        pieces = lines[1:]
        if len(pieces) != self.size**2:
            raise SystemExit(f"{path}: {len(pieces)} pieces for {self.size}×{self.size} cells")
        # By the colours to the left and above, and whether the right and the lower edge are rim:
        # the piece, its turn, and its right and lower colour.
        self.fitting: dict[tuple[int, int, bool, bool], list[tuple[int, int, int, int]]] = {}
        for number, piece in enumerate(pieces):
            for turn in range(4):
                top, right, bottom, left = piece[turn:] + piece[:turn]
                key = (left, top, right == 0, bottom == 0)
                self.fitting.setdefault(key, []).append((number, turn, right, bottom))


def walk(
    puzzle: Puzzle, back: float, steps: int, rng: random.Random
) -> "tuple[list[tuple[int, int]], int]":
    """The longest partial solution, as pieces and turns, and the number of walks."""
    size, fitting = puzzle.size, puzzle.fitting
    cells = size * size
    patience = 20 * cells
    best: list[tuple[int, int]] = []
    walks = 1
    placed: list[tuple[int, int, int, int]] = []
    used: set[int] = set()
    deepest = dead_ends = 0
    for _ in range(steps):
        at = len(placed)
        row, column = divmod(at, size)
        key = (
            placed[-1][2] if column else 0,
            placed[at - size][3] if row else 0,
            column == size - 1,
            row == size - 1,
        )
        found = [option for option in fitting.get(key, ()) if option[0] not in used]
        if found:
            option = found[int(rng.random() * len(found))]
            placed.append(option)
            used.add(option[0])
            if at == deepest:
                deepest, dead_ends = at + 1, 0
                if deepest > len(best):
                    best = [(number, turn) for number, turn, _, _ in placed]
                    if deepest == cells:
                        break
            continue
        dead_ends += 1
        keep = max(0, at - 1 - int(rng.expovariate(1 / back)))
        if dead_ends > patience:
            keep = deepest = dead_ends = 0
            walks += 1
        used.difference_update(option[0] for option in placed[keep:])
        del placed[keep:]
    return best, walks


def main() -> None:
    parser = argparse.ArgumentParser(description="Search for a solution by random walks.")
    parser.add_argument("puzzle")
    parser.add_argument("--back", type=float, required=True, help="pieces taken back, on average")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=500000)
    args = parser.parse_args()
    puzzle = Puzzle(args.puzzle)
    rng = random.Random(f"walk {args.back:g} {args.seed}")
    board, walks = walk(puzzle, args.back, args.steps, rng)
    result = {"size": puzzle.size, "back": args.back, "seed": args.seed, "walks": walks}
    print(json.dumps(dict(result, placed=len(board), board=board)))


if __name__ == "__main__":
    main()
