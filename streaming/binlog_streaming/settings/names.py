"""Settings in messages as the user wrote them: `as_job_setting`, `as_flags(parameters)`, for `messages.told_options`.

Messages name a setting as Spark's options do (`option schemaFile`), or as a job file does where Spark has none of that
name (`option sink.format`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from binlog_connector.options.option_values import OPTION_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.messages import SpellOption

_UPPER = re.compile(r"(?=[A-Z])")
_BARE_VALUE = re.compile(r"true|false|\d+")

_OTHER_FLAGS: Mapping[str, tuple[str, ...]] = {
    "startingOffsets": ("start", "from"),
    "startingGtid": ("start",),
    "startingTimestamp": ("timestamp",),
    "endingOffsets": ("end",),
    "endingGtid": ("end",),
    "sink.directory": ("to",),
    "tables.select": ("tables",),
}
"""Flags whose name is not that of their setting; of a word (`startingOffsets=latest`) the last one takes it."""


class Parameter(Protocol):
    """Parameter of a command.

    Attributes:
        opts: Its flags (`--schema-file`), or the name of an argument.
        secondary_opts: Flags that mean the opposite.
    """

    opts: list[str]
    secondary_opts: list[str]


def as_job_setting(name: str, value: str | None) -> str | None:
    """A setting as a line of a job file: `source.schemaFile`, `source.zeroDates = "error"`."""
    if "." not in name and name not in OPTION_NAMES:
        return None
    path = name if "." in name else f"source.{name}"
    if value is None:
        return path
    return f"{path} = {value}" if _BARE_VALUE.fullmatch(value) else f'{path} = "{value}"'


def as_flags(parameters: Iterable[Parameter]) -> SpellOption:
    """Settings as flags of a command: `--schema-file`, `--zero-dates error`.

    What `mirror` has no flag for, a job file has.
    """
    flags = {name: parameter for parameter in parameters for name in parameter.opts if name.startswith("--")}
    keeps_tables = "--to" in flags and "--mode" in flags

    def spell(name: str, value: str | None) -> str | None:
        own = _UPPER.sub("-", name.rpartition(".")[2]).lower()
        others = _OTHER_FLAGS.get(name, ())
        for candidate in (own, *(others if value is None else reversed(others))):
            flag = flags.get(f"--{candidate}")
            if flag is None:
                continue
            if value is None:
                return f"--{candidate}"
            if getattr(flag, "is_flag", False):
                return flag.secondary_opts[0] if value == "false" else f"--{candidate}"
            return f"--{candidate} {value}"
        known = as_job_setting(name, value) if keeps_tables else None
        return None if known is None else f"{known} in a job file"

    return spell
