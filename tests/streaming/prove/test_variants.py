"""JSON that is kept as variant, against live servers: MySQL's is proved equal, MariaDB's is named."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from binlog_format.rows.json.variant_layout import VARIANT
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import with_texts
from binlog_streaming.prove.comparison import ProofOutcome
from binlog_streaming.settings import Json, Sink
from tests.servers import ServerKind, server_in
from tests.streaming.prove.proofs import held, job_on, place, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, read_tables, server_rows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server

DOCUMENTS = [
    '{"b": 1, "aa": [1.50, -0.0, 1e300, true, null], "é": "\\\\u0001\\\\"x\\\\""}',
    "[18446744073709551615, -9223372036854775808, 0.1, 123456.789, 1e-7, 1.5e15, 1e16]",
    '"text"',
    "null",
    "{}",
    '{"nested": {"zz": [], "z": [{}, [[]]]}, "long key of an object": 12345678901234567890}',
]


@pytest.mark.parametrize("kind", [ServerKind.MYSQL, ServerKind.MARIADB], ids=str)
def test_documents_of_a_server(kind: ServerKind, tmp_path: Path) -> None:
    with server_in(kind, tmp_path / "server") as server:
        rows = ", ".join(f"({number}, '{text}')" for number, text in enumerate(DOCUMENTS))
        run_sql(
            server,
            [
                "CREATE DATABASE shop",
                "CREATE TABLE shop.orders (id INT PRIMARY KEY, doc JSON)",
                f"INSERT INTO shop.orders VALUES {rows}, (100, NULL)",
                "UPDATE shop.orders SET doc = JSON_SET(doc, '$.aa[0]', 1.25, '$.new', 'x') WHERE id = 0",
            ],
        )
        if kind is ServerKind.MYSQL:
            scalars = "JSON_OBJECT('d', DATE'2024-01-31', 'n', 1.10, 'f', 1e0, 'u', 18446744073709551615)"
            run_sql(server, [f"INSERT INTO shop.orders VALUES (200, {scalars})"])
        job = job_on(server, tmp_path)
        job = structs.replace(job, sink=structs.replace(job.sink, json=Json.VARIANT))
        run(job)
        with closing(DeltaTarget.at(job.sink, place(job, "shop.orders"))) as target:
            assert target.schema().field("doc").type.equals(VARIANT)
        found = prove(server, job)["shop.orders", "mirror"]
        assert found.forms is not None
        if kind is not ServerKind.MYSQL:
            assert found.forms.unknown == ("doc",)
            return
        assert (found.outcome, found.rows, found.forms.unknown) == (ProofOutcome.EQUAL, len(DOCUMENTS) + 2, ())
        rows = with_texts(held(job, "shop.orders")).sort_by("id")
        assert rows.column("doc").to_pylist() == [row[1] for row in server_rows(server, "shop.orders")]
        sink = Sink(directory=str(tmp_path / "read" / "tables"), json=Json.VARIANT)
        other = job_in(tmp_path / "read", server.binlog_directory, sink=sink)
        read_tables(server, other)
        assert with_texts(held(other, "shop.orders")).sort_by("id").equals(rows)
        run_sql(server, ["SET SESSION sql_log_bin = 0", "UPDATE shop.orders SET doc = '[]' WHERE id = 4"])
        found = prove(server, job)["shop.orders", "mirror"]
        assert found.outcome is ProofOutcome.DIFFERENT
        assert [(one.key, one.columns) for one in found.differences] == [(b"1:4", ("doc",))]
