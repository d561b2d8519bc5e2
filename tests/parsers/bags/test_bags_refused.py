"""Bag documents that are wrong: one message, with the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun import InvalidError, read_workflows
from wfrun.parsers.bags.line_template import LineTemplate

FILES = {
    "ragged.csv": b"a,b\n1,2\n\n3,4\n5\n",
    "good.csv": b"ligand,seed\n1,2\n",
    "twice.csv": b"a,b,a\n1,2,3\n",
    "nameless.csv": b"a,,b\n1,2,3\n",
    "empty.csv": b"",
    "twins.csv": b"a,b\n1,2\n1,3\n",
    "list.txt": b"echo 1\necho 2 > x\n",
    "header.csv": b"a,b\n",
    "nul.csv": b"a,b\n1,2\n1,\0\n",
    "latin.csv": b"a,b\n1,2\n1,\xe9\n",
    "utf16.csv": "a,b\n1,2\n".encode("utf-16"),
    "semicolons.csv": b"a;b\n1;2\n",
    "commas.csv": b"a;b\n1,5;2\n",
    "tabs.csv": b"a\tb\n1\t2\n",
    "quote.csv": b'a,b\n1,"2\n',
    "empty.txt": b"# nothing\n\n",
    "latin.txt": b"echo 1\necho \xe9\n",
    "nul.txt": b"echo 1\necho \0\n",
    "outside.txt": b"echo 1\n../run\n",
    "braces.txt": b"echo 1\n../r{u}n\n",
}


ECHO = LineTemplate("echo")


def refusal(tmp_path: Path, name: str, template: LineTemplate | None = None) -> str:
    for file, data in FILES.items():
        (tmp_path / file).write_bytes(data)
    for program in ("run", "r{u}n"):
        (tmp_path.parent / program).write_text("")
    with pytest.raises(InvalidError) as caught:
        read_workflows(tmp_path / name, template=template)
    return str(caught.value).replace(f"{tmp_path}/", "")


ONE = "command: echo {x}\nparameters:\n  x: [1, 2]\n"
DOCUMENTS = {
    "an unknown parameter": (
        "command: echo {sed}\nparameters:\n  seed: [1]\n", ":1: there is no parameter 'sed'",
        "Did you mean 'seed'?",
    ),
    "one of another bag": (
        "bags:\n- {command: a, parameters: {y: [1]}}\n- command: echo {y}\n  env: {A: '{x}'}\n",
        ":3: there is no parameter 'y'",
    ),
    "an empty product": (
        "command: echo\nparameters:\n  a: [1]\n  b: []\n", ":4: ", "the product is empty"),
    "an empty file": (
        "command: echo\nparameters:\n  b: {file: empty.csv}\n", ":3: ", "the product is empty"),
    "a step of 0": (
        "command: echo\nparameters:\n  b: {range: [1, 2, 0]}\n", ":3: ", "it never ends"),
    "a step away from the end": (
        "command: echo\nparameters:\n  b: {range: [2, 1]}\n", ":3: ", "write 'step: -1'"),
    "no end": ("command: echo\nparameters:\n  b: {range: [1, .inf]}\n", ":3: ", "never ends"),
    "too many values": (
        "command: echo\nparameters:\n  b: {range: [1, 1000000000]}\n", ":3: ", "100,000,000"),
    "too many tasks": (
        "command: echo\nparameters:\n  a: {range: [1, 100000]}\n  b: {range: [1, 100000]}\n",
        ":3: ", "10,000,000,000 tasks"),
    "a range of words": (
        "command: echo\nparameters:\n  b: {range: [a, b]}\n", ":3: 'from' of a range is a number"),
    "one output twice": (
        ONE + "  y: [1, 2]\noutputs:\n- '{index}'\n- out-{x}\n", ":7: the output 'out-1'",
        "task 0 (x=1, y=1) and by task 1 (x=1, y=2)",
    ),
    "one output twice by chance": (
        "command: echo\nparameters: {a: [1, 11], b: [1, 11]}\noutputs:\n- '{a}{b}'\n",
        ":4: the output '111'", "task 1", "task 2",
    ),
    "an output that is kept twice": (
        ONE + "outputs:\n- {name: '{x}', to: same}\n", ":5: the output 'same'"),
    "an output as a folder": (
        "command: echo\nparameters: {a: [x, x/y]}\noutputs: ['o/{a}']\n",
        ":3: 'o/x' is an output of task 0 and also the folder of 'o/x/y'",
    ),
    "an output outside": (ONE + "outputs: ['../{x}']\n", ":4: '../1' cannot be the name"),
    "an absolute output": (ONE + "outputs: ['/{x}']\n", ":4: '/1' cannot be the name"),
    "a value that leads outside": (
        "command: echo\nparameters: {a: [x, ..]}\noutputs: ['{a}/{index}']\n", ":3: '../1'"),
    "two files with a name": (ONE + "inputs: ['{x}.in', 2.in]\n", ":4: task 1 has two files"),
    "a zip of two lengths": (
        "command: echo\nparameters:\n  p:\n    zip: {x: [1], y: [1, 2]}\n", ":4: ",
        "x has 1, y has 2",
    ),
    "a parameter twice": (
        "command: echo\nparameters:\n  seed: [1]\n  t: {rows: good.csv}\n",
        ":4: the parameter 'seed' is repeated",
    ),
    "a reserved name": ("command: echo\nparameters:\n  index: [1]\n", ":3: 'index' cannot be"),
    "an unknown key": (
        "command: echo\nparamters: {x: [1]}\n", ":2: ", "Did you mean 'parameters'?"),
    "an unknown kind of values": (
        "command: echo\nparameters:\n  x: {rang: [1, 2]}\n", ":3: ", "Did you mean 'range'?"),
    "a format that does not fit": (
        "command: echo {x:d}\nparameters: {x: [1, two]}\n", ":1: 'two', a value of", "'d'"),
    "no parameter at all": ("command: echo {1x}\n", ":1: {1x} is not a parameter"),
    "an open brace": ("command: echo {x\n", ":1: the braces in '{x' are not paired"),
    "an open quote": ("command: \"echo 'x\"\n", ":1: ", "No closing quotation"),
    "a redirection": (
        "parameters: {x: [1]}\ncommand: echo {x} > {x}.txt\n", ":2: ", "'>' is for a shell",
        "with 'stdout'", "sh -c '…'",
    ),
    "a redirected error": ("command: echo 2>&1\n", ":1: ", "'2>&1' is for a shell"),
    "a file to read": ("command: tr a b <x\n", ":1: ", "'<x' is for a shell", "with 'stdin'"),
    "a pipe": ("command: a | b\n", ":1: ", "'|' is for a shell"),
    "two commands": ("command: sleep 1; b\n", ":1: ", "'1;' is for a shell"),
    "one and another": ("command: a && b\n", ":1: ", "'&&' is for a shell"),
    "a background": ("command: a &\n", ":1: ", "'&' is for a shell"),
    "no command": ("parameters: {x: [1]}\n", ":1: the bag 'x' has no command"),
    "an estimate that is no time": (ONE + "estimate: soon\n", ":4: the estimate is no time"),
    "a negative estimate": (ONE + "estimate: -1\n", ":4: the estimate '-1' is below 0"),
    "an estimate of words": (
        "command: echo\nestimate: '{t}'\nparameters: {t: [1 s, never]}\n", ":2: ", "'never'"),
    "a word that YAML takes for true": (
        "command: echo\nparameters:\n  x:\n  - 1\n  - on\n", ":5: ", "in quotes"),
    "a NUL": ('command: echo\nparameters:\n  x:\n  - "\\0"\n', ":4: ", "NUL"),
    "an input elsewhere": (
        "command: echo\ninputs:\n- from: http://x/y\n", ":3: 'http://x/y' is no file"),
    "a file that is not there": (
        "command: echo\nparameters:\n  x: {file: none.txt}\n", ":3: none.txt cannot be read"),
    "a table that is not there": (
        "command: echo\nparameters:\n  x: {rows: none.csv}\n", ":3: none.csv cannot be read"),
    "cores that don't fit nodes": ("command: echo\ncores: 3\nnodes: 2\n", ":3: 3 cores"),
    "no bags": ("command: echo\nbags: []\n", ":2: there are no bags"),
    "memory without a unit that is one": ("command: echo\nmemory: 2 G\n", ":2: memory of"),
}  # fmt: skip


@pytest.mark.parametrize("case", DOCUMENTS)
def test_documents(case: str, tmp_path: Path) -> None:
    text, *words = DOCUMENTS[case]
    (tmp_path / "x.yaml").write_text(text)
    told = refusal(tmp_path, "x.yaml")
    assert told.startswith("x.yaml:"), told
    for word in words:
        assert word in told, told


@pytest.mark.parametrize(
    ("name", "template", "told"),
    [
        ("ragged.csv", ECHO, "ragged.csv:5: the row has 1 cell, but the header has 2"),
        ("twice.csv", ECHO, "twice.csv:1: the header has 'a' twice, as columns 1 and 3"),
        ("nameless.csv", ECHO, "nameless.csv:1: column 2 of the header has no name"),
        ("empty.csv", ECHO, "empty.csv:1: the table is empty"),
        ("header.csv", ECHO, "header.csv:1: the table has a header, but no rows"),
        ("nul.csv", ECHO, "nul.csv:3: not text: it has a NUL byte in it"),
        ("latin.csv", ECHO, "latin.csv:3: not UTF-8 text (byte 0xe9)"),
        ("utf16.csv", ECHO, "utf16.csv:1: not UTF-8 text (byte 0xff)"),
        ("quote.csv", ECHO, "quote.csv:2: not a table"),
        ("none.csv", ECHO, "none.csv: cannot be read: No such file"),
        ("good.csv", None, "good.csv: a table needs a command for its rows"),
        ("good.csv", LineTemplate("echo {ligan}"), "there is no parameter 'ligan'"),
        ("semicolons.csv", LineTemplate("echo {a}"), "give --delimiter ';'"),
        ("commas.csv", LineTemplate("echo {a}"), "give --delimiter ';'"),
        ("tabs.csv", LineTemplate("echo {b}"), "give --delimiter '\\t'"),
        ("good.csv", LineTemplate(""), "the command '' cannot be used"),
        (
            "good.csv",
            LineTemplate("echo", outputs=("{ligan}.txt",)),
            "good.csv:1: --output: there is no parameter 'ligan', which '{ligan}.txt' names",
        ),
        (
            "twins.csv",
            LineTemplate("echo", stdout="{a}.txt"),
            "twins.csv:1: --stdout: the output '1.txt' is written by task 0 (a=1, b=2) and by task",
        ),
        ("good.csv", LineTemplate("echo", estimate="soon"), "good.csv:1: --estimate: the estimate"),
        ("good.csv", LineTemplate("echo 1 > {seed}"), "'>' is for a shell, and none runs"),
        ("list.txt", LineTemplate(stdout="out.txt"), "list.txt:1: --stdout: the output 'out.txt'"),
        ("empty.txt", None, "empty.txt:1: there are no commands"),
        ("latin.txt", None, "latin.txt:2: not UTF-8 text (byte 0xe9)"),
        ("nul.txt", None, "nul.txt:2: not text"),
        ("outside.txt", None, "outside.txt:2: '../run' cannot be the name of a file"),
        ("braces.txt", None, "braces.txt:2: '../r{u}n' cannot be the name of a file"),
    ],
)
def test_tables_and_commands(
    name: str, template: LineTemplate | None, told: str, tmp_path: Path
) -> None:
    assert told in refusal(tmp_path, name, template)
