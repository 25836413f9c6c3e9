"""A job as its TOML file says: `load_job(path)` -> `Job`.

Everything an operator may change about a job is a field here; a name or a value that is none of these is an error that
names the file, the key and the nearest name that exists.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
import types
import typing
from enum import StrEnum
from pathlib import Path
from typing import cast

import msgspec

from binlog_format.errors import AccessError, OptionError, StartError
from binlog_format.position import Place
from binlog_format.views.table_filter import TableFilter

TomlTable = dict[str, object]


class Mode(StrEnum):
    """What a target table holds."""

    MIRROR = "mirror"
    """The current state of the source table, by primary key."""
    CHANGELOG = "changelog"
    """Every row image, in order, in the shape of a change data feed."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every table of the file has in common."""


class Source(Section, frozen=True, rename="camel"):
    """`[source]`: the log; options have the names that they have in Spark's `format("binlog-stream")`."""

    path: str
    format: str | None = None
    exclude_tables: str | None = None
    starting_offsets: str | None = None
    starting_gtid: str | None = None
    max_bytes_per_trigger: int | str = "64m"
    min_partitions: int | None = None
    fail_on_data_loss: bool | None = None

    def options(self) -> dict[str, str]:
        """The options of the Spark source, without the path."""
        given = msgspec.structs.asdict(self)
        names = {field.name: field.encode_name for field in msgspec.structs.fields(self)}
        return {
            names[name]: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
            if name != "path" and value is not None
        }


class TableRule(Section, frozen=True):
    """`[[tables]]`: what becomes of the tables that `select` matches; the first rule that matches a table counts.

    Attributes:
        select: Comma separated regular expressions on `database.table`, each for the whole name.
        mode: One mode, or a list of several.
        keys: Columns that tell rows apart, for tables whose primary key the log does not know.
        target: Where in the sink's directory; `{database}`, `{table}` and `{mode}` are filled in.
    """

    select: str = ".*"
    mode: Mode | tuple[Mode, ...] = Mode.MIRROR
    keys: tuple[str, ...] = ()
    target: str = "{database}/{table}"

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes, also when there is only one."""
        return (self.mode,) if isinstance(self.mode, Mode) else self.mode


class Sink(Section, frozen=True):
    """`[sink]`: where the Delta tables go.

    Attributes:
        directory: Folder or URL.
        storage: Access to an object store, as `deltalake` takes it.
        target_file_size: In bytes; a merge rewrites whole files, an append leaves many small ones.
        retention: How long files that a merge replaced stay, for readers of older versions.
    """

    directory: str
    storage: dict[str, str] = {}
    target_file_size: int = 64 << 20
    retention: str = "7d"

    @property
    def retention_hours(self) -> float:
        """`retention` in hours."""
        return parse_milliseconds(self.retention) / 3_600_000


class Trigger(Section, frozen=True):
    """`[trigger]`: when a batch starts: every `interval`, or `available_now`: what is there now, then the job ends."""

    interval: str = "2s"
    available_now: bool = False

    @property
    def interval_ms(self) -> int:
        """`interval` in milliseconds."""
        return parse_milliseconds(self.interval)


class Spark(Section, frozen=True):
    """`[spark]`: the session, when the job starts its own."""

    master: str = "local[2]"
    settings: dict[str, str | int | float | bool] = {}


class Job(Section, frozen=True):
    """A job file.

    Attributes:
        name: What the job is called in Spark and in messages; default: the file's name.
        checkpoint: Directory of Spark's checkpoint: it holds how far the job has come.
    """

    source: Source
    sink: Sink
    checkpoint: str
    name: str = "binlog-stream"
    tables: tuple[TableRule, ...] = (TableRule(),)
    trigger: Trigger = Trigger()
    spark: Spark = Spark()


def load_job(path: Path) -> Job:
    """Read a job file; relative paths in it start at its folder, `${NAME}` and `${NAME:-default}` are filled in.

    Raises:
        StartError: `PATH_NOT_FOUND`.
        OptionError: `UNKNOWN` name, `INVALID_VALUE`, or something `MISSING`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise StartError("PATH_NOT_FOUND", f"{path}: there is no such job file") from error
    except PermissionError as error:
        raise AccessError("DENIED", f"cannot read it: {error.strerror}", at=Place(str(path))) from error
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("INVALID_VALUE", f"not a job file: {error}", at=Place(str(path))) from error
    try:
        content: TomlTable = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError("INVALID_VALUE", f"not TOML: {error}", at=Place(str(path))) from error
    return job_from(content, file=path)


