"""Comparison of a table's columns: `table_forms(source, schema, rule)` -> `TableForms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_streaming.prove.column_forms import column_form
from binlog_streaming.prove.row_messages import buckets_of, hashes_of, messages_of
from binlog_streaming.prove.row_sums import BUCKETS, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_streaming.prove.column_forms import ColumnForm
    from binlog_streaming.settings.model import TableRule
    from binlog_streaming.snapshot.source_table import SourceTable

    Column = Callable[[str], pa.Array]
    """Values of a column of the target, by its name there."""


@dataclass(frozen=True, slots=True)
class TableForms:
    """Columns that are compared.

    Attributes:
        names: What they are called in the target.
        key_columns: Those of *columns* that tell rows apart; empty: all of them together do.
        missing: Columns that the target lacks and should have.
        hidden: Columns that the job's rules do not show, or mask: they are not compared.
        unknown: Columns of types that have no form.
    """

    columns: tuple[ColumnForm, ...]
    names: tuple[str, ...]
    key_columns: tuple[ColumnForm, ...]
    missing: tuple[str, ...]
    hidden: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def row_sql(self) -> str:
        """SQL for the message of a row."""
        return _message_sql(self.columns)

    @property
    def key_sql(self) -> str:
        """SQL for the message of a row's key."""
        return _message_sql(self.key_columns or self.columns)

    def rows(self, column: Column, signs: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
        """Rows of the target as keys and hashes, and the bucket of each.

        Args:
            signs: Of each row: 1 where it counts, -1 where it is taken out.
        """
        forms = dict(zip(self.columns, (form.values(column(name)) for form, name in self._named), strict=True))
        row_messages = messages_of(list(forms.values()), len(signs))
        keys = row_messages
        if self.key_columns:
            keys = messages_of([forms[form] for form in self.key_columns], len(signs))
        return Rows(keys.texts(), hashes_of(row_messages), signs), buckets_of(keys, BUCKETS)

    def column_hashes(self, column: Column, row_count: int) -> list[NDArray[np.uint64]]:
        """Hashes of each compared column's parts of the rows' messages."""
        return [hashes_of(messages_of([form.values(column(name))], row_count)) for form, name in self._named]

    @property
    def _named(self) -> Sequence[tuple[ColumnForm, str]]:
        return tuple(zip(self.columns, self.names, strict=True))


def table_forms(
    source: SourceTable, schema: pa.Schema, rule: TableRule, keys: Sequence[str], *, is_mariadb: bool
) -> TableForms:
    """Choose the columns of a table that are compared.

    Args:
        schema: Columns of the target.
        keys: Columns that tell rows apart; none: nobody knows such.
    """
    shown, held = BoundRule(rule), {name.casefold(): name for name in schema.names}
    forms: dict[str, ColumnForm] = {}
    names, missing, hidden, unknown = [], [], [], []
    for column in source.columns:
        name = held.get(column.name.casefold())
        is_dropped = rule.drops_generated and column.is_generated
        if is_dropped or not shown.shows(column.name) or shown.mask(column.name) is not None:
            hidden.append(column.name)
        elif name is None:
            missing.append(column.name)
        elif (form := column_form(column, schema.field(name).type, is_mariadb=is_mariadb)) is None:
            unknown.append(column.name)
        else:
            forms[column.name.casefold()] = form
            names.append(name)
    key_columns = tuple(forms[key.casefold()] for key in keys if key.casefold() in forms)
    if len(key_columns) < len(keys) or any(form.literal is None for form in key_columns):
        key_columns = ()
    return TableForms(tuple(forms.values()), tuple(names), key_columns, tuple(missing), tuple(hidden), tuple(unknown))


def _message_sql(forms: Sequence[ColumnForm]) -> str:
    return f"CONCAT({', '.join(form.part for form in forms)})"
