"""JSON as Parquet's Variant: the bytes that Spark's `parse_json` makes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from binlog_format.rows.json.variant_layout import VARIANT
from binlog_format.rows.json.variants import VariantError, variants_of
from tests.without_compiler import printed_by

SPARK = Path(__file__).parents[1] / "data" / "spark_variants.json"
SPARK_VARIANTS: list[tuple[str, str, str]] = [tuple(found) for found in json.loads(SPARK.read_text())]
"""Text, metadata and value, as `parse_json` of Spark 4.3 made them."""


def bytes_of(variants: pa.StructArray) -> list[tuple[str, str] | None]:
    return [None if row is None else (row["metadata"].hex(), row["value"].hex()) for row in variants.to_pylist()]


def test_the_bytes_are_those_of_spark() -> None:
    texts = pa.array([text for text, _, _ in SPARK_VARIANTS])
    found = variants_of(texts)
    assert found.type.equals(VARIANT)
    assert bytes_of(found) == [(metadata, value) for _, metadata, value in SPARK_VARIANTS]
    # Of parts of an array, and without rows.
    assert bytes_of(variants_of(texts[3:9])) == bytes_of(found)[3:9]


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


PROGRAM = """
import pyarrow as pa
from binlog_format.rows.json.variants import variants_of
from tests.format.test_variants import SPARK_VARIANTS

variants = variants_of(pa.array([text for text, _, _ in SPARK_VARIANTS]))
print(variants.to_pylist())
"""


def test_results_are_the_same_without_the_compiler() -> None:
    compiled, interpreted = printed_by(PROGRAM)
    assert compiled == interpreted
