"""Shredded variants: whatever has columns of its own, a value is put together as it was."""

from __future__ import annotations

import itertools
import uuid

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from binlog_format.rows.json.variant_layout import BasicType, PrimitiveType
from binlog_format.rows.json.variant_shreds import ShredError, _members, is_shredded, whole_of
from binlog_format.rows.json.variants import texts_of, variants_of
from tests.format.test_variants import KEYS, SCALARS, text_of

SHREDS: dict[str, object] = {"a": {"a": int, "b": str, "": [int]}, "b": str, "c": [{"a": [str], "x": int}], "d": []}
NAMES = st.one_of(st.sampled_from(["a", "b", "c", "d", "x", ""]), KEYS)
NAMED = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(NAMES, inner)), max_leaves=20)
INTEGERS = {PrimitiveType.INT8: 1, PrimitiveType.INT16: 2, PrimitiveType.INT32: 4, PrimitiveType.INT64: 8}
EMPTY = b"\x01\x00\x00"


def shredded(value: bytes | None, dictionary: bytes, shreds: object) -> dict[str, object]:
    """A value in parts, as a writer has them that takes these apart; *shreds* []: elements that are whole."""
    if value is None:
        return {}
    kind, rest = value[0] & 3, value[0] >> 2
    if isinstance(shreds, dict) and kind == BasicType.OBJECT:
        members = {name.decode(): inner for name, inner in _members(value, dictionary)}
        typed = {name: shredded(members.pop(name, None), dictionary, inner) for name, inner in shreds.items()}
        left = None if not members else object_of(value, dictionary, set(members))
        return {"value": left, "typed_value": typed}
    if isinstance(shreds, list) and kind == BasicType.ARRAY:
        of_each = shreds[0] if shreds else None
        return {"typed_value": [shredded(inner, dictionary, of_each) for inner in elements_of(value)]}
    if shreds is int and kind == BasicType.PRIMITIVE and rest in INTEGERS:
        return {"typed_value": int.from_bytes(value[1:], "little", signed=True)}
    if shreds is str and kind == BasicType.SHORT_STRING:
        return {"typed_value": value[1:].decode()}
    return {"value": value}


def object_of(value: bytes, dictionary: bytes, names: set[str]) -> bytes:
    """An object with some keys of another one alone."""
    size, id_size = (value[0] >> 2 & 3) + 1, (value[0] >> 4 & 3) + 1
    count_size = 4 if value[0] >> 6 & 1 else 1
    ids = 1 + count_size
    members = [name.decode() for name, _ in _members(value, dictionary)]
    kept = [number for number, name in enumerate(members) if name in names]
    parts = [value[ids + number * id_size : ids + (number + 1) * id_size] for number in kept]
    bodies = dict(_members(value, dictionary))
    own = [bodies[members[number].encode()] for number in kept]
    places = [sum(map(len, own[:number])) for number in range(len(own) + 1)]
    header = bytes([value[0]]) + len(kept).to_bytes(count_size, "little")
    return header + b"".join(parts) + b"".join(place.to_bytes(size, "little") for place in places) + b"".join(own)


def elements_of(value: bytes) -> list[bytes]:
    size, count_size = (value[0] >> 2 & 3) + 1, 4 if value[0] >> 4 & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_size], "little")
    first = 1 + count_size
    offsets = [int.from_bytes(value[first + n * size : first + (n + 1) * size], "little") for n in range(count + 1)]
    data = first + (count + 1) * size
    return [value[data + low : data + high] for low, high in itertools.pairwise(offsets)]


def kind_of(shreds: object) -> pa.DataType:
    """The type of a value's parts in a file."""
    if shreds is None:
        return pa.struct({"value": pa.binary()})
    simple = {int: pa.int64(), str: pa.string()}
    if isinstance(shreds, dict):
        typed = pa.struct({name: kind_of(inner) for name, inner in shreds.items()})
    elif isinstance(shreds, list):
        typed = pa.list_(kind_of(shreds[0] if shreds else None))
    else:
        typed = simple[shreds]  # type: ignore[index]
    return pa.struct({"value": pa.binary(), "typed_value": typed})


@given(st.lists(NAMED, max_size=5), st.sampled_from([SHREDS, [SHREDS], int, str, [], SHREDS["a"]]))
@example([{f"k{number}": number for number in range(300)} | {"a": {"a": 1}}, list(range(300))], SHREDS)
@example([["x" * 300, 1, None]], [str])
def test_a_value_is_put_together_as_it_was(values: list[object], shreds: object) -> None:
    whole = variants_of(pa.array([None, *map(text_of, values)], pa.string()))
    rows = [
        row and {"metadata": row["metadata"], **shredded(row["value"], row["metadata"], shreds)}
        for row in whole.to_pylist()
    ]
    kind = pa.struct([pa.field("metadata", pa.binary()), *kind_of(shreds)])
    array = pa.array(rows, kind)
    assert is_shredded(array.type)
    assert not is_shredded(whole.type)
    assert texts_of(whole_of(array)).equals(texts_of(whole))
    assert texts_of(whole_of(array.slice(1))).equals(texts_of(whole.slice(1)))


def typed(kind: pa.DataType, value: object, other: bytes | None = None, metadata: bytes = EMPTY) -> pa.StructArray:
    parts = [pa.array([metadata]), pa.array([other], pa.binary()), pa.array([value], kind)]
    return pa.StructArray.from_arrays(parts, ["metadata", "value", "typed_value"])


def test_ids_and_nanoseconds_keep_their_types() -> None:
    made = uuid.UUID(int=5)
    storage = pa.array([made.bytes], pa.binary(16))
    (found,) = whole_of(
        pa.StructArray.from_arrays(
            [pa.array([EMPTY]), pa.ExtensionArray.from_storage(pa.uuid(), storage)], ["metadata", "typed_value"]
        )
    ).to_pylist()
    assert found["value"] == bytes([20 << 2]) + made.bytes
    for kind, number in ((pa.timestamp("ns", "UTC"), 18), (pa.timestamp("ns"), 19), (pa.time64("us"), 17)):
        (found,) = whole_of(typed(kind, 7)).to_pylist()
        assert found["value"] == bytes([number << 2]) + (7).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (typed(pa.int32(), 1, b"\x00"), "no object has two parts"),
        (typed(pa.struct({"a": kind_of(int)}), {"a": {"typed_value": 1}}, b"\x00"), "no object has two parts"),
        (typed(pa.struct({"a": kind_of(int)}), {"a": {"typed_value": 1}}), "a key that its dictionary lacks"),
        (
            typed(
                pa.struct({"a": kind_of(int)}),
                {"a": {"typed_value": 1}},
                b"\x02\x01\x00\x00\x01\x00",
                b"\x01\x01\x00\x01a",
            ),
            "a key twice",
        ),
        (typed(pa.struct({}), {}, b"\x02\x01\x00\x00\x09\x00", b"\x01\x01\x00\x01a"), "outside of it"),
        (typed(pa.struct({}), {}, b"\x02\x09\x00", b"\x01\x01\x00\x01a"), "outside of it"),
        (typed(pa.struct({"a": kind_of(int)}), {"a": {"typed_value": 1}}, None, b""), "no dictionary"),
        (typed(pa.uint64(), 1), "the type uint64"),
    ],
)
def test_parts_that_do_not_belong_together(array: pa.StructArray, reason: str) -> None:
    with pytest.raises(ShredError, match=reason):
        whole_of(array)


def test_a_value_that_is_missing_is_null() -> None:
    (found,) = whole_of(typed(pa.int32(), None)).to_pylist()
    assert VariantVal(found["value"], found["metadata"]).toPython() is None
