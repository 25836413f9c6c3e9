"""Options of a replay and the range found for it, kept until it is complete: `ReplayRecord`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from binlog_format.errors import OptionError
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_streaming.job_state.state_files import StateFolder

RECORD_FILE = "binlog-stream-replay.json"
"""Record in the replay's checkpoint; Spark ignores it."""
VERSION = 1


class ReplayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replay that has been begun.

    Attributes:
        asked_from: `--from`; None: it was not given.
        asked_to: `--to`; None: it was not given.
        hand_over: `--hand-over`.
        query_id: Under which the replay writes.
        starting: Options of the source that set where it begins, as the source takes them.
        ending: Those that set where it ends.
        first: What tables hold that it goes on with, as GTIDs.
        last: What tables hold after it.
        tables: The tables that it is about: database and name.
        left_alone: Those of them that held all of it before.
        continued: Those of them that were where it begins.
        from_first: It goes on where the tables are, in a log that begins with its server's first transaction; None:
            it begins elsewhere.
        version: Of this file.
    """

    asked_from: str | None
    asked_to: str | None
    hand_over: bool
    query_id: str
    starting: dict[str, str]
    ending: dict[str, str]
    first: str
    last: str
    tables: tuple[tuple[str, str], ...] = ()
    left_alone: tuple[tuple[str, str], ...] = ()
    continued: tuple[tuple[str, str], ...] = ()
    from_first: bool | None = None
    version: int = VERSION

    @property
    def asked(self) -> tuple[str | None, str | None, bool]:
        """Options that the user gave."""
        return self.asked_from, self.asked_to, self.hand_over


class ReplayCheckpoint:
    """The checkpoint of a replay.

    Args:
        state: Its directory.
    """

    def __init__(self, state: StateFolder) -> None:
        self.directory = state.directory
        self._state = state

    def read(self) -> ReplayRecord | None:
        """The replay that was begun there and is not complete; None: there is none.

        Raises:
            OptionError: `INVALID_VALUE`: the record is none.
        """
        content = self._state.read(RECORD_FILE)
        if content is None:
            return None
        try:
            record = msgspec.json.decode(content, type=ReplayRecord)
            if record.version > VERSION:
                raise ValueError(f"version {record.version}, this program reads up to {VERSION}")
        except (msgspec.MsgspecError, ValueError) as error:
            raise OptionError(
                "INVALID_VALUE",
                f"not the record of a replay: {error}",
                at=Place(f"{self.directory}/{RECORD_FILE}"),
                hint="It was damaged, or written by a later version. Delete the folder it is in to begin anew",
            ) from error
        return record

    def begin(self, record: ReplayRecord) -> None:
        """Write *record* down, and the id under which Spark will run the query.

        Raises:
            AccessError: It cannot be written.
        """
        self.remove()  # what is left of one whose removal was cut off
        # Spark takes the id that is there, so tables can be given to the query before it runs.
        self._state.write("metadata", json.dumps({"id": record.query_id}).encode())
        self._state.write(RECORD_FILE, msgspec.json.format(msgspec.json.encode(record), indent=2))

    def forget(self, name: str) -> None:
        """Remove a file of it, if it is there."""
        self._state.forget(name)

    def remove(self) -> None:
        """Remove all of it, the record first: the rest without it is nothing to go on with."""
        self._state.forget(RECORD_FILE)
        self._state.remove()
