"""Makes a text and the workflow that counts its words, with programs that any machine has.

    make_workflow.py OUT_DIR [--parts 24] [--seed 1]

The text is split into parts, the words of each part are counted, the counts are merged in groups
and then all together, and the most frequent words are listed; beside that the lines and words of
all parts are summed. OUT_DIR then holds the text, the scripts, ``wordcount.dax`` and, for check.py,
the results as Python finds them.
"""

from __future__ import annotations

import argparse
import shutil
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from random import Random
from xml.sax.saxutils import escape, quoteattr

HERE = Path(__file__).parent
SCRIPTS = ("count_words.sh", "merge_counts.sh", "top_words.sh")
FINAL = ("counts.txt", "top_words.txt", "totals.txt")

LINES_PER_PART = 400
WORDS_PER_LINE = 12
VOCABULARY = 3000
TOP = 20
GROUP = 6
"""Maximum number of counts that one task merges."""

RUNTIME_S = {"split": 0.01, "wc": 0.01, "awk": 0.01}
SCRIPT_RUNTIME_S = 0.05
"""Measured on an ordinary machine, for policies that use run times and sizes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One task. Words of ``arguments`` that are names of its files become file references."""

    id: str
    program: str
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    stdin: str | None = None
    stdout: str | None = None


def make_text(lines: int, rng: Random) -> list[str]:
    """Lines of random words, with the frequencies of a natural language (Zipf's law)."""
    syllables = [a + b for a, b in product("bdfgklmnprstvz", "aeiou")]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(rng.choices(syllables, k=rng.randint(1, 4)))] = None
    cumulative = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    vocabulary = list(words)
    text = []
    for _ in range(lines):
        chosen = rng.choices(vocabulary, cum_weights=cumulative, k=rng.randint(1, WORDS_PER_LINE))
        text.append(" ".join(chosen).capitalize() + rng.choice(".,;:!?"))
    return text


def part_names(parts: int) -> list[str]:
    """The names that ``split -a 3`` gives."""
    letters = product(string.ascii_lowercase, repeat=3)
    return ["part_" + "".join(next(letters)) for _ in range(parts)]


def make_jobs(parts: Sequence[str]) -> list[Job]:
    split = ("-a", "3", "-l", str(LINES_PER_PART), "text.txt", "part_")
    jobs = [Job("split", "split", split, ("text.txt",), tuple(parts))]
    counts, sizes = [], []
    for part in parts:
        count, size = f"counts_{part}.txt", f"size_{part}.txt"
        read = ("count_words.sh", part)
        jobs.append(Job(f"count_{part}", "count_words.sh", (part,), read, stdout=count))
        jobs.append(Job(f"size_{part}", "wc", ("-l", "-w"), (), stdin=part, stdout=size))
        counts.append(count)
        sizes.append(size)
    level = 0
    while len(counts) > 1:
        groups = [counts[i : i + GROUP] for i in range(0, len(counts), GROUP)]
        counts = []
        for i, group in enumerate(groups):
            name = "counts.txt" if len(groups) == 1 else f"merged_{level}_{i}.txt"
            inputs = ("merge_counts.sh", *group)
            job = Job(f"merge_{level}_{i}", "merge_counts.sh", tuple(group), inputs, stdout=name)
            jobs.append(job)
            counts.append(name)
        level += 1
    jobs.append(
        Job(
            "top",
            "top_words.sh",
            ("counts.txt", str(TOP)),
            ("top_words.sh", "counts.txt"),
            stdout="top_words.txt",
        )
    )
    program = "{ lines += $1; words += $2 } END { print lines, words }"
    total = Job("totals", "awk", (f"'{program}'", *sizes), tuple(sizes), stdout="totals.txt")
    return [*jobs, total]


def write_expected(out: Path, text: Sequence[str]) -> None:
    letters = str.maketrans(dict.fromkeys(string.punctuation, " "))
    words = [word for line in text for word in line.translate(letters).lower().split()]
    counts = sorted(Counter(words).items())
    top = sorted(counts, key=lambda item: (-item[1], item[0]))[:TOP]
    expected = {
        "counts.txt": "".join(f"{count} {word}\n" for word, count in counts),
        "top_words.txt": "".join(f"{count} {word}\n" for word, count in top),
        "totals.txt": f"{len(text)} {len(words)}\n",
    }
    (out / "expected").mkdir(exist_ok=True)
    for name, content in expected.items():
        (out / "expected" / name).write_text(content, encoding="ascii")


def write_dax(path: Path, jobs: Sequence[Job]) -> None:
    """DAX 3.6. Edges follow from the files."""
    with path.open("w", encoding="utf-8") as dax:
        dax.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        dax.write(
            '<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="wordcount">\n'
        )
        for job in jobs:
            write_job(dax.write, job)
        dax.write("</adag>\n")


def write_job(write: Callable[[str], object], job: Job) -> None:
    files = {*job.inputs, *job.outputs}
    words = [
        f"<file name={quoteattr(word)}/>" if word in files else escape(word)
        for word in job.arguments
    ]
    runtime_s = RUNTIME_S.get(job.program, SCRIPT_RUNTIME_S)
    write(f'  <job id="{job.id}" name="{job.program}" runtime="{runtime_s}">\n')
    write(f"    <argument>{' '.join(words)}</argument>\n")
    # The order of sort must not depend on the user's language.
    write('    <profile namespace="env" key="LC_ALL">C</profile>\n')
    if job.stdin is not None:
        write(f'    <stdin name="{job.stdin}" link="input"/>\n')
    if job.stdout is not None:
        write(f'    <stdout name="{job.stdout}" link="output"/>\n')
    inputs = [*job.inputs, *([job.stdin] if job.stdin is not None else [])]
    outputs = [*job.outputs, *([job.stdout] if job.stdout is not None else [])]
    for name in inputs:
        extra = ' executable="true"' if name == job.program else ""
        write(f'    <uses name="{name}" link="input"{extra}/>\n')
    for name in outputs:
        keep = "true" if name in FINAL else "false"
        write(f'    <uses name="{name}" link="output" transfer="{keep}"/>\n')
    write("  </job>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--parts", type=int, default=24, help="2 or more (default: 24)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not 2 <= options.parts <= 26**3:
        parser.error("--parts has to be between 2 and 17576")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    text = make_text(options.parts * LINES_PER_PART, Random(options.seed))
    (out / "text.txt").write_text("\n".join(text) + "\n", encoding="ascii")
    for script in SCRIPTS:
        shutil.copy(HERE / script, out)
    write_expected(out, text)
    jobs = make_jobs(part_names(options.parts))
    write_dax(out / "wordcount.dax", jobs)
    print(f"{out / 'wordcount.dax'}: {len(jobs)} tasks, {len(text)} lines of text")


if __name__ == "__main__":
    main()
