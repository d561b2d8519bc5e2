"""Numbers of the papers.

Sources: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010,
chapter 7; J. M. Ramírez-Alcaraz et al., Journal of Grid Computing 9, 2011, section 6.2. Figures are
pictures without numbers, in both; what the text says about them is in the claims.
"""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A line of Table 7.2, with values without and with correction."""

    nonzero: float
    accuracy: float
    error_min: float
    corrected_accuracy: float
    corrected_error_min: float


TABLE_7_2: dict[str, Point] = {
    "DAS-2 FS1": Point(0.20, 0.60, 110, 0.64, 121),
    "DAS-2 FS3": Point(0.35, 0.54, 307, 0.55, 292),
    "DAS-3 FS3": Point(0.80, 0.30, 364, 0.35, 350),
    "DAS-3 FS4": Point(0.70, 0.51, 451, 0.60, 442),
    "Grid5K G1/S1/C3": Point(0.60, 0.51, 322, 0.63, 256),
    "Grid5K G1/S6/C1": Point(0.10, 0.56, 852, 0.61, 653),
    "AUVER clrlcgce01": Point(0.20, 0.57, 203, 0.64, 180),
    "AUVER clrlcgce03": Point(0.67, 0.63, 190, 0.69, 172),
}
"""Table 7.2, whose values are over the jobs that waited."""


class Bound(NamedTuple):
    """A line of Table 7.3; the last three are shares of the predictions."""

    error_min: float
    accuracy: float
    under: float
    perfect: float
    over: float


TABLE_7_3: dict[str, dict[str, Bound]] = {
    "bmbp": {
        "DAS-2 FS1": Bound(16, 0.50, 0.08, 0.09, 0.83),
        "DAS-3 FS4": Bound(26, 0.41, 0.15, 0.04, 0.81),
        "AUVER clrlcgce01": Bound(376, 0.20, 0.12, 0.01, 0.87),
        "Grid5K G1/S1/C3": Bound(31, 0.72, 0.20, 0.00, 0.80),
    },
    "chebyshev": {
        "DAS-2 FS1": Bound(52, 0.21, 0.08, 0.00, 0.92),
        "DAS-3 FS4": Bound(101, 0.23, 0.07, 0.01, 0.82),
        "AUVER clrlcgce01": Bound(1236, 0.10, 0.07, 0.00, 0.93),
        "Grid5K G1/S1/C3": Bound(1093, 0.24, 0.16, 0.00, 0.84),
    },
}

ACCURACY_GAIN = (0.01, 0.10)
"""Section 7.3.1: range by which the correction increases the mean accuracy."""
ERROR_GAIN = (0.01, 0.16)
"""Section 7.3.1: range of the share by which the correction reduces the mean absolute error."""

POLICIES = ("ECT-Perfect", "ECT-Last2", "LB", "FPF")


class GridLine(NamedTuple):
    """A column of Table 7.6."""

    response_s: float
    wait_s: float
    slowdown: float


TABLE_7_6: dict[str, dict[str, GridLine]] = {
    "das3": {
        "ECT-Perfect": GridLine(1320, 105, 1.7),
        "ECT-Last2": GridLine(1400, 186, 1.6),
        "LB": GridLine(4318, 3061, 80),
        "FPF": GridLine(1911, 681, 26),
    },
    "auver": {
        "ECT-Perfect": GridLine(40951, 6515, 48),
        "ECT-Last2": GridLine(41003, 6574, 43.6),
        "LB": GridLine(40959, 6534, 48),
        "FPF": GridLine(41334, 6898, 50.88),
    },
}
