"""What an ALTER TABLE does to a large target: `lake.alter.rows_per_s`, all values of a column written anew."""

from __future__ import annotations

import tempfile
import time
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from bench.registry import benchmark, share
from binlog_connector.schema.alteration import Defaults, altered, created
from binlog_connector.schema.effects.column_effects import alter_effects
from binlog_connector.schema.effects.conversion import Circumstances, Converted
from binlog_connector.schema.operations import AlterTable, CreateTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.vendor import Vendor
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange, changed_rows
from binlog_streaming.settings import Mode, Sink

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Conversion

ROWS = 5_000_000
_BATCH = 1 << 19
_CHECKED = 1000


@benchmark("lake.alter.rows_per_s", unit="rows/s")
def alter() -> float:
    """MODIFY price DECIMAL(14,4) to DECIMAL(12,2) in a Delta table of two columns and 5,000,000 rows."""
    count = round(share() * ROWS)
    convert, commit_id = _conversion(), CommitId("bench", 0, 3, "shop.t", Mode.MIRROR, ("id",), "0:0:0", "0", None)
    cents = np.random.default_rng(1).integers(-(10**9), 10**9, count)
    whole = pa.array(cents).cast(pa.decimal128(19, 0))
    price = pa.Array.from_buffers(pa.decimal128(14, 4), count, whole.buffers())
    rows = pa.table({"id": np.arange(count), "price": price})
    schema = pa.schema([rows.schema.field("id"), pa.field("price", pa.decimal128(12, 2))])
    change = SchemaChange(converted={"price": lambda batch: convert(batch.column("price")).array})
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        target = DeltaTarget.at(msgspec.convert({"directory": work}, Sink), f"{work}/t")
        target.create(rows.schema, commit_id)
        target.append(rows.to_reader(_BATCH), commit_id)
        started = time.perf_counter()
        target.replace(changed_rows(target.read(), change, schema), commit_id)
        seconds = time.perf_counter() - started
        held = DeltaTarget.at(msgspec.convert({"directory": work}, Sink), f"{work}/t").read().read_all()
    assert (held.num_rows, held.schema.field("price").type) == (count, pa.decimal128(12, 2))
    some, before = held.slice(0, _CHECKED).to_pylist(), price.slice(0, _CHECKED)
    rounded = [value.quantize(Decimal("0.01"), ROUND_HALF_UP) for value in before.to_pylist()]
    assert [row["price"] for row in some] == rounded, "the table holds other values"
    return count / seconds


def _conversion() -> Conversion:
    session, defaults = StatementSession("shop", vendor=Vendor.MARIADB), Defaults(Vendor.MARIADB, "utf8mb4")
    (create,) = parse_ddl("CREATE TABLE shop.t (id BIGINT PRIMARY KEY, price DECIMAL(14,4))", session)
    (modify,) = parse_ddl("ALTER TABLE shop.t MODIFY price DECIMAL(12,2)", session)
    assert isinstance(create, CreateTable)
    assert isinstance(modify, AlterTable)
    before = created(create, defaults)
    how = Circumstances(Vendor.MARIADB, True, True, DEFAULT_DECODING, Moment(0))
    effect = alter_effects(before, altered(before, modify, defaults), modify, how)["price"].effect
    assert isinstance(effect, Converted)
    return effect.convert
