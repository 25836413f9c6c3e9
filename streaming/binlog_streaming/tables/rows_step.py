"""Rows of one step, for all targets of their table: `RowsContent`; `prepared_rows` makes them ready to be written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import ImageKind
from binlog_format.rows.json.variant_layout import JSON_FIELD
from binlog_format.views.changefeed import ABSENT_FIELD, CHANGE_FIELDS, change_columns, changefeed_batch
from binlog_streaming.lake.change import ContradictedError
from binlog_streaming.lake.evolution import cast_to_schema, common_schema, with_texts
from binlog_streaming.lake.row_values import matching_rows, rows_with
from binlog_streaming.modes.absent_columns import WHOLE_IMAGES_HINT
from binlog_streaming.modes.layout_cast import cast_layouts
from binlog_streaming.modes.mirror import mirror_change
from binlog_streaming.modes.mode_columns import CASCADED_FROM, IS_CURRENT, SNAPSHOT, mode_schema
from binlog_streaming.modes.partial_documents import DocumentError, documents_of, with_documents
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.modes.row_keys import key_columns
from binlog_streaming.modes.scd2 import current_rows, scd2_change
from binlog_streaming.modes.whole_rows import MissingRowsError, whole_row_change
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.settings.choices import Rewritten
from binlog_streaming.tables.row_evidence import (
    contradicted,
    contradicted_by_step,
    missing_rows,
    proved_rows,
    wrong_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.errors import TableError
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.change import Change, Contradictions
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import ChangePlace
    from binlog_streaming.settings import TableRule
    from binlog_streaming.tables.row_evidence import RowEvidence
    from binlog_streaming.tables.statements.log_facts import LogFacts


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Cascades to the rows of a table, which no log has.

    Attributes:
        keys: Names of the key columns.
        row_batches: Images of it, whose places are those of the changes that were carried on.
        origins: Of each row batch the table of these, `database.table`.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    row_batches: tuple[RowBatch, ...]
    origins: tuple[str, ...]


@dataclass(frozen=True)
class RowsContent:
    """The rows of a step, and what is the same for all targets of their table.

    Attributes:
        source_table: `database.table`.
        row_batches: By their first image; none where foreign keys alone change the table.
        facts: Of columns that images leave out; None: as the layouts define.
        columns: Of the table, where the step has more row batches than these; None: it has not.
        derived: What foreign keys do; None: nothing.
        end: Place of the last change, up to which the step goes; None: it is one of *row_batches*.
        completing: Rows may be missing that the server has; see `SelectedTable`.
        is_done: All targets of the table hold the step, but for those in which it changes nothing.
        is_repair: Rows of a repair are among them.
    """

    source_table: str
    row_batches: Sequence[RowBatch]
    decoding: Decoding
    rule: TableRule
    facts: LogFacts | None = None
    columns: pa.Schema | None = None
    derived: DerivedRows | None = None
    end: ChangePlace | None = None
    completing: bool = False
    is_done: bool = False
    is_repair: bool = False

    @cached_property
    def last(self) -> ChangePlace:
        """Place of the last change."""
        return self.end or max(row_batch.end() for row_batch in self.row_batches)

    @property
    def layouts(self) -> list[TableLayout]:
        """Layouts of the rows, in the order of the log."""
        return [row_batch.layout for row_batch in self.row_batches]

    @cached_property
    def column_names(self) -> list[list[str]]:
        """Names of the columns of each layout, in the order in which the log has the layouts first."""
        layouts = {(layout.digest, layout.completion): layout for layout in self.layouts}
        return [arrow_schema(layout, self.decoding).names for layout in layouts.values()]

    @property
    def lost_columns(self) -> frozenset[str]:
        """Names, in small letters, of columns that the table had at the first rows, and has no more at the last."""
        if len(self.column_names) < 2:
            return frozenset()
        last = folded_names(arrow_schema(self.layouts[-1], self.decoding).names)
        return frozenset[str]().union(*map(folded_names, self.column_names)) - last

    def with_json(self, schema: pa.Schema, target: Target, facts: LogFacts) -> pa.Schema:
        """Columns of *target*, new ones marked that definitions call JSON: table maps of MariaDB have text there."""
        there = () if target.properties() is None else target.schema().names
        if facts.log is None or not self.row_batches or set(schema.names) <= set(there):
            return schema
        layout = self.row_batches[-1].layout
        name, logged = TableName(layout.database, layout.table), layout.logged or layout
        definition = facts.definition_at(name, self.last.position, logged)
        columns = () if definition is None else definition.columns or ()
        names = {folded_name(column.name) for column in columns if column.declared == "json"}
        names -= folded_names(self.rule.mask)
        marked = (field.with_metadata(JSON_FIELD) if folded_name(field.name) in names else field for field in schema)
        return pa.schema(list(marked))

    @property
    def first_commit_time(self) -> int:
        """Commit time of the first image's group, seconds since 1970 UTC."""
        row_batches = (*self.row_batches, *(() if self.derived is None else self.derived.row_batches))
        return min(row_batch.start() for row_batch in row_batches).commit_time

    @cached_property
    def images(self) -> tuple[pa.Schema, StepImages]:
        """All images under the same columns, and these."""
        logged = self.row_batches if self.facts is None else self.facts.stated(self.row_batches)
        if self.derived is None:
            schema, row_batches = cast_layouts(self.source_table, logged, self.decoding, self.columns)
            return schema, StepImages(self.source_table, tuple(row_batches))
        derived = self.derived
        logged = cast_layouts(self.source_table, logged, self.decoding)[1] if logged else []
        # Of one change the logged image comes first.
        row_batches = sorted([*logged, *derived.row_batches], key=RowBatch.start)
        return derived.schema, StepImages(self.source_table, tuple(row_batches))

    def keys(self, mode: Mode) -> tuple[str, ...]:
        """Key columns of a target; empty for a changelog, and where the whole row is the key.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: row batches differ in them; `NO_PRIMARY_KEY`: the mode needs one.
        """
        if mode is Mode.CHANGELOG:
            return ()
        spelled = {folded_name(name): name for name in self.images[0].names}
        if self.derived is not None:
            return tuple(spelled[folded_name(key)] for key in self.derived.keys)
        keys = [
            tuple(spelled[folded_name(key)] for key in self._keys_of(row_batch, mode)) for row_batch in self.row_batches
        ]
        for other in keys[1:]:
            if other != keys[0]:
                raise SchemaError(
                    "SCHEMA_CHANGED",
                    f"{self.source_table}: its primary key was {', '.join(keys[0]) or 'none'} and is "
                    f"{', '.join(other) or 'none'} now, and no statement about its keys is between them in the log",
                    hint="Name keys for the table in the job (option tables.keys)",
                )
        return keys[0]

    def _keys_of(self, row_batch: RowBatch, mode: Mode) -> tuple[str, ...]:
        needs_key = mode is Mode.SCD2 or self.rule.deletes is Deletes.MARK or self.rule.keys
        if not needs_key and not row_batch.layout.primary_key:
            return ()
        return tuple(str(row_batch.layout.columns[key].name) for key in key_columns(row_batch.layout, self.rule.keys))


