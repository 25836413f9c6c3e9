"""A job as its TOML file says: `load_job(path)` -> `Job`.

A name or a value that cannot be is an error of one line, which names the file, the line, the key and the nearest name
that exists.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

import msgspec

from binlog_format.errors import OptionError, StartError, storage_error
from binlog_format.position import Place
from binlog_streaming.settings.checks import Mistake, check_values
from binlog_streaming.settings.lines import KeyPath, key_lines, key_text
from binlog_streaming.settings.model import (
    Begin,
    Deletes,
    Job,
    Merge,
    Metrics,
    Mode,
    OnCascade,
    OnError,
    OnPartitionDrop,
    OnRowStatement,
    OnStatement,
    Sink,
    Source,
    Spark,
    TableFormat,
    TableRule,
    Trigger,
    UnknownValues,
    parse_milliseconds,
)

__all__ = [
    "Begin",
    "Deletes",
    "Job",
    "Merge",
    "Metrics",
    "Mode",
    "OnCascade",
    "OnError",
    "OnPartitionDrop",
    "OnRowStatement",
    "OnStatement",
    "Sink",
    "Source",
    "Spark",
    "TableFormat",
    "TableRule",
    "Trigger",
    "UnknownValues",
    "check_job_values",
    "job_from",
    "load_job",
    "parse_job",
    "parse_milliseconds",
]

TomlTable = dict[str, object]


def load_job(path: Path) -> Job:
    """Read a job file; relative paths in it start at its folder, `${NAME}` and `${NAME:-default}` are filled in.

    Raises:
        StartError: `PATH_NOT_FOUND`.
        OptionError: `UNKNOWN` name, `INVALID_VALUE`, or something `MISSING`.
        AccessError: `DENIED`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = "binlog-stream init LOG > job.toml writes one"
        raise StartError("PATH_NOT_FOUND", f"{path}: there is no such job file", hint=hint) from error
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise OptionError("INVALID_VALUE", f"not a job file: {error}", at=Place(str(path))) from error
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return parse_job(text, file=path)


def parse_job(text: str, *, file: Path) -> Job:
    """`load_job` for text; *file* is named in errors, and relative paths start at its folder."""
    try:
        content: TomlTable = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = _TOML_PLACE.fullmatch(str(error))
        if told is None:
            line, reason = text.count("\n") + 1, str(error).removesuffix(" (at end of document)")
        else:
            line, reason = int(told["line"]), f"{told['reason']} at column {told['column']}"
        reason = f"not TOML: {reason[:1].lower()}{reason[1:]}"
        raise OptionError("INVALID_VALUE", reason, at=Place(f"{file}:{line}"), hint=_toml_hint(text, line)) from error
    return job_from(content, file=file, lines=key_lines(text))


def job_from(content: TomlTable, *, file: Path, lines: typing.Mapping[KeyPath, int] | None = None) -> Job:
    """Make a job of parsed TOML.

    Args:
        content: The file's content.
        file: Named in errors; relative paths start at its folder.
        lines: In which line keys stand; None: errors name no lines.
    """
    job_file = _JobFile(file, {} if lines is None else lines)
    content = cast("TomlTable", job_file.expand(content, ()))
    if isinstance(content.get("tables"), dict):
        content["tables"] = [content["tables"]]
        job_file.single_tables = True
    job_file.check_names(Job, content, ())
    try:
        job = msgspec.convert({"name": file.stem, **content}, Job)
        check_values(job)
    except msgspec.ValidationError as error:
        raise job_file.type_error(error) from error
    except Mistake as mistake:
        raise job_file.error("INVALID_VALUE", mistake.path, mistake.reason, mistake.hint) from mistake
    folder = file.absolute().parent
    schema_file = job.source.schema_file
    return msgspec.structs.replace(
        job,
        checkpoint=_resolve(job.checkpoint, folder),
        source=msgspec.structs.replace(
            job.source,
            path=_resolve(job.source.path, folder),
            schema_file=None if schema_file is None else _resolve(schema_file, folder),
        ),
        sink=msgspec.structs.replace(job.sink, directory=_resolve(job.sink.directory, folder)),
    )


def check_job_values(job: Job, names: typing.Mapping[str, str]) -> None:
    """The same look at values, for a job that no file says.

    Args:
        job: The job.
        names: What settings are called where the user gave them, by key; others are called by their key.

    Raises:
        OptionError: `INVALID_VALUE`.
    """
    try:
        check_values(job)
    except Mistake as mistake:
        key = key_text(mistake.path)
        name = next((name for known, name in names.items() if key.startswith(known)), key)
        raise OptionError("INVALID_VALUE", f"{name}: {mistake.reason}", hint=mistake.hint) from mistake


