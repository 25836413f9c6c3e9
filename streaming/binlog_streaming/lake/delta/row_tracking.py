"""Ids of rows in Delta tables with row tracking: which tables keep them, and those that a commit gives to new files.

A row's id is the first one of its file plus its place in the file, unless the file has a column with ids. So does the
version in which the row changed last: that of its file, or a column's value.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

from binlog_streaming.lake.delta.actions import ROW_IDS, Add, Domain, statistics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.lake.delta.log import Named, TableLog

ROWS_KEPT = "delta.rowTracking.preserved"
"""Tag of commits after which all rows that were there before have their ids."""

_ROW_TRACKING = "rowTracking"
ROW_ID_FEATURES = _ROW_TRACKING, "domainMetadata"
"""Features that writers of a table with row tracking have to support; readers need none."""

_SUSPENDED = "delta.rowTrackingSuspended"
MATERIALIZED = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""Properties with the names that columns of `IDENTITY` have in files."""

_ROW_DOMAIN = "delta.rowTracking"
_HIGH_WATER_MARK = "rowIdHighWaterMark"


def row_id_properties() -> dict[str, str]:
    """Properties of a new table whose rows keep their ids."""
    names = (f"_row-id-col-{uuid.uuid4()}", f"_row-commit-version-col-{uuid.uuid4()}")
    return {ROW_IDS: "true", **dict(zip(MATERIALIZED, names, strict=True))}


def with_row_ids(log: TableLog, actions: Sequence[Named]) -> Sequence[Named]:
    """*actions* of the next commit, with ids for the rows of new files where the table's feature asks for them.

    A file that is in the table already, and gets another deletion vector, has the ids that it had.
    """
    gives_ids = _ROW_TRACKING in (log.protocol.writer_features or ())
    if not gives_ids or log.metadata.configuration.get(_SUSPENDED) == "true":
        return actions
    recorded = log.domains.get(_ROW_DOMAIN)
    last = before = -1 if recorded is None else int(json.loads(recorded.configuration)[_HIGH_WATER_MARK])
    numbered: list[Named] = []
    for name, action in actions:
        if isinstance(action, Add) and action.base_row_id is None:
            count = statistics_of(action)["numRecords"]
            assert isinstance(count, int)
            numbered.append((name, replace(action, base_row_id=last + 1, default_row_commit_version=log.version + 1)))
            last += count
        else:
            numbered.append((name, action))
    if last > before:
        mark = Domain(domain=_ROW_DOMAIN, configuration=json.dumps({_HIGH_WATER_MARK: last}), removed=False)
        numbered.append(("domainMetadata", mark))
    return numbered
