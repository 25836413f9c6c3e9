"""A case of the corpus as a test needs it: `load_case` gives what its server did and had, in log order.

Where the cases are, and how each is read: `case_path`, `CASES`.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlog_format.position import Position
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path


Row = list[Any]
VIRTUAL_PAGE_SIZE = 16384


@dataclass(frozen=True)
class Schema:
    """A table from some step on.

    Attributes:
        table: `database.table`.
        create: What SHOW CREATE TABLE said.
        columns: From information_schema, in order.
        dropped: Whether it is gone from here on.
    """

    step: int
    table: str
    create: str
    columns: tuple[dict[str, str | None], ...]
    dropped: bool

    @property
    def is_versioned(self) -> bool:
        """Whether the log describes statements on it by other changes than SELECT shows."""
        return "PERIOD FOR" in self.create or "SYSTEM VERSIONING" in self.create

    @property
    def virtual(self) -> set[str]:
        """Columns that are computed when they are read."""
        return {str(column["name"]) for column in self.columns if "VIRTUAL" in str(column["extra"])}

    @property
    def is_partitioned(self) -> bool:
        """Whether SELECT shows the rows of a statement in another order than it wrote them."""
        return "PARTITION BY" in self.create

    @property
    def shape(self) -> list[tuple[str | None, ...]]:
        """What makes a reader's columns."""
        return [(c["name"], c["column_type"], c["charset"], c["nullable"]) for c in self.columns]

    def is_default(self, column: str, value: Any) -> bool:
        """Whether a column gets *value* where a statement does not name it."""
        found = re.search(rf"^ *`{re.escape(column)}` .* DEFAULT ('[^']*'|\S+?),?$", self.create, re.M)
        text = found[1].strip("'") if found else ""
        return found is not None and (
            value == text or (isinstance(value, dict) and value["hex"] == text.encode().hex().upper())
        )

    @property
    def is_sequence(self) -> bool:
        return self.columns[0]["name"] == "next_not_cached_value"


@dataclass(frozen=True)
class TrueChange:
    """A changed row as the server's SELECTs before and after a statement show it.

    Attributes:
        gtid: Of the group that brings it to a reader: of an XA transaction that of XA COMMIT.
        schema: Of the table at that moment.
        is_logged: False where the log has no row event of it, or it was taken back.
        is_undone: It was taken back.
        mark: Why the log has no row event of it; empty: it has.
        is_net_effect: The log may say the same with other row events.
    """

    gtid: str | None
    step: int
    op: str
    table: str
    before: Row | None
    after: Row | None
    schema: Schema
    is_logged: bool
    is_undone: bool
    mark: str
    is_net_effect: bool


@dataclass(frozen=True)
class Epoch:
    """A part of the log in which a table's columns stay as they are, and its changes there."""

    start: Position
    end: Position | None
    changes: list[TrueChange]


@dataclass(frozen=True)
class Case:
    """What a server did and had.

    Attributes:
        name: `server/case`.
        steps: As in `expected.json`.
        gtids: All GTIDs in log order.
        settings: As in `expected.json`.
    """

    path: Path
    name: str
    variables: dict[str, str]
    settings: dict[str, Any]
    steps: list[dict[str, Any]]
    schemas: list[Schema]
    changes: list[TrueChange]
    gtids: list[str]
    final: dict[str, list[Row]]

    def logged(self, table: str | None = None) -> list[TrueChange]:
        """The changes that the log has as row events, in log order."""
        rank = {gtid: number for number, gtid in enumerate(self.gtids)}
        found = [change for change in self.changes if change.is_logged and table in (None, change.table)]
        return sorted(found, key=lambda change: (rank[change.gtid or ""], change.step))

    def schema_at(self, table: str, step: int) -> Schema:
        """What *table* looked like for the rows of a step."""
        return [schema for schema in self.schemas if schema.table == table and schema.step <= step][-1]

    @property
    def has_names(self) -> bool:
        """Whether the log itself names the columns."""
        return self.variables["binlog_row_metadata"] == "FULL"

    @property
    def has_full_images(self) -> bool:
        return self.variables["binlog_row_image"] == "FULL"

    def epochs(self, table: str) -> list[Epoch]:
        """The parts of the log in which the table has other columns than before."""
        entries = [schema for schema in self.schemas if schema.table == table and not schema.dropped]
        starts = [
            schema.step
            for number, schema in enumerate(entries)
            if number == 0 or schema.shape != entries[number - 1].shape
        ]
        changes = self.logged(table)
        return [
            Epoch(
                self.step_start(start),
                None if end is None else self.step_start(end),
                [change for change in changes if start <= change.step and (end is None or change.step < end)],
            )
            for start, end in itertools.pairwise([*starts, None])
            if start is not None
        ]

    def sql(self, step: int) -> str:
        return str(self.steps[step]["sql"])

    def step_start(self, step: int) -> Position:
        """Where the log ended before a step."""
        return _position(self.steps[step]["pos"])

    def step_end(self, step: int) -> Position:
        """Where the log ended after a step."""
        return _position(self.steps[step]["end"])


