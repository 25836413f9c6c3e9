"""Tests of `source_decoder`: arguments as typed columns."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.kernels import as_bytes
from binlog_format.structured.arguments.arrow_columns import doubles_of_extended
from binlog_format.structured.arguments.json_texts import arguments_json
from binlog_format.structured.arguments.source_decoder import SourceDecoder
from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.text.event_format import MESSAGE_FORMAT, EventFormat
from binlog_format.structured.text.lines import LineWriter, messages
from tests.chance import examples
from tests.format.structured.arguments.blocks import (
    all_rows,
    block_of_events,
    corpus_arguments,
    corpus_block,
    corpus_files,
    source,
)
from tests.format.structured.arguments.model import Events, events, same_columns

_INTEGERS = [
    pa.int8(), pa.int16(), pa.int16(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.decimal128(20, 0)
]  # fmt: skip
_STRUCT_OF_A = pa.struct({"a": pa.int32()})


@pytest.mark.parametrize("name", corpus_files())
def test_events_of_the_corpus(name: str) -> None:
    block = corpus_block(name)
    expected, _ = corpus_arguments(name)
    for number, one in enumerate(block.sources):
        rows = np.flatnonzero(block.events["source"][: len(expected)] == number)
        columns = SourceDecoder(replace(one, format=b"")).decode(block, rows)
        columns.validate(full=True)
        for row, shown in zip(rows, columns.to_pylist(), strict=True):
            assert same_columns(shown, expected[row]), (row, shown, expected[row])


@given(events())
@settings(max_examples=examples(400))
def test_any_arguments(made: Events) -> None:
    one = source(made.tags.encode())
    block = block_of_events(one, [content + b"extra" for _, content in made.events])
    columns = SourceDecoder(one).decode(block, all_rows(block))
    columns.validate(full=True)
    for shown, (values, _) in zip(columns.to_pylist(), made.events, strict=True):
        assert same_columns(shown, values)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("yc", {"arg0": pa.bool_(), "arg1": pa.string()}),
        ("bBsSiIlL", dict(zip((f"arg{n}" for n in range(8)), _INTEGERS, strict=True))),
        ("fdD", {"arg0": pa.float32(), "arg1": pa.float64(), "arg2": pa.float64()}),
        ("()[()", {"arg1": pa.int64()}),
        ("[([ci)", {"arg0": pa.list_(pa.struct({"_1": pa.string(), "_2": pa.int32()}))}),
        ("<0{P`x'i}>", {"arg0": pa.struct({"x": pa.int32()})}),
        ("<0()>", {"arg0": pa.bool_()}),
        ("<i[c0>", {"arg0": pa.struct({"index": pa.int16(), "_0": pa.int32(), "_1": pa.string()})}),
        ("{D`'{B<T>`a'i}`A'y`a'y}", {"arg0": pa.struct({"B": _STRUCT_OF_A, "A": pa.bool_(), "a_2": pa.bool_()})}),
        ("/B`E'0`x'\\", {"arg0": pa.struct({"label": pa.string(), "value": pa.int64()})}),
        ("{Node`v'i`n'<0{Node}>}", {"arg0": pa.string()}),
        ("[" * 40 + "i", {"arg0": pa.string()}),
        ("{std::chrono::system_clock::time_point`ns'l}", {"arg0": pa.int64()}),
        ("{std::chrono::duration<Rep,std::milli>`count'i}", {"arg0": pa.int64()}),
        ("{std::chrono::duration<Rep,std::milli>`count'd}", {"arg0": pa.struct({"count": pa.float64()})}),
    ],
)
def test_types(tags: str, expected: dict[str, pa.DataType]) -> None:
    assert SourceDecoder(source(tags.encode(), b"")).type == pa.struct(expected)


def test_times_and_durations_tell_their_unit() -> None:
    tags = b"{std::chrono::system_clock::time_point`ns'l}[{std::chrono::duration<Rep,std::ratio<60>>`count'l}"
    kind = SourceDecoder(source(tags, b"at={} for {}")).type
    assert kind.field("at").metadata == {b"unit": b"ns since 1970-01-01T00:00:00Z"}
    assert kind.field("arg1").type.value_field.metadata == {b"unit": b"min"}


def test_types_that_multiply_become_json() -> None:
    """Ten structs that each have two of the next would be a thousand columns, with 20 of them a million."""
    structs = "".join(f"{{S{n}`a'{{S{n + 1}}}`b'{{S{n + 1}}}}}" for n in range(19, -1, -1))
    tags = f"({{S20`x'i}}{structs})"
    assert SourceDecoder(source(tags.encode(), b"")).type == pa.struct({"arg0": pa.string()})


@given(events(), st.data())
@settings(max_examples=examples(200))
def test_arguments_that_are_cut_short_are_an_error(made: Events, data: st.DataObject) -> None:
    """Wherever an event is cut; the events after it are not read instead."""
    content = made.events[0][1]
    if not content:
        return
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    one = source(made.tags.encode())
    block = block_of_events(one, [content, cut, content])
    for read in (SourceDecoder(one).decode, arguments_json):
        with pytest.raises(CorruptError, match=r"BAD_ENTRY.* argument \d+ of source 1 .*needs \d+ bytes, \d+ are left"):
            read(block, all_rows(block))
        whole, last = read(block, all_rows(block)[[0, 2]]).to_pylist()
        assert str(whole) == str(last)


@pytest.mark.parametrize("tags", ["[i", "[c", "[[()", "[(ic)", "[{R`r'{R}}", "[<0i>", "{T`k'[{T}}"])
def test_counts_that_nothing_can_fill_cost_nothing(tags: str) -> None:
    one = source(tags.encode())
    block = block_of_events(one, [struct.pack("<I", 0xFFFFFFFF) + b"\0" * 8])
    for read in (SourceDecoder(one).decode, arguments_json):
        tracemalloc.start()
        with pytest.raises(CorruptError, match=r"argument 1 .*needs \d+ bytes, \d+ are left|it is nested in 2048"):
            read(block, all_rows(block))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_four_billion_elements_without_bytes_are_a_number() -> None:
    one = source(b"[()[{A`e'()}")
    block = block_of_events(one, [struct.pack("<II", 0xFFFFFFFF, 33)])
    assert SourceDecoder(one).decode(block, all_rows(block)).to_pylist() == [{"arg0": 0xFFFFFFFF, "arg1": 33}]
    assert arguments_json(block, all_rows(block)).to_pylist() == ["[4294967295,33]"]


@pytest.mark.parametrize(("levels", "is_read"), [(NESTING_MAX - 1, True), (NESTING_MAX, False)])
def test_values_are_nested_as_deeply_as_the_format_allows(levels: int, is_read: bool) -> None:
    one = source(b"(" * levels + b"i" + b")" * levels)
    block = block_of_events(one, [struct.pack("<i", 7)])
    for read in (SourceDecoder(one).decode, arguments_json):
        if is_read:
            assert "[" * levels + "7" in str(read(block, all_rows(block)).to_pylist()[0])
        else:
            with pytest.raises(CorruptError, match=r"argument 1 .*: it is nested in 2048 values"):
                read(block, all_rows(block))


@pytest.mark.parametrize(
    ("tag", "content", "text", "value", "column"),
    [
        ("/y`E'0`no'1`yes'\\", b"\2", b"yes", "yes", {"label": "yes", "value": 1}),
        ("/y`E'0`no'\\", b"\2", b"0x1", 1, {"label": None, "value": 1}),
        ("y", b"\2", b"true", True, True),
        ("/f`E'0`a'\\", struct.pack("<f", 1.5), b"0x", 1.5, 1.5),
        ("/d`E'0`a'\\", struct.pack("<d", 0.0), b"0x", 0.0, 0.0),
        ("[/D`E'\\", struct.pack("<IQH6x", 1, 3 << 62, 0x3FFF), b"[0x]", [1.5], [1.5]),
    ],
)
def test_odd_values_are_the_same_in_text_json_and_columns(
    tag: str, content: bytes, text: bytes, value: object, column: object
) -> None:
    # The text is the library's, which has no digits of floating numbers in enums; any bool but 0 is true.
    one = source(b"i%s" % tag.encode() + b"i", b"{} {} {}")
    block = block_of_events(one, [struct.pack("<i", -1) + content + struct.pack("<i", 7)])
    assert messages(block, LineWriter(EventFormat(MESSAGE_FORMAT))).to_pylist() == [b"-1 %s 7" % text]
    assert json.loads(arguments_json(block, all_rows(block)).to_pylist()[0]) == [-1, value, 7]
    shown = SourceDecoder(one).decode(block, all_rows(block)).to_pylist()
    assert shown == [{"arg0": -1, "arg1": column, "arg2": 7}]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [("i0", "argument 2 .* type tag"), ("iX", "argument 2 .* type tag"), ("(i/)", "argument 1 .* enum has no type")],
)
def test_types_that_are_none_are_an_error(tags: str, reason: str) -> None:
    one = source(tags.encode())
    block = block_of_events(one, [b"\0" * 8])
    for read in (SourceDecoder(one).decode, arguments_json):
        with pytest.raises(CorruptError, match=reason):
            read(block, all_rows(block))


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1)), min_size=1))
@settings(max_examples=examples(400))
@example([(1 << 63, 0x3FFF), ((1 << 63) + 1024, 0x3FFF), ((1 << 63) + 3072, 0x3FFF), (2**64 - 1, 0x7FFE), (1 << 63, 0)])
@example([(1 << 63, 16383 - 1074), (1 << 63, 16383 - 1075), ((1 << 63) + 1, 16383 - 1075), (3 << 62, 16383 - 1074)])
def test_long_doubles_become_the_nearest_double(numbers: list[tuple[int, int]]) -> None:
    # The highest bit of the fraction is 1 in all but the smallest numbers.
    numbers = [(one | 1 << 63 if end & 0x7FFF else one & ~(1 << 63), end) for one, end in numbers]
    data = as_bytes(b"".join(struct.pack("<QH6x", *number) for number in numbers))
    shown = doubles_of_extended(data, np.arange(len(numbers), dtype=np.int32) * 16)
    for (fraction, end), number in zip(numbers, shown.tolist(), strict=True):
        power, sign = end & 0x7FFF, -1 if end >> 15 else 1
        if power == 0x7FFF:
            assert math.isinf(number) == (fraction << 1 & (1 << 64) - 1 == 0)
            continue
        exact = Fraction(fraction) * Fraction(2) ** (max(power, 1) - 16383 - 63)
        try:
            expected = float(exact)
        except OverflowError:
            expected = math.inf
        assert (number, math.copysign(1, number)) == (sign * expected, sign)