def job_from(content: TomlTable, *, file: Path) -> Job:
    """Make a job of parsed TOML; *file* is named in errors, and relative paths start at its folder."""
    at = Place(str(file))
    content = cast("TomlTable", _expand(content, at, ""))
    if isinstance(content.get("tables"), dict):
        content["tables"] = [content["tables"]]
    _check_names(Job, content, at, "")
    try:
        job = msgspec.convert({"name": file.stem, **content}, Job)
        _check_values(job)
    except msgspec.ValidationError as error:
        raise _value_error(error, at) from error
    except ValueError as error:
        raise OptionError("INVALID_VALUE", str(error), at=at) from error
    folder = file.absolute().parent
    return msgspec.structs.replace(
        job,
        checkpoint=_resolve(job.checkpoint, folder),
        source=msgspec.structs.replace(job.source, path=_resolve(job.source.path, folder)),
        sink=msgspec.structs.replace(job.sink, directory=_resolve(job.sink.directory, folder)),
    )


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_milliseconds(text: str) -> int:
    """A duration such as `500ms`, `2s`, `1.5h` or `7d`.

    Raises:
        ValueError: It is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"duration: expected a number with ms, s, m, h or d, such as 2s, got {text!r}")
    return round(float(match[1]) * _UNITS_MS[match[2]])


def nearest(name: str, valid: typing.Iterable[str]) -> str:
    """A hint that names the valid name closest to *name*, and all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    meant = f"Did you mean `{close[0]}`? " if close else ""
    return f"{meant}Known here: {', '.join(names)}"


def _check_values(job: Job) -> None:
    # What types alone do not say; messages start with the key.
    for key, text in (("trigger.interval", job.trigger.interval), ("sink.retention", job.sink.retention)):
        try:
            parse_milliseconds(text)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    if job.sink.target_file_size < 1 << 20:
        raise ValueError(f"sink.target_file_size: expected at least 1048576 bytes, got {job.sink.target_file_size}")
    if not job.tables:
        raise ValueError("tables: expected at least one rule, got none")
    for number, rule in enumerate(job.tables):
        _check_rule(rule, f"tables[{number}]")


def _check_rule(rule: TableRule, key: str) -> None:
    try:
        TableFilter(rule.select)
    except OptionError as error:
        raise ValueError(f"{key}.select: {error.reason.removeprefix('option tables: ')}") from error
    if not rule.modes:
        raise ValueError(f"{key}.mode: expected at least one mode, got none")
    if len(set(rule.modes)) > 1 and "{mode}" not in rule.target:
        raise ValueError(f"{key}.target: several modes need {{mode}} in the target, got {rule.target!r}")
    try:
        rule.target.format(database="d", table="t", mode="m")
    except (KeyError, IndexError, ValueError) as error:
        known = "{database}, {table} and {mode}"
        raise ValueError(f"{key}.target: expected only {known} in braces, got {rule.target!r}") from error


def _check_names(section: type[msgspec.Struct], content: TomlTable, at: Place, path: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    for name, value in content.items():
        key = f"{path}{name}"
        if name not in fields:
            raise OptionError("UNKNOWN", f"{key}: no such setting", at=at, hint=nearest(name, fields))
        inner = _section_of(fields[name].type)
        if inner is None:
            continue
        if isinstance(value, dict):
            _check_names(inner, value, at, f"{key}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict):
                    _check_names(inner, item, at, f"{key}[{number}].")
    for name, field in fields.items():
        if field.required and name not in content:
            raise OptionError("MISSING", f"{path}{name}: it has no default", at=at, hint=f"Add {path}{name}")


def _section_of(field_type: object) -> type[msgspec.Struct] | None:
    # The section that a field holds: itself, or the items of a tuple.
    for candidate in (field_type, *typing.get_args(field_type)):
        if isinstance(candidate, type) and not isinstance(candidate, types.GenericAlias):
            found = candidate if issubclass(candidate, msgspec.Struct) else None
            if found is not None:
                return found
    return None


_ENUM_VALUE = re.compile(r"nvalid enum value '(.*)'")
_AT_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


def _value_error(error: msgspec.ValidationError, at: Place) -> OptionError:
    match = _AT_PATH.match(str(error))
    assert match is not None
    what, path = match["what"], match["path"] or "the file"
    wrong_mode = _ENUM_VALUE.search(what)
    hint = nearest(wrong_mode[1], list(Mode)) if wrong_mode is not None else None
    return OptionError("INVALID_VALUE", f"{path}: {what[:1].lower()}{what[1:]}", at=at, hint=hint)


_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def _expand(value: object, at: Place, path: str) -> object:
    if isinstance(value, dict):
        return {name: _expand(item, at, f"{path}.{name}" if path else name) for name, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, at, f"{path}[{number}]") for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"], match["default"])
        if found is None:
            name = match["name"]
            raise OptionError(
                "MISSING",
                f"{path}: the environment has no variable {name}",
                at=at,
                hint=f"Set it, or give a default: ${{{name}:-value}}",
            )
        return found

    return _VARIABLE.sub(fill, value)


def _resolve(path: str, folder: Path) -> str:
    if "://" in path:
        return path
    return os.path.normpath(folder / Path(path).expanduser())
