"""Every error that a log, an option or a table can cause: `BinlogError` and its families.

A condition is `FAMILY.SUBCLASS`, in the style of Spark's error conditions. The message reads
`[CONDITION] where: what: stored/expected X, computed/got Y. Hint`. Three outcomes are never mixed: a value; *not there
yet* (readers return fewer groups, nothing is raised); *damaged* (one of these errors, waiting does not help).
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar

from binlog_format.messages import printable
from binlog_format.position import Place


class BinlogError(Exception):
    """An error with a name, a place and a hint for the operator.

    Args:
        subclass: Second part of the condition; one of the family's `SUBCLASSES`.
        reason: What is wrong, with the values: stored and computed, or expected and got; kept as `printable`
            gives it.
    """

    FAMILY: ClassVar[str] = ""
    SUBCLASSES: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, subclass: str, reason: str, *, at: Place | None = None, hint: str | None = None) -> None:
        assert subclass in self.SUBCLASSES, f"{subclass} is not a subclass of {self.FAMILY}"
        super().__init__(subclass, reason)
        self.subclass = subclass
        self.reason = printable(reason)
        self.at = at
        self.hint = hint

    @property
    def condition(self) -> str:
        """Full name of the condition, for example `BINLOG_CORRUPT.PAGE_CHECKSUM`."""
        return f"{self.FAMILY}.{self.subclass}"

    @property
    def is_wrong_use(self) -> bool:
        """True if the command was given something that it is not for, rather than something that failed."""
        return False

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at is not None else ""
        hint = f". {self.hint}" if self.hint is not None else ""
        return printable(f"[{self.condition}] {where}{self.reason}{hint}")

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not pickle by default, and Spark carries errors from worker to driver.
        return (_rebuild, (type(self), self.subclass, self.reason, self.at, self.hint))


def _rebuild(
    error_type: type[BinlogError], subclass: str, reason: str, at: Place | None, hint: str | None
) -> BinlogError:
    return error_type(subclass, reason, at=at, hint=hint)


class DataLossError(BinlogError):
    """Data that should be in the log no longer exists."""

    FAMILY = "BINLOG_DATA_LOSS"
    SUBCLASSES = frozenset(
        {
            "FILE_PURGED",
            "GTID_PURGED",
            "LOG_RESET",
            "FORMAT_CHANGED",
            "FILE_REUSED",
            "FILE_GREW",
            "PAGE_REWRITTEN",
            "TRUNCATED_TRANSACTION",
            "XA_PREPARE_MISSING",
            "LOST_EVENTS",
            "MESSAGES_GONE",
            "CLAIM_GONE",
        }
    )


class CorruptError(BinlogError):
    """The bytes cannot be what a server wrote."""

    FAMILY = "BINLOG_CORRUPT"
    SUBCLASSES = frozenset(
        {
            "HEADER",
            "PAGE_CHECKSUM",
            "EVENT_CHECKSUM",
            "BAD_CHUNK",
            "OOB_REFERENCE",
            "GTID_STATE",
            "BAD_EVENT",
            "BAD_ENTRY",
            "ARCHIVE",
            "CLAIM",
        }
    )


class SchemaError(BinlogError):
    """The log does not record, or contradicts, what a table looks like."""

    FAMILY = "BINLOG_SCHEMA"
    SUBCLASSES = frozenset(
        {
            "NO_COLUMN_METADATA",
            "COLUMN_COUNT_MISMATCH",
            "COLUMN_MISMATCH",
            "SCHEMA_CHANGED",
            "TABLE_RENAMED",
            "DDL_NOT_PARSED",
            "NAMES_UNCLEAR",
            "NO_PRIMARY_KEY",
            "TABLE_NOT_FOUND",
            "PARTITION_BOUNDS",
            "OUTBOX_COLUMNS",
        }
    )


class UnsupportedError(BinlogError):
    """The log is sound, but holds something that this version does not read."""

    FAMILY = "BINLOG_UNSUPPORTED"
    SUBCLASSES = frozenset(
        {
            "EVENT_TYPE",
            "COLUMN_TYPE",
            "ZERO_DATE",
            "INVALID_TEXT",
            "ROW_IMAGE",
            "ENCRYPTED",
            "STATEMENT_FORMAT",
            "ROWS_NOT_LOGGED",
            "FOREIGN_KEY_CASCADE",
            "VERSION",
            "FORMAT",
            "XA_TRANSACTION",
            "MESSAGE_VALUE",
            "MESSAGE",
        }
    )


class StartError(BinlogError):
    """Reading cannot start (or end) where it was asked to."""

    FAMILY = "BINLOG_START"
    SUBCLASSES = frozenset(
        {
            "PATH_NOT_FOUND",
            "NO_LOG_FILES",
            "GTID_NOT_FOUND",
            "TIMESTAMP_NOT_FOUND",
            "POSITION_NOT_FOUND",
            "START_AFTER_END",
            "CONFLICTING_OPTIONS",
        }
    )


class SwitchError(BinlogError):
    """A job cannot go on in the log of another server."""

    FAMILY = "BINLOG_SWITCH"
    SUBCLASSES = frozenset(
        {"NO_GTIDS", "OTHER_SERVER", "MISSING_GTIDS", "ERRANT_TRANSACTIONS", "PURGED", "WITHIN_BATCH", "JOB_CHANGED"}
    )

    @property
    def is_wrong_use(self) -> bool:
        """See `BinlogError`: nothing was changed."""
        return True


class OptionError(BinlogError):
    """An option or a setting is not one that exists."""

    FAMILY = "BINLOG_OPTION"
    SUBCLASSES = frozenset({"UNKNOWN", "INVALID_VALUE", "MISSING"})

    @property
    def is_wrong_use(self) -> bool:
        """It is."""
        return True


class AccessError(BinlogError):
    """The file system refused; the condition has no subclasses."""

    FAMILY = "BINLOG_PERMISSION"
    SUBCLASSES = frozenset({"DENIED"})


class StorageError(BinlogError):
    """A file or a folder cannot be written or read, for another reason than rights."""

    FAMILY = "BINLOG_STORAGE"
    SUBCLASSES = frozenset({"NO_SPACE", "NOT_FOUND", "IN_USE", "FAILED"})


class MachineError(BinlogError):
    """Something is missing, or taken, on the machine that the program runs on."""

    FAMILY = "BINLOG_MACHINE"
    SUBCLASSES = frozenset({"NO_JAVA", "PORT_IN_USE"})


class ArgumentError(BinlogError):
    """Logged values do not match the type tags of the source."""

    FAMILY = "BINLOG_ARGUMENT"
    SUBCLASSES = frozenset({"TAGS", "COUNT", "TYPE", "RANGE"})


class TableError(BinlogError):
    """A target table cannot take what the log records."""

    FAMILY = "BINLOG_TABLE"
    SUBCLASSES = frozenset(
        {
            "OTHER_WRITER",
            "CHECKPOINT_BEHIND",
            "STANDS_ELSEWHERE",
            "TARGET_GONE",
            "INCOMPLETE",
            "SAME_TARGET",
            "MODE_CHANGED",
            "KEYS_CHANGED",
            "RULES_CHANGED",
            "NULL_KEY",
            "JSON_VALUE",
            "PARTITION_VALUE",
            "STATEMENT_REFUSED",
            "COLUMN_NAME",
            "TABLE_FEATURE",
            "CASCADE_RECORD",
            "CONTRADICTED",
            "REWRITTEN_BY_SERVER",
            "WRITE_FAILED",
            "UNEXPECTED_ERROR",
        }
    )


class BrokerError(BinlogError):
    """Kafka cannot be reached, refuses what it is sent, or has lost what it had."""

    FAMILY = "BINLOG_KAFKA"
    SUBCLASSES = frozenset(
        {
            "UNREACHABLE",
            "TLS",
            "AUTHENTICATION",
            "DENIED",
            "TOPIC_NOT_FOUND",
            "MESSAGE_TOO_LARGE",
            "REFUSED",
            "FAILED",
            "OTHER_PUBLISHER",
            "OFFSETS_LOST",
            "OFFSETS_TOPIC",
            "TRANSACTION_OPEN",
            "TRANSACTION_TOO_LONG",
        }
    )


class RegistryError(BrokerError):
    """The registry of schemas cannot be reached, or refuses a schema."""

    FAMILY = "BINLOG_REGISTRY"
    SUBCLASSES = frozenset({"UNREACHABLE", "TLS", "AUTHENTICATION", "DENIED", "INCOMPATIBLE", "REFUSED", "FAILED"})


class ServerError(BinlogError):
    """A live database server cannot be reached, refuses, or is not one that can be used so."""

    FAMILY = "BINLOG_SERVER"
    SUBCLASSES = frozenset(
        {
            "UNREACHABLE",
            "TLS",
            "AUTHENTICATION",
            "DENIED",
            "VERSION",
            "SETTINGS",
            "OTHER_SERVER",
            "REPLICA",
            "BUSY",
            "LOCKED",
            "NOT_LOGGED",
            "TABLE_REFUSED",
            "FAILED",
        }
    )

    @property
    def is_wrong_use(self) -> bool:
        """See `BinlogError`: the server is one that the command must not write to."""
        return self.subclass in ("OTHER_SERVER", "REPLICA")


def listening_error(what: str, host: str, port: int, error: OSError) -> BinlogError:
    """The named error for an address at which the system lets nobody listen."""
    reason = f"{what}: cannot listen at {host}:{port}: {error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        hint = "Another process listens there (ss -ltnp shows which); end it, or name another port"
        return MachineError("PORT_IN_USE", reason, hint=hint)
    if error.errno in _DENIED:
        return AccessError("DENIED", reason, hint="Ports below 1024 need a right of their own; name another one")
    return OptionError("INVALID_VALUE", reason, hint="Name an address of this machine")


_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_FOUND = frozenset({errno.ENOENT, errno.ENOTDIR})


def storage_error(path: object, doing: str, error: OSError) -> BinlogError:
    """The named error for what the file system answered.

    Args:
        path: The file or the folder, for the message.
        doing: What was to be done with it, as a verb: `write`.
    """
    # Arrow wraps the system's own words; the number is always the system's.
    reason = f"cannot {doing} it: {os.strerror(error.errno) if error.errno else error}"
    at = Place(str(path))
    if error.errno in _DENIED:
        return AccessError("DENIED", reason, at=at, hint="Run as a user who may do so, or name another place")
    if error.errno in _NO_SPACE:
        return StorageError("NO_SPACE", reason, at=at, hint="Make room, or name another place")
    if error.errno in _NOT_FOUND:
        is_read = doing.startswith("read")
        hint = "Name a file that is there" if is_read else "Make the folder first, or name another place"
        return StorageError("NOT_FOUND", reason, at=at, hint=hint)
    return StorageError("FAILED", reason, at=at)
