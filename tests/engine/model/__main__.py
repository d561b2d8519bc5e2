"""The soak: ``python -m tests.engine.model --seeds 0-9999``, or one world with ``--seed N``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter, defaultdict
from functools import partial

from tests.engine.model.explore import RULES, Outcome, explore
from tests.engine.model.world_of import world_of

SHOWN = 8
"""Number of failing seeds shown for each rule."""
TAIL = 15
"""Number of trace lines shown for a failing world."""


def main() -> int:
    """Run the soak or one world. Returns 1 if a world broke a rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.model", description=__doc__)
    parser.add_argument(
        "--seeds", default="0-999", help="first and last seed (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="run one world")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the whole run")
    parser.add_argument("--rule", help="count this rule alone")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    first, _, last = options.seeds.partition("-")
    return _soak(range(int(first), int(last or first) + 1), options.jobs, options.rule)


def _one(seed: int, *, trace: bool) -> int:
    outcome = explore(seed, traces=True, twice=True)
    print(world_of(seed).describe())
    print("\n".join(outcome.trace if trace else outcome.trace[-TAIL:]))
    print(f"ended {outcome.ended} after {outcome.steps} steps")
    _show(outcome)
    return int(bool(outcome.violations))


def _show(outcome: Outcome) -> None:
    for one in outcome.violations:
        print(f"seed {outcome.seed}: {one.rule}: {RULES[one.rule]}")
        print(f"  after {one.position} events: {one.message}")


def _soak(seeds: range, jobs: int, rule: str | None) -> int:
    by_rule: dict[str, list[int]] = defaultdict(list)
    shown: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    steps = 0
    with multiprocessing.Pool(jobs) as pool:
        for outcome in pool.imap(partial(_explore, rule=rule), seeds, chunksize=16):
            steps += outcome.steps
            ended[str(outcome.ended)] += 1
            for one in outcome.violations:
                by_rule[one.rule].append(outcome.seed)
            fresh = [v for v in outcome.violations if shown[v.rule] < 1]
            if fresh:
                shown.update(v.rule for v in fresh)
                _show(outcome._replace(violations=tuple(fresh)))
                print("  " + "\n  ".join(outcome.trace[-TAIL:]), flush=True)
    print(f"\n{len(seeds)} worlds, {steps} steps; ended {dict(ended)}")
    for name, failing in sorted(by_rule.items(), key=lambda item: -len(item[1])):
        more = " …" if len(failing) > SHOWN else ""
        print(f"{len(failing):6} {name}: {', '.join(map(str, failing[:SHOWN]))}{more}")
    return int(bool(by_rule))


def _explore(seed: int, *, rule: str | None) -> Outcome:
    """The result of a world, with the end of its trace if it broke a rule."""
    outcome = explore(seed, twice=seed % 10 == 0)
    violations = tuple(v for v in outcome.violations if rule is None or v.rule == rule)
    trace = explore(seed, traces=True).trace[-TAIL:] if violations else ()
    return outcome._replace(violations=violations, trace=trace, log=b"")


if __name__ == "__main__":
    sys.exit(main())
