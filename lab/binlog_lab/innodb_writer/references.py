"""Older files to which the log still refers, for the headers of new files: `FileReferences`."""

from __future__ import annotations

from collections import Counter


class _Users:
    """Number of open transactions that need each file, and the lowest file that may be needed."""

    def __init__(self, active_file_no: int) -> None:
        self.earliest = active_file_no
        self._counts: Counter[int] = Counter()

    def add(self, file_no: int) -> None:
        self._counts[file_no] += 1
        self.earliest = min(self.earliest, file_no)

    def remove(self, file_no: int, active_file_no: int) -> None:
        # A transaction whose first record fell into the next file is given back there, where it was never counted:
        # then its old file stays counted until the next restart.
        if self._counts[file_no] > 0:
            self._counts[file_no] -= 1
        self.advance(active_file_no)

    def advance(self, active_file_no: int) -> None:
        while self.earliest < active_file_no and self._counts[self.earliest] == 0:
            del self._counts[self.earliest]
            self.earliest += 1

    def any(self) -> bool:
        return any(count > 0 for count in self._counts.values())


class FileReferences:
    """Counters of open out-of-band transactions and of pending XA transactions, by file.

    Args:
        active_file_no: File that the writer starts in.
    """

    def __init__(self, active_file_no: int) -> None:
        self._active_file_no = active_file_no
        self._oob = _Users(active_file_no)
        self._xa = _Users(active_file_no)

    @property
    def oob_file_no(self) -> int:
        """Lowest file that may hold out-of-band data which is still needed; a lower bound."""
        return self._oob.earliest

    @property
    def xa_file_no(self) -> int | None:
        """Lowest file that may hold a pending XA transaction."""
        return self._xa.earliest if self._xa.any() else None

    def enter_file(self, file_no: int) -> None:
        """The writer goes on in *file_no*."""
        self._active_file_no = file_no
        self._oob.advance(file_no)
        self._xa.advance(file_no)

    def add_oob(self) -> int:
        """Count a transaction just before its first record is written.

        Returns:
            The file that it was counted for: the active one, although the record itself may come to lie in the next.
        """
        self._oob.add(self._active_file_no)
        return self._active_file_no

    def remove_oob(self, file_no: int) -> None:
        """A transaction whose first record lies in *file_no* has ended."""
        self._oob.remove(file_no, self._active_file_no)

    def add_xa(self, file_no: int) -> None:
        """An XA transaction whose data begins in *file_no* is prepared."""
        self._xa.add(file_no)

    def remove_xa(self, file_no: int) -> None:
        """Remove an XA transaction that has been committed or rolled back."""
        self._xa.remove(file_no, self._active_file_no)

    def keep_oob(self, file_no: int) -> None:
        """Note, after a restart, that a prepared XA transaction has its first record in *file_no*."""
        self._oob.add(file_no)
