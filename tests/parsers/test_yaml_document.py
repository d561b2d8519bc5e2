"""Safe YAML: plain data with lines, and what hostile or careless documents get."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.errors import InvalidError
from wfrun.parsers.syntax.yaml_document import MAX_DEPTH, YamlDocument, parse_yaml, read_yaml

SAMPLE = """\
# a comment
sites:
  alpha:
    slots: 4
    walltime: 24:00:00
  beta: {slots: 2, tags: [x,
    y]}
links:
  - a: 1
    b: 2
"""


def parsed(text: str | bytes) -> YamlDocument:
    data = text if isinstance(text, bytes) else text.encode()
    return parse_yaml(data, "test.yaml")


def test_the_value_is_plain_data() -> None:
    assert parsed(SAMPLE).value == {
        "sites": {
            "alpha": {"slots": 4, "walltime": "24:00:00"},
            "beta": {"slots": 2, "tags": ["x", "y"]},
        },
        "links": [{"a": 1, "b": 2}],
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("sites",), 2),
        (("sites", "alpha"), 3),
        (("sites", "alpha", "walltime"), 5),
        (("sites", "beta", "tags", 1), 7),
        (("links", 0), 9),
        (("links", 0, "b"), 10),
        (("links", 5, "b"), 8),
        (("sites", "gamma", "slots"), 2),
        (("sites", "alpha", "slots", "more"), 4),
    ],
)
def test_the_line_of_a_part_or_of_what_is_nearest_above(
    path: tuple[str | int, ...], line: int
) -> None:
    assert parsed(SAMPLE).line(*path) == line


def test_an_error_points_at_the_part() -> None:
    error = parsed(SAMPLE).error("too few", "sites", "alpha", "slots", hint="Add some.")
    assert str(error) == "test.yaml:4: too few\n  Add some."


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\n")
    assert read_yaml(path).value == {"name": "café"}


def test_scalars_are_as_yaml_1_1_has_them_but_times_stay_text() -> None:
    text = "[1, 0x1F, 1.5, true, yes, null, ~, .inf, t, '1', 2001-01-01, 1:30, =, !!str 7]"
    assert parsed(text).value == [
        *(1, 31, 1.5, True, True, None, None, math.inf, "t", "1"),
        *("2001-01-01", "1:30", "=", "7"),
    ]


def test_merge_keys_add_what_is_not_there() -> None:
    document = parsed("base: &b {slots: 1, speed: 2}\na:\n  <<: *b\n  slots: 3\nc: {<<: [*b]}\n")
    assert document.value["a"] == {"slots": 3, "speed": 2}
    assert document.value["c"] == {"slots": 1, "speed": 2}
    assert (document.line("a", "slots"), document.line("a", "speed")) == (4, 1)


def test_an_alias_is_the_anchored_part() -> None:
    assert parsed("a: &x [1, 2]\nb: *x\n").value == {"a": [1, 2], "b": [1, 2]}


def bomb(sequence: bool) -> str:
    lines = ["a0: &a0 [ha, ha]" if sequence else "a0: &a0 {k: ha}"]
    for level in range(1, 40):
        repeated = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(
            f"a{level}: &a{level} " + (f"[{repeated}]" if sequence else f"{{k: [{repeated}]}}")
        )
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(bomb(True), 7, "aliases expand", id="a bomb of lists"),
        pytest.param(bomb(False), 7, "aliases expand", id="a bomb of mappings"),
        pytest.param("a: &t '" + "x" * 100_000 + "'\nb: [" + "*t," * 2_000 + "]\n", 2, "expand"),
        pytest.param("a: 1\nb: &x\n  - *x\n", 3, "inside what it repeats", id="a cycle"),
        pytest.param("a: *nowhere\n", 1, "no anchor", id="an alias of nothing"),
        pytest.param("a: 1\nb: !site x\n", 2, "tag !site", id="a custom tag"),
        pytest.param("a: !!python/object/apply:os.system [ls]", 1, "!!python", id="a Python tag"),
        pytest.param("x: !!set {a}\n", 1, "tag !!set", id="a tag of other data"),
        pytest.param("a: 1\nb: 2\na: 3\n", 3, "on line 1 already", id="a repeated key"),
        pytest.param("{a: 1, 'a': 2}", 1, "on line 1 already", id="repeated in flow style"),
        pytest.param("b: 1\n? [a]\n: 1\n", 2, "key must be", id="a list as key"),
        pytest.param("? {a: b}\n: 1\n", 1, "key must be", id="a mapping as key"),
        pytest.param("a: &x [1]\n*x : 2\n", 2, "key must be", id="an aliased list as key"),
        pytest.param("", 1, "empty", id="nothing"),
        pytest.param("# only this\n\n", 1, "empty", id="a comment"),
        pytest.param("---\n...\n", 1, "empty", id="an empty document"),
        pytest.param("a: 1\n---\nb: 2\n", 2, "second document", id="two documents"),
        pytest.param(b"a: 1\nb: \xff\xfe\n", 2, "not UTF-8", id="Latin-1"),
        pytest.param("a: 1".encode("utf-16"), 1, "not UTF-8", id="UTF-16"),
        pytest.param("a: 1\nb: \x01\n", 2, "Control characters", id="a control character"),
        pytest.param(b"\x00\x01\x02", 1, "not valid YAML", id="binary"),
        pytest.param("a: 1\nb: [1, 2\n", 3, "not valid YAML", id="cut off"),
        pytest.param("a: 1\n\tb: 2\n", 2, "not valid YAML", id="a tab"),
        pytest.param("a: !!int x\n", 1, "'x' is no int", id="not what its tag says"),
        pytest.param("<<: 3\n", 1, "'<<' takes", id="a merge of no mapping"),
        pytest.param("[" * 200_000, 1, f"more than {MAX_DEPTH} levels", id="deep, in flow style"),
        pytest.param("- " * 5_000, 1, f"more than {MAX_DEPTH} levels", id="deep, in block style"),
    ],
)
def test_what_is_refused_is_named_with_its_line(text: str | bytes, line: int, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parsed(text)
    assert f"test.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_an_absent_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="cannot be read: No such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(InvalidError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)


words = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(words, parts, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(words, plain, min_size=1, max_size=4))
def test_what_is_dumped_is_read_back(value: dict[str, object]) -> None:
    assert parsed(yaml.safe_dump(value)).value == value


@given(st.text(alphabet=":-[]{}&*!?<'\"#|>,% \nab1~.", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document = parsed(text)
    except InvalidError:
        return
    assert document.line() >= 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a:\n\tb: 1\n", 2, "a tab indents the line"),
        ("a:\n  b:\n    c: 1\n\td: 2\n", 4, "a tab indents the line"),
        ("a:\n    b: 1\n  c: 1\n", 3, "by 2 spaces, where the lines above are by 0, 4"),
        ("a:\n  - b: 1\n   c: 2\n", 3, "by 3 spaces, where the lines above are by 0, 2, 4"),
        ("a:\n  b: 1\n    c: 2\n", 3, "indented more than the line above"),
        ("a: 1\n# a comment\n  b: 2\n", 3, "indented more than the line above"),
        ("a: 1\nb: 'c\nd: 2\n", 2, "what begins here, with a quote or a bracket, does not end"),
        ("a: b: c\n", 1, "a second ': '"),
        ("a: *.csv\n", 1, "Write text that begins with * in quotes"),
        ("a: @b\n", 1, "Write text that begins with @ in quotes"),
        ("a: {x} y\n", 1, "Write text that begins with { in quotes"),
    ],
)
def test_messages_say_what_is_wrong_with_a_line(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parsed(text)
    assert message in f"{caught.value.message}\n{caught.value.hint}"
    assert caught.value.line == line
