"""Simulates one part of the paths of an Asian option's share, and sums up the payoffs.

    price.py --seed 17 [--paths 5000]

A call on the average of a share's price on 50 days: what it pays at the end is the average less
the strike price, if that is positive. The share follows a geometric Brownian motion. Each path
gives the payoff on the arithmetic average, whose expectation nobody knows a formula for, and on
the geometric average, whose expectation is known (Kemna and Vorst, 1990). Prints one JSON object
with the sums that the parts' merge needs. Needs Python 3.6 alone.
"""

import argparse
import json
import math
import random

SPOT, STRIKE, RATE, VOLATILITY, YEARS, DAYS = 100.0, 100.0, 0.05, 0.3, 1.0, 50


def payoffs(rng: random.Random) -> "tuple[float, float]":
    """Discounted payoffs of one path, on the arithmetic and on the geometric average."""
    step = YEARS / DAYS
    drift, spread = (RATE - VOLATILITY**2 / 2) * step, VOLATILITY * math.sqrt(step)
    log_price = math.log(SPOT)
    total = log_total = 0.0
    for _ in range(DAYS):
        log_price += drift + spread * rng.gauss(0, 1)
        total += math.exp(log_price)
        log_total += log_price
    discount = math.exp(-RATE * YEARS)
    arithmetic = max(total / DAYS - STRIKE, 0)
    geometric = max(math.exp(log_total / DAYS) - STRIKE, 0)
    return discount * arithmetic, discount * geometric


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate paths of an Asian option's share.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--paths", type=int, default=5000)
    args = parser.parse_args()
    rng = random.Random(f"asian option {args.seed}")
    pairs = [payoffs(rng) for _ in range(args.paths)]
    sums = {
        "seed": args.seed,
        "paths": args.paths,
        "x": sum(x for x, _ in pairs),
        "y": sum(y for _, y in pairs),
        "xx": sum(x * x for x, _ in pairs),
        "yy": sum(y * y for _, y in pairs),
        "xy": sum(x * y for x, y in pairs),
    }
    print(json.dumps(sums))


if __name__ == "__main__":
    main()
