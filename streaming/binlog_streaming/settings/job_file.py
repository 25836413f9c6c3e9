"""A job file's keys: do they exist, in which line, and the error when one is wrong: `JobFile`."""

from __future__ import annotations

import datetime
import difflib
import os
import re
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from binlog_format.errors import BinlogError, OptionError
from binlog_format.format_traits import FORMAT_TRAITS
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import detect_format
from binlog_format.messages import KEYS_IN_URL, has_keys
from binlog_format.position import Place
from binlog_streaming.settings import debezium
from binlog_streaming.settings.lines import KeyPath, key_text
from binlog_streaming.settings.model import Job
from binlog_streaming.settings.publish_model import PublishJob
from binlog_streaming.settings.source_models import EventRule, EventTablesJob, TopicTablesJob

AnyJob = Job | PublishJob | TopicTablesJob | EventTablesJob
TomlTable = dict[str, object]
_ROOTS: dict[object, dict[object, type[AnyJob]]] = {
    "tables": {"log": Job, "kafka": TopicTablesJob},
    "kafka": {"log": PublishJob},
}
"""Classes of jobs by the kind of the sink, and that of the source."""

_AT_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_PATH_PART = re.compile(r"\[(?P<number>\d+)\]|(?P<name>[^.\[\]]+)")
_ENUM_VALUE = re.compile(r"nvalid enum value '(?P<value>.*)'")
_MSGSPEC_TYPES = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
_MSGSPEC_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
_NAMES_SHOWN_MAX = 20
_Kind = typing.TypeVar("_Kind")


@dataclass(slots=True)
class JobFile:
    """Places of keys, for errors."""

    path: Path
    lines: dict[KeyPath, int]
    root: type[AnyJob] = Job
    single_tables: bool = field(default=False)

    def error(self, subclass: str, path: KeyPath, reason: str, hint: str | None = None) -> OptionError:
        """An error about the key *path*, at its line, or at that of the section that it should be in."""
        # Without an own section for each rule there is [tables] where errors speak of tables[0].
        found = path[:1] + path[2:] if self.single_tables and path[:2] == ("tables", 0) else path
        while found and found not in self.lines:
            found = found[:-1]
        line = f":{self.lines[found]}" if found else ""
        return OptionError(subclass, f"{key_text(path)}: {reason}", at=Place(f"{self.path}{line}"), hint=hint)

    def choose_root(self, content: TomlTable) -> None:
        """Find out what kind of job this is."""
        sources = self._by_kind(_ROOTS, content, "sink", "tables")
        self.root = self._by_kind(sources, content, "source", "log")
        if self.root is Job and self._reads_events(content):
            self.root = EventTablesJob

    def _reads_events(self, content: TomlTable) -> bool:
        """True if the log contains events of a program: as the file states, or else as the log shows."""
        source = content.get("source")
        path = source.get("path") if isinstance(source, dict) else None
        if not isinstance(source, dict) or not isinstance(path, str):
            return False
        if "format" in source:
            traits = FORMAT_TRAITS.get(str(source["format"]))
            return traits is not None and not traits.has_changes
        return _has_events(resolved_path(path, self.path.absolute().parent))

    def _by_kind(self, known: dict[object, _Kind], content: TomlTable, section: str, default: str) -> _Kind:
        there = content.get(section)
        kind = there.get("kind", default) if isinstance(there, dict) else default
        if kind not in known:
            hint = _did_you_mean(kind, map(str, known)) if isinstance(kind, str) else None
            expected = " or ".join(map(str, known))
            raise self.error("INVALID_VALUE", (section, "kind"), f"expected {expected}, got {kind!r}", hint)
        return known[kind]

    def with_own_names(self, sink: TomlTable) -> TomlTable:
        """`[sink]` with our names in the place of Debezium's."""
        try:
            own, places = debezium.with_own_names(sink)
        except debezium.Conflict as conflict:
            reason = f"it is the same as {conflict.name}, which is there too"
            raise self.error("INVALID_VALUE", ("sink", *conflict.path), reason, "Leave out all but one") from conflict
        for name, path in places.items():
            if ("sink", *path) in self.lines:
                self.lines["sink", name] = self.lines["sink", *path]
        return own

    def check_names(self, section: type[msgspec.Struct], content: TomlTable, path: KeyPath) -> None:
        """See that all names exist, and that what has no default is there."""
        fields = _fields_of(section)
        for name, value in content.items():
            here = (*path, name)
            if name not in fields:
                raise self.error("UNKNOWN", here, "no such setting", _hint_for(self.root, name, fields, path))
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
        """The error of msgspec, in the words of the file."""
        match = _AT_PATH.match(str(error))
        assert match is not None
        path: KeyPath = tuple(
            int(part["number"]) if part["number"] is not None else part["name"]
            for part in _PATH_PART.finditer(match["path"] or "")
        )
        what = _MSGSPEC_TYPES.sub(_plain_types, match["what"])
        reason = f"{what[:1].lower()}{what[1:]}"
        wrong = _ENUM_VALUE.search(match["what"])
        hint = None
        if wrong is not None:
            choices = _choices(self.root, path)
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

    def check_keys(self, value: object, path: KeyPath) -> None:
        """See that no setting has a URL with a password or a key in it, which checkpoints and messages would show.

        What is for other programs alone (`KEY_SECTIONS`) may have one.

        Raises:
            OptionError: `INVALID_VALUE`; the value is not repeated.
        """
        if isinstance(value, dict):
            for name, item in value.items():
                if (*path, name) not in KEY_SECTIONS:
                    self.check_keys(item, (*path, name))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                self.check_keys(item, (*path, number))
        elif isinstance(value, str) and has_keys(value):
            hint = "Give it in the environment (AWS_SECRET_ACCESS_KEY, ...), or in the setting that is for it"
            raise self.error("INVALID_VALUE", path, KEYS_IN_URL, hint)


