"""Python values as arguments: what a plain reader finds is what was given; and mistakes are named."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import ArgumentError
from binlog_format.structured.writing.argument_encoding import compile_encoder
from binlog_format.structured.writing.argument_tags import tag_of_value, tags_of_types
from tests.format.structured.plain_reader import read_values

RANGES = {"b": (-128, 127), "s": (-(2**15), 2**15 - 1), "i": (-(2**31), 2**31 - 1), "l": (-(2**63), 2**63 - 1)}
RANGES |= {"B": (0, 255), "S": (0, 2**16 - 1), "I": (0, 2**32 - 1), "L": (0, 2**64 - 1)}
DURATION = "{std::chrono::duration<Rep,%s>`count'l}"
TIME_POINT = "{std::chrono::system_clock::time_point`ns'l}"


class Color(IntEnum):
    RED = 1
    GREEN = 2
    DARK = -128


class Mode(IntFlag):
    READ = 4
    WRITE = 2


class Kind(Enum):
    NEW = "new"


@dataclass
class Point:
    x: int
    y: float


@dataclass
class Order:
    id: int
    name: str
    points: list[Point]
    color: Color
    note: str | None = None
    more: dict[str, int] = field(default_factory=dict)


@dataclass
class Node:
    value: int
    next: Node | None = None


@dataclass
class Loose:
    anything: Any


def round_trip(tags: str, *args: object) -> list[object]:
    return read_values(tags, compile_encoder(tags.encode())(args))


def typed_values() -> st.SearchStrategy[tuple[str, Any]]:
    """Tags, and values in the form in which the plain reader gives them."""
    texts = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace"))
    numbers = [st.tuples(st.just(tag), st.integers(*bounds)) for tag, bounds in RANGES.items()]
    floats = st.tuples(st.just("d"), st.floats(allow_nan=False))
    base = st.one_of(*numbers, floats, st.tuples(st.just("y"), st.booleans()), st.tuples(st.just("[c"), texts))
    return st.recursive(base, _containers, max_leaves=12)


def _containers(inner: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    def struct_of(members: list[tuple[str, Any]]) -> tuple[str, Any]:
        fields = "".join(f"`f{number}'{tag}" for number, (tag, _) in enumerate(members))
        return "{S" + fields + "}", {f"f{number}": value for number, (_, value) in enumerate(members)}

    members = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(inner, st.integers(0, 3))
        .map(lambda one: ("[" + one[0][0], [one[0][1]] * one[1]))
        .filter(lambda one: one[0] != "[c"),
        members.map(lambda all_: ("(" + "".join(tag for tag, _ in all_) + ")", tuple(value for _, value in all_))),
        members.filter(bool).map(struct_of),
        st.tuples(inner, st.booleans()).map(lambda one: (f"<0{one[0][0]}>", one[0][1] if one[1] else None)),
    )


@given(st.lists(typed_values(), max_size=4))
def test_values_of_any_type_come_back(typed: list[tuple[str, Any]]) -> None:
    tags = "".join(tag for tag, _ in typed)
    assert round_trip(tags, *[value for _, value in typed]) == [value for _, value in typed]


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**63), 2**64 - 1),
            st.floats(allow_nan=False),
            st.binary(max_size=5),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.one_of(st.binary(max_size=3), st.integers(0, 9)), inner, max_size=3),
        ),
        max_leaves=15,
    )
)
def test_values_without_tags_come_back(value: Any) -> None:
    def expected(one: Any) -> Any:
        if isinstance(one, dict):
            return [(key, expected(member)) for key, member in one.items()]
        if isinstance(one, list | tuple):
            return type(one)(expected(member) for member in one)
        return one

    assert round_trip(tag_of_value(value).decode(), value) == [expected(value)]


@pytest.mark.parametrize("tag", RANGES)
def test_integers_out_of_range_are_named(tag: str) -> None:
    lowest, highest = RANGES[tag]
    assert round_trip(tag * 2, lowest, highest) == [lowest, highest]
    for value in (lowest - 1, highest + 1):
        with pytest.raises(ArgumentError, match=rf"RANGE\] argument 2: expected an integer from {lowest} to {highest}"):
            compile_encoder(f"y{tag}".encode())((True, value))


@pytest.mark.parametrize(
    ("tags", "args", "message"),
    [
        ("i", (), r"COUNT\] expected 1 arguments, got 0"),
        ("", (1,), r"COUNT\] expected 0 arguments, got 1"),
        ("i", ("5",), r"TYPE\] argument 1: expected an integer from -2147483648 to 2147483647, got '5'"),
        ("i", (5.0,), r"TYPE\] argument 1: expected an integer"),
        ("d", ("x",), r"TYPE\] argument 1: expected a number, got 'x'"),
        ("f", (1e300,), r"RANGE\] argument 1: expected a number that fits, got 1e\+300"),
        ("y", (2,), r"TYPE\] argument 1: expected True or False, got 2"),
        ("c", ("ab",), r"RANGE\] argument 1: expected a text of one byte, got 'ab'"),
        ("[c", (5,), r"TYPE\] argument 1: expected a text, got 5"),
        ("[c", (None,), r"TYPE\] argument 1: expected a text, got None"),
        ("[i", ("12",), r"TYPE\] argument 1: expected a list, got '12'"),
        ("[i", ([1, None],), r"TYPE\] argument 1\[1\]: expected an integer .* got None"),
        ("(ii)", ([1],), r"TYPE\] argument 1: expected a tuple of 2, got \[1\]"),
        ("<0i>", ("x",), r"TYPE\] argument 1: expected a value of one of 2 types, got 'x'"),
        ("{P`x'i}", ({"x": 1, "z": 2},), r"TYPE\] argument 1: expected P with the fields x, got \{'x'"),
        ("{P`x'i}", ({},), r"TYPE\] argument 1: expected P with the fields x"),
        ("{P`x'[{Q`y'i}}", ({"x": [{"y": 1}, {"y": "a"}]},), r"argument 1\.x\[1\]\.y: expected an integer"),
        ("{P`x'i}", (5,), r"TYPE\] argument 1: expected P with the fields x, got 5"),
        ("/i`E'0`a'1`b'\\", ("c",), r"TYPE\] argument 1: expected one of a, b, got 'c'"),
        (DURATION % "std::ratio<1>", (timedelta(milliseconds=1),), r"RANGE\] argument 1: expected a duration"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tags: str, args: tuple[object, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        compile_encoder(tags.encode())(args)


@pytest.mark.parametrize("tags", ["X", "i0", "/", "[" * 2049 + "i"])
def test_tags_that_no_reader_understands_are_refused(tags: str) -> None:
    with pytest.raises(ArgumentError, match="TAGS"):
        compile_encoder(tags.encode())


def test_a_value_without_end_is_refused() -> None:
    endless: dict[str, object] = {}
    endless["r"] = endless
    with pytest.raises(ArgumentError, match="argument 1: its value is nested too deeply"):
        compile_encoder(b"{R`r'{R}}")((endless,))


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -2.5, 1e308, 5e-324, 2.2e-308, math.inf, -math.inf, 0.1])
def test_long_double_has_the_value(number: float) -> None:
    encoded = compile_encoder(b"D")((number,))
    assert encoded == np.longdouble(number).tobytes()[:10] + bytes(6)


@pytest.mark.parametrize(
    ("tags", "value", "expected"),
    [
        (TIME_POINT, datetime(2024, 3, 10, 12, 0, 0, 5, UTC), {"ns": 1710072000000005000}),
        (TIME_POINT, datetime(2024, 3, 10, 13, tzinfo=timezone(timedelta(hours=1))), {"ns": 1710072000000000000}),
        (TIME_POINT, 17, {"ns": 17}),
        (TIME_POINT, {"ns": 17}, {"ns": 17}),
        (DURATION % "std::milli", timedelta(seconds=-1.5), {"count": -1500}),
        (DURATION % "std::nano", timedelta(microseconds=2), {"count": 2000}),
        (DURATION % "std::ratio<3600>", timedelta(days=1), {"count": 24}),
        ("{std::filesystem::path`str'[c}", PurePosixPath("/a/b"), {"str": b"/a/b"}),
        ("{std::error_code`message'[c}", FileNotFoundError("no file"), {"message": b"no file"}),
        ("{binlog::address`value'L}", 0xDEAD, {"value": 0xDEAD}),
        ("/i`E'0`a'-80`b'\\", "b", (-128, "b")),
        ("/i`E'0`a'1`b'\\", 7, (7, "")),
        ("/l`Color'1`RED'2`GREEN'\\", Color.GREEN, (2, "GREEN")),
        ("[c", UUID(int=5), b"00000000-0000-0000-0000-000000000005"),
        ("[c", "\udcff", b"\xff"),
        ("[c", "\ud800", b"\\ud800"),
        ("c", "x", b"x"),
        ("c", 255, b"\xff"),
        ("[i", np.array([1, 2], np.int16), [1, 2]),
        ("[(ci)", {"a": 1}, [(b"a", 1)]),
        ("<i[c0>", "x", b"x"),
        ("<d[cl>", 5, 5),
        ("<0f>", 2, 2.0),
        ("{D`'{B`a'i}`b'i}", {"B": {"a": 1}, "b": 2}, {"": {"a": 1}, "b": 2}),
        ("{P`x'l`y'd}", Point(1, 2.5), {"x": 1, "y": 2.5}),
        ("{P`x'l`y'd}", (1, 2.5), {"x": 1, "y": 2.5}),
        ("{Empty}", object(), {}),
    ],
)
def test_values_of_python_fit(tags: str, value: object, expected: object) -> None:
    assert round_trip(tags, value) == [expected]


def test_fields_of_a_base_are_those_of_the_object() -> None:
    order = Order(7, "a", [], Color.RED)
    assert round_trip("{Order`'{Base`id'l}`name'[c}", order) == [{"": {"id": 7}, "name": b"a"}]


@pytest.mark.parametrize(
    ("annotations", "tags"),
    [
        ((int, float, str, bool, bytes), "ld[cy[c"),
        ((list[int], set[str], tuple[int, ...], tuple[int, str], tuple[()]), "[l[[c[l(l[c)()"),
        ((dict[str, list[float]],), "[([c[d)"),
        ((int | None, str | int | None), "<0l><0[cl>"),
        ((datetime, timedelta, UUID, PurePosixPath), f"{TIME_POINT}{DURATION % 'std::micro'}[c[c"),
        ((Color,), "/l`Color'1`RED'2`GREEN'-80`DARK'\\"),
        ((Mode, Kind), "/l`Mode'4`READ'2`WRITE'\\[c"),
        ((Point,), "{Point`x'l`y'd}"),
        ((Node,), "{Node`value'l`next'<0{Node}>}"),
        ((None,), "<0>"),
    ],
)
def test_tags_of_python_types(annotations: tuple[object, ...], tags: str) -> None:
    assert tags_of_types(*annotations).decode() == tags
    compile_encoder(tags.encode())


@pytest.mark.parametrize("annotation", [object, Any, complex, Loose, type])
def test_types_without_a_tag_are_refused(annotation: object) -> None:
    with pytest.raises(ArgumentError, match="a type that has no type tag"):
        tags_of_types(annotation)


def test_dataclasses_enums_and_recursion_come_back() -> None:
    order = Order(1, "x", [Point(1, 2.0), Point(3, 4.0)], Color.DARK, None, {"a": 1})
    tag = tag_of_value(order).decode()
    assert tag == tags_of_types(Order).decode()
    assert round_trip(tag, order) == [
        {
            "id": 1,
            "name": b"x",
            "points": [{"x": 1, "y": 2.0}, {"x": 3, "y": 4.0}],
            "color": (-128, "DARK"),
            "note": None,
            "more": [(b"a", 1)],
        }
    ]
    chain = compile_encoder(tag_of_value(Node(1)))((Node(1, Node(2)),))
    assert chain == struct.pack("<qBqB", 1, 1, 2, 0)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (2**63, "L"),
        ([], "[l"),
        ([1, None], "[<0l>"),
        ([1, "a", True], "[<[cly>"),
        ({}, "[([c[c)"),
        (Decimal("1.5"), "[c"),
        (np.int64(5), "l"),
        (np.float64(5), "d"),
        (Loose(1), "[c"),
        (ValueError("x"), "[c"),
    ],
)
def test_tags_of_values(value: object, tag: str) -> None:
    assert tag_of_value(value).decode() == tag
    compile_encoder(tag.encode())((value,))


def test_values_that_contain_themselves_and_large_integers_have_no_tag() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="it contains itself"):
        tag_of_value([endless])
    with pytest.raises(ArgumentError, match="more than 64 bits"):
        tag_of_value(2**64)