def target_schema(content: RowsContent, mode: Mode) -> pa.Schema:
    """Columns that the rows have in a target."""
    if mode is Mode.CHANGELOG:
        schemas = [arrow_schema(row_batch.layout, content.decoding) for row_batch in content.row_batches]
        schemas = schemas or ([] if content.derived is None else [content.derived.schema])
        common = common_schema(schemas, content.source_table)
        has_existing = any(row_batch.snapshot for row_batch in content.row_batches)
        has_absent = any(row_batch.images.has_absent() for row_batch in content.row_batches)
        return mode_schema(
            mode, common, on_cascade=content.rule.foreign_keys, has_existing=has_existing, has_absent=has_absent
        )
    return mode_schema(mode, content.images[0], content.rule.deletes)


def changelog_batch(row_batch: RowBatch) -> pa.RecordBatch:
    """One row for each image; it names the columns that the image lacks, and the snapshot that put it into the log."""
    images = row_batch.images
    extra = [ABSENT_FIELD] if images.has_absent() else []
    batch = changefeed_batch(images, row_batch.events, row_batch.groups, row_batch.gtid_sources, extra)
    return batch.append_column(SNAPSHOT, pa.repeat(row_batch.snapshot, batch.num_rows)) if row_batch.snapshot else batch


def prepared_rows(content: RowsContent, commit_id: CommitId, evidence: RowEvidence | None) -> PreparedRows:
    """Work out what becomes of the rows, as far as that can be without their target.

    Args:
        evidence: What the rows prove of the target; None: nothing.
    """
    schema = target_schema(content, commit_id.mode)
    if commit_id.mode is Mode.CHANGELOG:
        StepImages(content.source_table, tuple(content.row_batches)).check_changes()
        return _ChangelogRows(content, schema)
    columns, images = content.images
    if not commit_id.keys:
        images.check_changes()
        finds_all = evidence is not None and not images.existing.any()
        return _WholeRows(images, columns, finds_all, content.rule.writes_unknown_as_null)
    keyed = KeyedImages(images, columns, commit_id.keys, commit_id.mode, content.rule, content.completing, evidence)
    return keyed if keyed.asks_target else replace(keyed, known=keyed.change())


class PreparedRows(Protocol):
    """Rows that only have to be written."""

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        """Write them in one commit, or in none where nothing changes; rows and keys brought to the target."""