KEY_SECTIONS = frozenset({("sink", "storage"), ("sink", "catalog"), ("spark", "settings")})
"""Settings that object stores, catalogs and Spark are given; nothing of them is shown."""


def resolved_path(path: str, folder: Path) -> str:
    """A path of a job file, which may be relative to the file's *folder*."""
    return path if "://" in path else os.path.normpath(folder / Path(path).expanduser())


def _has_events(path: str) -> bool:
    # A URL is not looked at before the job starts. What is wrong with the log is told when that is opened.
    if "://" in path:
        return False
    try:
        return not FORMAT_TRAITS[detect_format(*open_directory(path))].has_changes
    except BinlogError:
        return False


_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@cache
def _fields_of(section: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Fields by their names in the file; msgspec evaluates all annotations for each answer."""
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def _plain_types(found: re.Match[str]) -> str:
    # TOML has no null: who wants none leaves the setting out.
    words = [_MSGSPEC_WORDS.get(word, f"`{word}`") for word in found[1].split(" | ") if word != "null"]
    return " or ".join(words)


def _section_of(field_type: object) -> type[msgspec.Struct] | None:
    # The section that a field holds: itself, or the items of a tuple.
    for candidate in (field_type, *typing.get_args(field_type)):
        if isinstance(candidate, type) and not isinstance(candidate, types.GenericAlias):
            found = candidate if issubclass(candidate, msgspec.Struct) else None
            if found is not None:
                return found
    return None


_NO_PASSWORD = (
    "A job file holds no password: name its environment variable with password_variable, or its file with password_file"
)
_NO_SETTINGS: dict[KeyPath, str] = {
    ("sink", "security", "password"): _NO_PASSWORD,
    ("sink", "registry", "password"): _NO_PASSWORD,
    (
        "sink",
        "writer",
    ): "Leave it out: there is one writer, which needs no jars. Tables that Spark wrote go on, with the "
    "same checkpoint",
}
"""Settings that do not exist (any more), and their replacements."""


def _choices(root: type[msgspec.Struct], path: KeyPath) -> list[str]:
    # The words that the setting at *path* knows.
    section = root
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            continue
        known = {name: field.type for name, field in _fields_of(section).items()}
        inner = _section_of(known[part])
        if inner is not None:
            section = inner
            continue
        kinds = (known[part], *typing.get_args(known[part]))
        words = [str(word) for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for word in kind]
    return words


def _hint_for(root: type[AnyJob], name: str, fields: typing.Iterable[str], path: KeyPath) -> str:
    if (*path, name) in _NO_SETTINGS:
        return _NO_SETTINGS[*path, name]
    if root is Job and path[:1] == ("tables",) and name in {field.name for field in msgspec.structs.fields(EventRule)}:
        return 'It is for structured logs: set source.format = "structured" where the log is not there yet'
    other = _hint_of_other_kind(root, name, path)
    if other is not None:
        return other
    meant = _did_you_mean(name, fields)
    if meant is None:
        # It may be in the wrong section: after a [header] all keys belong to it.
        for section in msgspec.structs.fields(root):
            inner = _section_of(section.type)
            others = [] if inner is None else list(_fields_of(inner))
            if name in others and path[:1] != (section.name,):
                return f"It belongs into [{section.name}]"
            if section.name == name and path:
                is_section = inner is not None
                return (
                    f"It is a section: [{name}]" if is_section else "It belongs to the top, before the first [section]"
                )
    return meant or f"Known here: {', '.join(sorted(fields)[:_NAMES_SHOWN_MAX])}"


def _hint_of_other_kind(root: type[AnyJob], name: str, path: KeyPath) -> str | None:
    # It may be a setting of jobs with another sink, or of Debezium.
    if root is PublishJob and path == ("sink",) and (hint := debezium.hint_for(name)) is not None:
        return hint
    section: type[msgspec.Struct] = PublishJob if root is Job else Job
    for part in path:
        if not isinstance(part, int):
            inner = {known: _section_of(field.type) for known, field in _fields_of(section).items()}.get(part)
            if inner is None:
                return None
            section = inner
    known = _fields_of(section).keys()
    kinds = {Job: 'with sink.kind = "kafka"', PublishJob: 'with sink.kind = "tables"'}
    kind = kinds.get(root, "that keep tables of a server's log")
    return f"Leave it out: it is a setting of jobs {kind}" if name in known else None


def _did_you_mean(name: str, valid: typing.Iterable[str]) -> str | None:
    by_lower = {word.lower().replace("_", ""): word for word in valid}
    close = difflib.get_close_matches(name.lower().replace("_", "").replace("-", ""), by_lower, n=1, cutoff=0.5)
    return f"Did you mean `{by_lower[close[0]]}`?" if close else None
