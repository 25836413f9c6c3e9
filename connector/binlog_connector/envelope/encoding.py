"""Conversion of messages to bytes: `MessageEncoding`, of `json_encoding.JsonEncoding` and `avro.encoding`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.message_context import BlockContext, TableEnvelope
    from binlog_connector.schema.definitions import TableName
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.rows.images import Images


class Texts(Protocol):
    """Keys or values that are encoded, one after the other."""

    @property
    def data(self) -> Bytes:
        """All of them."""

    @property
    def offsets(self) -> Int64s:
        """Start of each, and the end of the last one."""

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Numbers of values in their transaction, counted from 1.

    Attributes:
        total: Among all of it.
        of_table: Among those of the same table.
    """

    total: Int64s
    of_table: Int64s


@dataclass(frozen=True, slots=True)
class ValueRows:
    """Input for the values of some changes.

    Attributes:
        events: Of each value its event.
        row_nos: Number of its row in the event.
        ops: `message_kernels.CREATE`, `UPDATE` or `DELETE`.
        before: The image before the change, or `NO_IMAGE`.
        after: The image after it, or `NO_IMAGE`.
        orders: Of each value; None: values do not tell them.
    """

    events: Int64s
    row_nos: Int32s
    ops: Int64s
    before: Int64s
    after: Int64s
    orders: Orders | None


@dataclass(frozen=True, slots=True)
class Collections:
    """Number of values of each table in transactions.

    Attributes:
        names: `database.table`.
        tables: Of each entry its number in *names*; the entries of a transaction come together.
        bounds: Where the entries of each transaction begin, and those of the last one end.
    """

    names: Sequence[str]
    tables: Int64s
    counts: Int64s
    bounds: Int64s


@dataclass(frozen=True, slots=True)
class SchemaChangeMessage:
    """A statement that changes tables as a whole.

    Attributes:
        event: Row of its event.
        database: Of the first table, or of the session; may be empty.
        table: The first one; None: none.
        statement: Its text; None: not told.
        tables: What becomes of which table: `CREATE`, `ALTER`, ... and the name.
    """

    event: int
    database: str
    table: str | None
    statement: str | None
    tables: Sequence[tuple[str, TableName]]


class ChangeEncoder(Protocol):
    """Encodes the changes of one table in a block."""

    @property
    def keys(self) -> Texts | None:
        """Keys of all images; None: the table has no key."""

    def values(self, rows: ValueRows) -> ChangeValues:
        """Values, which are written later."""


class BlockEncoder(Protocol):
    """Encodes the changes of one block."""

    def changes(self, envelope: TableEnvelope, images: Images) -> ChangeEncoder:
        """Make the encoder for the changes of one table."""


class MessageEncoding(Protocol):
    """Makes keys and values of all kinds of messages."""

    def block(self, context: BlockContext, tables: Sequence[tuple[TableEnvelope, Int64s]]) -> BlockEncoder:
        """Make the encoder for the changes of a block; called before all else that is encoded of it.

        Args:
            tables: Those with changes, or those with copied rows; at least one, and the rows of their events.
        """

    def transaction_keys(self, ids: pa.Array) -> Texts:
        """Keys of messages about transactions."""

    def transaction_values(
        self, status: str, ids: pa.Array, counts: pa.Array, collections: Collections | None, milliseconds: pa.Array
    ) -> Texts:
        """Values of the messages about transactions.

        Args:
            status: `BEGIN` or `END`.
            counts: Values of each transaction; null where it begins.
            collections: The same by table; None: they begin.
            milliseconds: When that was, since 1970 UTC.
        """

    def schema_change(self, context: BlockContext, change: SchemaChangeMessage) -> tuple[Texts, Texts]:
        """Key and value of the message about a statement."""

    def truncate(self, context: BlockContext, event: int, name: TableName) -> ChangeValues | None:
        """The value of the message about a TRUNCATE, which has no key; None: there is none."""

    def heartbeat(self, now_ns: int) -> tuple[bytes, bytes]:
        """Key and value of the message that states that nothing has happened. *now_ns*: nanoseconds since 1970 UTC."""
