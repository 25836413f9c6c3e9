"""XA transactions between prepare and the end: `Xid`, their records, `PreparedTransactions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.innodb.layout import XA_COMPLETE_COMMIT, XA_COMPLETE_ROLLBACK, XA_HEADER_STRUCT
from binlog_lab.innodb_writer.encoding import encode_compressed_ints

if TYPE_CHECKING:
    from binlog_lab.innodb_writer.forest import OobReference
    from binlog_lab.innodb_writer.references import FileReferences


@dataclass(frozen=True, slots=True)
class Xid:
    """Name of an XA transaction, or of the server's own two-phase commit."""

    format_id: int
    gtrid: bytes
    bqual: bytes = b""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared XA transaction.

    Attributes:
        reference: Its out-of-band data.
        oob_file_no: File for which that data is counted; None without data.
        record_file_no: File of its XA prepare record.
    """

    reference: OobReference
    oob_file_no: int | None
    record_file_no: int

    @property
    def first_file_no(self) -> int:
        """The first file that is needed to commit it."""
        return self.record_file_no if self.oob_file_no is None else self.oob_file_no


def prepare_record(xid: Xid, engine_count: int, reference: OobReference) -> bytes:
    """Payload of an XA prepare record."""
    return b"".join(
        (
            _head(engine_count, xid),
            encode_compressed_ints((reference.record_count, *reference.first, *reference.last)),
        )
    )


def complete_record(xid: Xid, *, commits: bool) -> bytes:
    """Payload of an XA complete record."""
    return _head(XA_COMPLETE_COMMIT if commits else XA_COMPLETE_ROLLBACK, xid)


def _head(first: int, xid: Xid) -> bytes:
    head = XA_HEADER_STRUCT.pack(first, xid.format_id, len(xid.gtrid), len(xid.bqual))
    return b"".join((head, xid.gtrid, xid.bqual))


class PreparedTransactions:
    """The XA transactions that are prepared and not ended.

    Args:
        references: Counts the files that they need.
    """

    def __init__(self, references: FileReferences) -> None:
        self._references = references
        self._prepared: dict[Xid, Prepared] = {}

    def __contains__(self, xid: Xid) -> bool:
        return xid in self._prepared

    def xids(self) -> list[Xid]:
        """Names of all of them, in the order of their XA PREPARE."""
        return list(self._prepared)

    def add(self, xid: Xid, prepared: Prepared) -> None:
        """*xid* has been prepared."""
        self._references.add_xa(prepared.first_file_no)
        self._prepared[xid] = prepared

    def reference_of(self, xid: Xid) -> OobReference:
        """The out-of-band data of *xid*.

        Raises:
            KeyError: It is not prepared.
        """
        return self._prepared[xid].reference

    def remove(self, xid: Xid) -> None:
        """*xid* has been committed or rolled back."""
        prepared = self._prepared.pop(xid)
        if prepared.oob_file_no is not None:
            self._references.remove_oob(prepared.oob_file_no)
        self._references.remove_xa(prepared.first_file_no)