_TOML_PLACE = re.compile(r"(?P<reason>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL)
_AT_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_PATH_PART = re.compile(r"\[(?P<number>\d+)\]|(?P<name>[^.\[\]]+)")
_ENUM_VALUE = re.compile(r"nvalid enum value '(?P<value>.*)'")
_MSGSPEC_WORDS = {
    "`object`": "a table",
    "`array`": "a list",
    "`str`": "a text in quotes",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`null`": "nothing",
}
_NAMES_SHOWN_MAX = 20


@dataclass(slots=True)
class _JobFile:
    """Where keys stand, for errors."""

    path: Path
    lines: typing.Mapping[KeyPath, int]
    single_tables: bool = field(default=False)

    def error(self, subclass: str, path: KeyPath, reason: str, hint: str | None = None) -> OptionError:
        """An error about the key *path*, at its line, or at that of the section that it should be in."""
        # Without an own section for each rule there is [tables] where errors speak of tables[0].
        found = path[:1] + path[2:] if self.single_tables and path[:2] == ("tables", 0) else path
        while found and found not in self.lines:
            found = found[:-1]
        line = f":{self.lines[found]}" if found else ""
        return OptionError(subclass, f"{key_text(path)}: {reason}", at=Place(f"{self.path}{line}"), hint=hint)

    def check_names(self, section: type[msgspec.Struct], content: TomlTable, path: KeyPath) -> None:
        """See that all names exist, and that what has no default is there."""
        fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
        for name, value in content.items():
            here = (*path, name)
            if name not in fields:
                raise self.error("UNKNOWN", here, "no such setting", _hint_for(name, fields, path))
            inner = _section_of(fields[name].type)
            if inner is None:
                continue
            if isinstance(value, dict):
                self.check_names(inner, value, here)
            elif isinstance(value, list):
                for number, item in enumerate(value):
                    if isinstance(item, dict):
                        self.check_names(inner, item, (*here, number))
        for name, known in fields.items():
            if known.required and name not in content:
                where = f"in [{key_text(path)}]" if path else "at the top of the file, before the first [section]"
                is_section = _section_of(known.type) is not None
                hint = f"Add a section [{name}]" if is_section else f"Add {name} = ... {where}"
                raise self.error("MISSING", (*path, name), "it is not there, and has no default", hint)

    def type_error(self, error: msgspec.ValidationError) -> OptionError:
        """What msgspec says, in the words of the file."""
        match = _AT_PATH.match(str(error))
        assert match is not None
        path: KeyPath = tuple(
            int(part["number"]) if part["number"] is not None else part["name"]
            for part in _PATH_PART.finditer(match["path"] or "")
        )
        what = match["what"]
        for word, plain in _MSGSPEC_WORDS.items():
            what = what.replace(word, plain)
        reason = f"{what[:1].lower()}{what[1:]}".replace(" | ", " or ")
        wrong = _ENUM_VALUE.search(match["what"])
        hint = None
        if wrong is not None:
            choices = _choices(path)
            reason = f"expected {' or '.join(choices)}, got {wrong['value']!r}"
            hint = _did_you_mean(wrong["value"], choices)
        return self.error("INVALID_VALUE", path, reason, hint)

    def expand(self, value: object, path: KeyPath) -> object:
        """*value* with the environment's variables in it, and with times as text."""
        if isinstance(value, dict):
            return {name: self.expand(item, (*path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [self.expand(item, (*path, number)) for number, item in enumerate(value)]
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if not isinstance(value, str):
            return value

        def fill(match: re.Match[str]) -> str:
            found = os.environ.get(match["name"], match["default"])
            if found is None:
                name = match["name"]
                hint = f"Set it, or give a default: ${{{name}:-value}}"
                raise self.error("MISSING", path, f"the environment has no variable {name}", hint)
            return found

        return _VARIABLE.sub(fill, value)


_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def _section_of(field_type: object) -> type[msgspec.Struct] | None:
    # The section that a field holds: itself, or the items of a tuple.
    for candidate in (field_type, *typing.get_args(field_type)):
        if isinstance(candidate, type) and not isinstance(candidate, types.GenericAlias):
            found = candidate if issubclass(candidate, msgspec.Struct) else None
            if found is not None:
                return found
    return None


_REMOVED: dict[KeyPath, str] = {
    (
        "sink",
        "writer",
    ): "Leave it out: there is one writer, which needs no jars. Tables that Spark wrote go on, with the "
    "same checkpoint",
}
"""Settings that former versions had, and what to do now."""


def _choices(path: KeyPath) -> list[str]:
    # The words that the setting at *path* knows.
    section: type[msgspec.Struct] = Job
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            continue
        known = {field.encode_name: field.type for field in msgspec.structs.fields(section)}
        inner = _section_of(known[part])
        if inner is not None:
            section = inner
            continue
        kinds = (known[part], *typing.get_args(known[part]))
        words = [str(word) for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for word in kind]
    return words


def _hint_for(name: str, fields: typing.Iterable[str], path: KeyPath) -> str:
    if (*path, name) in _REMOVED:
        return _REMOVED[*path, name]
    meant = _did_you_mean(name, fields)
    if meant is None:
        # It may stand in the wrong section: behind a [header] all keys belong to it.
        for section in msgspec.structs.fields(Job):
            inner = _section_of(section.type)
            others = [] if inner is None else [field.encode_name for field in msgspec.structs.fields(inner)]
            if name in others and path[:1] != (section.name,):
                return f"It belongs into [{section.name}]"
            if section.name == name and path:
                is_section = inner is not None
                return (
                    f"It is a section: [{name}]" if is_section else "It belongs to the top, before the first [section]"
                )
    return meant or f"Known here: {', '.join(sorted(fields)[:_NAMES_SHOWN_MAX])}"


def _did_you_mean(name: str, valid: typing.Iterable[str]) -> str | None:
    by_lower = {word.lower().replace("_", ""): word for word in valid}
    close = difflib.get_close_matches(name.lower().replace("_", "").replace("-", ""), by_lower, n=1, cutoff=0.5)
    return f"Did you mean `{by_lower[close[0]]}`?" if close else None


def _toml_hint(text: str, line: int) -> str | None:
    lines = text.splitlines()
    return f"The line is: {lines[line - 1].strip()}" if 0 < line <= len(lines) and lines[line - 1].strip() else None


def _resolve(path: str, folder: Path) -> str:
    if "://" in path:
        return path
    return os.path.normpath(folder / Path(path).expanduser())