def _position(place: list[Any]) -> Position:
    name, byte = place
    return byte_position(int(name.rsplit(".", 1)[1]), byte)


def byte_position(file_no: int, byte: int) -> Position:
    """The position of a byte of a classic file."""
    return Position(file_no, *divmod(byte, VIRTUAL_PAGE_SIZE))


def expected_json(path: Path) -> dict[str, Any]:
    """`expected.json` of the case in *path*, or its compressed form."""
    packed = path / "expected.json.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else (path / "expected.json").read_bytes()
    truth: dict[str, Any] = json.loads(content)
    return truth


@functools.cache
def load_case(path: Path) -> Case:
    """Read the case in *path*."""
    truth = expected_json(path)
    schemas = [
        Schema(
            entry["step"],
            entry["table"],
            entry.get("create", ""),
            tuple(entry.get("columns", ())),
            entry.get("dropped", False),
        )
        for entry in truth["schemas"]
    ]
    steps = truth["steps"]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    ends = _xa_ends(steps)
    case = Case(
        path=path,
        name=f"{truth['server']}/{truth['case']}",
        variables=truth["variables"],
        settings=truth["settings"],
        steps=steps,
        schemas=schemas,
        changes=[],
        gtids=[gtid for step in steps for gtid in step["gtids"]],
        final=truth["final"],
    )
    for change in truth["changes"]:
        is_undone = bool(change.get("rolled_back"))
        case.changes.append(
            TrueChange(
                gtid=ends.get(change["gtid"], change["gtid"]),
                step=change["step"],
                op=change["op"],
                table=change["table"],
                before=change["before"],
                after=change["after"],
                schema=_schema_of(schemas, change),
                is_logged=not (is_undone or change.get("mark")),
                is_undone=is_undone,
                mark=change.get("mark", ""),
                is_net_effect=bool(change.get("net_effect_only")),
            )
        )
    return case


def _schema_of(schemas: list[Schema], change: dict[str, Any]) -> Schema:
    known = [schema for schema in schemas if schema.table == change["table"] and not schema.dropped]
    return [schema for schema in known if schema.step <= change["step"]][-1]


def _xa_ends(steps: list[dict[str, Any]]) -> dict[str, str]:
    """GTID of XA COMMIT for the GTID of each XA PREPARE."""
    prepared: dict[str, str] = {}
    ends = {}
    for step in steps:
        words = step["sql"].split(None, 2)
        if words[:2] == ["XA", "PREPARE"]:
            prepared[words[2]] = step["gtids"][0]
        elif words[:2] == ["XA", "COMMIT"] and words[2] in prepared:
            ends[prepared.pop(words[2])] = step["gtids"][0]
    return ends


NAMED = (
    "mariadb-10.11/types_full",
    "mariadb-10.11/ops",
    "mariadb-10.11/ops_compressed",
    "mariadb-10.11/rotation",
    "mariadb-11.8/rotation",
    "mysql-9/types_full",
    "mysql-9/ops",
    "mysql-9/ops_zstd",
    "mysql-9/json_full",
    "mysql-9/json_partial",
    "mysql-9/rotation",
)
"""Row by row, and the log names the columns."""

NAMELESS = (
    "mariadb-10.11/types_minimal_nolog",
    "mariadb-10.11/types_noblob_metamin",
    "mariadb-10.11/types_oldtemporal",
    "mariadb-10.11/ops_nochecksum",
    "mariadb-10.11/ops_minimal",
)
"""Row by row; the log does not record all about the columns."""

TORN = ("mariadb-10.11/torn", "mysql-9/torn")
"""The server was killed inside a write."""

HUGE = ("mariadb-10.11/hugeblob", "mysql-9/hugeblob")
"""Values of 16 MB and more, in a compressed log."""

ENCRYPTED = "mariadb-10.11/encrypted"

FINAL_TABLES = ("mariadb-10.11/oltp_small", "mariadb-11.8/oltp_small", "mysql-9/oltp_small")
"""Several connections; the tables at the end are known."""


def case_path(name: str) -> Path:
    """Folder of the case."""
    return SERVER_CASES / name


def case(name: str) -> Case:
    """The truth of a case."""
    return load_case(case_path(name))
