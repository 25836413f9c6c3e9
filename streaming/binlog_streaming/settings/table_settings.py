"""Settings of `[[tables]]`, as job files and docs explain them: `TABLES`; of rows and columns alone: `ROWS`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of a job file. *example*: what is shown, commented out, where it has no default."""

    name: str
    comment: str
    example: str | None = None


ROWS = (
    Setting(
        "columns",
        "The only columns that are shown, also after others are added; default: all. The name of a column that "
        'not all tables have ends in a question mark: "note?".',
        '["id", "country"]',
    ),
    Setting("drop_columns", "Or columns that are hidden; columns that are added later are shown.", '["password"]'),
    Setting(
        "mask",
        "Replacement of values: null, text and a text, last and a number (of characters that are shown), or "
        "sha256 (of the salt and the value, in hexadecimal digits). NULL stays NULL.",
        '{ email = "sha256", card = "last 4", phone = "text ***", note = "null" }',
    ),
    Setting("salt_variable", "Environment variable with the salt of sha256, which keeps values secret.", '"SHOP_SALT"'),
    Setting(
        "where",
        "Only rows for which this is true; an update after which it becomes true or false is an insert or a delete. "
        "Comparisons with literals, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, with the values before masks.",
        """ "country = 'DE' AND deleted_at IS NULL" """.strip(),
    ),
)
TABLES = (
    Setting("select", "Regular expressions on database.table, separated by commas, each for the whole name."),
    Setting(
        "mode",
        "mirror: the rows that the table has now, by primary key. changelog: every change, in order, in the shape of a "
        "change data feed. scd2: every version of a row, with the times between which it was valid. Several: "
        '["mirror", "changelog"], with {mode} in the target.',
    ),
    Setting(
        "keys",
        "Columns that identify rows, for tables whose primary key is not in the log; default: the primary key, or "
        "the whole row without one.",
        '["id"]',
    ),
    Setting("target", "Place in the sink's directory; {database}, {table} and {mode} are filled in."),
    Setting(
        "deletes",
        "Handling of a deleted row in a mirror: remove, or mark (it stays, with _deleted true and the time in "
        "_deleted_at).",
    ),
    Setting(
        "on_truncate",
        "Effect of a TRUNCATE of the source table: apply (a mirror becomes empty, versions end, a changelog gets a row "
        "that records it), ignore, or fail (the job stops before it).",
    ),
    Setting("on_drop", "The same for DROP TABLE and DROP DATABASE; with ignore the rows stay unchanged."),
    Setting(
        "on_partition_drop",
        "Effect of DROP PARTITION, TRUNCATE PARTITION, and REORGANIZE PARTITION of LIST with fewer values, of the "
        "source table: fail (the job stops before them), "
        "keep (the rows stay in the targets), or apply (they are deleted from a mirror, versions end; the bounds of "
        "the partitions come from the log's CREATE TABLE or from schemaFile). With "
        "apply, EXCHANGE PARTITION with an empty side is done as well.",
    ),
    Setting(
        "unknown_values",
        "Value of existing rows in a new column if the log lacks it (an expression as "
        "default, AUTO_INCREMENT, a generated column that is not computed, see docs/ddl.md): fail (the job stops "
        "before it), or null.",
    ),
    Setting(
        "generated",
        "Handling of generated columns that the log lacks after an UPDATE (MariaDB leaves VIRTUAL ones out of partial "
        "row images, MariaDB 11.8 STORED ones too, also with binlog_row_image=FULL), and that are not computed "
        "(docs/ddl.md says which ones are): fail (the job stops "
        "before it), null (they are null there), or drop (targets have no generated columns at all).",
    ),
    Setting(
        "rewritten",
        "Value of a column after an ALTER TABLE whose effect on its values is unknown (docs/ddl.md has the table): "
        "fail (the job stops before it), or null. Columns of the key are never null.",
    ),
    Setting(
        "on_statement",
        "Effect of a statement that changes rows of the table without row events (binlog_format=MIXED or STATEMENT): "
        "fail (the job stops before it), or ignore (the table lacks these changes).",
    ),
    Setting(
        "foreign_keys",
        "Effect of a DELETE or a change of keys in a parent table, if CASCADE or SET NULL of a foreign key may "
        "change rows of this table and these changes are not logged (MariaDB; MySQL before 9.6, or with native "
        "foreign keys): fail (the job stops before it), apply (the changes are derived, and applied to the "
        "targets), or ignore (the table lacks these changes).",
    ),
    Setting(
        "begin",
        "Start of a mirror or scd2 table: created (its CREATE TABLE or a TRUNCATE is in the part of the log that is "
        "read, or the log begins with the server's first transaction; otherwise the job stops), snapshot (otherwise "
        "it waits for the rows that binlog-stream snapshot writes into the log), or empty (it was empty where the "
        "job begins, or gaps are accepted).",
    ),
    Setting(
        "partition_by",
        "Partitions of new targets: by columns; Iceberg's also by year(c), month(c), day(c), hour(c), "
        "bucket(16, c) and truncate(4, c).",
        '["country"]',
    ),
    Setting("evidence", "The same as at the top, only for these tables; default: as there.", '"off"'),
    Setting("evidence_after", "The same.", "100_000"),
    Setting("evidence_sample", "The same.", "0"),
    *ROWS,
)
