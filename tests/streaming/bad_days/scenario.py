"""A bad day of a server as SQL, and what must become of its tables: `Scenario`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Settings = Mapping[str, object]

BARRIERS = ("begin", "purge", "run", "gtid", "restart", "kill", "end")
_COMMAND = re.compile(r"^--! *(.*)$", re.MULTILINE)
_END_OF_STATEMENT = re.compile(r";[ \t]*(?:\n|$)")
_DATABASE = re.compile(r"\b(day|other|truth)\b")
_CONDITION = re.compile(r"\[(BINLOG_[A-Z_]+\.[A-Z_]+)\]")


@dataclass(frozen=True)
class Refused:
    """The job (or a table that is set aside) names what is wrong.

    Attributes:
        condition: Of the error; a regular expression where several would do.
        texts: What its message contains: the table, and the statement where it is about one.
    """

    condition: str
    texts: tuple[str, ...]

    def is_met_by(self, message: str) -> bool:
        """Whether *message* is that error, with all names in it."""
        found = _CONDITION.search(message)
        is_condition = found is not None and re.fullmatch(self.condition, found[1]) is not None
        return is_condition and all(text in message for text in self.texts)


@dataclass(frozen=True)
class Step:
    """A statement, or (with *is_command*) a line `--! WORD`."""

    text: str
    is_command: bool = False


@dataclass(frozen=True)
class Scenario:
    """What happens to a server, how a job is set up, and what must become of the tables.

    Days with the same barriers and the same settings beside the rule are lived together, as one log, each in databases
    of its own, and one job with `on_error = "set_aside"` and a rule for each takes them all.

    Attributes:
        name: What happens, as an identifier.
        sql: The script. It works in database `day`; `other` and `truth` are its own too. A statement ends with a
            semicolon at the end of a line. A line `--! WORD` is not SQL: `session NAME` (statements below it are of
            another connection), `fails` (the server refuses the next statement), and the barriers: `begin` (the log
            begins here: RESET MASTER), `purge` (the files so far are purged), `run` (the job runs up to here),
            `gtid NAME` (in settings `{NAME}` is the server's position), `restart`, `kill`, `end` (the day is over; what
            comes cleans up). `{folder}` is a folder that the server can read and write.
        refused: What a table is set aside with, or the job stopped; None: nothing is.
        may_go_on: With *refused*: going through with all tables equal is as good.
        is_alone: It has a log and a job of its own, which stops at an error.
        rule: Of the job's `[[tables]]`.
        source: More of the job's `[source]`.
        truth: Where a setting wants other rows than the server's: by table, the table of the server that has them.
    """

    name: str
    sql: str
    refused: Refused | None = None
    may_go_on: bool = False
    is_alone: bool = False
    rule: Settings = field(default_factory=dict)
    source: Settings = field(default_factory=dict)
    truth: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def parts(self) -> list[list[Step]]:
        """The script, cut at the barriers."""
        parts: list[list[Step]] = [[]]
        for number, text in enumerate(_COMMAND.split(self.sql)):
            # Every second text is what the group of the expression matched.
            if not number % 2:
                parts[-1] += [Step(one.strip()) for one in _END_OF_STATEMENT.split(text) if one.strip()]
            elif text.split()[0] in BARRIERS:
                parts.append([])
            else:
                parts[-1].append(Step(text.strip(), is_command=True))
        return parts

    @cached_property
    def barriers(self) -> tuple[str, ...]:
        """What happens to server, log or job between the parts."""
        return tuple(text.strip() for text in _COMMAND.findall(self.sql) if text.split()[0] in BARRIERS)

    @property
    def select(self) -> str:
        """The rule's `select`; by default all tables of the day."""
        return str(self.rule.get("select", r"(day|other)\..*"))

    def numbered(self, number: int) -> Scenario:
        """The same day in databases with a number in their names."""

        def named(text: str) -> str:
            return _DATABASE.sub(rf"\g<1>{number}", text)

        refused = self.refused
        if refused is not None:
            refused = replace(refused, texts=tuple(map(named, refused.texts)))
        return replace(
            self,
            sql=named(self.sql),
            refused=refused,
            rule={**self.rule, "select": named(self.select)},
            truth={named(table): named(other) for table, other in self.truth.items()},
        )
