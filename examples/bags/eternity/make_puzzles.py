"""Makes edge-matching puzzles like Eternity II, whose own pieces are not free to use.

    make_puzzles.py [--sizes 6,10,16] [--seed 1]

Writes ``puzzle-SIZE.txt`` for each size: first the size, then a line for each piece with the
colours of its top, right, bottom and left edge. 0 is the rim. A solved board is coloured at random,
with as many colours for its size as Eternity II has for 16×16 (5 beside the rim, 17 inside), and
then taken to pieces, which are turned and shuffled. Needs Python 3.6 alone.
"""

import argparse
import random

RIM_COLOURS, INNER_COLOURS, SIZE = 5, 17, 16


def make_pieces(size: int, rng: random.Random) -> "list[list[int]]":
    """The shuffled pieces of one puzzle."""
    on_rim = max(2, round(RIM_COLOURS * size / SIZE))
    inside = max(3, round(INNER_COLOURS * size / SIZE))

    def colours(low: int, count: int, wanted: int) -> "list[int]":
        """``count`` edges with all colours about equally often, in random order."""
        found = [low + number % count for number in range(wanted)]
        rng.shuffle(found)
        return found

    rim = colours(1, on_rim, 4 * (size - 1))
    inner = colours(1 + on_rim, inside, 2 * (size - 1) * (size - 2))
    right = {}  # of a cell: the colour between it and its neighbour
    below = {}
    for row in range(size):
        for column in range(size):
            if column < size - 1:
                right[row, column] = (rim if row in (0, size - 1) else inner).pop()
            if row < size - 1:
                below[row, column] = (rim if column in (0, size - 1) else inner).pop()
    pieces = []
    for row in range(size):
        for column in range(size):
            edges = [
                below.get((row - 1, column), 0),
                right.get((row, column), 0),
                below.get((row, column), 0),
                right.get((row, column - 1), 0),
            ]
            turn = rng.randrange(4)
            pieces.append(edges[turn:] + edges[:turn])
    rng.shuffle(pieces)
    return pieces


def main() -> None:
    parser = argparse.ArgumentParser(description="Make edge-matching puzzles.")
    parser.add_argument("--sizes", default="6,10,16", help="of the boards, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for size in map(int, args.sizes.split(",")):
        pieces = make_pieces(size, random.Random(f"puzzle {size} {args.seed}"))
        with open(f"puzzle-{size}.txt", "w", encoding="ascii") as file:
            print(size, file=file)
            for piece in pieces:
                print(*piece, file=file)
        print(f"puzzle-{size}.txt: {size * size} pieces")


if __name__ == "__main__":
    main()
