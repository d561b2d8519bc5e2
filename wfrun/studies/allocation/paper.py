"""Numbers of the paper.

Source: J. M. Ramírez-Alcaraz et al., "Job allocation strategies with user run time estimates for
online scheduling in hierarchical Grids", Journal of Grid Computing 9, 2011, Tables 4 and 6. Figures
1 to 5 are made of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Degradation(NamedTuple):
    """A line of Table 4: degradations in percent."""

    wait: float
    slowdown: float
    weighted: float
    mean: float
    """The mean stated in the table. The paper computed it from the three values before rounding
    them."""


TABLE_4: dict[str, dict[str, Degradation]] = {
    "Grid1": {
        "Random": Degradation(51929, 41924, 3, 31285),
        "MLp": Degradation(119, 71, 0, 63),
        "MPL": Degradation(0, 0, 0, 0),
        "LBal_S": Degradation(11, 18, 0, 10),
        "LBal_T": Degradation(136322, 75442, 28, 70597),
        "LBal_W": Degradation(1006, 899, 0, 635),
        "MLB": Degradation(463, 408, 0, 290),
        "MCT": Degradation(1256, 1284, 0, 847),
        "MWT": Degradation(252, 204, 0, 152),
        "MWWT_S": Degradation(17303, 12576, 1, 9960),
        "MWWT_T": Degradation(8073, 7382, 1, 5152),
        "MWWT_W": Degradation(15506, 12889, 1, 9465),
        "MST": Degradation(80, 91, 0, 57),
        "MSWCT_W": Degradation(70233, 47821, 2, 39352),
    },
    "Grid2": {
        "Random": Degradation(18027, 12196, 0, 10074),
        "MLp": Degradation(153, 53, 0, 69),
        "MPL": Degradation(0, 0, 0, 0),
        "LBal_S": Degradation(70, 17, 0, 29),
        "LBal_T": Degradation(4205, 2569, 0, 2258),
        "LBal_W": Degradation(5743, 3346, 0, 3030),
        "MLB": Degradation(1799, 754, 0, 851),
        "MCT": Degradation(4833, 4001, 0, 2945),
        "MWT": Degradation(933, 628, 0, 520),
        "MWWT_S": Degradation(9132, 7550, 0, 5561),
        "MWWT_T": Degradation(30822, 27638, 0, 19487),
        "MWWT_W": Degradation(51768, 68410, 0, 40059),
        "MST": Degradation(252, 111, 0, 121),
        "MSWCT_W": Degradation(6515, 3858, 0, 3458),
    },
}

_COLUMNS = ("MCT", "MLB", "LBal_S", "LBal_T", "LBal_W", "MLp", "MPL", "Random", "MST", "MSWCT_W",
            "MWWT_S", "MWT", "MWWT_T", "MWWT_W")  # fmt: skip
_ROWS: dict[str, tuple[float, ...]] = {
    "ρ": (0, 0, 0, 16, 1, 1, 0, 12, 0, 14, 4, 0, 1, 6),
    "SD": (3618, 750, 15, 52769, 2743, 77, 0, 35715, 105, 37224, 17633, 617, 22968, 100564),
    "SD_b": (2643, 581, 17, 39005, 2122, 62, 0, 27060, 101, 25839, 10063, 416, 17510, 40650),
    "Th": (0, 0, 0, 12, 1, 1, 0, 10, 0, 11, 3, 0, 1, 5),
    "TA": (70, 26, 1, 2564, 74, 4, 0, 1134, 4, 1363, 408, 14, 445, 783),
    "U": (0, 0, 0, 12, 1, 1, 0, 10, 0, 11, 3, 0, 1, 5),
    "t_w": (3045, 1131, 40, 70264, 3374, 136, 0, 34978, 166, 38374, 13217, 593, 19447, 33637),
    "LBal_s": (2112, 2159, 195, 1913, 2597, 416, 118, 1483, 20, 1186, 166, 50, 2214, 1769),
    "LBal_t": (612, 1516, 2033, 989, 1827, 0, 2046, 1926, 1933, 4390, 2094, 532, 411, 1815),
    "LBal_w": (134, 72, 16, 1066, 30, 231, 82, 801, 0, 671, 165, 44, 204, 224),
    "SCT": (0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0),
    "SWCT_s": (0, 0, 0, 8, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1),
    "SWCT_t": (0, 0, 0, 4, 0, 0, 0, 1, 0, 3, 1, 0, 0, 0),
    "SWCT_w": (0, 0, 0, 14, 0, 0, 0, 2, 0, 1, 1, 0, 1, 1),
    "SWT": (3045, 1131, 40, 70264, 3375, 136, 0, 34978, 166, 38374, 13217, 593, 19447, 33638),
    "SWWT_s": (539, 285, 5, 37910, 700, 115, 3, 5931, 20, 2745, 2420, 209, 3550, 3803),
    "SWWT_t": (1118, 1341, 29, 108146, 3433, 249, 0, 38381, 61, 66011, 15620, 416, 9855, 20091),
    "SWWT_w": (621, 164, 8, 102965, 438, 134, 2, 12331, 35, 8169, 4929, 283, 4479, 4964),
    "WTA_s": (117, 62, 1, 9981, 148, 27, 1, 1485, 4, 696, 590, 45, 787, 879),
    "WTA_t": (4, 4, 0, 796, 10, 1, 0, 234, 0, 474, 95, 2, 33, 79),
    "WTA_w": (22, 6, 0, 3838, 15, 5, 0, 453, 1, 302, 179, 10, 156, 176),
    "WWT_s": (539, 285, 5, 37910, 700, 115, 3, 5931, 20, 2745, 2420, 209, 3550, 3803),
    "WWT_t": (1118, 1341, 29, 108146, 3433, 249, 0, 38381, 61, 66011, 15620, 416, 9855, 20091),
    "WWT_w": (621, 164, 8, 102965, 438, 134, 2, 12331, 35, 8169, 4929, 283, 4479, 4964),
}
TABLE_6: dict[str, dict[str, float]] = {
    symbol: dict(zip(_COLUMNS, values, strict=True)) for symbol, values in _ROWS.items()
}
"""Degradation in percent, mean of both grids, by metric and strategy."""
TABLE_6_AVERAGE = dict(
    zip(_COLUMNS, (832, 459, 102, 31315, 1061, 87, 94, 10565, 114, 12616, 4324, 197, 4975, 11331),
        strict=True)
)  # fmt: skip
"""The last line of Table 6: the average over the metrics, by strategy."""

BEST = ("MPL", "LBal_S")
NEXT = ("MLp", "MST")
WEIGHTED = ("LBal_T", "LBal_W", "MWWT_T", "MWWT_W", "MWWT_S", "MSWCT_W")
"""Section 6.1: the strategies that are always on positions 9 to 14."""
EFFICIENT = ("MCT", "MST")
"""The strategies that minimize the makespan."""
AS_EFFICIENT = ("MLB", "LBal_S", "MLp", "MPL", "MWT")
"""The strategies whose makespans differ negligibly from those of ``EFFICIENT``."""
WORSE_THAN_MPL = {"LBal_S": 19.0, "MLp": 69.67, "MST": 90.43}
"""Section 6.1: percent by which strategies are worse than MPL, mean over all metrics and grids."""
