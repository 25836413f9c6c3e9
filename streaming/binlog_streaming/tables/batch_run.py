"""What all tables of a batch share: `BatchRun`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_streaming.settings import OnError
from binlog_streaming.tables.evidence.watch import WantedEvidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.spark.table_schemas import SchemaFile
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.cascades import CascadeLog
    from binlog_streaming.settings import Sink
    from binlog_streaming.tables.evidence.watch import Watched


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What all tables of a batch share.

    Attributes:
        query_id: Id of the streaming query.
        batch_id: Number of the batch.
        sink: Where the tables go.
        position: Where the log goes on after the batch.
        decoding: How rows become values.
        gtid_position: What the log has up to the batch's end, as text; None: not known.
        on_error: What becomes of a component with a table that cannot go on.
        schema_file: Its tables; None: none, or it is not used.
        cascade_log: Reads rows of parents that have no targets; None: there are no foreign keys to follow.
        evidence: What is compared of rows that change, of tables that do not set it themselves.
        watched: What the job remembers of targets, by their place.
        compares_all: All rows that change are compared as a whole, whatever is set: a part of a step was contradicted,
            and is to be named.
        kept_definitions: File of the definitions that the job keeps; None: there is none.
    """

    query_id: str
    batch_id: int
    sink: Sink
    position: Position
    decoding: Decoding = DEFAULT_DECODING
    gtid_position: str | None = None
    on_error: OnError = OnError.STOP
    schema_file: SchemaFile | None = None
    cascade_log: CascadeLog | None = None
    evidence: WantedEvidence = field(default_factory=WantedEvidence)
    watched: Mapping[str, Watched] = field(default_factory=dict)
    compares_all: bool = False
    kept_definitions: str | None = None
