"""A `Change` as one MERGE of Spark SQL: `merge_statement`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.conforming import conformed_table
from binlog_streaming.lake.key_ranges import key_cover

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_streaming.lake.change import Change

SOURCE_VIEW = "binlog_stream_changes"
"""Temporary view that the statement reads."""


class Kind(IntEnum):
    """What a row of a merge's source does."""

    UPSERT = 0
    DELETE = 1
    PATCH = 2
    APPEND = 3


@dataclass(frozen=True, slots=True)
class MergeSource:
    """All of a `Change` as one table, so that one MERGE does it.

    Attributes:
        rows: Columns of the target as `c0`, `c1`, ..., so that no name of the user's collides or needs quoting; `kind`;
            and `p0`, ...: whether a patch changes the column of that number.
        names: Columns of the target that are in *rows*, and what they are called there.
        whole: Columns that upserts have.
        patched: Columns that patches change, and the column of *rows* that says which patches do; None: all.
    """

    rows: pa.Table
    names: Mapping[str, str]
    whole: Sequence[str]
    patched: Mapping[str, str | None]


def merge_statement(target: str, change: Change, schema: pa.Schema, keys: Sequence[str]) -> tuple[str, pa.Table]:
    """What brings *change* into a table.

    Args:
        target: Name of the table in SQL.
        change: What becomes of its rows.
        schema: Its columns.
        keys: Names of its key columns.

    Returns:
        The statement, and the rows that are to be `SOURCE_VIEW`.
    """
    parts = change_parts(change, schema)
    source = merge_source(change, parts, schema)
    on = [f"t.{name_of(key)} = s.{source.names[key]}" for key in keys]
    if change.appends is not None:
        on.append(f"s.kind <> {Kind.APPEND:d}")
    if change.current is not None:
        on.append(f"t.{name_of(change.current)}")
    on += _pruning([part for kind, part in parts if kind is not Kind.APPEND], keys)
    clauses = "\n".join(_clauses(source))
    return f"MERGE INTO {target} t USING {SOURCE_VIEW} s ON {' AND '.join(on)}\n{clauses}", source.rows


def _clauses(source: MergeSource) -> Iterable[str]:
    yield f"WHEN MATCHED AND s.kind = {Kind.DELETE:d} THEN DELETE"
    whole = {name: f"s.{source.names[name]}" for name in source.whole}
    if whole:
        yield f"WHEN MATCHED AND s.kind = {Kind.UPSERT:d} THEN UPDATE SET {_assigned(whole)}"
    patched = {name: _patch(source, name, flag) for name, flag in source.patched.items()}
    if patched:
        yield f"WHEN MATCHED AND s.kind = {Kind.PATCH:d} THEN UPDATE SET {_assigned(patched)}"
    columns = ", ".join(map(name_of, source.names))
    values = ", ".join(f"s.{column}" for column in source.names.values())
    kinds = f"s.kind IN ({Kind.UPSERT:d}, {Kind.APPEND:d})"
    yield f"WHEN NOT MATCHED AND {kinds} THEN INSERT ({columns}) VALUES ({values})"


def _assigned(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name_of(name)} = {value}" for name, value in values.items())


def _patch(source: MergeSource, name: str, flag: str | None) -> str:
    value = f"s.{source.names[name]}"
    return value if flag is None else f"CASE WHEN s.{flag} THEN {value} ELSE t.{name_of(name)} END"


def _pruning(keyed: Sequence[pa.Table], keys: Sequence[str]) -> list[str]:
    # Where the changed keys lie, so that files without any stay untouched: by the first key of integers.
    changed = pa.concat_tables([table.select(keys) for table in keyed])
    for key in keys:
        ranges = key_cover(changed.column(key))
        if ranges is not None:
            column = f"t.{name_of(key)}"
            parts = [f"{column} BETWEEN {_number(low)} AND {_number(high)}" for low, high in zip(*ranges, strict=True)]
            return [f"({' OR '.join(parts)})"]
    return []


def _number(value: int) -> str:
    # The least 64-bit integer has no literal: its digits alone are one too many.
    return f"CAST('{value}' AS BIGINT)"


def name_of(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def text_of(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def merge_source(change: Change, parts: Sequence[tuple[Kind, pa.Table]], schema: pa.Schema) -> MergeSource:
    """One table of *parts*, those of *change* in the types of *schema*."""
    there = {name for _, part in parts for name in part.column_names}
    names = {name: f"c{index}" for index, name in enumerate(schema.names) if name in there}
    columns = pa.schema([schema.field(name) for name in names])
    present = pa.table({}) if change.patches is None else change.patches.present
    flags = {name: f"p{names[name].removeprefix('c')}" for name in present.column_names}
    tables = []
    for kind, part in parts:
        table = conformed_table(part, columns).rename_columns(list(names.values()))
        table = table.append_column("kind", pa.array(np.full(part.num_rows, kind, np.int8)))
        for name, flag in flags.items():
            values = present.column(name) if kind is Kind.PATCH else pa.nulls(part.num_rows, pa.bool_())
            table = table.append_column(flag, values)
        tables.append(table)
    keys = change.deletes.column_names
    patched = [] if change.patches is None else change.patches.rows.column_names
    return MergeSource(
        rows=pa.concat_tables(tables),
        names=names,
        whole=change.upserts.column_names,
        patched={name: flags.get(name) for name in patched if name not in keys},
    )


def change_parts(change: Change, schema: pa.Schema) -> list[tuple[Kind, pa.Table]]:
    """The parts of *change*, in the types of *schema*; each has the columns that it comes with."""
    parts = {
        Kind.UPSERT: change.upserts,
        Kind.DELETE: change.deletes,
        Kind.PATCH: None if change.patches is None else change.patches.rows,
        Kind.APPEND: change.appends,
    }
    return [
        (kind, conformed_table(table, pa.schema([schema.field(name) for name in table.column_names])))
        for kind, table in parts.items()
        if table is not None
    ]
