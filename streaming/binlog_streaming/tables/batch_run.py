"""Common data of all tables of a batch: `BatchRun`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_streaming.settings import OnError
from binlog_streaming.tables.evidence.watch import WantedEvidence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_connector.definitions.known_statements import SchemaFile
    from binlog_connector.schema.definitions import TableName
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.cascades import CascadeLog
    from binlog_streaming.settings import Sink
    from binlog_streaming.tables.evidence.watch import Watched

DEFINITION_PROPERTY = "binlog-stream.definition"
"""`known`; `partial`: nothing states foreign keys, generated columns, defaults, or what else no table map has."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Common data of all tables of a batch.

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
        defined: Tables of which statements or marks define, after the batch, what no table map has; None: not known.
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
    defined: frozenset[TableName] | None = None

    def recorded(
        self, name: TableName, target: Target, types: Callable[[Mapping[str, str] | None], dict[str, str]]
    ) -> dict[str, str]:
        """Properties that a target of a table gets: whether its definition is known, and the types that it declares.

        Args:
            name: Of the table.
            target: One of its targets.
            types: Gives properties that state the types, by those of the target.
        """
        properties = target.properties()
        found = types(properties) if self.decoding.declared_types else {}
        if self.defined is None:
            return found
        definition = "known" if name in self.defined else "partial"
        is_same = properties is not None and properties.get(DEFINITION_PROPERTY) == definition
        return found if is_same else {**found, DEFINITION_PROPERTY: definition}
