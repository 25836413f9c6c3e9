"""Names of topics: `TopicNames`.

Templates for names of topics: `TopicTemplates`; checks of names: `is_topic_name`, `template_mistake`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.envelope.message_batch import MessageKind
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka takes

NAME_EXPECTED = "a name of letters, digits, dots, _ and -"


def is_topic_name(name: str) -> bool:
    """True if Kafka accepts *name* for a topic."""
    return _NAME.fullmatch(name) is not None


def template_mistake(template: str, places: Sequence[str]) -> str | None:
    """Describe what a valid *template* has; None: it is valid. *template*: with places in braces."""
    try:
        filled = template.format_map(dict.fromkeys(places, "x"))
    except (KeyError, IndexError, ValueError):
        names = " and ".join(f"{{{place}}}" for place in places)
        return f"only {names} in braces"
    return None if is_topic_name(filled) else NAME_EXPECTED


@dataclass(frozen=True, slots=True)
class TopicTemplates:
    """Templates: `{prefix}`, and in *tables* `{database}` and `{table}`, are filled in; as Debezium's.

    Attributes:
        prefix: What fills `{prefix}`.
        tables: Of changes.
        transactions: Of messages about transactions.
        schema_changes: Of messages about statements that change tables.
        notifications: Of notifications; None: there are none.
        setting: What users call *tables*.
    """

    prefix: str
    tables: str = "{prefix}.{database}.{table}"
    transactions: str = "{prefix}.transaction"
    schema_changes: str = "{prefix}"
    heartbeat: str = "__debezium-heartbeat.{prefix}"
    offsets: str = "{prefix}.offsets"
    notifications: str | None = None
    setting: str = "sink.topic"


NAME_SIZE_MAX = 249
"""Characters of a topic's name, for Kafka."""

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]")


class TopicNames:
    """Names of topics under one prefix; what Kafka does not allow in them becomes `_`, as Debezium has it.

    Attributes:
        transactions: Topic of messages about transactions.
        schema_changes: Topic of messages about statements that change tables.
        notifications: Topic of notifications; None: there are none.
    """

    def __init__(self, templates: TopicTemplates) -> None:
        prefix = templates.prefix
        self._templates = templates
        self.transactions = templates.transactions.format(prefix=prefix)
        self.schema_changes = templates.schema_changes.format(prefix=prefix)
        self.offsets = templates.offsets.format(prefix=prefix)
        self.heartbeat = templates.heartbeat.format(prefix=prefix)
        about = templates.notifications
        self.notifications = None if about is None else about.format(prefix=prefix)
        own = (self.offsets, self.heartbeat, self.transactions, self.schema_changes, self.notifications)
        self._own = frozenset(name for name in own if name is not None)
        self._spelled = {name: name for name in self._own}  # by topic, what it is called without replacements
        self._of_tables: dict[tuple[str, str], str] = {}

    def of(self, kind: MessageKind, database: str | None, table: str | None) -> str:
        """The topic of a message."""
        if kind is MessageKind.CHANGE:
            assert database is not None
            assert table is not None
            return self.of_table(database, table)
        return self.transactions if kind is MessageKind.TRANSACTION else self.schema_changes

    def of_table(self, database: str, table: str) -> str:
        """The topic of a table's changes."""
        found = self._of_tables.get((database, table))
        if found is None:
            spelled = self._spelled_of(database, table)
            found = self._of_tables[database, table] = self._checked(spelled, f"{database}.{table}")
        return found

    def may_be_of_table(self, topic: str) -> bool:
        """True if *topic* has the form of those of tables."""
        return topic not in self._own and self.may_be_of_route(self._templates.tables, topic)

    def may_be_of_route(self, template: str, topic: str) -> bool:
        """True if *topic* can be made with *template*, as `of_route` does."""
        parts = re.split(r"\{(\w+)\}", template)
        parts[1::2] = [re.escape(self._templates.prefix) if name == "prefix" else ".+" for name in parts[1::2]]
        parts[::2] = map(re.escape, parts[::2])
        return re.fullmatch("".join(parts), topic) is not None

    def is_of_table(self, topic: str, database: str, table: str) -> bool:
        """True if the changes of that table go to *topic*."""
        return _NOT_ALLOWED.sub("_", self._spelled_of(database, table)) == topic

    @property
    def have_prefix(self) -> bool:
        """True if those of tables have the prefix, so that no other's topics have their form."""
        return "{prefix}" in self._templates.tables

    def _spelled_of(self, database: str, table: str) -> str:
        return self._templates.tables.format(prefix=self._templates.prefix, database=database, table=table)

    def of_route(self, template: str, route: str) -> str:
        """The topic of an outbox's events: *template* with `{prefix}` and `{route}` filled in."""
        key = ("", route)
        if key not in self._of_tables:
            spelled = template.format(prefix=self._templates.prefix, route=route)
            self._of_tables[key] = self._checked(spelled, f"the outbox's route {route}")
        return self._of_tables[key]

    def _checked(self, spelled: str, table: str) -> str:
        topic = _NOT_ALLOWED.sub("_", spelled)
        if len(topic) > NAME_SIZE_MAX:
            reason = f"the topic of {table} would have {len(topic)} characters; Kafka takes {NAME_SIZE_MAX}"
            raise OptionError(
                "INVALID_VALUE", f"option {self._templates.setting}: {reason}", hint="Shorten the template"
            )
        other = self._spelled.setdefault(topic, spelled)
        if other != spelled or topic in self._own:
            reason = f"{table} would go to the topic {topic}, which is that of {other}"
            hint = "Tell them apart: name the topics with {prefix}, {database} and {table}"
            raise OptionError("INVALID_VALUE", f"option {self._templates.setting}: {reason}", hint=hint)
        return topic
