"""Keys of messages tell rows apart, or the job stops with a name."""

from __future__ import annotations

import pytest

from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding, ZeroDates
from tests.connector.envelope.test_messages import messages
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import DELETE, WRITE, PlainColumn, gtid_event, rows_event, table_map

NO_DAY = bytes(3)
NO_DAY_OF_2024 = (2024 << 9).to_bytes(3, "little")
FIRST_OF_2024 = (2024 << 9 | 1 << 5 | 1).to_bytes(3, "little")


def dated(kind: int, *days: bytes, nullable: bool = False, key: tuple[int, ...] = (0,)) -> list[bytes]:
    """A transaction that changes rows of a DATE alone."""
    columns = [PlainColumn(ColumnType.DATE, nullable=nullable)]
    return [gtid_event(1), table_map(columns, key=key), rows_event(kind, [[day] for day in days], 1)]


@pytest.mark.parametrize("form", EnvelopeFormat)
@pytest.mark.parametrize("kind", [WRITE, DELETE])
def test_a_zero_date_in_a_key_is_named(form: EnvelopeFormat, kind: int) -> None:
    block = plain_block([dated(kind, NO_DAY, FIRST_OF_2024, NO_DAY_OF_2024)])
    with pytest.raises(UnsupportedError, match=r"MESSAGE_VALUE\] shop.orders.c0: 2 row images have zero dates"):
        messages([block], EnvelopeOptions("p", format=form))


def test_as_texts_zero_dates_tell_rows_apart() -> None:
    block = plain_block([dated(WRITE, NO_DAY, NO_DAY_OF_2024)])
    found = messages([block], EnvelopeOptions("p"), decoding=Decoding(zero_dates=ZeroDates.TEXT))
    assert [message["key"] for message in found] == [{"c0": "0000-00-00"}, {"c0": "2024-00-00"}]


def test_other_zero_dates_are_null() -> None:
    chosen = EnvelopeOptions("p", key_columns={"shop.orders": ("c0",)})
    for options, nullable in ((EnvelopeOptions("p"), False), (chosen, True)):
        (message,) = messages([plain_block([dated(WRITE, NO_DAY, nullable=nullable, key=())])], options)
        assert message["value"]["after"] == {"c0": None}
