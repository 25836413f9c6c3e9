"""Changes as evidence of the rows that they replace: `evidence_for` a target, `contradicted` for what it refutes.

A target that is complete holds what its source table held before each change. Where settings let it hold something
else, only what must be there all the same is compared, or nothing (docs/completeness.md lists them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import TableError
from binlog_format.gtids.gtid_groups import gtid_of
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.evidence import Expected
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.lake.target import COMPLETE_PROPERTY
from binlog_streaming.modes.row_keys import KeyTable
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.settings.choices import Begin, Evidence, Mode, OnPartitionDrop, OnStatement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evidence import Contradictions
    from binlog_streaming.lake.target import CommitId
    from binlog_streaming.modes.partial.documents import DocumentError
    from binlog_streaming.modes.row_batches import StepImages
    from binlog_streaming.modes.whole_rows import MissingRowsError
    from binlog_streaming.settings import TableRule

_KEY_TEXT_MAX = 200
"""Characters of a key in an error."""

_EVENT_NAMES = {
    ImageKind.INSERT: "an INSERT",
    ImageKind.UPDATE_BEFORE: "an UPDATE",
    ImageKind.UPDATE_AFTER: "an UPDATE that sets this key",
    ImageKind.DELETE: "a DELETE",
}


@dataclass(slots=True)
class RowEvidence:
    """What changes of a target prove.

    Attributes:
        covers_inserts: The target holds no row for a key that comes new.
        proved: Rows that were there as changes need them, so far.
    """

    covers_inserts: bool = True
    proved: int = 0

    def applied_to(self, change: Change) -> Change:
        """*change*, with what the target must hold before it."""
        if self.covers_inserts or change.expected is None:
            return change
        expected = np.where(change.expected == Expected.NO_ROW, np.uint8(Expected.ANYTHING), change.expected)
        return replace(change, expected=expected)


def evidence_for(
    rule: TableRule, wanted: Evidence, commit_id: CommitId, properties: Mapping[str, str] | None
) -> RowEvidence | None:
    """What the changes of a step prove of a target; None: nothing.

    Args:
        rule: The job's settings for the table.
        wanted: Of the table; none for rows of a repair, which is made because the target is wrong.
        commit_id: Of the step.
        properties: Of the target; None: there is none yet.
    """
    is_complete = commit_id.complete
    if is_complete is None:
        is_complete = (properties or {}).get(COMPLETE_PROPERTY) == "true"
    is_off = wanted is Evidence.OFF or commit_id.mode is Mode.CHANGELOG
    # A table that may begin with gaps counts as complete where the log begins with the server's first transaction.
    if is_off or not is_complete or rule.begin is Begin.EMPTY:
        return None
    # These leave rows in the target that the server has no more, and that may come again.
    retains = rule.on_truncate is OnStatement.IGNORE or rule.on_partition_drop is OnPartitionDrop.KEEP
    return RowEvidence(covers_inserts=not retains)


def without_evidence(change: Change) -> Change:
    """*change*, whatever the target holds before it."""
    return replace(change, expected=None, gone=None)


def proved_rows(change: Change) -> int:
    """Rows of a target that *change* proves when nothing contradicts it."""
    return 0 if change.expected is None else int(np.count_nonzero(change.expected == Expected.ROW))


def contradicted(
    images: StepImages, columns: pa.Schema, keys: Sequence[str], change: Change, found: Contradictions
) -> TableError:
    """The error for a target that does not hold what it must hold before a change.

    Args:
        images: Of the step.
        columns: Of the table.
        keys: Names of the key columns.
        change: What the step makes of the target.
        found: What the target holds instead.
    """
    wanted = change.key_rows(keys).slice(int(found.numbers[0]), 1)
    place, kind = _first_image(images, columns, keys, wanted)
    expected, held = Expected(int(found.expected[0])), int(found.held[0])
    told = "no row" if not held else "a row" if held == 1 else f"{held} rows"
    needs = "the row" if expected is Expected.ROW else "no row"
    more = f"; {len(found) - 1} more keys of this step are contradicted" if len(found) > 1 else ""
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} needs a target with {needs} of key {_text(wanted)}, and "
        f"there is {told}{more}",
        hint=_hint(images),
    )


def missing_rows(images: StepImages, columns: pa.Schema, error: MissingRowsError) -> TableError:
    """The error for a target without a key that lacks rows which a step takes from it; arguments as `contradicted`."""
    numbers = np.array([error.image])
    arrays = [images.values(index, field.type, numbers) for index, field in enumerate(columns)]
    place, kind = _described(images, error.image)
    more = f"; {error.count - 1} more rows of this step are missing" if error.count > 1 else ""
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} needs a target with the row "
        f"{_text(pa.Table.from_arrays(arrays, schema=columns))}, and there is none that is equal{more}",
        hint=_hint(images),
    )


def wrong_document(images: StepImages, columns: pa.Schema, keys: Sequence[str], error: DocumentError) -> TableError:
    """The error for a target whose JSON value is not the one that logged changes are made to; see `contradicted`."""
    place, kind = _described(images, error.image)
    arrays = [
        images.values(columns.get_field_index(key), columns.field(key).type, np.array([error.image - 1]))
        for key in keys
    ]
    row = _text(pa.Table.from_arrays(arrays, names=list(keys)))
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} changes a part of the JSON value {error.column} of the row with key "
        f"{row}, and the target has {error.held} there",
        hint="The target was wrong before this change already, and nothing of the step was written. Let the job go on "
        'without the table (on_error = "set_aside"), and take its rows anew: '
        f"{snapshot_command(TableName.parse(images.source_table))}",
    )


def _hint(images: StepImages) -> str:
    return (
        "The target was wrong before this change already, and nothing of the step was written; binlog-stream "
        'prove names the rows that differ. To bring it back, set evidence = "off" for this table, let the job go on, '
        f"and take its rows anew: {snapshot_command(TableName.parse(images.source_table))}"
    )


def _first_image(images: StepImages, columns: pa.Schema, keys: Sequence[str], wanted: pa.Table) -> tuple[str, str]:
    # Where the first image of a key is, and what it is of.
    key_table = KeyTable.of(images, columns, [columns.get_field_index(key) for key in keys])
    order = images.in_log_order()
    rows = pa.concat_tables([wanted, key_table.taken(order)], promote_options="permissive")
    ids, _ = row_ids(comparable_table(rows.columns))
    first = int(order[int(np.argmax(ids[1:] == ids[0]))])
    return _described(images, first)


def _described(images: StepImages, image: int) -> tuple[str, str]:
    # Where an image is, and what it is of.
    row_batch, number = images.place_of(image)
    event = row_batch.events[int(row_batch.images.table["event"][number])]
    group = row_batch.groups[int(event["group"])]
    gtid = gtid_of(group, row_batch.gtid_sources)
    position = f"{group['file_no']}:{group['page']}:{group['chunk']}, event {event['event_no']}"
    # Of a key that was dealt out only its last image is known.
    kind = "a change" if row_batch.expected is not None else _EVENT_NAMES[ImageKind(int(images.kinds[image]))]
    return position if gtid is None else f"{gtid} ({position})", kind


def _text(key: pa.Table) -> str:
    values = ", ".join(
        f"{name} = {column[0].as_py()!r}" for name, column in zip(key.column_names, key.columns, strict=True)
    )
    return values if len(values) <= _KEY_TEXT_MAX else f"{values[:_KEY_TEXT_MAX]}..."
