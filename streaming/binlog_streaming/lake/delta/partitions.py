"""Values of columns by which a Delta table is partitioned: `partition_texts` for the log, `partition_value` from it.

The log alone decides which values a file has. Some readers take them from its path instead: `partition_folder`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""Characters that Spark writes as `%` and two digits in names of folders, and NUL, which no file system takes."""

_NAME_BYTES_MAX, _FOLDER_BYTES_MAX = 255, 700
"""Longest name in file systems, and longest path of folders of a file in a key of an object store."""


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of files with these values, `day=2026-01-01/city=K%2FL` as Spark names it.

    Args:
        values: As `partition_texts` gives them, by what the columns are called in files.

    Returns:
        Empty: a value is too long for the name of a folder, whose files are in the table's own.
    """
    names = [f"{_escaped(name)}={_NO_VALUE if text is None else _escaped(text)}" for name, text in values.items()]
    folder = "/".join(names)
    if max((len(name.encode()) for name in names), default=0) > _NAME_BYTES_MAX:
        return ""
    return folder if len(folder.encode()) <= _FOLDER_BYTES_MAX else ""


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


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
