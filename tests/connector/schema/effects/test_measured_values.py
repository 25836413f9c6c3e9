"""Values that live servers made of others when a column got another type: none is converted otherwise.

`tests/data/alter_values` has them, a line for each pair of types. What is not known is null and marked; how much that
may be is a number here, which falls and does not rise.
"""

from __future__ import annotations

import ast
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from binlog_connector.schema.effects.conversion import Circumstances, Converted, Unknown, Values, widened
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.vendor import Vendor
from tests.connector.schema.effects.test_effects import changes, effects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DATA = Path(__file__).parents[3] / "data"
NOON = 1_795_608_000
"""Of the day on which the servers were asked, 2026-11-25."""
UNKNOWN_SHARE_MAX = {Vendor.MARIADB: 0.035, Vendor.MYSQL: 0.02}
_PAIR = re.compile(r"(?P<old>.*) -> (?P<new>.*?) \| (?P<values>.*)")
_ZERO_DATE = re.compile(r"0000|\d{4}-00|\d{4}-\d\d-00")


class Measured(NamedTuple):
    """A value and what a server made of it.

    Attributes:
        before: As text; a binary string in hexadecimal digits.
        after: The same; None: NULL.
        misfit: A strict session refuses it.
    """

    before: str
    after: str | None
    misfit: bool


def measured(vendor: Vendor) -> Iterator[tuple[str, str, list[Measured]]]:
    path = DATA / "alter_values" / f"{vendor.name.lower()}.txt"
    for line in path.read_text("utf-8").splitlines():
        pair = _PAIR.fullmatch(line)
        if pair is not None and not line.startswith("#"):
            parts = re.split(r" ; (?=!?['\"])", pair["values"])
            yield pair["old"], pair["new"], [_measured(part) for part in parts]


def _measured(part: str) -> Measured:
    before, after = part.removeprefix("!").split(" => ", 1)
    return Measured(
        ast.literal_eval(before), None if after == "NULL" else ast.literal_eval(after), part.startswith("!")
    )


def how(vendor: Vendor, *, strict: bool) -> Circumstances:
    version = 110809 if vendor is Vendor.MARIADB else 90704
    moment = Moment(NOON, 0, "+00:00")
    return Circumstances(vendor, strict, vendor is Vendor.MARIADB, DEFAULT_DECODING, moment, server_version=version)


def array(texts: list[str | None], kind: pa.DataType, declared: str) -> pa.Array:
    """Texts of a server as the values that a target has."""
    values: list[object] = list(texts)
    if declared.startswith(("DATE", "TIMESTAMP")):
        values = [None if text is None or _ZERO_DATE.match(text) else text for text in texts]
        return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(kind)
    if pa.types.is_string(kind):
        return pa.array(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([None if text is None else bytes.fromhex(text) for text in texts], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if text is None else Decimal(text) for text in texts]).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if text is None else float(text) for text in texts], pa.float64()).cast(kind)
    whole = pa.array([None if text is None else int(text) for text in texts], pa.int64())
    return whole.cast(kind)


def converted(
    old: str, new: str, values: list[Measured], given: Circumstances
) -> tuple[pa.Array, NDArray[np.bool_]] | None:
    found = effects(f"id INT PRIMARY KEY, c {old}", f"MODIFY c {new}", given)["c"]
    before = array([value.before for value in values], kind_of(old, given), old)
    if isinstance(found, Unknown):
        return None
    after = found.convert(before) if isinstance(found, Converted) else Values(before)
    unknown = np.zeros(len(before), dtype=np.bool_) if after.unknown is None else after.unknown
    return widened(after.array, kind_of(new, given)), unknown


def kind_of(declared: str, given: Circumstances) -> pa.DataType:
    kind = changes(f"id INT PRIMARY KEY, c {declared}", "MODIFY id BIGINT", given)["c"].arrow_type
    assert kind is not None
    return kind


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("vendor", [Vendor.MARIADB, Vendor.MYSQL])
def test_no_value_is_converted_otherwise(vendor: Vendor, *, strict: bool) -> None:
    given = how(vendor, strict=strict)
    wrong: list[tuple[object, ...]] = []
    known = unknown = 0
    for old, new, all_values in measured(vendor):
        values = [value for value in all_values if not (strict and value.misfit)]
        result = converted(old, new, values, given) if values else None
        if result is None:
            unknown += len(values)
            continue
        after, open_ones = result
        expected = array([value.after for value in values], after.type, new)
        rows = zip(values, open_ones, after.to_pylist(), expected.to_pylist(), strict=True)
        wrong += [(old, new, row[0].before, *row[2:]) for row in rows if not row[1] and row[2] != row[3]]
        known, unknown = known + int((~open_ones).sum()), unknown + int(open_ones.sum())
    assert not wrong
    assert unknown / (known + unknown) < UNKNOWN_SHARE_MAX[vendor]
