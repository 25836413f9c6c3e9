"""JSON as Parquet's Variant: the bytes that Spark's `parse_json` makes, and the same values back."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_format.rows.json.variant_layout import VARIANT
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
