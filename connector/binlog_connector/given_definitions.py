"""Facts about tables that a query has beside the statements of its log: `GivenDefinitions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from binlog_connector.log_definitions import SchemaFile


class GivenDefinitions(NamedTuple):
    """Definitions that are known before the first statement of a log is read.

    Attributes:
        file: A schema file, which holds before all statements; None: there is none.
        kept: File of the definitions that a job keeps; None: there is none.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.
    """

    file: SchemaFile | None = None
    kept: str | None = None
    folds_names: bool | None = None


NOTHING_GIVEN = GivenDefinitions()
