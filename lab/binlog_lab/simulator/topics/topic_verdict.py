"""Comparison of a job's topics with the changes on its server: `TopicVerdict`."""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_lab.simulator.statements import DATABASE
from binlog_lab.simulator.verdict import DefectError, group_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from binlog_connector.kafka.topic_names import TopicNames
    from binlog_lab.simulator.server import StateAfterGroup
    from binlog_lab.simulator.server_log import Terms
    from binlog_lab.simulator.statements import RowChange
    from binlog_lab.simulator.topics.model_broker import ModelBroker
    from binlog_lab.simulator.topics.model_registry import ModelRegistry

_TOMBSTONE = "tombstone"
_EPOCH = datetime.date(1970, 1, 1)


class _Published(NamedTuple):
    """Content of a message: the number of its group, and the operation; a tombstone has that of the delete."""

    number: int
    operation: str


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """See `check`.

    Attributes:
        terms: Servers that wrote the groups.
        registry: It has the schemas of the messages; None: these are JSON.
    """

    broker: ModelBroker
    names: TopicNames
    terms: Terms
    registry: ModelRegistry | None

    def check(self, history: Mapping[int, StateAfterGroup], taken: int, *, began_late: bool) -> None:
        """See that a consumer of committed messages gets the changes up to group *taken*: each once, in order per key.

        Args:
            began_late: The log had lost its beginning: the first changes may lack.
        """
        if taken not in history:
            raise DefectError(f"the job is at {taken}, the log that it sees ends at {max(history)}")
        changed = {change.table for state in history.values() for change in state.changes}
        for name in sorted(changed | history[taken].tables.keys()):
            self._check(name, history, taken, began_late=began_late)

    def _check(self, name: str, history: Mapping[int, StateAfterGroup], taken: int, *, began_late: bool) -> None:
        expected: dict[str, list[_Published]] = defaultdict(list)
        for number in range(1, taken + 1):
            state = history[number]
            for key, operation in _expected_operations(change for change in state.changes if change.table == name):
                named = dict(zip(state.tables[name].spec.primary_key, key, strict=True))
                expected[_text(named)].append(_Published(number, operation))
        found: dict[str, list[_Published]] = defaultdict(list)
        for partition in self.broker.topics.get(self.names.of_table(DATABASE, name), ()):
            newest = ""
            for message in partition.committed():
                key, value = self._content(message.key), self._content(message.value)
                newest = _next_sequence(name, value, newest)
                published = self._published(name, key, value, found, history)
                found[_text(key)].append(published)
        if began_late:
            first = min((one.number for some in found.values() for one in some), default=taken + 1)
            left = {key: [one for one in some if one.number >= first] for key, some in expected.items()}
            expected = {key: some for key, some in left.items() if some}
        for shown in sorted(expected.keys() | found.keys()):
            if expected.get(shown, []) != found.get(shown, []):
                raise DefectError(
                    f"the topic of {name} at {taken} has for {shown} {_shown(found.get(shown, []))}, "
                    f"the server had {_shown(expected.get(shown, []))}"
                )

    def _content(self, data: bytes | None) -> Any:
        return json.loads(data or b"null") if self.registry is None else self.registry.read(data)

    def _published(
        self,
        name: str,
        key: Mapping[str, Any],
        value: Mapping[str, Any] | None,
        found: Mapping[str, list[_Published]],
        history: Mapping[int, StateAfterGroup],
    ) -> _Published:
        """Content of a message, whose row is that which the server had."""
        if value is None:
            before = found[_text(key)]
            return _Published(before[-1].number if before else 0, _TOMBSTONE)
        number = group_number(value["source"]["gtid"], self.terms)
        published = _Published(number, value["op"])
        state = history.get(number)
        if state is None or name not in state.tables or value["after"] is None:
            return published  # what is wrong with it shows in its place
        table = state.tables[name]
        row = table.rows.get(tuple(key[column] for column in table.spec.primary_key))
        changes = [change.key for change in state.changes if change.table == name and change.kind != "update_preimage"]
        is_last = changes.count(tuple(key.values())) == 1
        if is_last and row is not None:
            columns = [column.name for column in table.spec.columns]
            expected = dict(zip(columns, map(_plain, row), strict=True))
            if value["after"] != expected:
                raise DefectError(f"a row of {name} in group {number} is {value['after']}, on the server {expected}")
        return published


def _next_sequence(name: str, value: Mapping[str, Any] | None, before: str) -> str:
    """Total order of a message, which is not before that of the one before it in its partition."""
    if value is None:
        return before
    sequence = str(value["source"]["sequence"])
    if sequence < before:
        raise DefectError(f"the topic of {name} has a change at {sequence} after one at {before}")
    return sequence


def _expected_operations(changes: Iterable[RowChange]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Keys and operations of the messages about row images."""
    before: tuple[object, ...] | None = None
    for change in changes:
        if change.kind == "update_preimage":
            before = change.key
        elif change.kind == "update_postimage" and change.key == before:
            yield change.key, "u"
        elif change.kind == "delete":
            yield change.key, "d"
            yield change.key, _TOMBSTONE
        elif change.kind == "copy":
            yield change.key, "r"
        else:
            if change.kind == "update_postimage" and before is not None:
                yield before, "d"
                yield before, _TOMBSTONE
            yield change.key, "c"


def _plain(value: object) -> object:
    """A value as it is in JSON."""
    return (value - _EPOCH).days if isinstance(value, datetime.date) else value


def _shown(published: Iterable[_Published]) -> str:
    return ", ".join(f"{message.operation} of group {message.number}" for message in published) or "nothing"


def _text(key: object) -> str:
    return json.dumps(key, sort_keys=True)
