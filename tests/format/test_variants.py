"""JSON as Parquet's Variant: the bytes that Spark's `parse_json` makes, and the same values back.

Shredded variants: whatever has columns of its own, a value is put together as it was.
"""

from __future__ import annotations

import itertools
import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from binlog_format.rows.json.variant_layout import VARIANT, BasicType, PrimitiveType
from binlog_format.rows.json.variant_shreds import ShredError, _members, is_shredded, whole_of
from binlog_format.rows.json.variants import VariantError, texts_of, variants_of
from tests.format.rows.plain_json import DOCUMENTS, server_text
from tests.without_compiler import printed_by

SPARK = Path(__file__).parents[1] / "data" / "spark_variants.json"
SPARK_VARIANTS: list[tuple[str, str, str]] = [tuple(found) for found in json.loads(SPARK.read_text())]
"""Text, metadata and value, as `parse_json` of Spark 4.3 made them."""

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.integers(-(1 << 33), 1 << 33),
    st.decimals(allow_nan=False, allow_infinity=False, places=5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner)), max_leaves=40)
MANY_KEYS = {f"k{number * 7919 % 1000}": number for number in range(1000)}


def text_of(value: object) -> str:
    """JSON text of a value, decimals with all their digits."""
    if isinstance(value, dict):
        return "{" + " , ".join(f"{json.dumps(key)}: {text_of(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(text_of, value)) + " ]"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=len(repr(value)) % 2 == 0)


def known(text: str | None) -> object:
    """What a text says: of numbers that variants can have exactly, every digit."""
    return None if text is None else json.loads(text, parse_float=_number, parse_int=_number)


def _number(digits: str) -> Decimal | str:
    number = Decimal(digits)
    sign, shown, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    is_double = "e" in digits.lower() or len(shown) > 38 or -exponent > 38 or (sign == 1 and not number and exponent)
    return repr(float(digits)) if is_double else number


def bytes_of(variants: pa.StructArray) -> list[tuple[str, str] | None]:
    return [None if row is None else (row["metadata"].hex(), row["value"].hex()) for row in variants.to_pylist()]


def test_the_bytes_are_those_of_spark() -> None:
    texts = pa.array([text for text, _, _ in SPARK_VARIANTS])
    found = variants_of(texts)
    assert found.type.equals(VARIANT)
    assert bytes_of(found) == [(metadata, value) for _, metadata, value in SPARK_VARIANTS]
    back = texts_of(found).to_pylist()
    assert [known(text) for text in back] == [known(text) for text, _, _ in SPARK_VARIANTS]
    # Of parts of an array, and without rows.
    assert bytes_of(variants_of(texts[3:9])) == bytes_of(found)[3:9]
    assert texts_of(found[3:9]).to_pylist() == back[3:9]
    assert texts_of(variants_of(texts[:0])).to_pylist() == []


@given(st.lists(st.one_of(st.none(), VALUES), max_size=5))
@example([MANY_KEYS, [MANY_KEYS] * 300, {"": {"": [[]]}}])
@example([None, "x" * 63, "x" * 64, "é" * 40, [10**38 - 1, 10**38, Decimal("0.00000"), -(1 << 63), 1 << 63]])
def test_values_come_back(values: list[object]) -> None:
    texts = [None if value is None else text_of(value) for value in values]
    variants = variants_of(pa.array(texts, pa.string()))
    back = texts_of(variants)
    assert [known(text) for text in back.to_pylist()] == [known(text) for text in texts]
    # What MySQL prints comes back byte for byte, and stays the same value.
    assert texts_of(variants_of(back)).equals(back)


@given(st.lists(DOCUMENTS, max_size=6))
def test_texts_of_mysql_come_back(documents: list[object]) -> None:
    texts = pa.array([server_text(value) for value in documents], pa.string())
    assert texts_of(variants_of(texts)).equals(texts)


def test_texts_are_those_that_mysql_prints() -> None:
    texts = [
        '{"": {}, "b": 1, "aa": [1, 2.50, true, null, "x\\n"]}',
        "18446744073709551615",
        "1.5",
        "-0.0",
        "1e20",
        "1.7976931348623157e308",
        "-2.5e-20",
        '"\\u0001é\\"\\\\"',
        "[]",
    ]
    assert texts_of(variants_of(pa.array(texts))).to_pylist() == texts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "no JSON text") for text in ("", " ", "01", "1.", ".5", "+1", "-", "1e", "NaN", "tru", "nul", "'a'")),
        *((text, "no JSON text") for text in ("[", "[1,]", "[1 2]", "]", "{", '{"a"}', '{"a":1,}', "{1:2}", "[}")),
        *((text, "no JSON text") for text in ('"a', '"\t"', '"\\x"', '"\\u12g4"', '"\\', "1 2", "{}{}", "\ufeff1")),
        *((text, "one half of a pair") for text in ('"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '["\\uD83Dx"]')),
        ('{"a": 1, "b": 2, "a": 3}', "the same key twice"),
        ('[{"\\u0061": 1, "a": 1}]', "the same key twice"),
        ("[" * 1001 + "]" * 1001, "nested more than 1000 deep"),
        ('"' + "x" * (1 << 24) + '"', "more than 16 MiB"),
    ],
)
def test_what_cannot_be_kept_is_named(text: str, reason: str) -> None:
    with pytest.raises(VariantError, match=reason) as caught:
        variants_of(pa.array([None, "{}", text, "[]"]))
    assert caught.value.row == 2


def test_the_same_key_in_several_objects_is_one() -> None:
    (variant,) = variants_of(pa.array(['[{"a": {"a": 1}}, {"a": 2}]'])).to_pylist()
    assert variant["metadata"] == b"\x01\x01\x00\x01a"


@pytest.mark.parametrize(
    ("metadata", "value", "reason"),
    [
        ("010000", "2c00000000", "a type that JSON does not have"),  # a date
        ("010000", "1c000000000000f87f", "a type that JSON does not have"),  # not a number
        ("010000", "", "no variant"),
        ("010000", "0c", "no variant"),
        ("010000", "20270000000000", "no variant"),  # 39 digits after the point
        ("010000", "0561", None),
        ("010000", "05ff", "not UTF-8"),
        ("010000", "0961", "no variant"),
        ("010000", "0201000000", "no variant"),  # a key that is not there
        ("020000", "020100000100", "no variant"),  # another version
        ("0101000161", "02010000010c", "no variant"),
        ("f100000020", "02010000010c", "no variant"),  # keys beyond 2 GiB
        ("010000", "0302000000020300", "no variant"),  # members on each other
        ("010000", "03" * 40, "no variant"),
    ],
)
def test_damaged_variants_are_named(metadata: str, value: str, reason: str | None) -> None:
    variant = pa.array([{"metadata": bytes.fromhex(metadata), "value": bytes.fromhex(value)}], VARIANT)
    if reason is None:
        assert texts_of(variant).to_pylist() == ['"a"']
        return
    with pytest.raises(VariantError, match=reason):
        texts_of(variant)


PROGRAM = """
import pyarrow as pa
from binlog_format.rows.json.variants import texts_of, variants_of
from tests.format.test_variants import SPARK_VARIANTS

variants = variants_of(pa.array([text for text, _, _ in SPARK_VARIANTS]))
print(variants.to_pylist(), texts_of(variants).to_pylist())
"""


def test_results_are_the_same_without_the_compiler() -> None:
    compiled, interpreted = printed_by(PROGRAM)
    assert compiled == interpreted


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
