"""Values of columns by which a Delta table is partitioned: `partition_texts` for the log, `partition_value` from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence


def partition_texts(rows: pa.Table, names: Sequence[str]) -> tuple[str | None, ...]:
    """The values of *rows*, which all have the same ones, as the protocol writes them.

    Raises:
        TableError: `PARTITION_VALUE`: an empty text, which is null there, or bytes that are no text.
    """
    texts = tuple(_text(rows.column(name)[0], name) for name in names)
    if "" in texts:
        raise TableError(
            "PARTITION_VALUE",
            f"column {names[texts.index('')]} holds an empty text, and the table is partitioned by it: Delta keeps an "
            "empty text as null there",
            hint="Let the table be partitioned by other columns (partition_by of the job, and a new target); Iceberg "
            "keeps such texts",
        )
    return texts


def partition_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """The other way."""
    if not text:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None and not text.endswith("Z"):
        text += "Z"
    return pa.scalar(text).cast(kind)


def _text(value: pa.Scalar, name: str) -> str | None:
    try:
        text: str | None = value.cast(pa.string()).as_py()
    except pa.ArrowInvalid as error:
        raise TableError(
            "PARTITION_VALUE",
            f"column {name} holds bytes that are no UTF-8, and the table is partitioned by it: Delta's log has texts "
            "alone",
            hint="Let the table be partitioned by other columns (partition_by of the job, and a new target)",
        ) from error
    if text and pa.types.is_timestamp(value.type) and value.type.tz is not None:
        text = text.replace(" ", "T")
    return text
