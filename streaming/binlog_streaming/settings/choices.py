"""What settings may be, where there are only a few values: one class each."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What a target table holds."""

    MIRROR = "mirror"
    """The current state of the source table, by primary key."""
    CHANGELOG = "changelog"
    """Every row image, in order, in the shape of a change data feed."""
    SCD2 = "scd2"
    """Every version that a row ever had, and when it held, by primary key."""


class Deletes(StrEnum):
    """What a deleted row becomes in a mirror."""

    REMOVE = "remove"
    MARK = "mark"
    """It stays; the columns `_deleted` and `_deleted_at` record it."""


class OnStatement(StrEnum):
    """What a TRUNCATE or a DROP of a source table does to its targets."""

    APPLY = "apply"
    IGNORE = "ignore"
    FAIL = "fail"
    """The job stops before it."""


class UnknownValues(StrEnum):
    """What existing rows get in a new column, where the log lacks their values."""

    FAIL = "fail"
    NULL = "null"


class Rewritten(StrEnum):
    """What a column gets whose values an ALTER TABLE changed, where it is not known to what."""

    FAIL = "fail"
    NULL = "null"


class OnPartitionDrop(StrEnum):
    """What DROP PARTITION and TRUNCATE PARTITION of a source table do to its targets."""

    FAIL = "fail"
    """The job stops before it."""
    KEEP = "keep"
    """The rows stay in the targets."""
    APPLY = "apply"
    """They go from there too, where it can be told which ones were in the partitions."""


class OnRowStatement(StrEnum):
    """What a statement that changes rows of a table without row events does to the job."""

    FAIL = "fail"
    IGNORE = "ignore"


class OnCascade(StrEnum):
    """What becomes of a child table whose rows foreign keys change without a word in the log."""

    FAIL = "fail"
    IGNORE = "ignore"
    APPLY = "apply"
    """They are worked out, and made in its targets."""


class Begin(StrEnum):
    """From where on a table has to be in the log."""

    CREATED = "created"
    """From its CREATE TABLE or a TRUNCATE on; or the log begins with the server's first transaction."""
    EMPTY = "empty"
    """It counts as empty where the job begins; rows from before then are not in its targets."""
    SNAPSHOT = "snapshot"
    """As `created`; else from where a snapshot of it begins in the log, and until then it waits."""


class Evidence(StrEnum):
    """What of a target is compared with the images of rows before they change."""

    ROWS = "rows"
    """The whole row."""
    KEYS = "keys"
    """Whether the row is there, or is not there where one comes new."""
    OFF = "off"


class OnError(StrEnum):
    """What becomes of a job when one of its tables cannot go on."""

    STOP = "stop"
    SET_ASIDE = "set_aside"
    """That table stays as it is, and all others go on."""


class Merge(StrEnum):
    """How superseded rows of a table go."""

    AUTO = "auto"
    """Files of small tables are written anew; rows of large ones are marked, once writing anew costs more."""
    MARK = "mark"
    """They are marked in deletion vectors or position delete files, for readers that know these."""
    REWRITE = "rewrite"
    """Their files are written anew; every reader reads them."""


class TableFormat(StrEnum):
    """What kind of tables a sink writes."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"
    """Plain files: for changelogs only."""

    @property
    def replaces_rows(self) -> bool:
        """Whether a commit can replace rows; else there are changelogs alone, without versions and proofs."""
        return self in (TableFormat.DELTA, TableFormat.ICEBERG)

    @property
    def has_catalog(self) -> bool:
        """Whether tables are found through a catalog (`[sink.catalog]`)."""
        return self is TableFormat.ICEBERG

    @property
    def has_partitions(self) -> bool:
        """Whether tables can be partitioned by values of columns."""
        return self in (TableFormat.DELTA, TableFormat.ICEBERG)

    @property
    def has_partition_functions(self) -> bool:
        """Whether they can be partitioned by functions of columns, such as `day(created)`."""
        return self is TableFormat.ICEBERG

    @property
    def extra(self) -> str | None:
        """The extra of this package that brings the library of the format; None: it needs none of its own."""
        return str(self) if self in (TableFormat.DELTA, TableFormat.ICEBERG) else None


DEFAULT_FORMAT = TableFormat.DELTA
