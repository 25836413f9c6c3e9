"""Messages about what becomes of snapshots and of the job itself, for `sink.notification_topic`: `Notifications`.

Their form is that of Debezium's notifications: `id`, `aggregate_type`, `type`, `additional_data` (texts by name) and
`timestamp` (milliseconds since 1970 UTC), as JSON without a schema; the key has the `id`.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from binlog_connector.kafka.producer import Messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.following.offsets import SourceOffset

SNAPSHOT, JOB = "Incremental Snapshot", "Job"
_TYPES = {"begin": "STARTED", "chunk": "IN_PROGRESS", "end": "TABLE_SCAN_COMPLETED", "cancel": "ABORTED"}
_MS = 1000


class _Notification(msgspec.Struct, frozen=True):
    id: str
    aggregate_type: str
    type: str
    additional_data: dict[str, str]
    timestamp: int


@dataclass(frozen=True, slots=True)
class Notifications:
    """Makes the messages of one job.

    Attributes:
        topic: For them.
        publisher: The job's `topic_prefix`.
    """

    topic: str
    publisher: str

    def of_marks(self, marks: Sequence[Mapping[str, Any]]) -> Messages:
        """Messages about snapshots whose rows the job publishes.

        Args:
            marks: Of these snapshots, in log order, as values of `MARK_TYPE`; at least one.
        """
        return self._messages([self._of_mark(mark) for mark in marks if mark["kind"] in _TYPES])

    def started(self, offset: SourceOffset) -> Messages:
        """The message that the job has started, and continues at *offset*."""
        about = {"connector_name": self.publisher, "position": str(offset.position), "gtid": str(offset.gtid)}
        return self._messages([_Notification(str(uuid.uuid4()), JOB, "STARTED", about, int(time.time() * _MS))])

    def _of_mark(self, mark: Mapping[str, Any]) -> _Notification:
        kind, table = str(mark["kind"]), f"{mark['database']}.{mark['table']}"
        about = {"connector_name": self.publisher, "data_collections": table}
        detail = msgspec.json.decode(str(mark["detail"]))
        if kind == "chunk":
            about |= {"current_collection_in_progress": table, "chunk": str(mark["chunk"])}
            about |= {"rows_scanned": str(mark["row_count"])}
        elif kind == "end":
            about |= {"scanned_collection": table, "total_rows_scanned": str(detail["rows"]), "status": "SUCCEEDED"}
        elif kind == "cancel":
            about |= {"reason": str(detail.get("reason", ""))}
        return _Notification(str(mark["snapshot"]), SNAPSHOT, _TYPES[kind], about, int(mark["commit_time"]) * _MS)

    def _messages(self, notifications: Sequence[_Notification]) -> Messages:
        keys = [msgspec.json.encode({"id": one.id}) for one in notifications]
        values = [msgspec.json.encode(one) for one in notifications]
        return Messages(self.topic, pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
