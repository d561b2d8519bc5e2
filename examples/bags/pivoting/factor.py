"""Factors one sparse matrix with one pivoting threshold, and says what came of it.

    factor.py MATRIX EXPONENT [--size 3000] [--seed 1]

SuperLU takes the diagonal element as the pivot of a column where it is at least the threshold,
10**EXPONENT, times the largest element of that column. The columns are ordered for the pattern of
A + A', as one does where the diagonal is hoped to do. Needs SciPy 1.12. Prints one JSON object; the
backward error is ||b - Ax|| / ||b||, the fill-in the elements of L and U for each one of A.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

Matrix = Any
"""A sparse array of SciPy, which is untyped."""


def convection(size: int, rng: np.random.Generator) -> Matrix:
    """A flow through a square, too strong for the grid, by central differences."""
    side = round(size**0.5)
    across = sparse.diags_array([-21.0, 2.0, 19.0], offsets=[-1, 0, 1], shape=(side, side))
    down = sparse.diags_array([-15.0, 2.0, 13.0], offsets=[-1, 0, 1], shape=(side, side))
    one = sparse.eye_array(side)
    return sparse.kron(across, one) + sparse.kron(one, down)


def saddle(size: int, rng: np.random.Generator) -> Matrix:
    """The optimality conditions of a quadratic program, slightly regularised."""
    constraints = size // 3
    free = size - constraints
    hessian = sparse.diags_array(
        [np.full(free - 1, 0.5), rng.uniform(1, 10, free), np.full(free - 1, 0.5)],
        offsets=[-1, 0, 1],
    )
    jacobian = random_elements(constraints, free, 3, rng)
    return sparse.block_array(
        [[hessian, jacobian.T], [jacobian, -1e-8 * sparse.eye_array(constraints)]]
    )


def scattered(size: int, rng: np.random.Generator) -> Matrix:
    """Five random elements in each row; those on the diagonal may be small too."""
    side = size // 2
    return random_elements(side, side, 4, rng) + sparse.diags_array(rng.standard_normal(side))


def scaled(size: int, rng: np.random.Generator) -> Matrix:
    """Random bands, with rows whose units differ by up to eight orders of magnitude."""
    bands = [rng.standard_normal(size) for _ in range(7)]
    banded = sparse.dia_array((bands, [-40, -2, -1, 0, 1, 2, 40]), shape=(size, size))
    return sparse.diags_array(10 ** rng.uniform(-4, 4, size)) @ banded


def random_elements(rows: int, columns: int, per_row: int, rng: np.random.Generator) -> Matrix:
    count = rows * per_row
    where = (rng.integers(rows, size=count), rng.integers(columns, size=count))
    return sparse.coo_array((rng.standard_normal(count), where), shape=(rows, columns))


MATRICES = {matrix.__name__: matrix for matrix in (convection, saddle, scattered, scaled)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Factor a matrix with a pivoting threshold.")
    parser.add_argument("matrix", choices=sorted(MATRICES))
    parser.add_argument("exponent", type=float, help="the threshold is 10 to the power of it")
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    matrix = sparse.csc_array(MATRICES[args.matrix](args.size, np.random.default_rng(args.seed)))
    right = matrix @ np.ones(matrix.shape[0])
    threshold = 10.0**args.exponent
    started = time.process_time()
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=threshold)
    solution = factors.solve(right)
    elapsed = time.process_time() - started
    result = {
        "matrix": args.matrix,
        "threshold": threshold,
        "backward_error": np.linalg.norm(right - matrix @ solution) / np.linalg.norm(right),
        "fill_in": (factors.L.nnz + factors.U.nnz) / matrix.nnz,
        "cpu_s": elapsed,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
