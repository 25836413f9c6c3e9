"""Capabilities of the formats: `FORMAT_TRAITS`, by name. This module loads no compiled code."""

from __future__ import annotations

from dataclasses import dataclass

INNODB = "innodb"
CLASSIC = "classic"
STRUCTURED = "structured"
"""Names of the formats: `Log.format_name`."""

_TABLE_VIEWS = ("changes", "changefeed", "events", "transactions", "tables")


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """Capabilities that all logs of a format share; code asks for these instead of the format's name.

    Attributes:
        views: What a row can be (option `view`); the default view comes first.
        has_changes: The log has changes of tables, in transactions with GTIDs. Otherwise it has events of a program,
            which `Log.events` reads.
        is_indexed: The log itself records, without a scan, where its data ends and which GTIDs lie before a file.
        separates_xa: Rows of an XA transaction lie before its XA PREPARE, its XA COMMIT comes later without them.
        has_byte_positions: The server names places by file name and byte (`mysql-bin.000001:14542`).
        has_sealed_bound: Reading can end before the files that the server may still change (`Bound.SEALED`).
        unsealed_files: So many of the newest files may still be changed by the server, when it recovers from a crash.
    """

    views: tuple[str, ...] = _TABLE_VIEWS
    has_changes: bool = True
    is_indexed: bool = False
    separates_xa: bool = False
    has_byte_positions: bool = False
    has_sealed_bound: bool = False
    unsealed_files: int = 1


FORMAT_TRAITS = {
    INNODB: FormatTraits(is_indexed=True, has_sealed_bound=True, unsealed_files=2),
    CLASSIC: FormatTraits(separates_xa=True, has_byte_positions=True),
    STRUCTURED: FormatTraits(views=("logs",), has_changes=False),
}
