"""An offset in a file that survives anything: `OffsetFile`.

A file is written beside it, forced to the disk, given the name, and the folder is forced to the disk: whenever the
machine stops, the old offset or the new one is there, whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError, storage_error

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND = "binlog-stream offset"
"""The kind that the file names, so that no other JSON file is taken for one, or written over."""

FILE_SIZE_MAX = 16 << 20
"""An offset is a few hundred bytes; more of a MySQL log with many sources, and of a large program's structured log."""

_FOREIGN_HINT = "Name another file, or take this one away if it is not needed: reading then begins where a new one does"


class OffsetFile:
    """The offset to continue at, in a local file.

    Args:
        path: The file; its folder must be there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def load(self) -> SourceOffset | None:
        """The offset; None when there is no file.

        Raises:
            OptionError: `INVALID_VALUE`: the file is damaged, or something else.
            UnsupportedError: `VERSION`: a later version of this program wrote it.
            AccessError: `DENIED`.
            StorageError: It cannot be read for another reason.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read(FILE_SIZE_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self._named, "read", error) from error
        return self._parse(data)

    def save(self, offset: SourceOffset) -> None:
        """Put *offset* in place of what is there; when this returns it is on the disk.

        Raises:
            AccessError: `DENIED`; the old offset is still there, as with all of these.
            StorageError: `NO_SPACE`; `NOT_FOUND`: its folder is not there; `FAILED`.
        """
        data = json.dumps({"kind": KIND, **offset.to_json()}).encode() + b"\n"
        # One name for all attempts: what a killed process left is written over, not added to.
        partial = self.path.with_name(f".{self.path.name}.partial")
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
            self._sync_folder()
        except OSError as error:
            raise storage_error(self._named, "write", error) from error

    @property
    def _named(self) -> str:
        return f"offset file {self.path}"

    def _sync_folder(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _parse(self, data: bytes) -> SourceOffset:
        if len(data) > FILE_SIZE_MAX:
            raise self._invalid("it is too large to be an offset")
        try:
            fields: object = json.loads(data)
        except ValueError as error:
            raise self._invalid(f"it is no JSON: {error}") from error
        if not isinstance(fields, dict) or fields.get("kind") != KIND:
            raise self._invalid(f'it is no offset: expected "kind": "{KIND}"')
        offset: Mapping[str, object] = {name: value for name, value in fields.items() if name != "kind"}
        try:
            return SourceOffset.from_json(offset)
        except ValueError as error:
            raise self._invalid(str(error)) from error

    def _invalid(self, reason: str) -> OptionError:
        return OptionError("INVALID_VALUE", f"offset file {self.path}: {reason}", hint=_FOREIGN_HINT)
