"""How far a job has come, as Spark's checkpoint says: `read_checkpoint(state)`; nothing is written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_streaming.jobs.state_files import StateFolder

_HEADER_LINES = 2
"""Of a file in `offsets`: the version of the file, and what the batch knew of time and settings."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        query_id: Of the streaming query; tables remember it.
        batch_id: The last batch that was written as a whole; None: none was.
        offset: Where that batch ended, and the next one begins.
        pending: Where the batch ends that was begun behind it; it will be done again. None: none was begun.
    """

    query_id: str
    batch_id: int | None
    offset: SourceOffset | None
    pending: SourceOffset | None


def read_checkpoint(state: StateFolder) -> Checkpoint | None:
    """What is in *state*, the checkpoint's directory; None: there is no checkpoint yet.

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


def read_offset(state: StateFolder, batch_id: int) -> SourceOffset | None:
    """Where a batch ends; None: the checkpoint does not know it."""
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