@dataclass(frozen=True, slots=True)
class _ChangelogRows:
    content: RowsContent
    schema: pa.Schema

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        derived = self.content.derived
        rows = (cast_to_schema(batch, self.schema) for batch in self._batches())
        target.append(pa.RecordBatchReader.from_batches(self.schema, rows), commit_id)
        return sum(
            len(row_batch.images.table)
            for row_batch in (*self.content.row_batches, *(() if derived is None else derived.row_batches))
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for row_batch in self.content.row_batches:
            yield changelog_batch(row_batch)
        if self.content.derived is None:
            return
        schema = pa.schema([*self.content.derived.schema, *CHANGE_FIELDS, CASCADED_FROM])
        for row_batch, origin in zip(self.content.derived.row_batches, self.content.derived.origins, strict=True):
            count = len(row_batch.images.table)
            numbers, present = np.arange(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
            columns = [
                row_batch.images.column_of(index, numbers, present) for index in range(len(self.content.derived.schema))
            ]
            columns += change_columns(
                row_batch.images.table, row_batch.events, row_batch.groups, row_batch.gtid_sources
            )
            yield pa.RecordBatch.from_arrays([*columns, pa.repeat(origin, count)], schema=schema)


@dataclass(frozen=True, slots=True)
class KeyedImages:
    """The images of a step, or of one of its shards, of a table with a key.

    Attributes:
        columns: Of the table, without those of the mode.
        keys: Names of the key columns.
        mode: `MIRROR` or `SCD2`.
        completing: Rows may be missing that the server has; see `SelectedTable`.
        evidence: What the rows prove of the target; None: nothing.
        known: What they change, where that is known without the target.
    """

    images: StepImages
    columns: pa.Schema
    keys: tuple[str, ...]
    mode: Mode
    rule: TableRule
    completing: bool = False
    evidence: RowEvidence | None = None
    known: Change | None = None

    @property
    def asks_target(self) -> bool:
        """True if only the target has the values of some rows in columns that their images leave out.

        And there alone are the documents that changes to JSON values are made to, and the versions that existing rows
        of a snapshot may repeat.
        """
        if self.mode is Mode.MIRROR:
            return self.images.has_absent
        return self.images.has_changes or bool(self.images.existing.any())

    def change(self, target: Target | None = None) -> Change:
        """Compute the changed rows; rows of *target* are read if needed."""
        change = self._change(target)
        if self.evidence is None:
            return replace(change, expected=None, firsts=None, runs=None)  # whatever the target holds before it
        assert change.runs is not None, "both modes tell"
        found = self.evidence.broken_chain(self.images, change.runs, self.columns, self.keys)
        if found is not None:
            raise contradicted_by_step(self.images, self.columns, self.keys, found, self.rule.mask)
        return self.evidence.applied_to(change, self.images, self.columns, self.keys)

    def _change(self, target: Target | None) -> Change:
        keys, images, rule = [self.columns.get_field_index(key) for key in self.keys], self.images, self.rule
        if images.has_changes:
            images = self._with_documents(keys, target)
        if self.mode is Mode.SCD2:
            current = None if target is None else partial(current_rows, target)
            return scd2_change(images, self.columns, keys, current, computed_is_null=rule.computed_is_null)
        there = None if target is None else partial(self._rows_there, target)
        return mirror_change(
            images, self.columns, keys, deletes=rule.deletes, computed_is_null=rule.computed_is_null, there=there
        )

    def _with_documents(self, keys: Sequence[int], target: Target | None) -> StepImages:
        if target is None:
            self.images.check_changes()
        assert target is not None
        there = partial(documents_of, target, IS_CURRENT if self.mode is Mode.SCD2 else None)
        null_stays = self.rule.rewritten is Rewritten.NULL
        try:
            return with_documents(self.images, self.columns, keys, there, null_stays=null_stays)
        except DocumentError as error:
            raise wrong_document(self.images, self.columns, self.keys, error) from error

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        """See `PreparedRows`."""
        change = self.change(target) if self.known is None else self.known
        try:
            count = target.merge(change, commit_id)
        except ContradictedError as error:
            raise self.contradicted(change, error.contradictions) from error
        if self.evidence is not None:
            self.evidence.proved += proved_rows(change)
        return count

    def contradicted(self, change: Change, found: Contradictions) -> TableError:
        """The error for what a target contradicts of *change*."""
        return contradicted(self.images, self.keys, change, found, self.rule.mask)

    def _rows_there(self, target: Target, keys: pa.Table) -> pa.Table:
        found = with_texts(rows_with(target.read(), keys))
        if self.completing and (matching_rows(found.select(keys.column_names), keys) < 0).any():
            raise UnsupportedError(
                "ROW_IMAGE",
                f"{self.images.source_table}: an update changes the key of a row that its snapshot has not brought, "
                "and the row image lacks columns: nobody knows what they hold",
                hint=WHOLE_IMAGES_HINT,
            )
        return found


@dataclass(frozen=True, slots=True)
class _WholeRows:
    # A table without a key: equal rows are told apart by nothing, so all of them are read.
    images: StepImages
    schema: pa.Schema
    finds_all: bool  # the target has all rows that the step takes
    has_unknown_nulls: bool

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        count = len(self.images)
        if (self.images.kinds == ImageKind.INSERT).all() and not self.images.has_absent:
            arrays = [self.images.values(index, column.type) for index, column in enumerate(self.schema)]
            target.append(pa.Table.from_arrays(arrays, schema=self.schema).to_reader(), commit_id)
            return count
        rows = whole_row_change(target.identified_rows(), self.images, self.schema, finds_all=self.finds_all)
        try:
            target.replace(rows, commit_id)
        except MissingRowsError as error:
            raise missing_rows(self.images, self.schema, error, has_unknown_nulls=self.has_unknown_nulls) from error
        return count
