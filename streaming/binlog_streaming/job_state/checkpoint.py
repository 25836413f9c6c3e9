"""Progress of a job, from Spark's checkpoint: `read_checkpoint(state)`.

What else writes the tables of a job does so as a batch of it, in which nothing of the log is read: `begin_query`, then
`begin_batch` and `end_batch` write the files that Spark writes, in its order. A batch that has begun and not ended is
done again by Spark, which then has nothing to do.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_streaming.job_state.state_files import StateFolder

_VERSION = "v1"
_NO_SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_ENDED = '{"nextBatchWatermarkMs":0}'
_HEADER_LINES = 2
"""Lines before the offsets in a file in `offsets`: the version of the file, and the batch's time and settings."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Contents of a checkpoint.

    Attributes:
        query_id: Of the streaming query; tables remember it.
        batch_id: The last batch that was written as a whole; None: none was.
        offset: Where that batch ended, and the next one begins.
        pending: Where the batch ends that was begun after it; it will be done again. None: none was begun.
    """

    query_id: str
    batch_id: int | None
    offset: SourceOffset | None
    pending: SourceOffset | None


def read_checkpoint(state: StateFolder) -> Checkpoint | None:
    """Read *state*, the checkpoint's directory; None: there is no checkpoint yet.

    Raises:
        OptionError: `INVALID_VALUE`: it is not the checkpoint of a stream from a log.
    """
    metadata = state.read("metadata")
    if metadata is None:
        return None
    try:
        query_id = str(json.loads(metadata)["id"])
        batch_id = max(_numbers(state, "commits"), default=None)
        begun = max(_numbers(state, "offsets"), default=None)
        return Checkpoint(
            query_id,
            batch_id,
            None if batch_id is None else _offset(state, batch_id),
            None if begun is None or begun == batch_id else _offset(state, begun),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(
            "INVALID_VALUE",
            f"not the checkpoint of a stream from a log: {error}",
            at=Place(state.directory),
            hint="Name another directory as checkpoint; a new one begins a new job",
        ) from error


def begin_query(state: StateFolder) -> str:
    """The id of the query whose checkpoint this is; where there is none yet, it gets one, and begins with no batch.

    Raises:
        OptionError: As `read_checkpoint`.
    """
    known = read_checkpoint(state)
    if known is not None:
        return known.query_id
    query_id = str(uuid.uuid4())
    state.write("metadata", json.dumps({"id": query_id}).encode())
    return query_id


def begin_batch(state: StateFolder, batch_id: int, offset: SourceOffset) -> bool:
    """Begin a batch that ends at *offset*; False: somebody else has begun it."""
    before = state.read(f"offsets/{batch_id - 1}")
    settings = _NO_SETTINGS if before is None else before.decode().splitlines()[1]
    content = "\n".join((_VERSION, settings, json.dumps(offset.to_json(), separators=(",", ":"))))
    return state.create(f"offsets/{batch_id}", content.encode())


def end_batch(state: StateFolder, batch_id: int) -> None:
    """A batch is written as a whole."""
    state.create(f"commits/{batch_id}", f"{_VERSION}\n{_ENDED}".encode())


def read_offset(state: StateFolder, batch_id: int) -> SourceOffset | None:
    """Read the end of a batch; None: the checkpoint does not have it."""
    return _offset(state, batch_id)


def _offset(state: StateFolder, batch_id: int) -> SourceOffset | None:
    content = state.read(f"offsets/{batch_id}")
    if content is None:
        return None
    lines = content.decode().splitlines()[_HEADER_LINES:]
    if len(lines) != 1:
        raise ValueError(f"offsets/{batch_id}: expected one source, got {len(lines)}")
    return SourceOffset.from_json(json.loads(lines[0]))


def _numbers(state: StateFolder, folder: str) -> list[int]:
    return [int(number) for number in state.names(folder) if number.isdecimal()]
