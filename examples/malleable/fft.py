"""A malleable Fourier transform over a power of two of processes.

    python fft.py SIDE REPEATS [--start 'ssh {node}']

It transforms SIDE·SIDE numbers (SIDE a power of two) again and again: the columns of the square, a
twiddle, and its rows, each shared equally among the processes. It takes the largest power of two of
the processors that it is offered, and prints the numbers of the last transform. The result is that
of one process, to the last bit.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, arg-type"

import argparse
import cmath
import random

from workers import Workers, serve


def fft(values):
    """The transform of a power of two of numbers."""
    count = len(values)
    if count == 1:
        return values
    even, odd = fft(values[::2]), fft(values[1::2])
    turned = [cmath.exp(-2j * cmath.pi * n / count) * odd[n] for n in range(count // 2)]
    return [e + t for e, t in zip(even, turned)] + [e - t for e, t in zip(even, turned)]


def lines(side, part):
    """Transforms of the lines of a part; its first number turns them by their twiddles, unless it
    is None."""
    first, rows = part
    found = []
    for n, row in enumerate(rows):
        row = fft(row)
        if first is not None:
            turn = -2j * cmath.pi * (first + n) / side**2
            row = [value * cmath.exp(turn * k) for k, value in enumerate(row)]
        found.append(row)
    return found


def sent_lines(side, part):
    """The same for a worker: complex numbers are pairs."""
    first, rows = part
    return to_pairs(lines(side, (first, from_pairs(rows))))


def to_pairs(rows):
    return [[[value.real, value.imag] for value in row] for row in rows]


def from_pairs(rows):
    return [[complex(*pair) for pair in row] for row in rows]


def power_of_two(processors):
    """The largest power of two, 0 for none."""
    return 1 << (processors.bit_length() - 1) if processors > 0 else 0


def transform(values, side, run):
    """The six-step transform; ``run(rows, twiddle)`` transforms lines."""
    columns = run([values[n::side] for n in range(side)], True)
    rows = run([list(row) for row in zip(*columns)], False)
    return [value for column in zip(*rows) for value in column]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("side", type=int)
    parser.add_argument("repeats", type=int)
    parser.add_argument("--start", default="")
    options = parser.parse_args()
    side = options.side
    if side != power_of_two(side):
        parser.error("SIDE must be a power of two")
    workers = Workers(
        __file__, lambda processors: min(side, power_of_two(processors)), options.start
    )

    def run(rows, twiddle):
        workers.adapt()
        each = side // len(workers)
        parts = [
            (first if twiddle else None, to_pairs(rows[first : first + each]))
            for first in range(0, side, each)
        ]
        results, _ = workers.run(sent_lines, side, parts)
        return [row for result in results for row in from_pairs(result)]

    chance = random.Random(side)
    values = [complex(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(side * side)]
    try:
        for _ in range(options.repeats):
            values = [value / side for value in transform(values, side, run)]
        for value in values:
            print(value.real.hex(), value.imag.hex())
    finally:
        workers.close()


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["worker"]:
        serve({"sent_lines": sent_lines}, sys.argv[2:])
    else:
        main()
